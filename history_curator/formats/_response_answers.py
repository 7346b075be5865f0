"""Answers of OpenAI Responses: the items that a model put out in one go, read and written as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from history_curator.formats._chat import is_kept, read_role
from history_curator.formats._fields import Reading, mapping, type_of
from history_curator.formats._protocol import Gathered
from history_curator.formats._response_calls import (
    CALL_TYPES,
    OUTPUT_TYPES,
    fits_output,
    read_call,
    read_parts,
    write_call,
    write_output,
    write_part,
)
from history_curator.formats._slots import Known, Slots, arranged
from history_curator.errors import a_type
from history_curator.entries import ContentPart, ConversationEntry, MessageRole, Reasoning, ToolCall

SERVER_ITEMS = (
    "mcp_call",
    "mcp_list_tools",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "tool_search_output",
    "program",
    "program_output",
)
"""Items of what the provider does by itself: they stand in an answer like a text."""
MESSAGE_KEYS = frozenset(("type", "role", "content", "id", "status", "phase"))
_TOOL = MessageRole.TOOL
_NEED_IDS = frozenset(("computer_call", "local_shell_call", "mcp_approval_request"))
"""Calls that are not taken without an id."""
ANONYMOUS = "anonymous"
"""Says in the metadata of an answer that its items are written without their ids."""
_WORDS = ("type", "id", "status", "phase")


def own_output(root: ConversationEntry) -> Mapping[str, Any]:
    """The item that a result was read from."""
    if root.role is not _TOOL:
        return {}
    item = root.source
    if item.__class__ is Gathered:
        outputs = [each for each in item if type_of(each) in OUTPUT_TYPES]
        place = (root.span or (1, 2))[0] - 1
        item = outputs[place] if place < len(outputs) else {}
    return mapping(item if root.repairs is None else Reading(0).checked(item, "item"))


def spoken(call: ToolCall, answer: ConversationEntry | None) -> ToolCall:
    """A call as its answer lets it be: a function call where that is no longer of its kind."""
    if call.extra is None or "responses" not in call.extra or answer is None:
        return call
    if fits_output(call, answer, own_output(answer.root)):
        return call
    return ToolCall(call.id, call.name, call.arguments)


def fields_of(message: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """What a message has beside its content; what should have been text and is not, is left out."""
    fields = {}
    for key, value in message.items():
        if key in _WORDS and value is not None and not isinstance(value, str):
            reading.repaired(f"{key}: it was {a_type(value)}, not text")
        elif key == "type" and value != "message":
            reading.repaired("type: an item with a role is a message")
            fields[key] = "message"
        elif key != "content":
            fields[key] = value
    return fields


def _read_spoken(blocks: Sequence[Any], reading: Reading) -> list[ContentPart]:
    """The blocks of an answer; any part of another kind is an item by itself."""
    parts = read_parts(blocks, reading, "content")
    for at, part in enumerate(parts):
        if part.kind == "other":
            raise reading.error(
                f"an answer holds a block of the type {part.raw.get('type')!r:.80}.",
                f"content[{at}]",
                "use output_text or refusal.",
            )
    return parts


def read_slots(items: Sequence[Any], reading: Reading) -> Slots:
    """What the items of an answer are made of."""
    found: Slots = []
    for item in items:
        kind = type_of(item)
        if "role" in item:
            read_role(item, reading)
            fields_of(item, reading)
            content = item.get("content")
            if isinstance(content, str):
                found.append(("part", ContentPart("text", content, content)))
            elif isinstance(content, (list, tuple)):
                found += [("part", part) for part in _read_spoken(content, reading)]
            else:
                raise reading.missing(content, "content", "make it a string or a list of blocks.")
        elif kind == "reasoning":
            found.append(("thought", _read_reasoning(reading.checked(item, kind), reading)))
        elif kind in CALL_TYPES:
            found.append(("call", read_call(reading.checked(item, kind), kind, reading)))
        elif kind not in OUTPUT_TYPES:
            found.append(("part", ContentPart("other", None, reading.checked(item, kind))))
    return found


def _read_reasoning(item: Mapping[str, Any], reading: Reading) -> Reasoning:
    texts = [
        each["text"]
        for key in ("summary", "content")
        for each in reading.list_of(item.get(key), f"reasoning.{key}")
        if isinstance(reading.object_of(each, f"reasoning.{key}").get("text"), str)
    ]
    sealed = item.get("encrypted_content")
    if sealed is not None and not isinstance(sealed, str):
        reading.repaired("reasoning.encrypted_content: it was not text, and is left out")
        item = {key: item[key] for key in item if key != "encrypted_content"}
    return Reasoning(
        "\n".join(texts) or None,
        sealed if isinstance(sealed, str) else None,
        item,
        encrypted=isinstance(sealed, str),
    )


def _items_of(entry: ConversationEntry) -> Sequence[Any]:
    source = entry.root.source
    if source.__class__ is Gathered:
        return tuple(source)
    return (source,) if isinstance(source, Mapping) else ()


def _made_of(entry: ConversationEntry, items: Sequence[Any], known: Known) -> Slots:
    """What an answer is made of, in the order in which it is written."""
    return arranged(entry, entry.tool_calls or (), known, lambda: read_slots(items, Reading(0)))


def unfollowed(entry: ConversationEntry) -> int:
    """How many thoughts stand at the end of an answer of Responses, which nothing follows."""
    items = _items_of(entry)
    if not entry.reasoning or not any(type_of(item) == "reasoning" for item in items):
        return 0
    made = _made_of(entry, items, {})
    return sum(1 for _ in takewhile(lambda slot: slot[0] == "thought", reversed(made)))


def item_ids(entry: ConversationEntry) -> list[str]:
    """The ids of the items that an answer of Responses is written with."""
    items = _items_of(entry)
    if ANONYMOUS in (entry.metadata or ()) or not any(map(type_of, items)):
        return []
    raws = [each.raw for each in entry.reasoning or ()]
    raws += [part.raw for part in entry.parts or () if part.kind == "other"]
    raws += [(call.extra or {}).get("responses") for call in entry.tool_calls or ()]
    if not _is_anonymous(entry, items):
        raws += [item for item in items if "role" in item]
    return [name for raw in raws if isinstance(name := mapping(raw).get("id"), str)]


def write_answer(
    entry: ConversationEntry,
    results: Sequence[ConversationEntry],
    asked: Mapping[str, ToolCall],
    known: Known,
) -> tuple[list[Any], int]:
    """Return the items of an edited answer, and how many of the results are among them."""
    items = _items_of(entry)
    lost = _is_anonymous(entry, items)
    # The calls of a program have their outputs between its items.
    inside = results if any(type_of(item) in OUTPUT_TYPES for item in items) else ()
    answered = {each.tool_call_id: each for each in inside}
    out: list[Any] = []
    shells = _Shells(items, entry, lost)
    for kind, item in _made_of(entry, items, known):
        if kind == "part" and item.kind != "other":
            shells.take(item, out)
        elif kind != "call":
            out.append(item.raw)
        else:
            call = asked.get(item.id, item)
            written = write_call(call)
            out.append(_bare(written) if lost else written)
            answer = answered.get(item.id)
            if answer is not None:
                out.append(write_output(answer, own_output(answer.root), call))
    if out and any(map(type_of, items)) and not any(map(type_of, out)):
        out[0] = {"type": "message", **out[0]}  # so that they are one answer still
    return out, len(inside)


def sent_parts(entry: ConversationEntry) -> tuple[ContentPart, ...] | None:
    """The parts of an answer without annotations that are not written; the very parts if all are.

    Annotations are written with a message that keeps its id.
    """
    parts = entry.parts or ()
    if entry.original is None or not any(_notes(part.raw) for part in parts):
        return entry.parts
    written, _ = write_answer(entry, (), {}, {})
    told = [
        block
        for item in written
        if item.get("content").__class__ is list
        for block in item["content"]
        if _notes(block)
    ]
    sent = []
    for part in parts:
        if not _notes(part.raw):
            sent.append(part)
        elif part.raw in told:
            told.remove(part.raw)
            sent.append(part)
        else:
            sent.append(replace(part, raw={**part.raw, "annotations": []}))
    return entry.parts if tuple(sent) == parts else tuple(sent)


def _notes(block: Any) -> Any:
    """The annotations of a block of an answer."""
    said = isinstance(block, Mapping) and block.get("type") == "output_text"
    return block.get("annotations") if said else None


def _is_anonymous(entry: ConversationEntry, items: Sequence[Any]) -> bool:
    """Whether the ids of an answer go: it says so, or reasoning they are bound to was taken off."""
    before = sum(1 for item in items if type_of(item) == "reasoning")
    kept = sum(1 for each in entry.reasoning or () if type_of(each.raw) == "reasoning")
    return before > kept or ANONYMOUS in (entry.metadata or ())


def _bare(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item without the id that binds it to its reasoning, or with one of its own."""
    if type_of(item) == "mcp_approval_request":
        return dict(item)
    if type_of(item) in _NEED_IDS:
        return {**item, "id": f"{item.get('id')}_{item['call_id']}"[:64]}
    return {key: value for key, value in item.items() if key != "id"}


