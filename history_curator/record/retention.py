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
from history_curator.managers.select import find_reducible, keep_words, start_of_turns
from history_curator.record.outbox import WriteBehind
from history_curator.run_steps import Steps
from history_curator.units import pair

logger = logging.getLogger("history_curator.retention")

TOOLS_USED = "tools_used"
"""A key under which applications keep the tool details of an answer in the answer itself."""
_OLDER = "tool details of an older turn"


def apply_retention(
    entries: Sequence[ConversationEntry], config: RetentionConfig
) -> list[ConversationEntry]:
    """Return what a store should hold of these entries.

    Preserved turns, pinned entries, exchanges that wait for a result and exchanges that reach into
    a preserved turn are returned as they are. In older turns ``full`` changes nothing, ``trimmed``
    reduces every result to ``{name, status}`` and every call to its id and name, and ``none``
    leaves the words. Applying it again changes nothing.
    """
    start = find_preserved(entries, config)
    mode = config.persist_tool_invocations
    stored = list(entries)
    if mode == "trimmed":
        stored = _trim(entries, start)
    elif mode == "none":
        stored = _keep_words(entries, start)
    _log(f"persist, {mode}", entries, stored, len(entries) - start)
    return stored


def build_context(messages: Sequence[Any], preserve_turns: int | RetentionConfig = 2) -> list[Any]:
    """Return messages for the model: the latest turns whole, of older ones only the words.

    Messages of any format, or entries, come back as what they were. No result is left without its
    call, however late it arrived. With a `RetentionConfig` no more than `max_loaded_messages` are
    returned, but for system and pinned ones; with `prune_tools_for_llm` off only that applies.
    """
    config = preserve_turns
    if not isinstance(config, RetentionConfig):
        config = RetentionConfig(preserve_turns=config)
    message_format = find_format(messages)
    entries = read_entries(messages, message_format)
    loaded = _load_latest(entries, config.max_loaded_messages)
    start = find_preserved(loaded, config)
    context = _keep_words(loaded, start) if config.prune_tools_for_llm else loaded
    _log("load", entries, context, len(loaded) - start)
    return message_format.write(context)


def load_messages(
    thread_id: Any,
    limit: int | None = None,
    *,
    service: Callable[[Any], Sequence[Any]] | None = None,
) -> list[Any]:
    """Return the latest messages of a stored conversation, oldest first, for `build_context`.

    `service` returns the messages of a thread. Where there is none, or it fails, the history is
    empty: a missing database does not stop the conversation. No result is loaded without its call.
    """
    try:
        messages = [] if service is None else list(service(thread_id))
    except Exception as error:  # noqa: BLE001 - whatever the driver raises
        text = "the history of a thread cannot be read (%s): the conversation starts empty"
        logger.warning(text, type(error).__name__)
        messages = []
    message_format = find_format(messages)
    loaded = _load_latest(read_entries(messages, message_format), limit)
    return message_format.write(loaded)


def list_tools_used(messages: Sequence[Any]) -> list[dict[str, str]]:
    """Return ``{name, status}`` of every tool result: what a ``done`` event may tell a client.

    Examples:
        >>> call = {"id": "c1", "function": {"name": "look_up", "arguments": '{"key": "secret"}'}}
        >>> messages = [{"role": "assistant", "tool_calls": [call]}]
        >>> messages += [{"role": "tool", "tool_call_id": "c1", "content": "secret"}]
        >>> list_tools_used(messages)
        [{'name': 'look_up', 'status': 'success'}]
    """
    entries = read_entries(messages)
    names = _name_results(entries)
    return [
        _outcome_of(entry, names.get(index))
        for index, entry in enumerate(entries)
        if entry.role is MessageRole.TOOL
    ]


def find_preserved(entries: Sequence[ConversationEntry], config: RetentionConfig) -> int:
    """Return the position of the first entry whose tool details are kept.

    Without `preserve_tools_for_latest_turns` that is where the turn still being answered starts,
    because a model cannot continue an exchange whose calls were taken away.
    """
    turns = config.preserve_turns if config.preserve_tools_for_latest_turns else 0
    return start_of_turns(entries, turns)


