"""P11: no field where it does not belong, and no text that cannot be sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar

from history_curator.formats import ANONYMOUS, Gathered, sendable, sent_parts
from history_curator.entries import ConversationEntry, ToolCall
from history_curator.rules import _features as has
from history_curator.rules._invariant import (
    ASSISTANT,
    Entries,
    Errors,
    Invariant,
    edit,
    is_blank,
    remembered,
)
from history_curator.rules._lone_surrogates import (
    has_lone_surrogates,
    without_lone_surrogates,
)

MAX_CALLS = 128
_CALL_BLOCKS = {"tool_use", "tool_call", "function_call"}

_NOTED = ("merged", ANONYMOUS)
"""What rules note in the metadata of an entry."""
_HALVES = ("halves", "half a character (a lone surrogate), which cannot be encoded")


class MessagesAreWellFormed(Invariant):
    """No empty or misplaced ``tool_calls``, no repeated call, no unknown key, not too many calls.

    OpenAI: ``Invalid 'messages[].tool_calls': empty array``, ``array too long. Expected an array
    with maximum length 128``, ``Additional properties are not allowed``; Anthropic: ``Extra
    inputs are not permitted``. Mistral's third tokenizer and some Bedrock models refuse text and
    calls in one message. A text with half a character, a lone surrogate such as file names have
    that were decoded with ``surrogateescape``, cannot be encoded, so no client sends it.

    Repair: the key is left out; a call listed twice is listed once; too many calls become two
    entries; where text and calls may not stand together, the text comes first on its own;
    half a character becomes U+FFFD.

    Args:
        max_calls: calls one entry may carry.
        text_with_calls: whether an entry may carry both text and calls.
        developer: whether the provider knows the role ``developer``; else it is ``system``.

    Examples:
        >>> from history_curator.testing import parse_entries, show
        >>> rule = MessagesAreWellFormed(text_with_calls=False)
        >>> show(rule.repair(parse_entries("U A+(c1) T(c1)")))
        'U A A(c1) T(c1)'
    """

    code = "P11"
    about = has.CALLS | has.LISTED | has.SELDOM | has.PARTS | has.HALVES
    errors: ClassVar[Errors] = {
        "empty calls": {"openai": "Invalid 'messages[].tool_calls': empty array."},
        "many calls": {"openai": "array too long. Expected an array with maximum length 128"},
        "keys": {
            "openai": "Additional properties are not allowed",
            "anthropic": "Extra inputs are not permitted",
            "mistral": "Extra inputs are not permitted",
        },
        "misplaced": {"openai": "Additional properties are not allowed"},
        "role": {"portable": "Unexpected message role.", "mistral": "Unexpected role 'developer'"},
        "types": {"openai": "Invalid type for 'messages'", "anthropic": "Input should be a valid"},
        "repeated": {"anthropic": "`tool_use` ids must be unique"},
        "notes": {},
        "halves": {"core": "UnicodeEncodeError: surrogates not allowed"},
        "text": {
            "mistral": "Assistant message must have either content or tool_calls, but not both."
        },
    }

    def __init__(
        self,
        *,
        max_calls: int = MAX_CALLS,
        text_with_calls: bool = True,
        developer: bool = True,
    ) -> None:
        self.max_calls = max_calls
        self.text_with_calls = text_with_calls
        self.developer = developer

    def look_at(self, entry: ConversationEntry) -> list[tuple[str, str]]:
        """Look at the calls, and at the keys of the message it was read from."""
        found = [_HALVES] if has_lone_surrogates(entry) else []
        calls, source = entry.tool_calls, entry.source
        if entry.repairs:
            found.append(("types", entry.repairs))
        if not self.developer and entry.role_name == "developer":
            found.append(("role", "the role developer, which only OpenAI knows"))
        if calls:
            if entry.role is not ASSISTANT:
                return [*found, ("misplaced", f"tool calls on a {entry.role.value} message")]
            found += self._look_at_calls(entry, calls)
        elif calls is not None:
            found.append(("empty calls", "tool_calls is empty"))
        if isinstance(source, Mapping) and "tool_calls" in source:
            if _is_listed_empty(source):
                found.append(("empty calls", "tool_calls is empty"))
            elif entry.role is not ASSISTANT:
                found.append(("misplaced", f"tool_calls on a {entry.role.value} message"))
        if entry.metadata:
            found += _unknown_keys(entry)
        if entry.parts is not None and sent_parts(entry) is not entry.parts:
            found.append(("notes", "annotations of a text that is written without them"))
        return found

    def _look_at_calls(
        self, entry: ConversationEntry, calls: tuple[ToolCall, ...]
    ) -> Iterator[tuple[str, str]]:
        if len(calls) > self.max_calls:
            yield "many calls", f"{len(calls)} calls in one message"
        if len(calls) > 1 and len(set(calls)) < len(calls):
            yield "repeated", "the same call is listed twice"
        if not self.text_with_calls and not is_blank(entry.content):
            yield "text", "text and calls in one message"
        if entry.parts is not None and _has_call_blocks(entry):
            yield "repeated", "a call is listed among the content blocks as well"

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Leave out what does not belong; split what is too much."""
        out: list[ConversationEntry] = []
        for entry in entries:
            kinds = frozenset(kind for kind, _ in self.look_at(entry))
            if kinds:
                out += remembered(
                    entry,
                    ("well-formed", kinds, self.max_calls),
                    partial(self._formed, entry, kinds),
                )
            else:
                out.append(entry)
        return out

    def _formed(
        self, entry: ConversationEntry, kinds: frozenset[str]
    ) -> tuple[ConversationEntry, ...]:
        if "halves" in kinds:
            entry = edit(
                entry,
                **without_lone_surrogates(entry),
                action=entry.action or "repaired",
                reason=entry.reason or "half a character cannot be encoded, and became U+FFFD",
            )
        if kinds != {"halves"}:
            entry = _cleaned(entry, kinds)
        out: list[ConversationEntry] = []
        calls = entry.tool_calls or ()
        if "text" in kinds:
            reason = "text and calls may not stand in one message"
            out.append(edit(entry, tool_calls=None, reasoning=None, reason=reason))
            entry = edit(entry, content=None, parts=None)
        for start in range(0, max(1, len(calls)), self.max_calls):
            chunk = calls[start : start + self.max_calls]
            if start:
                entry = edit(entry, content=None, parts=None, reasoning=None)
            out.append(entry if chunk == calls else edit(entry, tool_calls=chunk))
        return tuple(out)


