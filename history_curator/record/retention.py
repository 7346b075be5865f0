"""What a store keeps of older turns, as plain functions over entries.

For adapters:

- `apply_retention(entries, config)` is what to persist. Entries that stay as they were are the
  same objects, edited ones remember theirs as ``entry.original``, so ``entry.root`` maps every
  result back to what was stored; a stored entry that is nobody's root is to be removed.
- `build_context(entries, config)` is what to hand on towards the model after a load.
- `retention_due(entries, config)` says cheaply whether a store needs rewriting at all.

None of them changes what it is given. Decisions are logged to ``history_curator.retention``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from history_curator.model import ConversationEntry, MessageRole, ToolCall

if TYPE_CHECKING:
    from history_curator.config import RetentionConfig

__all__ = ["apply_retention", "build_context", "preserved_from", "retention_due"]

logger = logging.getLogger("history_curator.retention")


def apply_retention(
    entries: Sequence[ConversationEntry], config: RetentionConfig
) -> list[ConversationEntry]:
    """Return what a store should hold of these entries.

    Preserved turns are returned as they are. In older turns ``full`` changes nothing,
    ``trimmed`` reduces every result to ``{name, status}`` and every call to its id and name, and
    ``none`` leaves user and assistant text only.

    Example:
        >>> from history_curator.config import RetentionConfig
        >>> said = [
        ...     ConversationEntry(MessageRole.USER, "weather?"),
        ...     ConversationEntry(
        ...         MessageRole.ASSISTANT, tool_calls=(ToolCall("c1", "weather", '{"in": "Oslo"}'),)
        ...     ),
        ...     ConversationEntry(MessageRole.TOOL, "rain " * 99, tool_call_id="c1"),
        ...     ConversationEntry(MessageRole.ASSISTANT, "Rain."),
        ...     ConversationEntry(MessageRole.USER, "thanks"),
        ... ]
        >>> kept = apply_retention(
        ...     said, RetentionConfig(preserve_turns=1, persist_tool_invocations="trimmed")
        ... )
        >>> kept[2].content
        '{"name": "weather", "status": "success"}'
    """
    start = preserved_from(entries, config)
    mode = config.persist_tool_invocations
    if mode == "full":
        kept = list(entries)
    elif mode == "trimmed":
        kept = [*_trimmed(entries[:start]), *entries[start:]]
    else:
        kept = [*_text_only(entries[:start]), *entries[start:]]
    _log("persist", mode, entries, kept, len(entries) - start)
    return kept


def build_context(
    entries: Sequence[ConversationEntry], config: RetentionConfig
) -> list[ConversationEntry]:
    """Return the latest `max_loaded_messages` entries, older turns without their tool details.

    System entries are always kept. A cut never leaves a result without its call: it moves
    forward past results. With `prune_tools_for_llm` off only the limit applies.
    """
    loaded = _latest(entries, config.max_loaded_messages)
    start = preserved_from(loaded, config)
    kept, shown = loaded, "full"
    if config.prune_tools_for_llm:
        kept, shown = [*_text_only(loaded[:start]), *loaded[start:]], "text only"
    _log("load", shown, entries, kept, len(loaded) - start)
    return kept


def retention_due(entries: Sequence[ConversationEntry], config: RetentionConfig) -> bool:
    """Whether `apply_retention` would change anything."""
    mode = config.persist_tool_invocations
    if mode == "full":
        return False
    older = entries[: preserved_from(entries, config)]
    if mode == "none":
        return any(_is_tool_detail(entry) for entry in older)
    return any(new is not old for new, old in zip(_trimmed(older), older, strict=True))


def preserved_from(entries: Sequence[ConversationEntry], config: RetentionConfig) -> int:
    """Return the position of the first entry whose tool details are kept.

    Without `preserve_tools_for_latest_turns` that is where the turn still being answered starts,
    because a model cannot continue an exchange whose calls were taken away.
    """
    turns = config.preserve_turns
    if not config.preserve_tools_for_latest_turns or turns == 0:
        turns = 0 if _is_answered(entries) else 1
    if turns == 0:
        return len(entries)
    for position in range(len(entries) - 1, -1, -1):
        if entries[position].role is MessageRole.USER:
            turns -= 1
            if turns == 0:
                return position
    return 0


def _is_answered(entries: Sequence[ConversationEntry]) -> bool:
    """Whether the last turn ended with an answer in words."""
    for entry in reversed(entries):
        if entry.role is not MessageRole.SYSTEM:
            return entry.role is MessageRole.ASSISTANT and not entry.tool_calls
    return True


def _is_tool_detail(entry: ConversationEntry) -> bool:
    return entry.role is MessageRole.TOOL or bool(entry.tool_calls)


def _latest(entries: Sequence[ConversationEntry], limit: int | None) -> list[ConversationEntry]:
    if limit is None or len(entries) <= limit:
        return list(entries)
    start = len(entries) - limit
    while start < len(entries) and entries[start].role is MessageRole.TOOL:
        start += 1
    system = [entry for entry in entries[:start] if entry.role is MessageRole.SYSTEM]
    return [*system, *entries[start:]]


def _text_only(entries: Sequence[ConversationEntry]) -> list[ConversationEntry]:
    kept = []
    for entry in entries:
        if entry.role is MessageRole.TOOL:
            continue
        if not entry.tool_calls:
            kept.append(entry)
        elif (entry.content and not entry.content.isspace()) or entry.has_media:
            # Thinking is bound to the calls that follow it, so it goes with them.
            kept.append(
                entry.evolve(
                    tool_calls=None,
                    reasoning=None,
                    action="cleared",
                    reason="tool calls of an older turn are not kept",
                )
            )
    return kept


def _trimmed(entries: Sequence[ConversationEntry]) -> list[ConversationEntry]:
    names: dict[str, str] = {}
    kept = []
    for entry in entries:
        if entry.tool_calls:
            names.update((call.id, call.name) for call in entry.tool_calls)
            kept.append(_trim_calls(entry))
        elif entry.role is MessageRole.TOOL:
            kept.append(_trim_result(entry, names))
        else:
            kept.append(entry)
    return kept


def _trim_calls(entry: ConversationEntry) -> ConversationEntry:
    calls = tuple(
        call if call.arguments == "{}" else ToolCall(call.id, call.name, "{}", call.extra)
        for call in entry.tool_calls or ()
    )
    if calls == entry.tool_calls:
        return entry
    return entry.evolve(
        tool_calls=calls,
        action="cleared",
        reason="arguments of an older turn's calls are not kept",
    )


def _trim_result(entry: ConversationEntry, names: dict[str, str]) -> ConversationEntry:
    name = entry.tool_name or names.get(entry.tool_call_id or "") or "tool"
    if _is_trimmed(entry.content):
        return entry
    text = json.dumps({"name": name, "status": entry.status or "success"}, ensure_ascii=False)
    return entry.evolve(
        content=text,
        parts=None,
        truncated=True,
        original_length=len(entry.content or ""),
        action="cleared",
        reason="results of older turns are kept as name and status",
    )


def _is_trimmed(content: str | None) -> bool:
    """Whether a result is already ``{name, status}``, also after the store lost the status."""
    if not content or not content.startswith('{"name": '):
        return False
    try:
        data = json.loads(content)
    except ValueError:
        return False
    return isinstance(data, dict) and data.keys() == {"name", "status"}


def _log(
    what: str,
    mode: str,
    before: Sequence[ConversationEntry],
    after: Sequence[ConversationEntry],
    preserved: int,
) -> None:
    if not logger.isEnabledFor(logging.INFO):
        return
    known = {id(entry) for entry in before}
    logger.info(
        "retention (%s, %s): %d entries, %d preserved, %d trimmed, %d left out",
        what,
        mode,
        len(before),
        preserved,
        sum(1 for entry in after if id(entry) not in known),
        len(before) - len(after),
    )
