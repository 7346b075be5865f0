"""The recap: what was done in the part of a conversation that is no longer shown.

One line for each unit that left, newest first until its share is used, then the identifiers that
stood there, most used first. No other text of a tool result is in it, no line stands twice, and
nothing that is still in view. Whatever is quoted is quoted as one line that cannot pass for a
message, a placeholder or a handle of ours.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from history_curator.entries import (
    ConversationEntry,
    MessageRole,
    one_line,
    recall_hint,
    span_handle,
)
from history_curator.window._identifiers import Mentions, identifiers_of, rank_identifiers
from history_curator.timeline import Timeline, Unit
from history_curator.tokens import TokenCounter
from history_curator.tokens._cap import count_lines, keep_count

SHARE = 0.10
"""Share of the room that the recap may take."""
LINES = 1 / 5
"""Share of the recap that goes to the newest lines, before identifiers; older lines get the rest."""
MOST = 2_000
"""Tokens it may take."""
LEAST = 60
"""Tokens below which it is not worth its keep."""
HEADING, HANDLE = 30, 48
"""Tokens kept for its first line and the one before the identifiers, and for a handle."""
LOOK_BACK, UNITS = 32, 400
"""How many budgets of cheap size it looks back, and how many units: what an identifier counts for
halves every hundred entries."""
OF_WHAT_LEFT = 1 / 8
"""It is never larger than this share of what it stands for."""
PER_NAME = 6
"""Tokens of an identifier, about."""

IDENTIFIERS = "[Identifiers and arguments from there, for reference only]"
_USER_CHARACTERS, _SAID_CHARACTERS = 160, 100
_VALUE_CHARACTERS, _CALL_CHARACTERS, _CALLS = 60, 110, 8

_offset = attrgetter("offset")


class Told(NamedTuple):
    """What the recap may say about a unit; of one that is shown, no more than the line is known.

    Attributes:
        line: what was said or done.
        counter: whose count the cost is; None as long as only the line is known.
        cost: tokens of the line.
        mentions: the identifiers of each of its entries.
        names: those that the line does not name.
    """

    line: str
    counter: str | None = None
    cost: int = 0
    mentions: tuple[Mentions, ...] = ()
    names: tuple[str, ...] = ()


class Recap:
    """Writes the recap of a timeline.

    Args:
        counter: counts the tokens.
        budget: the budget of the view, in tokens.
        recall_tool: whether it names the handle of what left; a text is the recall tool's name.
    """

    def __init__(self, counter: TokenCounter, budget: int, *, recall_tool: bool | str = False) -> None:
        self._counter = counter
        self._reach = LOOK_BACK * budget * 4
        self._recall = recall_tool
        self._heading = HEADING + HANDLE * bool(recall_tool)
        if isinstance(recall_tool, str):
            self._heading += counter.count(recall_tool)

    def room(self, timeline: Timeline, cut: int, room: int) -> int:
        """Return the tokens it takes at most when what is before a cut has left."""
        units = timeline.pairing.units
        if cut <= 0:
            return 0
        begin = self._begin(units, cut)
        left = (units[cut].offset - units[begin].offset) // 4
        most = min(int(room * SHARE), MOST, int(left * OF_WHAT_LEFT))
        if most < max(LEAST, self._heading):
            # A handle is worth its line even where nothing else can be said.
            return self._heading if self._recall and self._heading * 4 <= room else 0
        tools = _uses_tools(units[begin:cut])
        spent, said = self._heading, set[str]()
        for unit in reversed(units[begin:cut]):
            if not tools and unit.kind != "user":
                continue
            told = self._told(unit)
            if told.line not in said:
                said.add(told.line)
                spent += told.cost
            if tools:
                before = len(said)
                said.update(told.names)
                spent += PER_NAME * (len(said) - before)
            if spent >= most:
                return most
        return spent

    def entry(
        self, timeline: Timeline, cut: int, heads: Sequence[int], end: int, room: int
    ) -> ConversationEntry | None:
        """Return the recap of what is before a cut, but for the heads.

        Args:
            timeline: the conversation.
            cut: position of the first unit that is shown.
            heads: positions of the units before it that are shown too.
            end: position behind the last unit that is shown.
            room: tokens it may take.
        """
        units = timeline.pairing.units
        begin, stay = self._begin(units, cut), set(heads)
        gone = [unit for at, unit in enumerate(units[begin:cut], begin) if at not in stay]
        shown = [*(units[at] for at in heads), *units[cut:end]]
        if not gone or room < self._heading:
            return None
        tools = _uses_tools(gone)
        left = room - self._heading
        said = set(map(_line_of, shown))
        lines: list[str] = []
        waiting = [unit for unit in reversed(gone) if tools or unit.kind == "user"]
        share = int(left * LINES) if tools else left
        place, spent = self._lines(waiting, 0, share, said, lines)
        left -= spent
        names: list[str] = []
        if tools:
            left -= self._names(gone, shown, lines, left, names)
            older = len(lines)
            self._lines(waiting, place, left, said, lines)
            told = "\n".join(lines[older:])
            names = [name for name in names if name not in told]
        _forget_before(units, begin)
        return self._written(timeline, cut, heads, lines[::-1], names)

    def _lines(
        self, units: Sequence[Unit], place: int, room: int, said: set[str], lines: list[str]
    ) -> tuple[int, int]:
        """Add lines while there is room; return the next unit's place and what was spent."""
        spent = 0
        for at in range(place, len(units)):
            told = self._told(units[at])
            if not told.line or told.line in said:
                continue
            if spent + told.cost > room:
                return at, spent
            spent += told.cost
            said.add(told.line)
            lines.append(told.line)
        return len(units), spent

    def _names(
        self,
        gone: Sequence[Unit],
        shown: Sequence[Unit],
        lines: Sequence[str],
        room: int,
        names: list[str],
    ) -> int:
        """Add identifiers that stand nowhere else while there is room; return what they cost."""
        spent, added = 0, ""
        text = "\n".join([*map(_text, shown), *lines])
        for name in rank_identifiers([each for unit in gone for each in self._told(unit).mentions]):
            if room - spent < 3:
                break
            if name in added or name in text:
                continue
            quoted = one_line(name)
            cost = self._counter.count(f"{quoted}\n")
            if spent + cost <= room:
                spent += cost
                names.append(quoted)
                added = f"{added}\n{name}"
        return spent

    def _written(
        self,
        timeline: Timeline,
        cut: int,
        heads: Sequence[int],
        lines: Sequence[str],
        names: Sequence[str],
    ) -> ConversationEntry:
        units = timeline.pairing.units
        stay = set(heads)
        first = next(at for at in range(cut) if at not in stay)
        start, end = units[first].start, units[cut].start
        shown = sum(len(units[at].entries) for at in heads if first < at < cut)
        count, handle = end - start - shown, None
        if self._recall:
            handle = span_handle(timeline.entries[start:end])
        hint = f"; {recall_hint(handle, self._recall)} returns them" if handle else ""
        told = [
            f"[Earlier in this conversation, no longer shown: {count:,} messages{hint}]",
            *lines,
            *([IDENTIFIERS, *names] if names else ()),
        ]
        note = ConversationEntry(
            role=MessageRole.USER,
            content="\n".join(told),
            handle=handle,
            sequence=units[cut].head.sequence,
            origin="recap",
            action="inserted",
            reason="what was said and done before the cut",
        )
        keep_count(note, count_lines(told, self._counter), self._counter)
        return note

    def _begin(self, units: Sequence[Unit], cut: int) -> int:
        start, first = units[cut].offset - self._reach, max(0, cut - UNITS)
        return first if start <= 0 else bisect_left(units, start, first, cut, key=_offset)

    def _told(self, unit: Unit) -> Told:
        line, told = _line_of(unit), unit.told
        if told.counter != self._counter.name:
            cost = self._counter.count(f"{line}\n")
            mentions = tuple(map(identifiers_of, unit.entries))
            names = tuple(
                name for each in mentions for some in each for name in some if name not in line
            )
            unit.told = Told(line, self._counter.name, cost, mentions, names)
        found: Told = unit.told
        return found


