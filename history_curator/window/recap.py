"""The recap: notes about the part that is no longer shown, each where its messages stood.

A note says how many messages left, what the user said, in their own words, what was done and how
it ended, and the values that later calls may need again. Of a part in which no tool was used it says
only how much it was: a chat is better served by earlier messages that match the question. Foreign
text is quoted line by line (see `quoting`), and of a tool result nothing but values is in it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, groupby
from typing import NamedTuple

from history_curator.entries import ConversationEntry, MessageRole, recall_hint, span_handle
from history_curator.formats import parse_object
from history_curator.memo import Record
from history_curator.quoting import join_lines, quote_text
from history_curator.tokens import TokenCounter
from history_curator.units import Unit, asks_for_something
from history_curator.window.cutoff import Cutoff
from history_curator.window.identifiers import Mentions, find_identifiers, rank_identifiers
from history_curator.window.rendering import WindowOptions

SHARE, MOST_TOKENS = 0.10, 2_000
"""Share of what is available that the recap may take, and its most tokens."""
SHARE_OF_REMOVED = 1 / 8
"""It is never larger than this share of what it stands for."""
HEADING_TOKENS, HANDLE_TOKENS, TITLES_TOKENS = 22, 48, 26
"""Tokens of a note's first and last line, of a handle, and of the titles within."""
USER_SHARE, ACTIONS_SHARE, VALUES_TOKENS = 0.15, 0.05, 1_000
"""Shares of what the user said and of the newest actions, and the most tokens of values."""
VALUES_PER_KEY = 12
"""The most values under one key: of many that look alike, the wrong one is soon picked."""
BUDGETS_BACK, UNITS_BACK, USERS_BACK = 32, 400, 60
"""How many budgets of cheap size it looks back, how many units, and how many user messages."""
MISSES = 5
"""Actions that do not fit, after which no older one is tried."""
TOKENS_PER_UNIT = 60
"""Tokens that a unit adds to it at most, about."""
USER_CHARACTERS = (480, 280, 160, 90)
"""Characters of a user message: the first number with which all fit."""

_ANSWER_CHARACTERS, _VALUE_CHARACTERS, _CALL_CHARACTERS, _CALLS = 120, 60, 160, 8
_PATH_CHARACTERS = 120
_RECAPS_REMEMBERED = 4
_FAILED = re.compile(r"\b(\d{1,6}) (?:tests? )?(?:failed|failures?|errors?)\b", re.IGNORECASE)
_ERROR = re.compile(
    r"[\[{<(\"' ]{0,4}(?:tool_use_)?(?:error|exception|traceback|fatal|failed)\b", re.IGNORECASE
)
_EXIT = re.compile(r"\bexit(?:ed)? (?:code|status|with(?: code)?):? ?[1-9]", re.IGNORECASE)


class Note(NamedTuple):
    """A part of the recap, and the position of the unit before which it stands."""

    before: int
    entry: ConversationEntry


