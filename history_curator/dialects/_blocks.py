"""What a format of blocks says: which block is what, and how it is read and written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from history_curator.dialects._fields import Reading
from history_curator.model import ContentPart, ConversationEntry, MessageRole, Reasoning, ToolCall

BlockKind = Literal["call", "result", "thought", "part"]


class Result(NamedTuple):
    """What was read from a block that answers a call."""

    call_id: str | None
    name: str | None
    content: str | None
    parts: tuple[ContentPart, ...] | None
    failed: bool


class BlockFormat:
    """The blocks of one format, each by itself; `TurnDialect` makes messages of them."""

    name: str
    blocks: str
    """The key under which a message keeps its blocks."""
    roles: ClassVar[Mapping[str, MessageRole]]
    """The names this format has for our roles; the first of each is the one that is written."""
    aliases: ClassVar[Mapping[str, MessageRole]]
    """What else is understood, and reported."""
    marks: frozenset[str] = frozenset()
    """Blocks that only mark a place: they stay with what stands before them."""

    def kind_of(self, block: Mapping[str, Any]) -> BlockKind:
        """Return what a block is."""
        raise NotImplementedError

    def read_call(self, block: Mapping[str, Any], seen: int, reading: Reading, at: str) -> ToolCall:
        """Read a call; `seen` calls of the same tool came before it in the message."""
        raise NotImplementedError

    def read_result(self, block: Mapping[str, Any], seen: int, reading: Reading, at: str) -> Result:
        """Read a result; `seen` results of the same tool came before it in the message."""
        raise NotImplementedError

    def read_thought(self, block: Mapping[str, Any], reading: Reading, at: str) -> Reasoning:
        """Read a thought."""
        raise NotImplementedError

    def read_part(self, block: Mapping[str, Any], reading: Reading, at: str) -> ContentPart:
        """Read anything else."""
        raise NotImplementedError

    def tool_of(self, block: Mapping[str, Any]) -> str:
        """Return the name of the tool that a call or a result is of."""
        raise NotImplementedError

    def write_call(self, call: ToolCall) -> dict[str, Any]:
        """Write a call."""
        raise NotImplementedError

    def write_result(
        self, entry: ConversationEntry, recorded: Mapping[str, Any], call: ToolCall | None
    ) -> dict[str, Any]:
        """Write a result: the block it was read from, if any, and the call it answers."""
        raise NotImplementedError

    def write_thought(self, thought: Reasoning) -> Any:
        """Write a thought."""
        return thought.raw

    def write_part(self, part: ContentPart) -> Any:
        """Write anything else."""
        raw = part.raw
        if part.kind != "text":
            return raw
        if isinstance(raw, Mapping) and "text" in raw:
            return raw if raw["text"] == part.text else {**raw, "text": part.text or ""}
        return {"text": part.text or ""}

    def is_mark(self, block: Mapping[str, Any]) -> bool:
        """Return whether a block only marks a place."""
        return bool(block) and block.keys() <= self.marks
