"""Retention: what a store keeps of older turns, and what is loaded of them for the model."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from history_curator.config import RetentionConfig
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.formats import MessageFormat, find_format, parse_object, read_entries
from history_curator.managers.base import Entries
from history_curator.managers.select import find_reducible, keep_words, start_of_turns
from history_curator.record.outbox import WriteBehind
from history_curator.run_steps import Steps
from history_curator.units import pair

logger = logging.getLogger("history_curator.retention")

TOOLS_USED = "tools_used"
"""A key under which applications keep the tool details of an answer in the answer itself."""
_OLDER = "tool details of an older turn"


def apply_retention(entries: Entries, config: RetentionConfig) -> list[ConversationEntry]:
    """Return what a store should hold of these entries.

    Preserved turns, pinned entries, and exchanges that reach into such a turn or wait for a result
    stay as they are. Of older ones ``trimmed`` reduces results to ``{name, status}`` and calls to
    id and name, and ``none`` leaves the words. Applying it again changes nothing.
    """
    start, mode = find_preserved(entries, config), config.persist_tool_invocations
    stored = list(entries)
    if mode != "full":
        stored = (_trim if mode == "trimmed" else _keep_words)(entries, start)
    _log(f"persist, {mode}", entries, stored, len(entries) - start)
    return stored


def build_context(messages: Sequence[Any], preserve_turns: int | RetentionConfig = 2) -> list[Any]:
    """Return messages for the model: the latest turns whole, of older ones only the words.

    Messages of any format, or entries, come back as what they were, no result without its call.
    With a `RetentionConfig` no more than `max_loaded_messages` are returned, but for system and
    pinned ones; with `prune_tools_for_llm` off only that applies.
    """
    config = preserve_turns
    if not isinstance(config, RetentionConfig):
        config = RetentionConfig(preserve_turns=config)
    format = find_format(messages)
    entries = read_entries(messages, format)
    loaded = _load_latest(entries, config.max_loaded_messages)
    start = find_preserved(loaded, config)
    context = _keep_words(loaded, start) if config.prune_tools_for_llm else loaded
    _log("load", entries, context, len(loaded) - start)
    return format.write(context)


def load_messages(
    thread_id: Any,
    limit: int | None = None,
    *,
    service: Callable[[Any], Sequence[Any]] | None = None,
) -> list[Any]:
    """Return the latest messages of a stored conversation, no result without its call.

    `service` returns the messages of a thread. Where there is none, or it fails, there are none: a
    missing database does not stop the conversation.
    """
    try:
        messages = [] if service is None else list(service(thread_id))
    except Exception as error:  # noqa: BLE001 - whatever the driver raises
        text = "the history of a thread cannot be read (%s): the conversation starts empty"
        logger.warning(text, type(error).__name__)
        messages = []
    format = find_format(messages)
    return format.write(_load_latest(read_entries(messages, format), limit))


def list_tools_used(messages: Sequence[Any]) -> list[dict[str, str]]:
    """Return ``{name, status}`` of every tool result: what a ``done`` event may tell a client."""
    return list(_read_outcomes(read_entries(messages)).values())


def find_preserved(entries: Entries, config: RetentionConfig) -> int:
    """Return where the entries begin whose tool details are kept; an open turn keeps them."""
    turns = config.preserve_turns if config.preserve_tools_for_latest_turns else 0
    return start_of_turns(entries, turns)


class Retention:
    """Applies retention to one stored conversation, when a turn grows old.

    Turns that were missed, as in an outage, show when the record is read, and are dealt with when
    the next message is added. A store that cannot be edited keeps everything, with a warning.
    """

    def __init__(
        self,
        format: MessageFormat,
        config: RetentionConfig | None,
        *,
        store: Any,
        edits_store: bool,
    ) -> None:
        self._format, self._config = format, config
        trims = config is not None and config.persist_tool_invocations != "full"
        self._edits_store = trims and edits_store
        self._is_due = False
        if trims and not edits_store:
            _warn_once(type(store).__name__)

    def add(self, buffer: WriteBehind[Any], messages: Sequence[Any]) -> Steps[None]:
        """Add messages to a store, and have it keep of older turns what it should."""
        is_stored = yield from buffer.add(messages)
        if self._edits_store and self._config is not None:
            entries = read_entries(messages, self._format)
            # A question ends the turn before it; where no turn is preserved, so does an answer.
            ends_turn = any(entry.is_real_user for entry in entries)
            self._is_due |= ends_turn or find_preserved(entries, self._config) > 0
            if is_stored and self._is_due:
                self._is_due = not (yield from buffer.revise(self._reduce))

    def context(self, messages: list[Any]) -> list[Any]:
        """Return the messages of a record that are handed on towards the model."""
        if self._config is None or not messages:
            return messages
        retained = self._reduce(messages)
        self._is_due = self._edits_store and retained is not None
        return build_context(messages if retained is None else retained, self._config)

    def _reduce(self, stored: Sequence[Any]) -> list[Any] | None:
        """Return what a store keeps of its messages, or None when that is all of them."""
        assert self._config is not None
        entries = read_entries(stored, self._format)
        retained = apply_retention(entries, self._config)
        return self._format.write(retained) if retained != entries else None


def _load_latest(entries: Entries, limit: int | None) -> list[ConversationEntry]:
    if limit is None or len(entries) <= limit:
        return list(entries)
    loaded = {index for index, one in enumerate(entries) if one.role is MessageRole.SYSTEM}
    for unit in pair(entries):
        indexes = [index for index in unit.indexes if index >= 0]
        if unit.start >= len(entries) - limit or any(entries[index].pinned for index in indexes):
            loaded.update(indexes)
    return [entries[index] for index in sorted(loaded)]


def _keep_words(entries: Entries, start: int) -> list[ConversationEntry]:
    """Return everything, older turns without calls and results and without ``tools_used``."""
    words = list(entries)
    for index in find_reducible(entries, start):
        words[index] = _drop_tools_used(words[index])
    return keep_words(words, start)


def _trim(entries: Entries, start: int) -> list[ConversationEntry]:
    """Return everything, calls and results of older turns reduced to names and outcomes."""
    outcomes, trimmed = _read_outcomes(entries), list(entries)
    for index in find_reducible(entries, start):
        entry = _drop_tools_used(entries[index])
        calls = tuple(replace(call, arguments="{}") for call in entry.tool_calls or ())
        if index in outcomes:
            entry = _trim_result(entry, outcomes[index])
        elif calls and calls != entry.tool_calls:
            entry = entry.evolve(tool_calls=calls, action="cleared", reason=_OLDER)
        trimmed[index] = entry
    return trimmed


def _drop_tools_used(entry: ConversationEntry) -> ConversationEntry:
    metadata = dict(entry.metadata or {})
    if TOOLS_USED not in metadata:
        return entry
    del metadata[TOOLS_USED]
    return entry.evolve(metadata=metadata, action="cleared", reason=_OLDER)


def _read_outcomes(entries: Entries) -> dict[int, dict[str, str]]:
    """Return the tool and the status of each result, by its position."""
    names = {
        index: call.name
        for unit in pair(entries)
        for index, call in zip(unit.indexes[1:], unit.head.tool_calls or (), strict=True)
    }
    names |= {index: entry.tool_name for index, entry in enumerate(entries) if entry.tool_name}
    return {
        index: {"name": names.get(index) or "tool", "status": entry.status or "success"}
        for index, entry in enumerate(entries)
        if entry.role is MessageRole.TOOL
    }


def _trim_result(entry: ConversationEntry, outcome: dict[str, str]) -> ConversationEntry:
    text = entry.content or ""
    # Trimmed before, also where the store lost the status since.
    if text.startswith('{"name": ') and (parse_object(text) or {}).keys() == {"name", "status"}:
        return entry
    content = json.dumps(outcome, ensure_ascii=False)
    fate = {"truncated": True, "original_length": len(text), "action": "cleared"}
    return entry.evolve(content=content, parts=None, **fate, reason=_OLDER)


def _log(step: str, before: Sequence[Any], after: Sequence[Any], preserved: int) -> None:
    trimmed, left_out = len(set(map(id, after)) - set(map(id, before))), len(before) - len(after)
    text = "retention (%s): %d entries, %d preserved, %d trimmed, %d left out"
    logger.info(text, step, len(before), preserved, trimmed, left_out)


@lru_cache(maxsize=256)
def _warn_once(store: str) -> None:
    text = "%s cannot edit messages in place and keeps everything: retention applies to reading. "
    text += "Fix: a SQL store, if less should be stored."
    logger.warning(text, store)
