"""Content blocks: parts and their order, and the formats whose messages are lists of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    PartKind,
    Reasoning,
    ToolCall,
)
from history_curator.formats.base import (
    MARKS,
    MappingFormat,
    Reading,
    as_mapping,
    as_text,
    copy_value,
    count_untouched,
    find_marks,
    parse_object,
    type_of,
    without_mark,
)
from history_curator.formats.images import image_size

_TEXT = {"text", "input_text", "output_text", "refusal"}
_MEDIA: dict[str, PartKind] = {"image": "image", "audio": "audio", "video": "video"}
_MEDIA |= {"file": "file", "document": "file"}
"""Media by the type of their block, without ``input_`` before it or ``_url`` behind it."""
_TEXT_BLOCK: Mapping[str, Any] = {"type": "text"}
_ASSISTANT, _TOOL, _USER = MessageRole.ASSISTANT, MessageRole.TOOL, MessageRole.USER
BlockKind = Literal["call", "result", "reasoning", "part"]
Block = Mapping[str, Any]
Entries = Sequence[ConversationEntry]
Group = tuple[bool, int, list[Any]]
"""Blocks of one entry: whether they are a result, where they start in the message, and the blocks."""
Slots = list[tuple[str, Any]]
"""The contents of a message in order: "reasoning", "part" or "call", each with what was read."""


def read_part(
    block: Any, index: int, field: str = "content", *, typed: bool = False
) -> ContentPart:
    """Read one content block in OpenAI's or Anthropic's spelling; frameworks leave out types."""
    reading = Reading(index)
    if isinstance(block, str) and not typed:
        return ContentPart("text", block, block)
    reading.require(block, Mapping, field)
    kind = type_of(block)
    if typed and not kind:
        fix = 'add one, such as "type": "text".'
        raise reading.error("a content block has no type.", field, fix)
    if kind in _TEXT or (not kind and isinstance(block.get("text"), str)):
        text = block.get("text", block.get("refusal")) or ""
        reading.require(text, str, f"{field}.text")
        reading.list_of(block.get("annotations"), f"{field}.annotations")
        return ContentPart("text", text, block)
    known = _MEDIA.get(kind.removeprefix("input_").removesuffix("_url"), "other")
    return ContentPart(known, None, block, *(image_size(block) if known == "image" else ()))


def write_part(part: ContentPart, new: Mapping[str, Any] = _TEXT_BLOCK) -> Any:
    """Return the block of a part: the one it was read from, patched where the text is another.

    A text that was read from no block of text becomes a block like `new`.
    """
    raw = part.raw
    if part.kind != "text" or (isinstance(raw, str) and raw == part.text):
        return raw
    if not isinstance(raw, Mapping) or raw.keys().isdisjoint(("type", "text", "refusal")):
        return {**new, "text": part.text or ""}
    key = "refusal" if "text" not in raw and "refusal" in raw else "text"
    return raw if raw.get(key) == part.text else {**raw, key: part.text or ""}


def read_thinking(block: Block) -> Reasoning:
    """Read one thinking block, of Anthropic or in its spelling."""
    text = block.get("thinking", block.get("text", block.get("reasoning")))
    if isinstance(text, (list, tuple)):  # chunks of text, as some providers stream them
        chunks = (each.get("text") if isinstance(each, Mapping) else each for each in text)
        text = "".join(chunk for chunk in chunks if isinstance(chunk, str))
    encrypted = block.get("type") == "redacted_thinking" or "encrypted_content" in block
    signature = block.get("signature", block.get("data", block.get("encrypted_content")))
    return Reasoning(as_text(text), as_text(signature), block, encrypted)


def join_text(parts: Iterable[ContentPart]) -> str | None:
    """Return all text of the parts, or None when there is none."""
    return "\n".join([part.text for part in parts if part.kind == "text" and part.text]) or None


def update_text(entry: ConversationEntry) -> tuple[ContentPart, ...]:
    """Return the parts of an entry, with the entry's text in place of the original text blocks."""
    parts = entry.parts or ()
    if (entry.content or "") == (join_text(parts) or ""):
        return parts
    out: list[ContentPart] = []
    placed = not entry.content
    for part in parts:
        if part.kind != "text":
            out.append(part)
        elif not placed:
            out.append(ContentPart("text", entry.content, part.raw))
            placed = True
    return tuple(out) if placed else (ContentPart("text", entry.content), *out)


def entry_fields(slots: Slots) -> dict[str, Any]:
    """Return the content, parts, calls and reasoning of an entry, taken from the slots of a message."""
    parts = tuple([item for kind, item in slots if kind == "part"])
    return {
        "content": join_text(parts),
        "parts": parts,
        "tool_calls": tuple([item for kind, item in slots if kind == "call"]) or None,
        "reasoning": tuple([item for kind, item in slots if kind == "reasoning"]) or None,
    }


