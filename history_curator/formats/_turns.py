"""Formats whose messages are lists of blocks, with calls, results and thoughts among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Literal, NamedTuple

from history_curator.formats._dicts import whole_source
from history_curator.formats._fields import Reading, mapping
from history_curator.formats._protocol import Gathered, GatheredDicts
from history_curator.formats._slots import Groups, Known, Slots, arranged, own_group, said, split
from history_curator.errors import named
from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
    new_entry,
)

_TOOL, _ASSISTANT, _USER = MessageRole.TOOL, MessageRole.ASSISTANT, MessageRole.USER

BlockKind = Literal["call", "result", "thought", "part"]


class Result(NamedTuple):
    """What was read from a block that answers a call, by the fields of its entry."""

    tool_call_id: str | None
    tool_name: str | None
    content: str | None
    parts: tuple[ContentPart, ...] | None
    status: Literal["error"] | None
    role: MessageRole = MessageRole.TOOL


class TurnFormat(GatheredDicts):
    """Reads and writes messages of blocks; a format says what its blocks are, each by itself.

    Every result is an entry, what lies between results is one. Results are written together, in
    one message of the user, and with what the user said in the same message.
    """

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

    def read_call(self, block: Mapping[str, Any], reading: Reading, at: str) -> ToolCall:
        """Read a call."""
        raise NotImplementedError

    def read_result(self, block: Mapping[str, Any], reading: Reading, at: str) -> Result:
        """Read a result."""
        raise NotImplementedError

    def read_thought(self, block: Mapping[str, Any], reading: Reading, at: str) -> Reasoning:
        """Read a thought; it is written as it came."""
        raise NotImplementedError

    def read_part(self, block: Mapping[str, Any], reading: Reading, at: str) -> ContentPart:
        """Read anything else."""
        raise NotImplementedError

    def write_call(self, call: ToolCall) -> dict[str, Any]:
        """Write a call."""
        raise NotImplementedError

    def write_result(
        self, entry: ConversationEntry, recorded: Mapping[str, Any], call: ToolCall | None
    ) -> dict[str, Any]:
        """Write a result: the block it was read from, if any, and the call it answers."""
        raise NotImplementedError

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

    def gather(self, messages: Sequence[Any]) -> Sequence[Any]:
        """Results in messages of their own belong together: the API wants them in one."""
        out: list[Any] = []
        for answers, run in groupby(messages, self._only_answers):
            held = list(run)
            out += [Gathered(held)] if answers and len(held) > 1 else held
        return messages if len(out) == len(messages) else out

    def _only_answers(self, message: Any) -> bool:
        """Whether there is nothing but results in a message, and what marks their places."""
        blocks = message.get(self.blocks) if isinstance(message, Mapping) else None
        if not isinstance(blocks, (list, tuple)) or not message.keys() <= {"role", self.blocks}:
            return False
        kinds = [
            isinstance(block, Mapping) and (self.is_mark(block) or self.kind_of(block) == "result")
            for block in blocks
        ]
        role = message.get("role")
        spoken = self.roles.get(role, _USER) if isinstance(role, str) else _USER
        return all(kinds) and spoken is _USER and not all(map(self.is_mark, blocks))

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entries of one message."""
        reading = Reading(index)
        first = message
        if message.__class__ is Gathered:
            first = message[0]
            reading.repaired(
                f"{self.blocks}: the results of one turn were in {len(message)} messages"
            )
        if not isinstance(first, Mapping):
            raise reading.error(
                f"expected a mapping, got {type(first).__name__}.",
                None,
                f'pass {{"role": …, "{self.blocks}": […]}}; one list holds one kind of message.',
            )
        if "tool_call_id" in first:
            raise reading.error(
                "a tool result has no message of its own in this format.",
                "tool_call_id",
                f"put it into a block of the {self.blocks} of a user message.",
            )
        role = self._read_role(first, reading)
        extra = {key: value for key, value in first.items() if key not in ("role", self.blocks)}
        reading.checked(extra, "metadata", sent=False)
        groups = self._split(self._blocks_of(message, reading), role)
        entries = [
            self.read_result(block[0], reading, f"{self.blocks}[{at}]")._asdict()
            if is_result
            else {"role": role, **said(self._slots(block, role, reading, at))}
            for is_result, at, block in groups
        ] or [{"role": role, **said([])}]
        note, total = reading.note, len(entries)
        return tuple(
            new_entry(
                sequence=index,
                source=message,
                metadata=extra or None,
                pinned=bool(extra.get("pinned")),
                span=(place, total) if total > 1 or fields["role"] is _TOOL else None,
                seldom={"repairs": note} if note else None,
                **fields,
            )
            for place, fields in enumerate(entries)
        )

    def _read_role(self, message: Mapping[str, Any], reading: Reading) -> MessageRole:
        given = message.get("role")
        if given is None and self.name == "gemini":
            return _USER
        if given.__class__ is str and given in self.roles:
            return self.roles[given]
        plain = given.strip().lower() if isinstance(given, str) else ""
        role = self.aliases.get(plain) or self.roles.get(plain)
        if role is None:
            raise reading.error(
                f"unknown role: {named(given)}."
                if given is not None
                else "the message has no role.",
                "role",
                f"use one of {', '.join(self.roles)}.",
            )
        reading.repaired(f"role: {given!r} is read as {role.value}")
        return role

    def _blocks_of(self, message: Any, reading: Reading) -> list[Any]:
        if message.__class__ is Gathered:
            return [block for each in message for block in self._blocks_of(each, reading)]
        given = message.get(self.blocks)
        if isinstance(given, str):
            reading.repaired(f"{self.blocks}: a bare text instead of a list of blocks")
            return [{"text": given}]
        if not isinstance(given, (list, tuple)):
            fix = 'make it a list of blocks, such as [{"text": …}].'
            raise reading.missing(given, self.blocks, fix)
        return [self._block(block, reading, at) for at, block in enumerate(given)]

    def _block(self, block: Any, reading: Reading, at: int) -> Any:
        field = f"{self.blocks}[{at}]"
        if isinstance(block, str):
            reading.repaired(f"{field}: a bare text among the blocks")
            return {"text": block}
        if not isinstance(block, Mapping):
            raise reading.mistyped("a block", block, field, 'use {"text": …} or another block.')
        text = block.get("text")
        if text is not None and not isinstance(text, str):
            raise reading.mistyped(
                "the text of a block", text, f"{field}.text", "make it a string."
            )
        return reading.checked(block, field)

    def _split(self, blocks: Sequence[Any], role: MessageRole) -> Groups:
        return split(
            blocks,
            lambda block: role is not _ASSISTANT and self.kind_of(block) == "result",
            self.is_mark,
        )

    def _slots(
        self,
        blocks: Sequence[Mapping[str, Any]],
        role: MessageRole,
        reading: Reading,
        start: int = 0,
    ) -> Slots:
        found: Slots = []
        for at, block in enumerate(blocks, start):
            kind, field = self.kind_of(block), f"{self.blocks}[{at}]"
            if kind == "call" and role is _ASSISTANT:
                found.append(("call", self.read_call(block, reading, field)))
            elif kind == "thought" and role is _ASSISTANT:
                found.append(("thought", self.read_thought(block, reading, field)))
            else:
                found.append(("part", self.read_part(block, reading, field)))
        return found

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return messages; untouched ones are the same objects."""
        out: list[Any] = []
        asked: dict[str, ToolCall] = {}
        known: Known = {}
        position = 0
        while position < len(entries):
            entry = entries[position]
            if entry.tool_calls:
                asked = {call.id: call for call in entry.tool_calls}
            whole = whole_source(entries, position)
            end = position + 1
            if entry.role is _TOOL:  # all results of a turn are one message
                while end < len(entries) and entries[end].role is _TOOL:
                    end += 1
            if whole and end <= position + whole:
                out.append(entry.source)
                position += whole
            elif entry.role is _TOOL:
                results = entries[position:end]
                message = {
                    "role": self._role_name(_USER, entry),
                    self.blocks: [
                        block for each in results for block in self._answer(each, asked, known)
                    ],
                }
                if end < len(entries) and any(
                    _shares_source(each, entries[end]) for each in results
                ):
                    # What the user said in the same message stays in it: roles have to alternate.
                    message[self.blocks] += self._write_said(entries[end], known)[self.blocks]
                    end += 1
                out.append(message)
                position = end
            else:
                out.append(self._write_said(entry, known))
                position += 1
        return out

    def _answer(
        self, entry: ConversationEntry, asked: Mapping[str, ToolCall], known: Known
    ) -> list[Any]:
        """The block of a result, and the marks behind it."""
        found = self._own_blocks(entry.root, known) if entry.root.role is _TOOL else ()
        call = asked.get(entry.tool_call_id or "")
        return [self.write_result(entry, mapping(found[0]) if found else {}, call), *found[1:]]

    def _own_blocks(self, root: ConversationEntry, known: Known) -> Sequence[Mapping[str, Any]]:
        source = root.source
        first = source[0] if source.__class__ is Gathered else source
        if not isinstance(first, Mapping) or self.blocks not in first:
            return ()
        return own_group(
            root, known, lambda: self._split(self._blocks_of(source, Reading(0)), root.role)
        )

    def _write_said(self, entry: ConversationEntry, known: Known) -> dict[str, Any]:
        source = mapping(entry.root.source)
        kept = {
            key: value
            for key, value in source.items()
            if key not in ("role", self.blocks) and key in (entry.metadata or ())
        }
        calls, root = entry.tool_calls if entry.role is _ASSISTANT else None, entry.root
        made = arranged(
            entry,
            calls or (),
            known,
            lambda: self._slots(self._own_blocks(root, known), root.role, Reading(0)),
        )
        write: dict[str, Callable[[Any], Any]] = {
            "part": self.write_part,
            "thought": lambda thought: thought.raw,
            "call": self.write_call,
        }
        blocks = [write[kind](item) for kind, item in made]
        name = self._role_name(entry.role, entry)
        return {"role": name, self.blocks: blocks, **kept}

    def _role_name(self, role: MessageRole, entry: ConversationEntry) -> str:
        source = entry.root.source
        given = mapping(source[0] if source.__class__ is Gathered else source).get("role")
        if isinstance(given, str) and self.roles.get(given) is role and given != "function":
            return given
        return next(name for name, each in self.roles.items() if each is role)


def _shares_source(result: ConversationEntry, entry: ConversationEntry) -> bool:
    """Whether a result and what the user said were one message."""
    source = result.root.source
    return source is not None and entry.root.source is source and entry.role is _USER
