"""Managers that select: everything, the last entries, the latest turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.managers.base import BuiltInManager, CurationContext, Entries, check_options
from history_curator.memo import Memo
from history_curator.units import Unit, pair
from history_curator.window import NO_RULES, View, ViewBuilder, WindowOptions


@dataclass(frozen=True, slots=True)
class PassthroughManager(BuiltInManager):
    """Returns the entries unchanged.

    Examples:
        >>> from history_curator import Curator
        >>> Curator(PassthroughManager()).curate([{"role": "user", "content": "hi"}]).messages
        [{'role': 'user', 'content': 'hi'}]
    """


@dataclass(frozen=True, slots=True)
class SlidingWindowManager(BuiltInManager):
    """Keeps system entries and the last ``window_size`` other entries.

    The newest exchange is kept whole, an older one that only partly fits is left out, pinned ones
    stay. The window slides, so the provider's prompt cache misses on every call; a budget
    (`Curator(max_tokens=…)`) does not have that cost.

    Examples:
        >>> from history_curator import Curator
        >>> said = [{"role": "user", "content": str(n)} for n in range(5)]
        >>> Curator(SlidingWindowManager(2)).curate(said).report.curated_count
        2
    """

    window_size: int

    def __post_init__(self) -> None:
        check_options(self, window_size=0)

    def select_entries(self, entries: Entries, context: CurationContext) -> list[ConversationEntry]:
        size = max(self.window_size, context.preserve_last_n or 0)
        if sum(entry.role is not MessageRole.SYSTEM for entry in entries) <= size:
            return list(entries)
        units = pair(entries)
        start = _start_of_newest(units, size)
        first = units[start].kind if start < len(units) else "user"
        if context.opens_with_user and size > 1 and first != "user":
            start = _start_of_newest(units, size - 1)  # a note of ours counts as part of the window
        newest = {index for unit in units[start:] for index in unit.indexes}
        window = []
        for index, entry in enumerate(entries):
            if entry.role is MessageRole.SYSTEM or entry.pinned or index in newest:
                window.append(entry)
            else:
                context.explain(entry, f"outside the window of the last {self.window_size} entries")
        return window


def _start_of_newest(units: Sequence[Unit], size: int) -> int:
    """Return the first of the last units that have so many entries; at least the newest one."""
    start = len(units)
    while start > 0 and size > 0:
        size -= 1 + sum(result is not None for result in units[start - 1].results)
        if size < 0 and start < len(units):
            break
        start -= 1
    return start


def fit_window(
    entries: Entries, context: CurationContext, max_tokens: int, retriever: Any = None
) -> View:
    """Return the view of entries that fits, before any provider's rules, or raise."""
    memo = Memo(context.counter) if context.memo is None else context.memo
    tool, last = context.recall_tool, context.preserve_last_n or 0
    options = WindowOptions(NO_RULES, max_tokens, context.compact_to, False, tool, last, retriever)
    record = memo.read_entries(entries)
    builder = ViewBuilder(record, memo, options, context.tail, query=context.query or "")
    return builder.fit_with_block(max_tokens, max_tokens)


def measure_fit(entries: Entries, context: CurationContext) -> tuple[bool, bool]:
    """Return whether the entries fit the budget, and whether those of the last request did."""
    if context.max_tokens is None:
        return True, True
    newest = range(len(entries) - 1, -1, -1)
    start = next((at for at in newest if entries[at].role is MessageRole.ASSISTANT), 0)
    older_tokens = 0
    for entry in reversed(entries[:start]):
        older_tokens += context.count_entry(entry)
        if older_tokens > context.max_tokens:
            return False, False
    return older_tokens + sum(map(context.count_entry, entries[start:])) <= context.max_tokens, True


@dataclass(frozen=True, slots=True)
class TurnRetentionManager(BuiltInManager):
    """Keeps the latest turns with all tool details, and of older ones the text alone, or nothing.

    An open turn, and an exchange that reaches into a preserved one or waits for a result, are kept
    in full. Of older turns ``older="text"`` keeps what was said, ``"exclude"`` nothing.

    Examples:
        >>> said = [ConversationEntry(MessageRole.USER, text) for text in ("one", "two", "three")]
        >>> manager = TurnRetentionManager(preserve_turns=1, older="exclude")
        >>> [entry.content for entry in manager.curate(said, context=CurationContext())]
        ['three']
    """

    preserve_turns: int = 2
    older: Literal["text", "exclude"] = "text"

    def __post_init__(self) -> None:
        check_options(self, preserve_turns=0, older=("text", "exclude"))

    def select_entries(self, entries: Entries, context: CurationContext) -> list[ConversationEntry]:
        start = start_of_turns(entries, self.preserve_turns)
        view = keep_words(entries, start)
        if self.older == "exclude":
            older = find_reducible(entries, start)
            view = [entry for index, entry in enumerate(entries) if index not in older]
        shown = {id(entry.root) for entry in view}
        for entry in entries[:start]:
            if id(entry.root) not in shown:
                context.explain(entry, _OLDER)
        return view


_OLDER = "part of an older turn"


def find_reducible(entries: Entries, start: int) -> set[int]:
    """Return the positions before `start` of entries that may be reduced or left out.

    Not among them: system and pinned entries, and exchanges with a pinned, missing or later one.
    """
    numbered = enumerate(entries[:start])
    found = {at for at, each in numbered if each.role is not MessageRole.SYSTEM and not each.pinned}
    for unit in pair(entries) if found else ():
        if not found.issuperset(unit.indexes):
            found.difference_update(unit.indexes)
    return found


def keep_words(entries: Entries, start: int) -> list[ConversationEntry]:
    """Return the entries, those before `start` without calls, results and reasoning."""
    reducible = find_reducible(entries, start)
    view = []
    for index, entry in enumerate(entries):
        is_tool_detail = entry.role is MessageRole.TOOL or bool(entry.tool_calls)
        if index not in reducible or not is_tool_detail:
            view.append(entry)
        elif entry.tool_calls and (entry.has_media or (entry.content or "").strip()):
            # Thinking is bound to the calls that follow it, so it goes with them.
            words = {"tool_calls": None, "reasoning": None}
            view.append(entry.evolve(**words, action="cleared", reason=_OLDER))
    return view


def start_of_turns(entries: Entries, turns: int) -> int:
    """Return where the latest turns start; one that is still being answered always counts."""
    turns = turns or (0 if is_answered(entries) else 1)
    starts = [position for position, entry in enumerate(entries) if entry.is_real_user]
    return [0, *starts, len(entries)][max(0, len(starts) + 1 - turns)]


def is_answered(entries: Entries) -> bool:
    """Whether the last turn ended with an answer in words."""
    last = next((each for each in reversed(entries) if each.role is not MessageRole.SYSTEM), None)
    return last is None or (last.role is MessageRole.ASSISTANT and not last.tool_calls)