def restore_order(
    entry: ConversationEntry,
    recorded: Slots,
    calls: Sequence[ToolCall],
    reasoning: Sequence[Reasoning],
) -> list[tuple[str, Any, int | None]]:
    """Put the contents of an edited entry where they stood in its message.

    Where there are as many of a kind as there were, each stands in for the one it replaces. Else
    those that are equal keep their place, and a new one takes the first place of its kind that is
    free; others follow the last of their kind. Where there were none, reasoning goes before parts,
    and parts before calls. The index is that of the recorded slot whose place a slot has.
    """
    waiting: dict[str, list[Any]] = {
        "reasoning": list(reasoning),
        "part": list(update_text(entry)),
        "call": list(calls),
    }
    counts = {kind: sum(each == kind for each, _ in recorded) for kind in waiting}
    same = {kind for kind, items in waiting.items() if len(items) == counts[kind]}
    out: list[tuple[str, Any, int | None]] = []
    for place, (kind, item) in enumerate(recorded):
        queue = waiting[kind]
        if queue and (kind in same or queue[0] == item or _replaces(queue[0], item, recorded)):
            out.append((kind, queue.pop(0), place))
    for kind, items in waiting.items():
        if items:
            before = {kind, "reasoning"} if kind == "part" else {kind}
            ends = [n for n, (each, _, _) in enumerate(out, 1) if each in before or kind == "call"]
            end = max(ends, default=0)
            out[end:end] = [(kind, item, None) for item in items]
    return out


def _replaces(new: Any, item: Any, recorded: Slots) -> bool:
    """Whether a new part may take the place of a recorded one: of its kind, and not recorded itself."""
    alike = isinstance(item, ContentPart) and item.kind == new.kind
    return alike and all(new != each for _, each in recorded)


def read_call(body: Block, wire: str, id_key: str, reading: Reading, field: str) -> ToolCall:
    """Read a call whose arguments are an object; other keys are kept for its format."""
    extra = {key: body[key] for key in body if key not in ("type", id_key, "name", "input")}
    return ToolCall(
        reading.text_of(body.get(id_key), f"{field}.{id_key}"),
        reading.text_of(body.get("name"), f"{field}.name"),
        reading.object_text(body.get("input"), f"{field}.input"),
        {wire: extra},
    )


def write_call(call: ToolCall, wire: str, id_key: str) -> dict[str, Any]:
    """Return a call as `read_call` takes it."""
    body = {id_key: call.id, "name": call.name, "input": parse_object(call.arguments) or {}}
    return body | ((call.extra or {}).get(wire) or {})


