"""P10 to P12: no blank, malformed or unencodable text; images where they are allowed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from history_curator.entries import ContentPart, ConversationEntry, MessageRole
from history_curator.formats import ANONYMOUS, MessageGroup, mend_fields, parts_as_written, wire_of
from history_curator.rules.base import (
    ASSISTANT,
    TOOL,
    USER,
    Entries,
    Finding,
    Rule,
    copy_edited,
    copy_repaired,
    is_blank,
    join_part_texts,
)
from history_curator.rules.plain import is_unencodable

EMPTY = "(empty)"
_MAX_CALLS = 128
_CALL_BLOCKS = {"tool_use", "tool_call", "function_call"}
_MEDIA = {"image", "audio", "video", "file"}
_NOTED = ("merged", ANONYMOUS)  # metadata that rules write


@dataclass(frozen=True)
class NothingIsBlank(Rule):
    """No text is blank, an assistant entry has text or calls, a result has content.

    Every provider refuses a message without content; Anthropic and Bedrock also a blank block.
    With `flat_results` a result is one string, in formats that have strings.

    Repair: blank blocks go; an entry with nothing left goes too, except a result, which becomes
    ``(empty)``. An empty string beside calls is how frameworks write "no text" and is fine.
    """

    code = "P10"
    errors: ClassVar = {
        "blank": "messages: text content blocks must be non-empty",
        "thinking": "The final block in an assistant message cannot be `thinking`.",
    }

    flat_results: bool = False

    def check_entry(self, entry: ConversationEntry) -> list[tuple[str, str]]:
        parts, text = entry.parts, entry.content
        if parts is None and text and not text.isspace():
            return []
        if _says_nothing(entry):
            if entry.role is ASSISTANT and entry.tool_calls:
                return [("blank", "blank text beside calls")] if parts or text else []
            if entry.reasoning:
                return [("thinking", "nothing but thinking")]
            return [("blank", f"a blank {entry.role.value} message")]
        if any(part.kind == "text" and is_blank(part.text) for part in parts or ()):
            return [("blank", "a blank text block")]
        if self._needs_string(entry):
            return [("list", "the content of a result is a list, not a string")]
        return []

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        repaired = [self._fill(entry) if self.check_entry(entry) else entry for entry in entries]
        return [entry for entry in repaired if entry is not None]

    def _needs_string(self, entry: ConversationEntry) -> bool:
        if not self.flat_results or entry.role is not TOOL or entry.parts is None:
            return False
        if wire_of(entry) in ("gemini", "bedrock"):  # formats without strings
            return False
        return all(part.kind == "text" for part in entry.parts)

    def _fill(self, entry: ConversationEntry) -> ConversationEntry | None:
        if _says_nothing(entry):
            if entry.role is TOOL:
                return copy_repaired(entry, "the result was empty", content=EMPTY, parts=None)
            if entry.role is ASSISTANT and entry.tool_calls:
                return copy_repaired(entry, "the text was blank", content=None, parts=None)
            return None
        if self._needs_string(entry):
            return copy_repaired(entry, "a result is one string", parts=None)
        parts = tuple(
            part for part in entry.parts or () if part.kind != "text" or not is_blank(part.text)
        )
        content = join_part_texts(parts)
        return copy_repaired(entry, "a text block was blank", parts=parts, content=content)


def _says_nothing(entry: ConversationEntry) -> bool:
    if entry.parts:
        return all(
            part.is_mark or (part.kind == "text" and is_blank(part.text)) for part in entry.parts
        )
    if not is_blank(entry.content):
        return False
    # A spoken answer lives beside the content.
    return not (isinstance(entry.source, Mapping) and entry.source.get("audio"))


@dataclass(frozen=True)
class MessagesAreWellFormed(Rule):
    """No empty or misplaced ``tool_calls``, no repeated call, no unknown key, not too many calls.

    OpenAI and Anthropic refuse such messages; Mistral's third tokenizer refuses text beside calls
    (`text_with_calls`); only OpenAI knows the role `developer`. No client can encode half a
    character, a lone surrogate.

    Repair: the key is left out; a call listed twice is listed once; more than 128 calls become
    several entries; text that may not stand beside calls comes first on its own; half a character
    becomes U+FFFD; the role developer becomes system.
    """

    code = "P11"
    errors: ClassVar = {
        "empty calls": "Invalid 'messages[].tool_calls': empty array.",
        "many calls": "array too long. Expected an array with maximum length 128",
        "keys": "Extra inputs are not permitted",
        "misplaced": "Additional properties are not allowed",
        "role": "Unexpected message role.",
        "types": "Invalid type for 'messages'",
        "repeated": "`tool_use` ids must be unique",
        "halves": "UnicodeEncodeError: surrogates not allowed",
        "text": "Assistant message must have either content or tool_calls, but not both.",
    }

    text_with_calls: bool = True
    developer: bool = True

    def check_entry(self, entry: ConversationEntry) -> list[tuple[str, str]]:
        found = []
        if _has_lone_surrogates(entry):
            found.append(("halves", "half a character (a lone surrogate), which cannot be encoded"))
        if entry.repairs:
            found.append(("types", entry.repairs))
        if not self.developer and entry.role_name == "developer":
            found.append(("role", "the role developer, which only OpenAI knows"))
        source = entry.source
        listed = isinstance(source, Mapping) and "tool_calls" in source
        if entry.tool_calls == () or (listed and _is_empty_list(source)):
            found.append(("empty calls", "tool_calls is empty"))
        elif entry.role is not ASSISTANT and (entry.tool_calls or listed):
            found.append(("misplaced", f"tool_calls on a {entry.role.value} message"))
        elif entry.tool_calls:
            found += self._check_calls(entry, entry.tool_calls)
        if entry.metadata and (unknown := _find_unknown_keys(entry)):
            found.append(("keys", f"unknown keys: {', '.join(unknown)}"))
        if entry.parts is not None and parts_as_written(entry) is not entry.parts:
            found.append(("notes", "annotations of a text that is written without them"))
        return found

    def _check_calls(
        self, entry: ConversationEntry, calls: Collection[Any]
    ) -> list[tuple[str, str]]:
        found = []
        if len(calls) > _MAX_CALLS:
            found.append(("many calls", f"{len(calls)} calls in one message"))
        if len(calls) > 1 and len(set(calls)) < len(calls):
            found.append(("repeated", "the same call is listed twice"))
        if not self.text_with_calls and not is_blank(entry.content):
            found.append(("text", "text and calls in one message"))
        if any(map(_is_call_block, entry.parts or ())):
            found.append(("repeated", "a call is listed among the content blocks as well"))
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        out: list[ConversationEntry] = []
        for entry in entries:
            kinds = {kind for kind, _ in self.check_entry(entry)}
            out += _form(entry, kinds) if kinds else (entry,)
        return out


def _form(entry: ConversationEntry, kinds: set[str]) -> list[ConversationEntry]:
    """Leave out what does not belong; split what is too much."""
    if "halves" in kinds:
        entry = _without_lone_surrogates(entry)
    if kinds != {"halves"}:
        entry = _without_extras(entry, kinds)
    out: list[ConversationEntry] = []
    calls = entry.tool_calls or ()
    if "text" in kinds:
        reason = "text and calls may not stand in one message"
        out.append(copy_edited(entry, tool_calls=None, reasoning=None, reason=reason))
        entry = copy_edited(entry, content=None, parts=None)
    for start in range(0, max(1, len(calls)), _MAX_CALLS):
        chunk = calls[start : start + _MAX_CALLS]
        if start:
            entry = copy_edited(entry, content=None, parts=None, reasoning=None)
        out.append(entry if chunk == calls else copy_edited(entry, tool_calls=chunk))
    return out


def _without_extras(entry: ConversationEntry, kinds: set[str]) -> ConversationEntry:
    source, parts, metadata = entry.source, parts_as_written(entry), entry.metadata or {}
    if isinstance(source, Mapping):
        unknown = set(metadata)
        if _is_empty_list(source) or "misplaced" in kinds:
            unknown.add("tool_calls")
        if unknown & source.keys():
            source = {key: value for key, value in source.items() if key not in unknown}
        if entry.repairs and "annotations" in source:
            source = mend_fields(source)  # as they are counted
    if parts and entry.tool_calls:
        parts = tuple(part for part in parts if not _is_call_block(part)) or None
    calls = () if "misplaced" in kinds else entry.tool_calls or ()
    return copy_edited(
        entry,
        source=source,
        metadata={key: metadata[key] for key in _NOTED if key in metadata} or None,
        repairs=None,
        role_name=None if "role" in kinds else entry.role_name,
        parts=parts,
        tool_calls=tuple(dict.fromkeys(calls)) or None,
        action=entry.action or "repaired",
        reason=entry.repairs or f"not well-formed: {', '.join(sorted(kinds))}",
    )


def _find_unknown_keys(entry: ConversationEntry) -> list[str]:
    """Return the keys of the message that no provider knows; the readers put them in metadata."""
    messages = entry.source if isinstance(entry.source, MessageGroup) else (entry.source,)
    known = [message for message in messages if isinstance(message, Mapping)]
    return [str(key) for key in entry.metadata or () if any(key in message for message in known)]


def _is_empty_list(source: Mapping[str, Any]) -> bool:
    listed = source.get("tool_calls", True)
    return isinstance(listed, (list, tuple)) and not listed


def _is_call_block(part: ContentPart) -> bool:
    if part.kind != "other" or not isinstance(part.raw, Mapping):
        return False
    return str(part.raw.get("type")) in _CALL_BLOCKS


def _has_lone_surrogates(entry: ConversationEntry) -> bool:
    """Return whether a text, an author, arguments or an unsigned thought cannot be encoded."""
    return (
        is_unencodable(entry.content)
        or is_unencodable(entry.name)
        or any(is_unencodable(call.arguments) for call in entry.tool_calls or ())
        or any(each.raw is None and is_unencodable(each.text) for each in entry.reasoning or ())
    )


def _without_lone_surrogates(entry: ConversationEntry) -> ConversationEntry:
    """Return an entry with U+FFFD in place of each half of a character."""

    def mend(block: Any, field: str = "text") -> Any:
        return replace(block, **{field: _mend_text(getattr(block, field))})

    return copy_repaired(
        entry,
        "half a character cannot be encoded, and became U+FFFD",
        content=_mend_text(entry.content),
        name=_mend_text(entry.name),
        parts=entry.parts and tuple(map(mend, entry.parts)),
        tool_calls=entry.tool_calls and tuple(mend(each, "arguments") for each in entry.tool_calls),
        reasoning=entry.reasoning
        and tuple(each if each.raw is not None else mend(each) for each in entry.reasoning),
    )


def _mend_text(text: str | None) -> str | None:
    """Return a text with U+FFFD for each half; two halves that belong together become one."""
    if text is None or not is_unencodable(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True)
class ImagesFit(Rule):
    """Media stand where the wire format allows them, and images are few and small enough.

    OpenAI refuses images outside the user role; Bedrock takes 20 of 8000 px; Anthropic 100 of
    8000 px, but of 2000 px beside more than 20, so that the 21st makes an old large one fatal.

    Repair: ``[image removed]``, the oldest first. An image of unknown size is taken to fit.

    Args:
        max_side: pixels of the longer side.
        crowd: above this many images `crowded_side` holds instead of `max_side`.
        roles: who may show media.
        wired: also a result, in every format but Chat Completions, and any message of Gemini.
    """

    code = "P12"
    errors: ClassVar = {
        "role": "Image URLs are only allowed for messages with role 'user'",
        "count": "Too many images",
        "size": "At least one of the image dimensions exceed max allowed size: 2000 pixels",
    }

    max_images: int = 20
    max_side: int = 2000
    crowd: int | None = None
    crowded_side: int = 0
    roles: Collection[MessageRole] = (USER,)
    wired: bool = False

    def check_entry(self, entry: ConversationEntry) -> list[tuple[str, str]]:
        if entry.parts is None or self._may_show_media(entry):
            return []
        return [
            ("role", f"{part.kind} in a {entry.role.value} message")
            for part in entry.parts
            if part.kind in _MEDIA
        ]

    def _may_show_media(self, entry: ConversationEntry) -> bool:
        if entry.role in self.roles:
            return True
        wire = wire_of(entry) if self.wired else None
        return wire == "gemini" or (entry.role is TOOL and wire not in (None, "chat"))

    def check_view(self, entries: Entries) -> list[Finding]:
        return [(index, kind, message) for index, _, kind, message in self._find_excess(entries)]

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        excess = {(index, id(part)) for index, part, _, _ in self._find_excess(entries)}
        out = []
        for index, entry in enumerate(entries):
            misplaced = bool(self.check_entry(entry))
            removed = [
                part
                for part in entry.parts or ()
                if (misplaced and part.kind in _MEDIA) or (index, id(part)) in excess
            ]
            out.append(_without_media(entry, removed) if removed else entry)
        return out

    def _find_excess(self, entries: Entries) -> list[tuple[int, ContentPart, str, str]]:
        """Return images that are too many or too large: entry index, part, kind, message."""
        images = [
            (index, part)
            for index, entry in enumerate(entries)
            for part in entry.parts or ()
            if part.kind == "image" and self._may_show_media(entry)
        ]
        surplus = max(0, len(images) - self.max_images)
        message = f"{len(images)} images, {self.max_images} are taken"
        found = [(index, part, "count", message) for index, part in images[:surplus]]
        is_crowded = self.crowd is not None and len(images) - surplus > self.crowd
        side = self.crowded_side if is_crowded else self.max_side
        for index, part in images[surplus:]:
            longer = max(part.width or 0, part.height or 0)
            if longer > side:
                found.append((index, part, "size", f"an image of {longer} px, {side} are taken"))
        return found


def _without_media(entry: ConversationEntry, media: Collection[ContentPart]) -> ConversationEntry:
    removed = set(map(id, media))
    parts = tuple(
        ContentPart("text", f"[{part.kind} removed]") if id(part) in removed else part
        for part in entry.parts or ()
    )
    reason = "images beyond what the provider takes, in number, size or role"
    return copy_repaired(entry, reason, parts=parts, content=join_part_texts(parts))
