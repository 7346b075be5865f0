"""What leaves the view at each jump of a policy, and what later calls needed of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypedDict

from history_curator.lab._conversation import ReadConversation
from history_curator.lab._needs import Need
from history_curator.model import ConversationEntry
from history_curator.tokens import TokenCounter


class Jump(TypedDict):
    """One view that no longer shows what the one before did; plain data.

    Attributes:
        at: the entry that answers it.
        left: what left, by who spoke or what was called, most first.
        entries: how many entries left.
        tokens: how large they were in the view before.
        needed: identifiers that later calls used and nothing in their view showed, and calls that
            were made again, in the order of their use. Each is told at the last jump at which
            something that holds it left.
    """

    at: int
    left: str
    entries: int
    tokens: int
    needed: list[str]


class Jumps:
    """Follows the views of one conversation under one policy.

    Args:
        found: where the jumps are put.
        record: the conversation.
        counter: counts what left.
    """

    def __init__(self, found: list[Jump], record: ReadConversation, counter: TokenCounter) -> None:
        self._found = found
        self._index_of = record.index_of
        self._counter = counter
        self._left: dict[int, Jump] = {}

    def note(
        self, at: int, before: Sequence[ConversationEntry], now: Sequence[ConversationEntry]
    ) -> None:
        """Take the view at an entry that does not begin with the one before it."""
        still = {id(entry.root) for entry in now}
        gone = [e for e in before if id(e.root) in self._index_of and id(e.root) not in still]
        if not gone:
            return
        kinds = Counter(name for entry in gone for name in _kinds(entry))
        jump: Jump = {
            "at": at,
            "left": ", ".join(f"{count} {name}" for name, count in kinds.most_common()),
            "entries": len(gone),
            "tokens": sum(map(self._counter.count_entry, gone)),
            "needed": [],
        }
        self._found.append(jump)
        self._left.update((self._index_of[id(entry.root)], jump) for entry in gone)

    def miss(self, need: Need) -> None:
        """Take a need that a view did not meet."""
        left = [self._left[source] for source in need.sources if source in self._left]
        if left:
            name = need.value if need.kind == "identifier" else f"the same {need.value} call"
            needed = max(left, key=lambda jump: jump["at"])["needed"]
            if name not in needed:
                needed.append(name)


def _kinds(entry: ConversationEntry) -> list[str]:
    """What an entry is, for a count of what left; a result goes with its call."""
    if entry.tool_calls:
        return [call.name for call in entry.tool_calls]
    return [] if entry.tool_call_id else [f"{entry.role.value} text"]
