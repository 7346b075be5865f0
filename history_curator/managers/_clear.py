"""`ToolResultClearer`: old tool results become placeholders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from history_curator.managers._checks import check_count
from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry, MessageRole, ToolCall
from history_curator.timeline import Unit, pair


@dataclass(frozen=True, slots=True)
class ToolResultClearer:
    """Replaces all but the newest tool results by a placeholder.

    Guaranteed: calls keep their results, so exchanges stay whole; results no longer than the
    placeholder, pinned ones and those of excluded tools stay.

    Args:
        keep: how many of the newest results stay.
        exclude_tools: names of tools whose results are never cleared. They do not count as kept.
        clear_inputs: also empty the arguments of the calls whose results are cleared.
        placeholder: what the model sees instead.
        batch: clear this many at a time. Clearing one per call changes the prefix on every call
            and makes the prompt cache miss; a batch of ten changes it on every tenth.

    Examples:
        >>> ToolResultClearer(keep=5, exclude_tools=("read_policy",), batch=10).keep
        5
    """

    keep: int = 3
    exclude_tools: Sequence[str] = ()
    clear_inputs: bool = False
    placeholder: str = "[Old tool result cleared]"
    batch: int = 1

    def __post_init__(self) -> None:
        check_count(self, "keep", self.keep)
        check_count(self, "batch", self.batch, least=1)
        names = (self.exclude_tools,) if isinstance(self.exclude_tools, str) else self.exclude_tools
        object.__setattr__(self, "exclude_tools", tuple(names))

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> list[ConversationEntry]:
        """Return the entries with old tool results cleared."""
        answered = [
            (unit, slot)
            for unit in pair(entries)
            for slot, result in enumerate(unit.results)
            if result is not None and self._may_clear(unit, slot)
        ]
        old = max(0, len(answered) - self.keep) // self.batch * self.batch
        if not old:
            return list(entries)
        edited: dict[int, ConversationEntry] = {}
        for unit, slot in answered[:old]:
            result = unit.results[slot]
            if result is None:
                continue
            edited[id(result.root)] = self._clear(result)
            if self.clear_inputs:
                head = edited.get(id(unit.head.root), unit.head)
                edited[id(unit.head.root)] = _without_input(head, slot)
        return [edited.get(id(entry.root), entry) for entry in entries]

    def _may_clear(self, unit: Unit, slot: int) -> bool:
        result = unit.results[slot]
        calls = unit.head.tool_calls or ()
        name = calls[slot].name if slot < len(calls) else None
        excluded = name in self.exclude_tools or (
            result is not None and result.tool_name in self.exclude_tools
        )
        return result is not None and not excluded and not result.pinned

    def _clear(self, entry: ConversationEntry) -> ConversationEntry:
        text = entry.content or ""
        if len(text) <= len(self.placeholder) and not entry.has_media:
            return entry
        return entry.evolve(
            content=self.placeholder,
            parts=None,
            truncated=True,
            original_length=entry.original_length or len(text),
            action="cleared",
            reason=f"older than the newest {self.keep} tool results",
        )


def _without_input(head: ConversationEntry, slot: int) -> ConversationEntry:
    calls = head.tool_calls or ()
    if head.role is not MessageRole.ASSISTANT or head.pinned or calls[slot].arguments == "{}":
        return head
    emptied: ToolCall = replace(calls[slot], arguments="{}")
    return head.evolve(
        tool_calls=(*calls[:slot], emptied, *calls[slot + 1 :]),
        action="cleared",
        reason="its result was cleared, and its input with it",
    )