def _forget_before(units: Sequence[Unit], begin: int) -> None:
    """Let go of what no recap will say again; a cut never moves back."""
    at = begin - 1
    while at >= 0 and units[at].told is not None:
        units[at].told = None
        at -= 1


def _uses_tools(units: Iterable[Unit]) -> bool:
    return any(unit.kind == "exchange" for unit in units)


def _text(unit: Unit) -> str:
    return "\n".join(
        text
        for entry in unit.entries
        for text in (entry.content or "", *(call.arguments for call in entry.tool_calls or ()))
    )


def _line_of(unit: Unit) -> str:
    """What was said or done in a unit, as one line; found out once."""
    if unit.told is None:
        unit.told = Told(one_line(_line(unit)))
    line: str = unit.told.line
    return line


def _line(unit: Unit) -> str:
    head = unit.head
    text = head.content or ""
    if unit.kind == "user":
        return f"user: {_short(text, _USER_CHARACTERS)}" if text.strip() else ""
    if unit.kind == "assistant":
        return f"said: {_short(text, _SAID_CHARACTERS)}" if text.strip() else ""
    calls = head.tool_calls or ()
    done = [f"{call.name}({_arguments(call.arguments)})" for call in calls[:_CALLS]]
    if len(calls) > _CALLS:
        done.append(f"and {len(calls) - _CALLS} more calls")
    return "; ".join(done)


def _arguments(arguments: str) -> str:
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        return _short(arguments, _VALUE_CHARACTERS)
    texts = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in values.values()
        if value is not None and not isinstance(value, bool)
    )
    return _short(", ".join(_short(text, _VALUE_CHARACTERS) for text in texts), _CALL_CHARACTERS)


def _short(text: str, most: int) -> str:
    """The beginning of a text, up to the end of a word; of a path the end, which names the file."""
    text = " ".join(text[: 4 * most].split())
    if len(text) <= most:
        return text
    if "/" in text[-most:] and " " not in text:
        return "…" + text[text.index("/", len(text) - most) :]
    space = text.rfind(" ", most // 2, most + 1)
    return text[: most if space < 0 else space] + "…"
