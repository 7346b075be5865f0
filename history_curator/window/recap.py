"""The recap: the note about what is no longer shown.

One line for each unit that left, newest first until its share is used, then the identifiers that
stood there, most used first. No other text of a tool result is in it, no line stands twice, and
nothing that is still in view. Foreign text is quoted as one line that cannot pass for a message, a
placeholder or a handle of ours.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from history_curator.entries import (
    ConversationEntry,
    MessageRole,
    recall_hint,
    span_handle,
)
from history_curator.formats import parse_object
from history_curator.memo import EntryFacts, Record
from history_curator.quoting import join_lines
from history_curator.tokens import TokenCounter
from history_curator.units import Pairing, Unit
from history_curator.window.cutoff import Cutoff
from history_curator.window.identifiers import Mentions, find_identifiers, rank_identifiers

SHARE = 0.10
"""Share of what is available that the recap may take."""
NEWEST_LINES_SHARE = 1 / 5
"""Share of the recap that goes to the newest lines, before identifiers; older lines get the rest."""
MOST_TOKENS = 2_000
LEAST_TOKENS = 60
"""Tokens below which it is not worth its cost."""
HEADING_TOKENS, HANDLE_TOKENS = 30, 48
"""Tokens for its first line and the one before the identifiers, and for a handle."""
BUDGETS_BACK, UNITS_BACK = 32, 400
"""How many budgets of cheap size it looks back, and how many units."""
SHARE_OF_REMOVED = 1 / 8
"""It is never larger than this share of what it stands for."""

TOKENS_PER_NAME = 6
"""Tokens of an identifier, about."""

IDENTIFIERS = "[Identifiers and arguments from there, for reference only]"
_USER_CHARACTERS, _ANSWER_CHARACTERS = 160, 100
_VALUE_CHARACTERS, _CALL_CHARACTERS, _CALLS = 60, 110, 8
_RECAPS_REMEMBERED = 4


class Recap:
    """Sizes and writes the recap of one record.

    Args:
        record: what is known of each entry.
        pairing: its units.
        offsets: cheap size, in characters, of everything recorded before each unit.
        counter: counts the tokens.
        budget: the budget of the view, in tokens.
        recall_tool: whether it names a handle for what left; a text is the recall tool's name.
    """

    def __init__(
        self,
        record: Record,
        pairing: Pairing,
        offsets: Sequence[int],
        counter: TokenCounter,
        budget: int,
        *,
        recall_tool: bool | str = False,
    ) -> None:
        self._record = record
        self._pairing = pairing
        self._units = pairing.units
        self._offsets = offsets
        self._counter = counter
        exchanges = (at if unit.kind == "exchange" else -1 for at, unit in enumerate(self._units))
        self._last_exchange = [-1, *accumulate(exchanges, max)]  # before each unit
        self._tokens = [-1] * len(self._units), [-1] * len(self._units)  # without tools, with tools
        self._characters_back = BUDGETS_BACK * budget * 4
        self._recall_tool = recall_tool
        self._heading = HEADING_TOKENS + HANDLE_TOKENS * bool(recall_tool)
        if isinstance(recall_tool, str):
            self._heading += counter.count(recall_tool)

    def size(self, cutoff: int, available: int) -> int:
        """Return the tokens to set aside when the units before a cutoff leave."""
        if cutoff <= 0:
            return 0
        first = self._first_unit(cutoff)
        removed = (self._offsets[cutoff] - self._offsets[first]) // 4
        most = min(int(available * SHARE), MOST_TOKENS, int(removed * SHARE_OF_REMOVED))
        if most < max(LEAST_TOKENS, self._heading):
            # A handle is worth its line even where nothing else can be said.
            return self._heading if self._recall_tool and self._heading * 4 <= available else 0
        spent, has_tools = self._heading, self._has_tools(first, cutoff)
        units, known = self._units, self._tokens[has_tools]
        for position in range(cutoff - 1, first - 1, -1):
            tokens = known[position]
            if tokens < 0:
                unit, tokens = units[position], 0
                if has_tools or unit.kind == "user":
                    tokens = self._unit_tokens(unit, has_tools)
                known[position] = tokens
            spent += tokens
            if spent >= most:
                return most
        return spent

    def write(self, cutoff: Cutoff) -> ConversationEntry | None:
        """Return the recap of the units before a cutoff, but for those that stay.

        It is written once for the content of those units, and remembered with the newest of them.
        """
        units, first = self._units, self._first_unit(cutoff.unit)
        until = max(cutoff.recap_until, cutoff.unit)
        if cutoff.recap_tokens < self._heading:
            return None
        end = units[until].start if until < len(units) else len(self._record)
        facts = self._record.facts
        key = (
            self._counter.name,
            self._recall_tool,
            cutoff.recap_tokens,
            cutoff.unit - first,
            tuple([unit - first for unit in cutoff.kept_units]),
            units[cutoff.unit].start,
            *facts[units[first].start : end],
            *[facts[index] for index in self._pairing.late_results],
        )
        known = facts[units[until - 1].start].recaps
        if key not in known:
            if len(known) >= _RECAPS_REMEMBERED:
                known.clear()
            known[key] = self._write(cutoff, first, until)
        found: ConversationEntry | None = known[key]
        return found

    def _has_tools(self, first: int, cutoff: int) -> bool:
        """Whether a tool was used in the units before a cutoff."""
        last = self._last_exchange[cutoff]
        return last >= first

    def _unit_tokens(self, unit: Unit, has_tools: bool) -> int:
        """Return the tokens that a unit adds to the recap at most; worked out once."""
        line, tokens = self._line(unit)
        if not has_tools:
            return tokens
        facts = self._record.facts
        results = tuple([None if index < 0 else facts[index] for index in unit.indexes[1:]])
        known = facts[unit.start].renderings
        key = ("recap", self._counter.name, *results)
        if key not in known:
            mentions = self._mentions(unit)
            names = {name for each in mentions for some in each for name in some}
            known[key] = tokens + TOKENS_PER_NAME * sum(name not in line for name in names)
        found: int = known[key]
        return found

    def _first_unit(self, cutoff: int) -> int:
        """Return the first unit before a cutoff that the recap looks back to."""
        offset = self._offsets[cutoff] - self._characters_back
        first = max(0, cutoff - UNITS_BACK)
        return first if offset <= 0 else bisect_left(self._offsets, offset, first, cutoff)

    def _write(self, cutoff: Cutoff, first: int, until: int) -> ConversationEntry | None:
        units, stay = self._units, set(cutoff.kept_units)
        gone = [unit for at, unit in enumerate(units[first : cutoff.unit], first) if at not in stay]
        shown = [*[units[at] for at in cutoff.kept_units], *units[cutoff.unit : until]]
        if not gone:
            return None
        has_tools = any(unit.kind == "exchange" for unit in gone)
        available = cutoff.recap_tokens - self._heading
        used = {self._line(unit)[0] for unit in shown}
        lines: list[str] = []
        candidates = [unit for unit in reversed(gone) if has_tools or unit.kind == "user"]
        share = int(available * NEWEST_LINES_SHARE) if has_tools else available
        rest, spent = self._add_lines(candidates, share, used, lines)
        names: list[str] = []
        if has_tools:
            available -= spent
            names, spent = self._choose_identifiers(gone, shown, lines, available)
            newest = len(lines)
            self._add_lines(rest, available - spent, used, lines)
            older_text = "\n".join(lines[newest:])
            names = [name for name in names if name not in older_text]
        return self._compose(cutoff, lines[::-1], names)

    def _add_lines(
        self, units: Sequence[Unit], available: int, used: set[str], lines: list[str]
    ) -> tuple[Sequence[Unit], int]:
        """Add lines while they fit; return the units that are left, and the tokens spent."""
        spent = 0
        for place, unit in enumerate(units):
            line, tokens = self._line(unit)
            if not line or line in used:
                continue
            if spent + tokens > available:
                return units[place:], spent
            spent += tokens
            used.add(line)
            lines.append(line)
        return (), spent

    def _choose_identifiers(
        self, gone: Sequence[Unit], shown: Sequence[Unit], lines: Sequence[str], available: int
    ) -> tuple[list[str], int]:
        """Return identifiers that stand nowhere else, while they fit, and the tokens spent."""
        names: list[str] = []
        spent, added = 0, ""
        text = "\n".join([*map(_text_of, shown), *lines])
        for name in rank_identifiers([each for unit in gone for each in self._mentions(unit)]):
            if available - spent < 3:
                break
            if name in added or name in text:
                continue
            quoted = join_lines(name)
            tokens = self._counter.count(f"{quoted}\n")
            if spent + tokens <= available:
                spent += tokens
                names.append(quoted)
                added = f"{added}\n{name}"
        return names, spent

    def _compose(
        self, cutoff: Cutoff, lines: Sequence[str], names: Sequence[str]
    ) -> ConversationEntry:
        units, stay = self._units, set(cutoff.kept_units)
        first = next(at for at in range(cutoff.unit) if at not in stay)
        start, end = units[first].start, units[cutoff.unit].start
        shown = sum(len(units[at].entries) for at in cutoff.kept_units if first < at < cutoff.unit)
        handle = None
        if self._recall_tool:
            removed = [facts.entry for facts in self._record.facts[start:end]]
            handle = span_handle(removed)
        hint = f"; {recall_hint(handle, self._recall_tool)} returns them" if handle else ""
        count = end - start - shown
        text = [
            f"[Earlier in this conversation, no longer shown: {count:,} messages{hint}]",
            *lines,
            *([IDENTIFIERS, *names] if names else ()),
        ]
        return ConversationEntry(
            role=MessageRole.USER,
            content="\n".join(text),
            handle=handle,
            sequence=units[cutoff.unit].head.sequence,
            origin="recap",
            action="inserted",
            reason="messages and tool calls before the cutoff",
        )

    def _line(self, unit: Unit) -> tuple[str, int]:
        """Return the recap's line about a unit, and its tokens; worked out once."""
        facts = self._record.facts[unit.start]
        known: tuple[str, int] | None = facts.line
        if known is None:
            line = join_lines(_describe_unit(unit))
            known = facts.line = (line, self._counter.count(f"{line}\n"))
        return known

    def _mentions(self, unit: Unit) -> list[Mentions]:
        return [_mentions_of(self._record.facts[index]) for index in unit.indexes if index >= 0]