class Recap:
    """Sizes and writes the recap of one record; a recall tool gets a handle for what left."""

    def __init__(self, record: Record, counter: TokenCounter, options: WindowOptions) -> None:
        self._record = record
        self._units = record.pairing.units
        self._counter = counter
        self._characters_back = BUDGETS_BACK * (options.budget or 0) * 4
        self._is_wanted, self._recall_tool = options.recap, options.recall_tool
        self._heading_tokens = HEADING_TOKENS + HANDLE_TOKENS * bool(self._recall_tool)
        if isinstance(self._recall_tool, str):
            self._heading_tokens += counter.count(self._recall_tool)

    @cached_property
    def _last_exchange(self) -> list[int]:  # before each unit
        exchanges = (at if unit.kind == "exchange" else -1 for at, unit in enumerate(self._units))
        return [-1, *accumulate(exchanges, max)]

    def size(self, cutoff: int, available: int) -> int:
        """Return the tokens to set aside when the units before a cutoff leave."""
        headings = 2 * self._heading_tokens
        if not self._is_wanted or cutoff <= 0 or 8 * headings > available:
            return 0
        first, offsets = self._find_oldest_considered(cutoff), self._record.offsets
        if self._last_exchange[cutoff] < first:
            return headings
        removed = (offsets[cutoff] - offsets[first]) // 4
        most = min(int(available * SHARE), MOST_TOKENS, int(removed * SHARE_OF_REMOVED))
        most = min(most, headings + TITLES_TOKENS + TOKENS_PER_UNIT * (cutoff - first))
        return most if most >= headings + TITLES_TOKENS else headings

    def write(self, cutoff: Cutoff) -> list[Note]:
        """Return the notes on the units before a cutoff, but for those that stay.

        They are written once for the content of those units, and remembered with the newest of them.
        """
        if not cutoff.recap_tokens:
            return []
        units, first = self._units, self._find_oldest_considered(cutoff.unit)
        until = max(cutoff.recap_until, cutoff.unit)
        end = units[until].start if until < len(units) else len(self._record)
        facts = self._record.facts
        oldest = [facts[units[at].start] for at in self._list_users(cutoff)]
        key = (
            self._counter.name, self._recall_tool, *cutoff[:3], cutoff.unit - first, *oldest,
            *facts[units[first].start : end],
            *[facts[index] for index in self._record.pairing.late_results],
        )  # fmt: skip
        known = facts[units[until - 1].start].recaps
        if key not in known:
            if len(known) >= _RECAPS_REMEMBERED:
                known.clear()
            known[key] = self._write(cutoff, first, until)
        found: list[Note] = known[key]
        return found

    def _find_oldest_considered(self, cutoff: int) -> int:
        """Return the first unit before a cutoff whose actions and values the recap looks at."""
        offsets = self._record.offsets
        offset = offsets[cutoff] - self._characters_back
        first = max(self._record.pairing.barrier_before(cutoff), cutoff - UNITS_BACK)
        return first if offset <= 0 else bisect_left(offsets, offset, first, cutoff)

    def _list_users(self, cutoff: Cutoff) -> list[int]:
        """Return the units of user messages that left: at most 60, the 20 oldest and the 40 newest."""
        users, first = self._record.pairing.users, self._record.pairing.barrier_before(cutoff.unit)
        since = users[bisect_left(users, first) : bisect_left(users, cutoff.unit)]
        left = [at for at in since if at not in cutoff.kept_units]
        if len(left) > USERS_BACK:
            left = left[: USERS_BACK // 3] + left[-2 * USERS_BACK // 3 :]
        return [at for at in left if asks_for_something(self._units[at].head)]

    def _write(self, cutoff: Cutoff, first: int, until: int) -> list[Note]:
        """Fill in user lines, actions and values, and drop the last of them until the notes fit."""
        gaps = list(self._list_gaps(cutoff))
        lines: dict[int, str] = {}
        values: list[str] = []
        available = cutoff.recap_tokens - len(gaps) * self._heading_tokens - TITLES_TOKENS
        if self._last_exchange[cutoff.unit] >= first and available > 0:
            remaining = available - self._add_users(lines, self._list_users(cutoff), available)
            gone = [at for at in range(first, cutoff.unit) if at not in cutoff.kept_units]
            shown = [*cutoff.kept_units, *range(cutoff.unit, until)]
            remaining -= self._add_actions(
                lines, gone, min(remaining, int(available * ACTIONS_SHARE))
            )
            most = min(remaining, VALUES_TOKENS)
            found, spent = self._choose_values(gone, shown, list(lines.values()), most)
            self._add_actions(lines, gone, remaining - spent)
            values = _quote_values(found, "\n".join(lines.values()))
        while True:
            notes = [
                self._compose(gap, lines, values if gap is gaps[-1] else [], cutoff) for gap in gaps
            ]
            tokens = sum(self._counter.count_entry(note.entry) for note in notes)
            actions = [at for at in lines if self._units[at].kind != "user"]
            if tokens <= cutoff.recap_tokens or not (lines or values):
                return notes if tokens <= cutoff.recap_tokens else []
            if actions:
                del lines[min(actions)]
            elif values:
                values.pop()
            else:
                lines.popitem()

    def _list_gaps(self, cutoff: Cutoff) -> Iterator[list[int]]:
        """Yield the units that left, in runs between the user messages that stay: two at most."""
        kept = [at for at in cutoff.kept_units if self._units[at].kind == "user"]
        stay, split = set(cutoff.kept_units), kept[-1] if kept else 0
        first = self._record.pairing.barrier_before(cutoff.unit)  # it keeps what was before it
        for run in (range(first, split), range(max(first, split), cutoff.unit)):
            gap = [at for at in run if at not in stay]
            if gap:
                yield gap

    def _add_users(self, lines: dict[int, str], users: Sequence[int], available: int) -> int:
        """Add what the user said, all of it shortened alike where that fits; return the tokens."""
        texts = {at: join_lines((self._units[at].head.content or "")[:4_000]) for at in users}
        share, spent, order = int(available * USER_SHARE), 0, list(users)
        for most in USER_CHARACTERS:
            estimated = sum(min(len(text), most) // 4 + 4 for text in texts.values())
            if estimated <= share:
                break
        else:  # the oldest and the newest first
            order = [at for pair in zip(order, reversed(order), strict=True) for at in pair]
        for at in dict.fromkeys(order):
            line = quote_text("user", _shorten_line(texts[at], most))
            tokens = self._counter.count(line) + 1
            if spent + tokens <= share and line not in lines.values():
                lines[at] = line
                spent += tokens
        return spent

    def _add_actions(self, lines: dict[int, str], gone: Sequence[int], available: int) -> int:
        """Add the newest actions and answers while they fit, none twice; return the tokens."""
        used, missed, spent = set(lines.values()), 0, 0
        for at in reversed(gone):
            text, tokens = self._describe(self._units[at])
            if not text or text in used:
                continue
            if spent + tokens <= available:
                spent += tokens
                used.add(text)
                lines[at] = text
            elif (missed := missed + 1) >= MISSES:
                break
        return spent

    def _describe(self, unit: Unit) -> tuple[str, int]:
        """Return the lines about an exchange or an answer, and their tokens; worked out once."""
        if unit.kind == "user":
            return "", 0
        facts = self._record.facts
        results = tuple([None if index < 0 else facts[index] for index in unit.indexes[1:]])
        key, known = ("recap", self._counter.name, *results), facts[unit.start].renderings
        if key not in known:
            text = "\n".join(_describe_unit(unit))
            known[key] = text, self._counter.count(f"{text}\n")
        found: tuple[str, int] = known[key]
        return found

    def _choose_values(
        self, gone: Sequence[int], shown: Sequence[int], lines: list[str], available: int
    ) -> tuple[dict[str, list[str]], int]:
        """Return values that stand nowhere else by their keys, while they fit, and their tokens."""
        text = "\n".join([*(_text_of(self._units[at]) for at in shown), *lines])
        mentions = [each for at in gone for each in self._find_mentions(self._units[at])]
        found: dict[str, list[str]] = {}
        spent = 0
        for label, value in rank_identifiers(mentions):
            if available - spent < 3:
                break
            if len(found.get(label, ())) >= VALUES_PER_KEY:
                continue
            tokens = self._counter.count(f", {value}")
            tokens += 0 if label in found else self._counter.count(f"known > {label}:\n")
            if spent + tokens <= available and value not in text:
                spent += tokens
                found.setdefault(label, []).append(value)
                text = f"{text}\n{value}"
        return found, spent

    def _find_mentions(self, unit: Unit) -> Iterable[Mentions]:
        """Yield the identifiers of each entry; what a result does not name is named after its call."""
        tools = [call.name for call in unit.head.tool_calls or ()]
        for index, tool in zip(unit.indexes, ["", *tools], strict=False):
            if index < 0:
                continue
            facts = self._record.facts[index]
            if facts.mentions is None:
                facts.mentions = find_identifiers(facts.entry)
            yield facts.mentions.with_label(tool) if tool else facts.mentions

    def _compose(
        self, gap: Sequence[int], lines: dict[int, str], values: Sequence[str], cutoff: Cutoff
    ) -> Note:
        units, facts = self._units, self._record.facts
        gone = [facts[at].entry for unit in gap for at in units[unit].indexes if at >= 0]
        users = [at for at in gap if units[at].kind == "user"]
        steps = [at for at in gap if units[at].kind != "user"]
        handle = None
        if self._recall_tool:
            end = units[gap[-1] + 1].start
            handle = span_handle([each.entry for each in facts[units[gap[0]].start : end]])
        hint = f"; {recall_hint(handle, self._recall_tool)} returns them" if handle else ""
        text = [f"[Earlier in this conversation, no longer shown: {len(gone):,} messages{hint}]"]
        for title, part in (("What the user said", users), ("What was done", steps)):
            told = [at for at in part if at in lines]
            share = f", {len(told):,} of {len(part):,}" if len(told) < len(part) else ""
            text += [f"[{title}{share}]", *[lines[at] for at in told]] if told else []
        text += ["[Values from there]", *values] if values else []
        before = min([at for at in cutoff.kept_units if at > gap[-1]], default=cutoff.unit)
        entry = ConversationEntry(
            role=MessageRole.USER,
            content="\n".join([*text, "[End]"] if text[1:] else text),
            handle=handle,
            sequence=units[before].head.sequence,
            origin="recap",
            action="inserted",
            reason="messages and tool calls before the cutoff",
        )
        return Note(before, entry)


def _quote_values(found: Mapping[str, Sequence[str]], told: str) -> list[str]:
    """Return a quoted line for each key, with its values that are not told anyway."""
    kept = {label: [each for each in some if each not in told] for label, some in found.items()}
    quoted = [f"{label}: {', '.join(values)}" for label, values in kept.items() if values]
    return [quote_text("known", join_lines(line)) for line in quoted]


def _text_of(unit: Unit) -> str:
    return "\n".join(
        text
        for entry in unit.entries
        for text in (entry.content or "", *(call.arguments for call in entry.tool_calls or ()))
    )


def _describe_unit(unit: Unit) -> Iterator[str]:
    """Yield a quoted line for the answer, or for each call of a unit with its outcome."""
    if unit.kind == "assistant":
        text = _find_conclusion(unit.head.content or "")
        if text:
            yield quote_text("assistant", text)
        return
    calls = unit.head.tool_calls or ()
    done = [
        (f"{call.name}({_describe_arguments(call.arguments)})", find_outcome(result))
        for call, result in zip(calls[:_CALLS], unit.results, strict=False)
    ]
    for outcome, group in groupby(done, key=lambda each: each[1]):
        text = "; ".join(join_lines(text) for text, _ in group)
        yield f"{quote_text('call', text)} → {outcome}"
    if len(calls) > _CALLS:
        yield f"[and {len(calls) - _CALLS} more calls]"


def find_outcome(result: ConversationEntry | None) -> str:
    """Return a word or a number for what came back; nothing of the result is quoted."""
    if result is None:
        return "no result"
    text = (result.content or "").strip()
    ends = f"{text[:200]}\n{text[-300:]}" if len(text) > 500 else text
    failed = _FAILED.search(ends)
    if failed is not None and int(failed[1]):
        return f"{int(failed[1])} failed"
    if result.status == "error" or _ERROR.match(text[:200]) or _EXIT.search(ends):
        return "error"
    return "ok" if text or result.has_media else "empty"


def _find_conclusion(text: str) -> str:
    """Return the end of an answer, where its conclusion is."""
    text = join_lines(text[-8 * _ANSWER_CHARACTERS :])
    if len(text) <= _ANSWER_CHARACTERS:
        return text
    start = text.find(" ", len(text) - _ANSWER_CHARACTERS)
    return "…" + text[start + 1 if start >= 0 else -_ANSWER_CHARACTERS :]


def _describe_arguments(arguments: str) -> str:
    values = parse_object(arguments)
    if values is None:
        return _shorten_line(join_lines(arguments[:400]), _VALUE_CHARACTERS)
    texts = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in values.values()
        if value is not None and not isinstance(value, bool)
    )
    shortened = (_shorten_line(join_lines(text[:400]), _VALUE_CHARACTERS) for text in texts)
    return _shorten_line(", ".join(shortened), _CALL_CHARACTERS)


def _shorten_line(text: str, most: int) -> str:
    """Return the beginning of a line, up to the end of a word; of a path the end, which names it."""
    if len(text) <= most:
        return text
    if "/" in text[-most:] and " " not in text and len(text) <= _PATH_CHARACTERS:
        return text
    if "/" in text[-most:] and " " not in text:
        return "…" + text[text.index("/", len(text) - most) :]
    space = text.rfind(" ", most // 2, most + 1)
    return text[: most if space < 0 else space] + "…"