class Retention:
    """Applies retention to one stored conversation, when a turn grows old.

    Turns that were missed, in an outage for instance, show when the record is read, and are dealt
    with when the next message is added. The `config` None keeps everything. A store that cannot be
    edited (`edits_store` False) keeps everything as well, and a warning names the kind of `store`.
    """

    def __init__(
        self,
        message_format: MessageFormat,
        config: RetentionConfig | None,
        *,
        store: object,
        edits_store: bool,
    ) -> None:
        self._format, self._config = message_format, config
        trims = config is not None and config.persist_tool_invocations != "full"
        self._edits_store = trims and edits_store
        self._is_due = False
        if trims and not edits_store:
            _warn_once(type(store).__name__)

    def add(self, buffer: WriteBehind[Any], messages: Sequence[Any]) -> Steps[None]:
        """Add messages to a store, and have it keep of older turns what it should."""
        is_stored = yield from buffer.add(messages)
        if self._edits_store:
            self._is_due = self._is_due or self._ages_turn(messages)
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

    def _ages_turn(self, messages: Sequence[Any]) -> bool:
        """Whether a turn may grow old when these messages are added."""
        assert self._config is not None
        entries = read_entries(messages, self._format)
        is_over = find_preserved(entries, self._config) > 0
        return is_over or any(entry.is_real_user for entry in entries)


def _load_latest(
    entries: Sequence[ConversationEntry], limit: int | None
) -> list[ConversationEntry]:
    if limit is None or len(entries) <= limit:
        return list(entries)
    loaded = {index for index, one in enumerate(entries) if one.role is MessageRole.SYSTEM}
    for unit in pair(entries):
        indexes = [index for index in unit.indexes if index >= 0]
        if unit.start >= len(entries) - limit or any(entries[index].pinned for index in indexes):
            loaded.update(indexes)
    return [entries[index] for index in sorted(loaded)]


def _keep_words(entries: Sequence[ConversationEntry], start: int) -> list[ConversationEntry]:
    """Return everything, older turns without calls and results and without ``tools_used``."""
    words = list(entries)
    for index in find_reducible(entries, start):
        words[index] = _drop_tools_used(words[index])
    return keep_words(words, start)


def _trim(entries: Sequence[ConversationEntry], start: int) -> list[ConversationEntry]:
    """Return everything, calls and results of older turns reduced to names and outcomes."""
    names = _name_results(entries)
    trimmed = list(entries)
    for index in find_reducible(entries, start):
        entry = _drop_tools_used(entries[index])
        calls = tuple(replace(call, arguments="{}") for call in entry.tool_calls or ())
        if entry.role is MessageRole.TOOL:
            entry = _trim_result(entry, names.get(index))
        elif calls and calls != entry.tool_calls:
            entry = entry.evolve(tool_calls=calls, action="cleared", reason=_OLDER)
        trimmed[index] = entry
    return trimmed


def _drop_tools_used(entry: ConversationEntry) -> ConversationEntry:
    if TOOLS_USED not in (entry.metadata or {}):
        return entry
    metadata = {key: value for key, value in (entry.metadata or {}).items() if key != TOOLS_USED}
    return entry.evolve(metadata=metadata, action="cleared", reason=_OLDER)


def _name_results(entries: Sequence[ConversationEntry]) -> dict[int, str]:
    """Return the tool of each result that answers a call, by its position."""
    return {
        index: call.name
        for unit in pair(entries)
        for index, call in zip(unit.indexes[1:], unit.head.tool_calls or (), strict=True)
    }


def _outcome_of(result: ConversationEntry, tool_name: str | None) -> dict[str, str]:
    name = result.tool_name or tool_name or "tool"
    return {"name": name, "status": result.status or "success"}


def _trim_result(entry: ConversationEntry, tool_name: str | None) -> ConversationEntry:
    text = entry.content or ""
    # Trimmed before, also where the store lost the status since.
    if text.startswith('{"name": ') and (parse_object(text) or {}).keys() == {"name", "status"}:
        return entry
    return entry.evolve(
        content=json.dumps(_outcome_of(entry, tool_name), ensure_ascii=False),
        parts=None,
        truncated=True,
        original_length=len(text),
        action="cleared",
        reason=_OLDER,
    )


def _log(step: str, before: Sequence[Any], after: Sequence[Any], preserved: int) -> None:
    known = set(map(id, before))
    trimmed, left_out = sum(id(entry) not in known for entry in after), len(before) - len(after)
    text = "retention (%s): %d entries, %d preserved, %d trimmed, %d left out"
    logger.info(text, step, len(before), preserved, trimmed, left_out)


@lru_cache(maxsize=256)
def _warn_once(store: str) -> None:
    logger.warning(
        "%s cannot edit messages in place: retention applies to what is read. Fix: pass "
        "rewrite=True if nothing else writes to this conversation and a crash may lose it.",
        store,
    )
