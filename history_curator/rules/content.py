"""P10 to P12, P14 and P15: texts, fields, images, cache marks and names of documents."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count
from operator import is_
from typing import Any

from history_curator.entries import ContentPart, ConversationEntry, MessageRole, Reasoning, ToolCall
from history_curator.formats import (
    ANONYMOUS,
    MARKS,
    MessageGroup,
    find_cache_marks,
    join_text,
    wire_of,
    without_mark,
)
from history_curator.formats.base import as_mapping
from history_curator.rules.base import (
    ASSISTANT,
    TOOL,
    USER,
    Entries,
    Finding,
    Rule,
    copy_repaired,
    is_blank,
)

_logger = logging.getLogger(__name__)
EMPTY = "(empty)"
_FAILED = "[The tool reported an error.]"
_MOST_MARKS = 4
_MEDIA = {"image", "audio", "video", "file"}
_SENT_FIELDS = (
    *("content", "name", "parts", "tool_calls", "tool_call_id", "tool_name"),
    *("reasoning", "source"),
)
_NOTED = ("merged", ANONYMOUS, MARKS)  # metadata that rules write


@dataclass(frozen=True)
class NothingIsBlank(Rule):
    """No text is blank, an assistant entry has text or calls, a result has content.

    Every provider refuses a message without content; Anthropic and Bedrock also a blank block.
    Repair: blank blocks go; an entry with nothing left goes too, except a result, which becomes
    ``(empty)``. With `flat_results` a result is one string, in formats that have strings.
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
            message = f"a blank {entry.role.value} message"
            return ["nothing but thinking" if entry.reasoning else message]
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
        content = join_text(parts)
        return copy_repaired(entry, "a text block was blank", parts=parts, content=content)


def is_left_out(entry: ConversationEntry) -> bool:
    """Return whether an entry says nothing, so that no provider is sent it."""
    is_silent = is_blank(entry.content) and not entry.tool_calls
    return is_silent and entry.role is not TOOL and _says_nothing(entry)


def _says_nothing(entry: ConversationEntry) -> bool:
    if entry.parts:
        return all(p.is_mark or (p.kind == "text" and is_blank(p.text)) for p in entry.parts)
    # A spoken answer lives beside the content.
    is_spoken = isinstance(entry.source, Mapping) and entry.source.get("audio")
    return is_blank(entry.content) and not is_spoken


@dataclass(frozen=True)
class MessagesAreWellFormed(Rule):
    """No empty or misplaced ``tool_calls``, no call twice, no unknown key, no half of a character.

    OpenAI and Anthropic refuse such messages; only OpenAI knows the role developer. Repair: what
    does not belong is left out, half a character becomes U+FFFD.
    """

    code = "P11"

    developer: bool = True

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        source, calls = entry.source, entry.tool_calls or ()
        listed = isinstance(source, Mapping) and "tool_calls" in source
        found = []
        if _mend_halves(entry):
            found.append("half a character (a lone surrogate), which cannot be encoded")
        if entry.repairs:
            found.append(entry.repairs)
        if not self.developer and entry.role_name == "developer":
            found.append("the role developer, which only OpenAI knows")
        if entry.tool_calls == () or (listed and source["tool_calls"] in ([], ())):
            found.append("tool_calls is empty")
        elif entry.role is not ASSISTANT and (calls or listed):
            found.append(f"tool_calls on a {entry.role.value} message")
        if len(calls) > 1 and len(set(calls)) < len(calls):
            found.append("the same call is listed twice")
        if entry.metadata and (unknown := _find_unknown_keys(entry)):
            found.append(f"unknown keys: {', '.join(unknown)}")
        return found

    def mend(self, entry: ConversationEntry) -> ConversationEntry:
        source, metadata = entry.source, entry.metadata or {}
        calls = dict.fromkeys(entry.tool_calls or ()) if entry.role is ASSISTANT else ()
        if isinstance(source, Mapping):
            unknown = {*metadata, *(() if calls else ("tool_calls",))}
            if unknown & source.keys():
                source = {key: value for key, value in source.items() if key not in unknown}
        is_developer = entry.role_name == "developer" and not self.developer
        cleaned = copy_repaired(
            entry,
            entry.repairs or f"not well-formed: {'; '.join(self.check_entry(entry))}",
            source=source,
            metadata={key: metadata[key] for key in _NOTED if key in metadata} or None,
            repairs=None,
            role_name=None if is_developer else entry.role_name,
            tool_calls=tuple(calls) or None,
        )
        return replace(cleaned, **_mend_halves(cleaned))