def _mentions_of(facts: EntryFacts) -> Mentions:
    known: Mentions | None = facts.names
    if known is None:
        known = facts.names = find_identifiers(facts.entry)
    return known


def _text_of(unit: Unit) -> str:
    return "\n".join(
        text
        for entry in unit.entries
        for text in (entry.content or "", *(call.arguments for call in entry.tool_calls or ()))
    )


def _describe_unit(unit: Unit) -> str:
    """Return one line about the messages or calls of a unit."""
    head = unit.head
    text = head.content or ""
    if unit.kind == "user":
        return f"user: {_shorten_line(text, _USER_CHARACTERS)}" if text.strip() else ""
    if unit.kind == "assistant":
        return f"said: {_shorten_line(text, _ANSWER_CHARACTERS)}" if text.strip() else ""
    calls = head.tool_calls or ()
    done = [f"{call.name}({_describe_arguments(call.arguments)})" for call in calls[:_CALLS]]
    if len(calls) > _CALLS:
        done.append(f"and {len(calls) - _CALLS} more calls")
    return "; ".join(done)


def _describe_arguments(arguments: str) -> str:
    values = parse_object(arguments)
    if values is None:
        return _shorten_line(arguments, _VALUE_CHARACTERS)
    texts = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in values.values()
        if value is not None and not isinstance(value, bool)
    )
    shortened = ", ".join(_shorten_line(text, _VALUE_CHARACTERS) for text in texts)
    return _shorten_line(shortened, _CALL_CHARACTERS)


def _shorten_line(text: str, most: int) -> str:
    """Return the beginning of a text, up to the end of a word; of a path the end, which names it."""
    text = " ".join(text[: 4 * most].split())
    if len(text) <= most:
        return text
    if "/" in text[-most:] and " " not in text:
        return "…" + text[text.index("/", len(text) - most) :]
    space = text.rfind(" ", most // 2, most + 1)
    return text[: most if space < 0 else space] + "…"
