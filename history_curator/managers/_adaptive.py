"""`AdaptiveManager`: which tool results to clear is learned from the conversation itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from history_curator.errors import ConfigurationError
from history_curator.managers._cut import fits, seal_for
from history_curator.managers._protocol import CurationContext
from history_curator.managers.relevance._memory import Memories, Memory
from history_curator.entries import ConversationEntry, ToolCall
from history_curator.window._identifiers import Mentions
from history_curator.timeline import Timeline, Unit


@dataclass(frozen=True, slots=True)
class ToolUse:
    """How the results of one tool were used later.

    Attributes:
        results: how many there were.
        used: how many showed an identifier that a later call used.
        fetched_again: how many were asked for again with the same arguments.
    """

    results: int = 0
    used: int = 0
    fetched_again: int = 0

    @property
    def usefulness(self) -> float:
        """Between 0 and 1; a tool nobody knows yet counts as half useful."""
        return min(1.0, (self.used + self.fetched_again + 1) / (self.results + 2))


class AdaptiveManager:
    """Clears old tool results, and keeps those of tools whose results were needed later longer.

    A result was needed later when a later call used an identifier that it showed first, or when
    the same call was made again. Nothing happens while the history fits its budget.

    Guaranteed: deterministic; between ``least`` and ``most`` newest results of each tool stay, the
    newest ``batch`` results of all stay whatever happened; nothing changes until another
    ``batch`` results have arrived, so the prefix stays. The reason of each clearing says what was
    learned.

    Args:
        least: newest results of a tool that stay when they were never needed later.
        most: newest results of a tool that stay when all were needed later.
        batch: results between two decisions.

    Examples:
        >>> AdaptiveManager(least=1, most=8).most
        8
    """

    def __init__(self, *, least: int = 1, most: int = 8, batch: int = 10) -> None:
        if not 0 <= least <= most or batch < 1:
            raise ConfigurationError(
                f"least={least}, most={most}, batch={batch}. Fix: 0 <= least <= most, batch >= 1."
            )
        self.least = least
        self.most = most
        self.batch = batch
        self._memories = Memories()

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> Sequence[ConversationEntry]:
        """Return the entries with results cleared that are unlikely to be needed."""
        room, timeline = context.max_tokens, context.timeline_of(entries)
        if room is not None and fits(timeline, context.counter, room):
            return entries
        answered = [
            (call.name, result, unit.start)
            for unit in timeline.pairing.units
            for call, result in _results(unit)
        ]
        settled = len(answered) // self.batch * self.batch - self.batch
        if settled <= 0:
            return entries
        limit = answered[settled - 1][2] + 1
        with self._memories.lend(entries) as memory:
            uses = _learn(memory, timeline, limit)
        clear = seal_for(context.counter, None, recall_tool=context.recall_tool).forms.clear_result
        edited: dict[int, ConversationEntry] = {}
        for result, reason in self._outdated(uses, answered[:settled]):
            cleared = clear(result)
            if cleared is not result and not result.pinned:
                edited[id(result)] = cleared.evolve(reason=reason)
        return [edited.get(id(entry), entry) for entry in entries]

    def learn(self, entries: Sequence[ConversationEntry]) -> Mapping[str, ToolUse]:
        """Return what the record says about each tool, for a look at the policy."""
        with self._memories.lend(entries) as memory:
            return _learn(memory, Timeline(entries), len(entries))

    def keep_for(self, use: ToolUse) -> int:
        """Return how many of a tool's newest results stay."""
        return self.least + round(use.usefulness * (self.most - self.least))

    def _outdated(
        self, uses: Mapping[str, ToolUse], settled: Sequence[tuple[str, ConversationEntry, int]]
    ) -> Iterator[tuple[ConversationEntry, str]]:
        seen: dict[str, int] = {}
        for name, result, _ in reversed(settled):
            use = uses.get(name, ToolUse())
            keep = self.keep_for(use)
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > keep:
                reason = (
                    f"{name}: {use.used} of {use.results} results used later, "
                    f"{use.fetched_again} fetched again; the newest {keep} stay"
                )
                yield result, reason


def _results(unit: Unit) -> Iterator[tuple[ToolCall, ConversationEntry]]:
    for call, result in zip(unit.head.tool_calls or (), unit.results, strict=False):
        if result is not None:
            yield call, result


def _learn(memory: Memory, timeline: Timeline, limit: int) -> Mapping[str, ToolUse]:
    key = ("uses", limit)
    if key not in memory.made:
        uses = _count_uses(timeline, memory.mentions(limit))
        memory.keep(key, MappingProxyType(uses))
    found: Mapping[str, ToolUse] = memory.made[key]
    return found


def _count_uses(timeline: Timeline, mentions: Sequence[Mentions]) -> dict[str, ToolUse]:
    """Count over as many entries as there are mentions."""
    limit = len(mentions)
    position_of = {id(entry): at for at, entry in enumerate(timeline.entries[:limit])}
    tool_at: dict[int, str] = {}
    fetched: dict[tuple[str, str], int] = {}
    again: set[int] = set()
    for unit in timeline.pairing.units:
        if unit.start >= limit:
            break
        for call, result in _results(unit):
            at = position_of.get(id(result), -1)
            if at < 0:
                continue
            tool_at[at] = call.name
            earlier = fetched.get((call.name, call.arguments))
            if earlier is not None:
                again.add(earlier)
            fetched[call.name, call.arguments] = at
    used = _used_later(mentions, tool_at)
    uses: dict[str, ToolUse] = {}
    for at, name in tool_at.items():
        use = uses.get(name, ToolUse())
        uses[name] = ToolUse(
            use.results + 1, use.used + (at in used), use.fetched_again + (at in again)
        )
    return uses


def _used_later(mentions: Sequence[Mentions], tool_at: Mapping[int, str]) -> set[int]:
    """Positions of results that were the first to show what a later call used."""
    first_shown: dict[str, int] = {}
    used: set[int] = set()
    for at, each in enumerate(mentions):
        used.update(first_shown[value] for value in each.used if value in first_shown)
        for value in (*each.used, *each.found):
            first_shown.setdefault(value, at if at in tool_at else -1)
    used.discard(-1)
    return used