def _find_unknown_keys(entry: ConversationEntry) -> list[str]:
    """Return the keys of the message that no provider knows; the readers put them in metadata."""
    messages = entry.source if isinstance(entry.source, MessageGroup) else (entry.source,)
    known = [message for message in messages if isinstance(message, Mapping)]
    return [str(key) for key in entry.metadata or () if any(key in message for message in known)]


def _mend_halves(entry: ConversationEntry) -> dict[str, Any]:
    """Return the fields in which a half of a character stands, each with U+FFFD in its place."""
    # A message that is several entries would be gone through for each of them.
    fields = _SENT_FIELDS if entry.span is None else _SENT_FIELDS[:-1]
    mended = {field: _mend_value(getattr(entry, field)) for field in fields}
    return {field: new for field, new in mended.items() if new is not getattr(entry, field)}


def _mend_value(value: Any) -> Any:
    """Return a value without halves of characters; the very value where there is none."""
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, (list, tuple)):
        items = [_mend_value(item) for item in value]
        return value if all(map(is_, items, value)) else type(value)(items)
    is_part = isinstance(value, (ContentPart, Reasoning, ToolCall))
    fields = {name: getattr(value, name) for name in value.__slots__} if is_part else value
    if not isinstance(fields, dict):
        return value
    pairs = list(fields.items())
    mended = _mend_value(pairs)
    if mended is pairs:
        return value
    return replace(value, **dict(mended)) if is_part else dict(mended)


@dataclass(frozen=True)
class ImagesFit(Rule):
    """Media stand where the wire format allows them, and images are few and small enough.

    OpenAI refuses images outside the user role; Anthropic also in a result that is an error, and
    the 21st image there makes an old one above 2000 px fatal. Repair: ``[image removed]``, the
    oldest first. An image of unknown size is taken to fit. An error with media says that it is one.
    """

    code = "P12"

    max_images: int = 20
    max_side: int = 2000  # pixels of the longer side
    crowd: int | None = None  # above this many images the next holds instead
    crowded_side: int = 0
    roles: Collection[MessageRole] = (USER,)  # who may show media
    wired: bool = False  # also results, but in Chat Completions, and any message of Gemini
    in_errors: bool = True

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        if entry.parts is None:
            return []
        if not self._may_show_media(entry):
            kinds = [part.kind for part in entry.parts if part.kind in _MEDIA]
            return [f"{kind} in a {entry.role.value} message" for kind in kinds]
        is_error = entry.status == "error" and entry.has_media and not self.in_errors
        return ["media in an error result"] if is_error and wire_of(entry) == "anthropic" else []

    def _may_show_media(self, entry: ConversationEntry) -> bool:
        if entry.role in self.roles:
            return True
        wire = wire_of(entry) if self.wired else None
        return wire == "gemini" or (entry.role is TOOL and wire not in (None, "chat"))

    def check_view(self, entries: Entries) -> list[Finding]:
        return [(index, message) for index, _, message in self._find_excess(entries)]

    def mend(self, entry: ConversationEntry) -> ConversationEntry:
        parts = entry.parts or ()
        if not self._may_show_media(entry):
            return _remove_media(entry, [part for part in parts if part.kind in _MEDIA])
        parts = (ContentPart("text", _FAILED), *parts)
        reason = "an error may hold text only, so it says itself that it is one"
        text = join_text(parts)
        return copy_repaired(entry, reason, parts=parts, content=text, status=None)

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        out = super().repair(entries)
        for index, part, _ in self._find_excess(out):
            out[index] = _remove_media(out[index], [part])
        return out

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


