"""One reader and writer for formats whose messages are a role and a list of blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from history_curator.entries import ContentPart, ConversationEntry, MessageRole, Reasoning, ToolCall
from history_curator.errors import name_value
from history_curator.formats.base import (
    MARKS,
    MappingFormat,
    Reading,
    as_mapping,
    copy_value,
    count_untouched,
    find_marks,
    without_mark,
)
from history_curator.formats.blocks import Slots, entry_fields, restore_order, write_part

_ASSISTANT, _TOOL, _USER = MessageRole.ASSISTANT, MessageRole.TOOL, MessageRole.USER
BlockKind = Literal["call", "result", "reasoning", "part"]
Groups = dict[int, list[tuple[bool, int, list[Any]]]]
"""The blocks of messages as `_split` returns them, by the id of each."""


class BlockFormat(MappingFormat):
    """A format whose messages are a role and a list of blocks.

    Every result is an entry, as is what lies between results. Results are written together, in
    one message of the user, and with the text of the user that stood in the same message.
    A format says what its blocks are (`kind_of`), and reads and writes one block of each kind.
    """

    name: str
    key: str = "content"
    """The key under which a message keeps its blocks."""
    roles: ClassVar[Mapping[str, MessageRole]]
    """The names this format has for our roles; the first of each is the one that is written."""
    thinks_first: bool = True
    """Whether the thinking of a message with calls has to stand before its text."""

    _kind_of: Callable[[Any], BlockKind]
    _read_call: Callable[[Any, Reading, str], ToolCall]
    _read_result: Callable[[Any, Reading, str], dict[str, Any]]
    """Reads the fields of the entry of a result."""
    _read_reasoning: Callable[[Any, Reading, str], Reasoning]
    _read_part: Callable[[Any, Reading, str], ContentPart]
    _write_call: Callable[[ToolCall], dict[str, Any]]
    _write_result: Callable[[ConversationEntry, Mapping[str, Any], ToolCall | None], dict[str, Any]]
    """Writes a result into the block it was read from, if any, for the call it answers."""

    def _is_mark(self, block: Any) -> bool:
        """Return whether a block only marks a place, and stays with the block before it."""
        return False

    def _write_part(self, part: ContentPart) -> Any:
        return write_part(part, {})

    def read_message(self, message: Any, reading: Reading) -> tuple[ConversationEntry, ...]:
        """Return the entries of one message."""
        if not isinstance(message, Mapping):
            fix = f'pass {{"role": …, "{self.key}": […]}}; one list holds one kind of message.'
            raise reading.error(f"expected a mapping, got {type(message).__name__}.", None, fix)
        role = self._read_role(message, reading)
        fields = self._read_groups(self._read_blocks(message, reading), role, reading)
        return tuple(
            self._build_entry(
                message,
                reading,
                span=(k, len(fields)) if len(fields) > 1 or "tool_call_id" in one else None,
                **one,
            )
            for k, one in enumerate(fields)
        )

    def _read_role(self, message: Mapping[str, Any], reading: Reading) -> MessageRole:
        if "tool_call_id" in message:
            fix = f"put it into a block of the {self.key} of a user message."
            problem = "a tool result has no message of its own in this format."
            raise reading.error(problem, "tool_call_id", fix)
        given = message.get("role")
        role = self.roles.get(given) if isinstance(given, str) else None
        if role is None:
            problem = f"unknown role: {name_value(given)}." if given else "the message has no role."
            raise reading.error(problem, "role", f"use one of {', '.join(self.roles)}.")
        return role

    def _read_blocks(self, message: Mapping[str, Any], reading: Reading) -> Sequence[Any]:
        """Return the blocks of a message, after a look at their types."""
        blocks: Sequence[Any] = reading.require(message.get(self.key), (list, tuple), self.key)
        reading.check_json(blocks, self.key)
        for place, block in enumerate(blocks):
            field = f"{self.key}[{place}]"
            reading.require(block, Mapping, field)
            text = block.get("text") or ""
            reading.require(text, str, f"{field}.text")
        return blocks

    def _read_groups(
        self, blocks: Sequence[Any], role: MessageRole, reading: Reading
    ) -> list[dict[str, Any]]:
        """Return the fields of each entry of a message."""
        entries: list[dict[str, Any]] = []
        for is_result, start, group in self._split(blocks, role) or [(False, 0, [])]:
            if is_result:
                result = self._read_result(group[0], reading, f"{self.key}[{start}]")
                marks = find_marks(group)
                noted = {"metadata": {MARKS: marks}} if marks else {}
                entries.append({"role": _TOOL, **result, **noted})
            else:
                entries.append({"role": role, **self._read_group(group, role, reading, start)})
        return entries

    def _read_group(
        self, blocks: Sequence[Any], role: MessageRole, reading: Reading, start: int
    ) -> dict[str, Any]:
        """Return the fields of an entry that is no result."""
        return entry_fields(self._read_slots(blocks, reading, start, calls=role is _ASSISTANT))

    def _build_entry(
        self, message: Mapping[str, Any], reading: Reading, **fields: Any
    ) -> ConversationEntry:
        """Return an entry, with what the message says beside its blocks."""
        extra = {key: value for key, value in message.items() if key not in ("role", self.key)}
        return ConversationEntry(
            sequence=reading.index,
            source=message,
            metadata={**extra, **fields.pop("metadata", {})} or None,
            pinned=bool(extra.get("pinned")),
            repairs=reading.note,
            **fields,
        )

    def _split(self, blocks: Sequence[Any], role: MessageRole) -> list[tuple[bool, int, list[Any]]]:
        """Split the blocks of a message: every result is a group, as is what lies between results.

        Returns:
            For each group: whether it is a result, where it starts, and its blocks.
        """
        groups: list[tuple[bool, int, list[Any]]] = []
        for place, block in enumerate(blocks):
            result = role is not _ASSISTANT and self._kind_of(block) == "result"
            if not (groups and self._is_mark(block)) and (result or not groups or groups[-1][0]):
                groups.append((result, place, [block]))
            else:
                groups[-1][2].append(block)
        return groups

    def _own_blocks(self, root: ConversationEntry, groups: Groups) -> Sequence[Any]:
        """Return the blocks an entry was read from; a message is split once while `groups` live."""
        source = as_mapping(root.source)
        if not isinstance(source.get(self.key), (list, tuple)):
            return ()
        if id(source) not in groups:
            groups[id(source)] = self._split(self._read_blocks(source, Reading()), root.role)
        own, place = groups[id(source)], root.span[0] if root.span else 0
        return own[place][2] if place < len(own) else ()

    def _read_slots(
        self, blocks: Sequence[Any], reading: Reading, start: int, *, calls: bool = True
    ) -> Slots:
        """Read blocks in order; without `calls`, calls and reasoning are parts like any other."""
        slots: Slots = []
        for place, block in enumerate(blocks, start):
            kind, field = self._kind_of(block), f"{self.key}[{place}]"
            if kind == "call" and calls:
                slots.append(("call", self._read_call(block, reading, field)))
            elif kind == "reasoning" and calls:
                slots.append(("reasoning", self._read_reasoning(block, reading, field)))
            else:
                slots.append(("part", self._read_part(block, reading, field)))
        return slots

    def _write_blocks(
        self, entry: ConversationEntry, groups: Groups, *, calls: bool = True
    ) -> list[Any]:
        """Write an entry into the blocks it was read from."""
        own, reads_calls = self._own_blocks(entry.root, groups), entry.root.role is _ASSISTANT
        recorded = self._read_slots(own, Reading(), 0, calls=reads_calls)
        write = {
            "part": self._write_part,
            "reasoning": lambda thought: (
                thought.raw or {"type": "thinking", "thinking": thought.text}
            ),
            "call": self._write_call,
        }
        of_entry = entry.tool_calls if calls and entry.role is _ASSISTANT else None
        ordered = restore_order(entry, recorded, of_entry or (), entry.reasoning or ())
        if of_entry and self.thinks_first and ordered and ordered[0][0] == "part":
            ordered.sort(key=lambda slot: slot[0] != "reasoning")
        return [write[kind](item) for kind, item, _ in ordered]

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return messages; untouched ones are the same objects."""
        out: list[Any] = []
        groups: Groups = {}
        calls: dict[str, ToolCall] = {}
        position = 0
        while position < len(entries):
            entry = entries[position]
            if entry.tool_calls:
                calls = {call.id: call for call in entry.tool_calls}
            untouched = count_untouched(entries, position)
            end = position + 1
            while entry.role is _TOOL and end < len(entries) and entries[end].role is _TOOL:
                end += 1  # all results of a turn are one message
            if untouched and end <= position + untouched:
                out.append(entry.source)
                end = position + untouched
            elif entry.role is _TOOL:
                after = entries[end] if end < len(entries) else None
                blocks = self._write_results(entries[position:end], calls, groups)
                sources = {id(each.root.source) for each in entries[position:end]}
                # The user's text of the same message stays in it: roles have to alternate.
                if after is not None and after.role is _USER and id(after.root.source) in sources:
                    blocks += self._write_blocks(after, groups)
                    end += 1
                out.append(copy_value({"role": self._role_name(_USER, entry), self.key: blocks}))
            else:
                out.append(copy_value(self._write_entry(entry, groups)))
            position = end
        return out

    def _write_results(
        self, results: Sequence[ConversationEntry], calls: Mapping[str, ToolCall], groups: Groups
    ) -> list[Any]:
        blocks: list[Any] = []
        for result in results:
            own = self._own_blocks(result.root, groups) if result.root.role is _TOOL else ()
            call = calls.get(result.tool_call_id or "")
            own = [self._write_result(result, as_mapping(own[0] if own else {}), call), *own[1:]]
            if (result.metadata or {}).get(MARKS) == []:
                own = [block for block in map(without_mark, own) if block is not None]
            blocks += own
        return blocks

    def _write_entry(self, entry: ConversationEntry, groups: Groups) -> dict[str, Any]:
        source = as_mapping(entry.root.source)
        message = {
            "role": self._role_name(entry.role, entry),
            self.key: self._write_blocks(entry, groups),
        }
        return message | {key: source[key] for key in source if key in (entry.metadata or ())}

    def _role_name(self, role: MessageRole, entry: ConversationEntry) -> str:
        given = as_mapping(entry.root.source).get("role")
        if isinstance(given, str) and self.roles.get(given) is role and given != "function":
            return given
        return next(name for name, each in self.roles.items() if each is role)
