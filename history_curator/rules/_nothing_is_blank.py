"""P10: every entry says or does something."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from history_curator.formats import wire_of
from history_curator.entries import ContentPart, ConversationEntry
from history_curator.rules import _features as has
from history_curator.rules._invariant import (
    ASSISTANT,
    TOOL,
    Entries,
    Errors,
    Invariant,
    edit,
    is_blank,
    remembered,
)
from history_curator.rules._joining import joined_text

EMPTY = "(empty)"


class NothingIsBlank(Invariant):
    """No text is blank, an assistant entry has text or calls, a result has content.

    OpenAI: ``Invalid value for 'content': expected a string, got null.``; Anthropic: ``text
    content blocks must be non-empty`` and ``must contain non-whitespace text``, and ``The final
    block in an assistant message cannot be thinking``; Gemini: ``must include at least one parts
    field``; Bedrock: ``The text field in the ContentBlock object is blank``.

    Repair: blank blocks go; an entry with nothing left goes too, except a result, which becomes
    ``(empty)``. An empty string beside calls is how frameworks write "no text" and is fine.

    Args:
        flat_results: also ask that the content of a result is one string, where the format has
            strings.

    Examples:
        >>> from history_curator.testing import parse_entries, show
        >>> show(NothingIsBlank().repair(parse_entries("U A~ U A~(c1) T(c1)")))
        'U U A(c1) T(c1)'
    """

    code = "P10"
    about = has.BLANK | has.PARTS
    errors: ClassVar[Errors] = {
        "blank": {
            "openai": "Invalid value for 'content': expected a string, got null.",
            "anthropic": "messages: text content blocks must be non-empty",
            "gemini": "Unable to submit request because it must include at least one parts field",
            "bedrock": "The text field in the ContentBlock object is blank.",
            "mistral": "Assistant message must have either content or tool_calls, but not both.",
        },
        "thinking": {
            "anthropic": "The final block in an assistant message cannot be `thinking`.",
            "openai": "Item of type 'reasoning' was provided without its required following item.",
        },
        "list": {},
    }

    def __init__(self, *, flat_results: bool = False) -> None:
        self.flat_results = flat_results

    def look_at(self, entry: ConversationEntry) -> list[tuple[str, str]]:
        """Look for something that is said, shown or called."""
        parts, text = entry.parts, entry.content
        if parts is None and text and not text.isspace():
            return []
        if _says_nothing(entry):
            if entry.role is ASSISTANT and entry.tool_calls:
                if parts or entry.content:
                    return [("blank", "blank text beside calls")]
                return []
            if entry.reasoning:
                return [("thinking", "nothing but thinking")]
            return [("blank", f"a blank {entry.role.value} message")]
        if parts is not None:
            if any(part.kind == "text" and is_blank(part.text) for part in parts):
                return [("blank", "a blank text block")]
            if self._is_foldable(entry):
                return [("list", "the content of a result is a list, not a string")]
        return []

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Drop blank blocks and blank entries."""
        out: list[ConversationEntry] = []
        for entry in entries:
            if self.look_at(entry):
                mended = remembered(
                    entry, ("filled", self.flat_results), partial(self._mend, entry)
                )
                if mended is not None:
                    out.append(mended)
            else:
                out.append(entry)
        return out

    def _is_foldable(self, entry: ConversationEntry) -> bool:
        if not self.flat_results or entry.role is not TOOL or entry.parts is None:
            return False
        if wire_of(entry) in ("gemini", "bedrock"):  # formats without strings
            return False
        return all(part.kind == "text" for part in entry.parts)

    def _mend(self, entry: ConversationEntry) -> ConversationEntry | None:
        action = entry.action or "repaired"
        if _says_nothing(entry):
            if entry.role is TOOL:
                return edit(
                    entry, content=EMPTY, parts=None, action=action, reason="the result was empty"
                )
            if entry.role is ASSISTANT and entry.tool_calls:
                return edit(
                    entry, content=None, parts=None, action=action, reason="the text was blank"
                )
            return None
        if self._is_foldable(entry):
            return edit(entry, parts=None, action=action, reason="a result is one string")
        parts: tuple[ContentPart, ...] = tuple(
            part for part in entry.parts or () if part.kind != "text" or not is_blank(part.text)
        )
        return edit(
            entry,
            parts=parts,
            content=joined_text(parts),
            action=action,
            reason="a text block was blank",
        )


def _says_nothing(entry: ConversationEntry) -> bool:
    if entry.parts:
        return all(
            part.is_mark or (part.kind == "text" and is_blank(part.text)) for part in entry.parts
        )
    if not is_blank(entry.content):
        return False
    # A spoken answer lives beside the content.
    return not (isinstance(entry.source, Mapping) and entry.source.get("audio"))
