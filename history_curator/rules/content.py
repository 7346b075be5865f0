"""P10 to P12: no blank, malformed or unencodable text; images where they are allowed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from history_curator.entries import ContentPart, ConversationEntry, MessageRole
from history_curator.formats import ANONYMOUS, MessageGroup, mend_fields, wire_of
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
    is_unencodable,
    join_part_texts,
)

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

    flat_results: bool = False

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        parts, text = entry.parts, entry.content
        if parts is None and text and not text.isspace():
            return []
        if _says_nothing(entry):
            if entry.role is ASSISTANT and entry.tool_calls:
                return ["blank text beside calls"] if parts or text else []
            is_thought = bool(entry.reasoning)
            return ["nothing but thinking" if is_thought else f"a blank {entry.role.value} message"]
        if any(part.kind == "text" and is_blank(part.text) for part in parts or ()):
            return ["a blank text block"]
        return ["the content of a result is a list"] if self._needs_string(entry) else []

    def _needs_string(self, entry: ConversationEntry) -> bool:
        if not self.flat_results or entry.role is not TOOL or entry.parts is None:
            return False
        has_strings = wire_of(entry) not in ("gemini", "bedrock")
        return has_strings and all(part.kind == "text" for part in entry.parts)

    def mend(self, entry: ConversationEntry) -> ConversationEntry | None:
        if _says_nothing(entry):
            if entry.role is TOOL:
                return copy_repaired(entry, "the result was empty", content=EMPTY, parts=None)
            if entry.role is ASSISTANT and entry.tool_calls:
                return copy_repaired(entry, "the text was blank", content=None, parts=None)
            return None
        if self._needs_string(entry):
            return copy_repaired(entry, "a result is one string", parts=None)
        parts = tuple(p for p in entry.parts or () if p.kind != "text" or not is_blank(p.text))
        content = join_part_texts(parts)
        return copy_repaired(entry, "a text block was blank", parts=parts, content=content)


def _says_nothing(entry: ConversationEntry) -> bool:
    if entry.parts:
        return all(p.is_mark or (p.kind == "text" and is_blank(p.text)) for p in entry.parts)
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

    text_with_calls: bool = True
    developer: bool = True

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        source, calls = entry.source, entry.tool_calls or ()
        listed = isinstance(source, Mapping) and "tool_calls" in source
        found = []
        if any(map(is_unencodable, _texts_of(entry))):
            found.append("half a character (a lone surrogate), which cannot be encoded")
        if entry.repairs:
            found.append(entry.repairs)
        if not self.developer and entry.role_name == "developer":
            found.append("the role developer, which only OpenAI knows")
        if entry.tool_calls == () or (listed and source["tool_calls"] in ([], ())):
            found.append("tool_calls is empty")
        elif entry.role is not ASSISTANT and (calls or listed):
            found.append(f"tool_calls on a {entry.role.value} message")
        if len(calls) > _MAX_CALLS:
            found.append(f"{len(calls)} calls in one message")
        if len(calls) > 1 and len(set(calls)) < len(calls):
            found.append("the same call is listed twice")
        if calls and any(map(_is_call_block, entry.parts or ())):
            found.append("a call is listed among the content blocks as well")
        if self._is_split(entry):
            found.append("text and calls in one message")
        if entry.metadata and (unknown := _find_unknown_keys(entry)):
            found.append(f"unknown keys: {', '.join(unknown)}")
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        out: list[ConversationEntry] = []
        for entry in entries:
            found = self.check_entry(entry)
            out += self._split(self._clean(entry, "; ".join(found))) if found else (entry,)
        return out

    def _is_split(self, entry: ConversationEntry) -> bool:
        return bool(entry.tool_calls) and not (self.text_with_calls or is_blank(entry.content))

    def _split(self, entry: ConversationEntry) -> Iterator[ConversationEntry]:
        """Yield the text that may not stand beside calls, then at most 128 calls at a time."""
        calls = entry.tool_calls or ()
        if self._is_split(entry):
            reason = "text and calls may not stand in one message"
            yield copy_edited(entry, tool_calls=None, reasoning=None, reason=reason)
            entry = copy_edited(entry, content=None, parts=None)
        yield entry if len(calls) <= _MAX_CALLS else _with_calls(entry, 0)
        for start in range(_MAX_CALLS, len(calls), _MAX_CALLS):
            later = copy_edited(entry, content=None, parts=None, reasoning=None)
            yield _with_calls(later, start)

    def _clean(self, entry: ConversationEntry, reason: str) -> ConversationEntry:
        """Return an entry without anything that does not belong there."""
        source, metadata, parts = entry.source, entry.metadata or {}, entry.parts
        is_answer = entry.role is ASSISTANT
        calls = dict.fromkeys(entry.tool_calls or ()) if is_answer else ()
        if isinstance(source, Mapping):
            unknown = {*metadata, *(() if is_answer and calls else ("tool_calls",))}
            if unknown & source.keys():
                source = {key: value for key, value in source.items() if key not in unknown}
            source = mend_fields(source) if entry.repairs else source  # as it is counted
        if parts and calls:
            parts = tuple(part for part in parts if not _is_call_block(part)) or None
        is_developer = entry.role_name == "developer" and not self.developer
        return copy_repaired(
            entry,
            entry.repairs or f"not well-formed: {reason}",
            source=source,
            metadata={key: metadata[key] for key in _NOTED if key in metadata} or None,
            repairs=None,
            role_name=None if is_developer else entry.role_name,
            content=_mend_text(entry.content),
            name=_mend_text(entry.name),
            parts=parts and tuple(_mend_field(part, "text") for part in parts),
            tool_calls=tuple(_mend_field(call, "arguments") for call in calls) or None,
            reasoning=entry.reasoning
            and tuple(
                thought if thought.raw is not None else _mend_field(thought, "text")
                for thought in entry.reasoning
            ),
        )


def _with_calls(entry: ConversationEntry, start: int) -> ConversationEntry:
    calls = (entry.tool_calls or ())[start : start + _MAX_CALLS]
    return copy_edited(entry, tool_calls=calls)


def _find_unknown_keys(entry: ConversationEntry) -> list[str]:
    """Return the keys of the message that no provider knows; the readers put them in metadata."""
    messages = entry.source if isinstance(entry.source, MessageGroup) else (entry.source,)
    known = [message for message in messages if isinstance(message, Mapping)]
    return [str(key) for key in entry.metadata or () if any(key in message for message in known)]


def _is_call_block(part: ContentPart) -> bool:
    if part.kind != "other" or not isinstance(part.raw, Mapping):
        return False
    return str(part.raw.get("type")) in _CALL_BLOCKS


def _texts_of(entry: ConversationEntry) -> Iterator[str | None]:
    """Yield the texts of an entry that may be edited; a thought as it was signed may not."""
    yield entry.content
    yield entry.name
    for call in entry.tool_calls or ():
        yield call.arguments
    for thought in entry.reasoning or ():
        if thought.raw is None:
            yield thought.text


def _mend_text(text: str | None) -> str | None:
    """Return a text with U+FFFD for each half; two halves that belong together become one."""
    if text is None or not is_unencodable(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _mend_field(value: Any, field: str) -> Any:
    text = getattr(value, field)
    return replace(value, **{field: _mend_text(text)}) if is_unencodable(text) else value


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

    max_images: int = 20
    max_side: int = 2000
    crowd: int | None = None
    crowded_side: int = 0
    roles: Collection[MessageRole] = (USER,)
    wired: bool = False

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        if entry.parts is None or self._may_show_media(entry):
            return []
        role = entry.role.value
        return [f"{part.kind} in a {role} message" for part in entry.parts if part.kind in _MEDIA]

    def _may_show_media(self, entry: ConversationEntry) -> bool:
        if entry.role in self.roles:
            return True
        wire = wire_of(entry) if self.wired else None
        return wire == "gemini" or (entry.role is TOOL and wire not in (None, "chat"))

    def check_view(self, entries: Entries) -> list[Finding]:
        return [(index, message) for index, _, message in self._find_excess(entries)]

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        excess: dict[int, set[int]] = {}
        for index, part, _ in self._find_excess(entries):
            excess.setdefault(index, set()).add(id(part))
        return [
            self._without_media(entry, excess.get(index, ())) for index, entry in enumerate(entries)
        ]

    def _without_media(
        self, entry: ConversationEntry, excess: Collection[int]
    ) -> ConversationEntry:
        misplaced = bool(self.check_entry(entry))
        parts = tuple(
            ContentPart("text", f"[{part.kind} removed]")
            if (misplaced and part.kind in _MEDIA) or id(part) in excess
            else part
            for part in entry.parts or ()
        )
        if parts == (entry.parts or ()):
            return entry
        reason = "images beyond what the provider takes, in number, size or role"
        return copy_repaired(entry, reason, parts=parts, content=join_part_texts(parts))

    def _find_excess(self, entries: Entries) -> list[tuple[int, ContentPart, str]]:
        """Return images that are too many or too large: entry index, part and message."""
        images = [
            (index, part)
            for index, entry in enumerate(entries)
            for part in entry.parts or ()
            if part.kind == "image" and self._may_show_media(entry)
        ]
        surplus = max(0, len(images) - self.max_images)
        message = f"{len(images)} images, {self.max_images} are taken"
        found = [(index, part, message) for index, part in images[:surplus]]
        is_crowded = self.crowd is not None and len(images) - surplus > self.crowd
        side = self.crowded_side if is_crowded else self.max_side
        for index, part in images[surplus:]:
            longer = max(part.width or 0, part.height or 0)
            if longer > side:
                found.append((index, part, f"an image of {longer} px, {side} are taken"))
        return found
