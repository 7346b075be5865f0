"""Recognise a view that no rule objects to, in one pass and without asking the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from history_curator.entries import ContentPart, ConversationEntry, MessageRole, ToolCall
from history_curator.formats import MessageGroup, fit_call, is_answered_in_kind

Tail = Literal["request", "history"]

_PLAIN_EXTRAS = {"chat", "anthropic"}


def is_plain_text(entry: ConversationEntry) -> bool:
    """Return whether an entry is a text and nothing else, which every provider takes by itself."""
    text, source = entry.content, entry.source
    if not text or text.isspace() or entry.role is MessageRole.TOOL or is_unencodable(text):
        return False
    if entry.metadata or (isinstance(source, Mapping) and "tool_calls" in source):
        return False
    rare = entry.parts, entry.tool_calls, entry.reasoning, entry.repairs, entry.role_name
    return entry.name is None and rare == (None, None, None, None, None)


def is_plain_view(  # noqa: C901, PLR0912 - one branch a role, in the hot path
    entries: Sequence[ConversationEntry],
    tail: Tail,
    is_valid: Callable[[ConversationEntry], bool],
    *,
    merges_users: bool,
    bridges: bool,
) -> bool:
    """Return whether a view is in order for a reason that is cheap to see.

    Text only; one system entry at most, in front; the user speaks first; an answer follows the
    user or a result; every call is answered in order. Other views may be in order as well.

    Args:
        entries: the view.
        tail: whether it is about to be sent.
        is_valid: whether no rule objects to an entry alone.
        merges_users: whether two user entries in a row are one too many.
        bridges: whether the user may not speak right after a result.
    """
    user, assistant, tool = MessageRole.USER, MessageRole.ASSISTANT, MessageRole.TOOL
    before: MessageRole | None = None
    waiting: list[ToolCall] = []
    ids: set[str] = set()
    for entry in entries:
        role, parts = entry.role, entry.parts
        if not is_valid(entry) or (parts is not None and not all(map(_is_text, parts))):
            return False
        if role is tool:
            if not waiting or not _is_answer(waiting.pop(), entry):
                return False
        elif waiting:
            return False
        elif role is user:
            text = entry.content
            if not text or text.isspace() or (before is user and merges_users):
                return False
            if before is tool and bridges:
                return False
        elif role is not assistant:
            if before is not None:
                return False
        elif (before is not user and before is not tool) or _is_item(entry):
            return False
        elif calls := entry.tool_calls:
            waiting = list(reversed(calls))
            for call in calls:
                if call.id in ids or (call.extra is not None and _is_rare(call)):
                    return False
                ids.add(call.id)
        before = role
    if waiting:
        return False
    return before is user or before is tool or (before is assistant and tail == "history")


def fits_call(call: ToolCall, result: ConversationEntry) -> bool:
    """Return whether a result is written in the format of its call."""
    if call.extra is None and result.span is None:
        return True
    return is_answered_in_kind(call, result) and fit_call(call, result) is call


def is_unencodable(text: str | None) -> bool:
    """Return whether a text has half a character, a lone surrogate, which no client can encode."""
    if text is None or text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _is_text(part: ContentPart) -> bool:
    return part.kind == "text"


def _is_answer(call: ToolCall, result: ConversationEntry) -> bool:
    name = result.tool_name
    is_named = name is None or name == call.name
    return is_named and result.tool_call_id == call.id and fits_call(call, result)


def _is_rare(call: ToolCall) -> bool:
    extra = call.extra or {}
    return not _PLAIN_EXTRAS.issuperset(extra) or "caller" in (extra.get("anthropic") or ())


def _is_item(entry: ConversationEntry) -> bool:
    """Return whether an answer may be an item of OpenAI Responses, which has an id."""
    source = entry.root.source
    if source.__class__ is dict:
        return "type" in source
    return isinstance(source, (Mapping, MessageGroup))