class _Shells:
    """The messages of an answer, to be filled with what is left of their parts."""

    def __init__(self, items: Sequence[Any], entry: ConversationEntry, lost: bool) -> None:
        self._messages = [item for item in items if "role" in item]
        self._blocks = [
            [_unnoted(part.raw) for _, part in read_slots((message,), Reading(0))]
            for message in self._messages
        ]
        self._entry = entry
        self._lost = lost
        self._open: tuple[int, dict[str, Any]] | None = None
        self._used: set[int | None] = set()

    def take(self, part: ContentPart, out: list[Any]) -> None:
        """Add a part to the message it came from, or to the one that is open."""
        at = self._find(part)
        if (
            self._open is None
            or (at is not None and at != self._open[0])
            or (not out or out[-1] is not self._open[1])
        ):
            shell = self._shell(at)
            self._open = (-1 if at is None else at, shell)
            out.append(shell)
        message = self._open[1]
        if message["content"].__class__ is list:
            message["content"].append(write_part(part, "output_text"))
        else:
            said = message["content"]
            message["content"] = f"{said}\n{part.text}" if said else part.text or ""

    def _find(self, part: ContentPart) -> int | None:
        raw = _unnoted(part.raw)
        for at, blocks in enumerate(self._blocks):
            if raw in blocks:
                return at
        return 0 if len(self._messages) == 1 else None

    def _shell(self, at: int | None) -> dict[str, Any]:
        source = self._messages[at] if at is not None else {}
        shell = {
            key: value
            for key, value in fields_of(source, Reading(0)).items()
            if is_kept(key, self._entry, MESSAGE_KEYS)
        }
        shell["role"] = "assistant"
        listed = isinstance(source.get("content"), (list, tuple))
        again = at in self._used
        self._used.add(at)
        if self._lost or again or not listed or "id" not in shell:
            # Without an id it is a message as one would write it by hand: plain text.
            for key in ("id", "status"):
                shell.pop(key, None)
            listed = listed and not all(
                mapping(block).get("type") in ("output_text", "text", "refusal")
                for block in source["content"]
            )
        shell["content"] = [] if listed else ""
        return shell


def _unnoted(raw: Any) -> Any:
    """A block without its annotations."""
    return {**raw, "annotations": None} if isinstance(raw, Mapping) else raw