def _remove_media(entry: ConversationEntry, media: list[ContentPart]) -> ConversationEntry:
    """Return an entry with a note in place of each of some of its parts."""
    reason = "images beyond what the provider takes, in number, size or role"
    if entry.role is USER:
        _logger.warning("messages[%s]: %s; the user's are removed", entry.sequence, reason)
    parts = list(entry.parts or ())
    for place, part in enumerate(parts):
        if any(part is each for each in media):
            parts[place] = ContentPart("text", f"[{part.kind} removed]")
    return copy_repaired(entry, reason, parts=tuple(parts), content=join_text(parts))


class CacheMarksFit(Rule):
    """At most four cache marks, and those of an hour before those of five minutes.

    Anthropic and Bedrock refuse others. Marks beside the messages (tools, ``system=``) are not seen.
    Repair: marks go and blocks stay, those before one of an hour, then the oldest but the first.
    """

    code = "P14"

    def check_view(self, entries: Entries) -> list[Finding]:
        marks = [(at, ttl) for at, each in enumerate(entries) for ttl in find_cache_marks(each)]
        last_hour = max((n for n, (_, ttl) in enumerate(marks) if ttl == "1h"), default=0)
        late = {at for at, ttl in marks[:last_hour] if ttl != "1h"}
        others = [at for at, _ in marks if at not in late]
        surplus = {*others[1 : max(1, 1 + len(others) - _MOST_MARKS)]}
        message = f"{len(others)} cache marks, {_MOST_MARKS} are taken"
        early = "a cache mark of five minutes before one of an hour"
        return sorted([*((at, early) for at in late), *((at, message) for at in surplus)])

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        out = list(entries)
        while found := self.check_view(out):
            for at in {at for at, _ in found if at is not None}:
                out[at] = _without_marks(out[at])
        return out


def _without_marks(entry: ConversationEntry) -> ConversationEntry:
    parts = [replace(part, raw=without_mark(part.raw)) for part in entry.parts or ()]
    calls = list(entry.tool_calls or ())
    for place, call in enumerate(calls):
        if block := (call.extra or {}).get("anthropic"):
            extra = {**(call.extra or {}), "anthropic": without_mark(block) or {}}
            calls[place] = replace(call, extra=extra)
    return copy_repaired(
        entry,
        "more cache marks than the provider takes, or out of order",
        parts=entry.parts and tuple(part for part in parts if part.raw or not part.is_mark),
        tool_calls=tuple(calls) or None,
        metadata={**(entry.metadata or {}), MARKS: []},
    )


class DocumentNamesAreAccepted(Rule):
    """Every document of Bedrock has a name of its own, of letters, digits, hyphens and brackets.

    Repair: other characters become hyphens, and a number behind the name tells it from the others.
    """

    code = "P15"

    def check_view(self, entries: Entries) -> list[Finding]:
        pairs = enumerate(zip(entries, self.repair(entries), strict=True))
        return [(index, new.reason or "") for index, (old, new) in pairs if old is not new]

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        seen: set[str] = set()
        return [_rename_documents(entry, seen) if entry.parts else entry for entry in entries]


def _rename_documents(entry: ConversationEntry, seen: set[str]) -> ConversationEntry:
    """Return an entry whose documents have names that none before them has."""
    parts = []
    for part in entry.parts or ():
        body = as_mapping(as_mapping(part.raw).get("document"))
        if not body:
            parts.append(part)
            continue
        plain = re.sub(r"[^A-Za-z0-9\s()\[\]-]", "-", str(body.get("name")))
        clean = re.sub(r"\s+", " ", plain).strip()[:190] or "document"
        again = (f"{clean}-{number}" for number in count(2))
        name = next(each for each in chain((clean,), again) if each not in seen)
        seen.add(name)
        parts.append(replace(part, raw={**part.raw, "document": {**body, "name": name}}))
    if tuple(parts) == (entry.parts or ()):
        return entry
    reason = "the name of a document was used before, or has other characters"
    return copy_repaired(entry, reason, parts=tuple(parts))