def _cleaned(entry: ConversationEntry, kinds: frozenset[str]) -> ConversationEntry:
    source = entry.source
    calls = entry.tool_calls
    if isinstance(source, Mapping):
        unknown = set(entry.metadata or ())
        if _is_listed_empty(source) or "misplaced" in kinds:
            unknown.add("tool_calls")
        if unknown & source.keys():
            source = {key: value for key, value in source.items() if key not in unknown}
        if entry.repairs and "annotations" in source:
            source = sendable(source)  # as they are counted
    noted = {key: (entry.metadata or {})[key] for key in _NOTED if key in (entry.metadata or ())}
    parts = sent_parts(entry)
    if parts and _has_call_blocks(entry):
        parts = tuple(part for part in parts if not _is_call_block(part.raw)) or None
    return edit(
        entry,
        source=source,
        metadata=noted or None,
        repairs=None,
        role_name=None if "role" in kinds else entry.role_name,
        parts=parts,
        tool_calls=None if "misplaced" in kinds else tuple(dict.fromkeys(calls or ())) or None,
        action=entry.action or "repaired",
        reason=entry.repairs or f"not well-formed: {', '.join(sorted(kinds))}",
    )


def _unknown_keys(entry: ConversationEntry) -> list[tuple[str, str]]:
    source = entry.source
    messages = source if source.__class__ is Gathered else (source,)
    unknown = [
        str(key)
        for key in entry.metadata or ()
        if any(isinstance(message, Mapping) and key in message for message in messages)
    ]
    return [("keys", f"unknown keys: {', '.join(unknown)}")] if unknown else []


def _is_listed_empty(source: Mapping[str, object]) -> bool:
    listed = source.get("tool_calls", True)
    return isinstance(listed, (list, tuple)) and not listed


def _is_call_block(raw: object) -> bool:
    return isinstance(raw, Mapping) and str(raw.get("type")) in _CALL_BLOCKS


def _has_call_blocks(entry: ConversationEntry) -> bool:
    return any(part.kind == "other" and _is_call_block(part.raw) for part in entry.parts or ())