class Writing:
    """The state of `BlockFormat.write`: the entries, the blocks of their messages, the latest calls."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self.asked: ConversationEntry | None = None  # the last entry that is no result
        self.calls: dict[str, ToolCall] = {}
        self.groups: dict[int, list[Group]] = {}  # of each message, by its id
        self.in_blocks: dict[int, bool] = {}  # whether calls are written in blocks, by entry


class BlockFormat(MappingFormat):
    """A format whose messages are a role and a list of blocks.

    Every result is an entry, as is what lies between results. Results are written together, in
    one message of the user, and with the text of the user that stood in the same message.
    A format says which kind a block is, and reads and writes one block of each kind.
    """

    name: str
    key: str = "content"
    """The key under which a message keeps its blocks."""
    roles: ClassVar[Mapping[str, MessageRole]]
    """The names this format has for our roles; the first of each is the one that is written."""
    anybody_calls: bool = False
    """Whether calls and thoughts are read in messages of any role."""
    thinks_first: bool = True
    """Whether the thinking of a message with calls has to stand before everything else."""

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
        role = self._read_role(message, reading)
        read: list[dict[str, Any]] = []
        for is_result, start, blocks in self._split(self._read_blocks(message, reading), role):
            if is_result:
                result = self._read_result(blocks[0], reading, f"{self.key}[{start}]")
                marks = find_marks(blocks)
                read.append({"role": _TOOL, "metadata": {MARKS: marks} if marks else {}, **result})
            else:
                calls = self.anybody_calls or role is _ASSISTANT
                slots = self._read_slots(blocks, reading, start, calls=calls)
                read.append({"role": role, **entry_fields(slots)})
        return tuple(
            self._build_entry(
                message,
                reading,
                span=(k, len(read)) if len(read) > 1 or "tool_call_id" in fields else None,
                **fields,
            )
            for k, fields in enumerate(read)
        )

    def _read_role(self, message: Mapping[str, Any], reading: Reading) -> MessageRole:
        if "tool_call_id" in message:
            fix = f"put it into a block of the {self.key} of a user message."
            problem = "a tool result has no message of its own in this format."
            raise reading.error(problem, "tool_call_id", fix)
        return reading.role_of(message.get("role"), self.roles)

    def _read_blocks(self, message: Mapping[str, Any], reading: Reading) -> Sequence[Any]:
        """Return the blocks of a message, after a look at their types."""
        blocks: Sequence[Any] = reading.require(message.get(self.key), (list, tuple), self.key)
        for place, block in enumerate(blocks):
            reading.check_json(block, f"{self.key}[{place}]")
            reading.require(block, Mapping, f"{self.key}[{place}]")
        return blocks

    def _split(self, blocks: Sequence[Any], role: MessageRole) -> list[Group]:
        """Split the blocks of a message: every result is a group, as is what lies between results."""
        groups: list[Group] = []
        for place, block in enumerate(blocks):
            result = role is not _ASSISTANT and self._kind_of(block) == "result"
            if not (groups and self._is_mark(block)) and (result or not groups or groups[-1][0]):
                groups.append((result, place, [block]))
            else:
                groups[-1][2].append(block)
        return groups or [(False, 0, [])]

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

    def _build_entry(self, message: Block, reading: Reading, **fields: Any) -> ConversationEntry:
        """Return an entry, with the keys of the message beside its blocks."""
        extra = {key: value for key, value in message.items() if key not in ("role", self.key)}
        return ConversationEntry(
            sequence=reading.index,
            source=message,
            metadata={**extra, **fields.pop("metadata", {})} or None,
            pinned=bool(extra.get("pinned")),
            repairs=reading.note,
            **fields,
        )

    def write(self, entries: Entries) -> list[Any]:
        """Return messages; untouched ones are the same objects."""
        out: list[Any] = []
        writing, position = Writing(entries), 0
        while position < len(entries):
            entry = entries[position]
            if entry.role is not _TOOL:
                writing.asked = entry
            if entry.tool_calls:
                writing.calls = {call.id: call for call in entry.tool_calls}
            if count := self._count_results(writing, position):
                results = entries[position : position + count]
                out.append(copy_value(self._write_results(results, writing)))
            elif count := count_untouched(entries, position):
                out.append(entry.source)
            else:
                count = 1
                out.append(copy_value(self._write_entry(entry, writing)))
            position += count
        return out

    def _count_results(self, writing: Writing, position: int) -> int:
        """Return how many entries from a position on make a new message of results.

        All results of a turn are one message, with the user's text that stood in the same one:
        roles have to alternate.
        """
        entries, end = writing.entries, position
        while end < len(entries) and entries[end].role is _TOOL:
            end += 1
        if end <= position + count_untouched(entries, position):
            return 0
        if end < len(entries) and entries[end].role is _USER:
            source = entries[end].root.source
            end += any(each.root.source is source for each in entries[position:end])
        return end - position

    def _write_results(self, results: Entries, writing: Writing) -> dict[str, Any]:
        """Write results, and the user's text of the same message, as one message."""
        blocks: list[Any] = []
        for entry in results:
            if entry.role is not _TOOL:
                blocks += self._write_blocks(entry, writing)
                continue
            own = self._own_blocks(entry, writing) if entry.root.role is _TOOL else ()
            call = writing.calls.get(entry.tool_call_id or "")
            own = [self._write_result(entry, as_mapping(own[0] if own else {}), call), *own[1:]]
            if (entry.metadata or {}).get(MARKS) == []:
                own = [block for block in map(without_mark, own) if block is not None]
            blocks += own
        return {"role": self._role_name(_USER, results[0]), self.key: blocks}

    def _write_entry(self, entry: ConversationEntry, writing: Writing) -> dict[str, Any]:
        source, kept = as_mapping(entry.source), entry.metadata or ()
        beside = {key: source[key] for key in source if key in kept}
        role, blocks = self._role_name(entry.role, entry), self._write_blocks(entry, writing)
        return {"role": role, self.key: blocks, **beside}

    def _role_name(self, role: MessageRole, entry: ConversationEntry) -> str:
        given = as_mapping(entry.root.source).get("role")
        if isinstance(given, str) and self.roles.get(given) is role and given != "function":
            return given
        return next(name for name, each in self.roles.items() if each is role)

    def _write_blocks(
        self, entry: ConversationEntry, writing: Writing, *, calls: bool = True
    ) -> list[Any]:
        """Write an entry into the blocks it was read from."""
        own, reads_calls = self._own_blocks(entry, writing), entry.root.role is _ASSISTANT
        recorded = self._read_slots(own, Reading(), 0, calls=reads_calls)
        of_entry = entry.tool_calls if calls and entry.role is _ASSISTANT else None
        ordered = restore_order(entry, recorded, of_entry or (), entry.reasoning or ())
        if of_entry and self.thinks_first and ordered[0][0] != "reasoning":
            ordered.sort(key=lambda slot: slot[0] != "reasoning")
        out: list[Any] = []
        for kind, item, _ in ordered:
            if kind == "reasoning":
                out.append(item.raw or {"type": "thinking", "thinking": item.text})
            else:
                out.append(self._write_call(item) if kind == "call" else self._write_part(item))
        return out

    def _own_blocks(self, entry: ConversationEntry, writing: Writing) -> Sequence[Any]:
        """Return the blocks an entry was read from; a message is split once for all its entries."""
        source = as_mapping(entry.source)
        if not isinstance(source.get(self.key), (list, tuple)):
            return ()
        if id(source) not in writing.groups:
            blocks = self._read_blocks(source, Reading())
            writing.groups[id(source)] = self._split(blocks, entry.root.role)
        own, place = writing.groups[id(source)], entry.span[0] if entry.span else 0
        return own[place][2] if place < len(own) else ()
