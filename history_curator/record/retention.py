"""Retention: what a store keeps of older turns, and what is loaded of them for the model.

`apply_retention` and `build_context` work on entries, `Retention` on a framework's store behind an
outbox. Turns and exchanges are the curator's: a tool result inside a user message is a result, not
a turn, and a result that comes after queued user messages still belongs to its call.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar

from history_curator.config import RetentionConfig
from history_curator.entries import ConversationEntry, MessageRole, ToolCall
from history_curator.formats import MessageFormat, parse_object, read_entries
from history_curator.managers import is_answered, start_of_turns
from history_curator.record.outbox import WriteBehind
from history_curator.run_steps import Call, Steps
from history_curator.units import pair

T = TypeVar("T")

logger = logging.getLogger("history_curator.retention")


def apply_retention(
    entries: Sequence[ConversationEntry], config: RetentionConfig, *, whole: bool = True
) -> list[ConversationEntry]:
    """Return what a store should hold of these entries.

    Preserved turns, pinned entries, exchanges that wait for a result and exchanges that reach into
    a preserved turn are returned as they are. In older turns ``full`` changes nothing, ``trimmed``
    reduces every result to ``{name, status}`` and every call to its id and name, and ``none``
    leaves the words: words beside a call join the answer that follows them. Where no answer
    follows, or user messages would stand side by side, an exchange is kept trimmed. Messages that satisfied
    a provider's rules satisfy them afterwards, and applying it again changes nothing.

    `whole` is False when these are only the latest entries of a longer conversation; results whose
    call is not among them are then left alone.
    """
    start = preserved_from(entries, config)
    mode = config.persist_tool_invocations
    stored = list(entries)
    if mode == "trimmed":
        stored = OlderTurns(entries, start, whole=whole).trim()
    elif mode == "none":
        stored = OlderTurns(entries, start, whole=whole).keep_words()
    _log(f"persist, {mode}", entries, stored, len(entries) - start)
    return stored


def build_context(
    entries: Sequence[ConversationEntry], config: RetentionConfig
) -> list[ConversationEntry]:
    """Return the latest `max_loaded_messages` entries, older turns without their tool details.

    System and pinned entries are always kept. No result is left without its call, however late it
    arrived. With `prune_tools_for_llm` off only the limit applies.
    """
    loaded = _latest_entries(entries, config.max_loaded_messages)
    start = preserved_from(loaded, config)
    context = loaded
    if config.prune_tools_for_llm:
        context = OlderTurns(loaded, start, whole=True).keep_words()
    _log("load", entries, context, len(loaded) - start)
    return context


def preserved_from(entries: Sequence[ConversationEntry], config: RetentionConfig) -> int:
    """Return the position of the first entry whose tool details are kept.

    Without `preserve_tools_for_latest_turns` that is where the turn still being answered starts,
    because a model cannot continue an exchange whose calls were taken away.
    """
    return start_of_turns(entries, _preserved_turns(config))


def latest_turns(
    newest_first: Iterable[T],
    read: Callable[[T], Sequence[ConversationEntry]],
    config: RetentionConfig,
    aged: int,
) -> list[tuple[T, Sequence[ConversationEntry]]]:
    """Return the end of a conversation, oldest first: preserved turns and the `aged` ones before.

    However long the conversation is, messages or rows before them are not read.
    """
    turns = max(1, _preserved_turns(config)) + aged
    found: list[tuple[T, Sequence[ConversationEntry]]] = []
    for item in newest_first:
        entries = read(item)
        found.append((item, entries))
        turns -= sum(entry.is_real_user for entry in entries)
        if turns <= 0:
            break
    return found[::-1]


def entries_of(message_format: MessageFormat, messages: Iterable[Any]) -> list[ConversationEntry]:
    """Return messages as entries."""
    return read_entries(messages, message_format)


class Retention:
    """Applies retention to one stored conversation, when a turn grows old.

    It looks at that turn and the preserved ones only. Turns that were missed, in an outage for
    instance, show when the record is read, and are dealt with when the next message is added.

    The `config` None keeps everything, and so does `shadow`. `store` names the kind of store for
    the log, `in_place` says that it edits what it holds, `rewrites` that it may be rewritten.
    """

    def __init__(
        self,
        message_format: MessageFormat,
        config: RetentionConfig | None,
        *,
        store: str,
        in_place: bool = False,
        rewrites: bool = False,
        shadow: bool = False,
    ) -> None:
        self._format = message_format
        self._config = config or RetentionConfig()
        self._is_on = config is not None and not shadow
        self._trims = self._is_on and self._config.persist_tool_invocations != "full"
        self._in_place = in_place
        self._edits_store = self._trims and (in_place or rewrites)
        self._is_behind = False
        if self._trims and not self._edits_store:
            _log_view_only(store)

    def add(self, buffer: WriteBehind[Any], messages: Sequence[Any]) -> Steps[int | None]:
        """Add messages to a store, and have it keep of older turns what it should.

        Returns how many turns that was, or None where all of them were looked at.
        """
        stored = yield Call(buffer.add, buffer.aadd, (messages,))
        if not self._edits_store:
            return 0
        if not stored:
            self._is_behind = True
            return 0
        aged = None if self._is_behind else self._count_aged(messages)
        if aged == 0:
            return 0
        if self._in_place:
            done = yield Call(buffer.edit, buffer.aedit, (aged,))
        else:
            change = partial(self.reduce_stored, aged=aged)
            done = yield Call(buffer.rewrite, buffer.arewrite, (change,))
        self._is_behind = not done
        return aged if done else 0

    def context(self, messages: list[Any]) -> list[Any]:
        """Return the messages of a record that are handed on towards the model."""
        if not self._is_on or not messages:
            return messages
        entries = entries_of(self._format, messages)
        if self._trims:
            retained = apply_retention(entries, self._config)
            self._is_behind = self._edits_store and retained != entries
            entries = retained
        return self._format.write(build_context(entries, self._config))

    def reduce_stored(self, stored: Sequence[Any], aged: int | None) -> list[Any] | None:
        """Return what a store keeps of its messages, or None when that is all of them."""
        if aged is None:
            entries, older = entries_of(self._format, stored), 0
        else:
            latest = latest_turns(
                reversed(stored), lambda one: self._format.read(one, 0), self._config, aged
            )
            entries = [entry for _, some in latest for entry in some]
            older = len(stored) - len(latest)
        retained = apply_retention(entries, self._config, whole=aged is None)
        return [*stored[:older], *self._format.write(retained)] if retained != entries else None

    def _count_aged(self, messages: Sequence[Any]) -> int:
        """Return how many turns grow old when these messages are added."""
        entries = entries_of(self._format, messages)
        turns = sum(entry.is_real_user for entry in entries)
        if not turns and not _preserved_turns(self._config) and entries and is_answered(entries):
            return 1
        return turns


class OlderTurns:
    """The turns before a position of a conversation, and what is left of them."""

    def __init__(self, entries: Sequence[ConversationEntry], start: int, *, whole: bool) -> None:
        self._entries, self._start = entries, start
        self._results_of: dict[int, list[int]] = {}  # finished exchanges: call -> results
        self._tool_names: dict[int, str | None] = {}  # their results, and those of no call
        paired: set[int] = set()
        for unit in pair(entries):
            if unit.kind == "exchange":
                names = [call.name for call in unit.head.tool_calls or ()]
                paired.update(unit.indexes)
                if -1 not in unit.indexes and all(map(self._is_older, unit.indexes)):
                    self._results_of[unit.start] = list(unit.indexes[1:])
                    self._tool_names.update(zip(unit.indexes[1:], names, strict=True))
        if whole:
            # A result that no call waits for, or that another one replaced.
            for index, entry in enumerate(entries[:start]):
                if entry.role is MessageRole.TOOL and index not in paired and not entry.pinned:
                    self._tool_names[index] = None

    def _is_older(self, index: int) -> bool:
        return index < self._start and not self._entries[index].pinned

    def trim(self) -> list[ConversationEntry]:
        """Return everything, finished exchanges reduced to names and outcomes."""
        return list(map(self._trim_entry, range(len(self._entries))))

    def keep_words(self) -> list[ConversationEntry]:
        """Return everything but the finished exchanges, of which only words stay."""
        left: dict[int, ConversationEntry] = {}
        calls: list[int] = []
        before: ConversationEntry | None = None
        for index, entry in enumerate(self._entries):
            if index in self._results_of:
                calls.append(index)
            elif index not in self._tool_names:
                left[index] = entry
                if entry.role is not MessageRole.SYSTEM:
                    self._leave_words(calls, before, index, left)
                    calls, before = [], entry
        self._leave_words(calls, before, None, left)
        return [left[index] for index in sorted(left)]

    def _leave_words(
        self,
        calls: Sequence[int],
        before: ConversationEntry | None,
        after: int | None,
        left: dict[int, ConversationEntry],
    ) -> None:
        """Add what is left of the exchanges between two entries."""
        is_answered = after is not None and self._entries[after].role is MessageRole.ASSISTANT
        speaking = [index for index in calls if _says_something(self._entries[index])]
        trimmed: Sequence[int] = speaking
        if not speaking and before is not None and before.role is MessageRole.USER:
            trimmed = [] if is_answered else calls[-1:]  # or two users would stand side by side
        elif speaking and after is not None and self._can_join(after, speaking):
            heads = [self._entries[index] for index in speaking]
            left[after], trimmed = _join_words(heads, self._entries[after]), []
        for call in trimmed:
            for index in (call, *self._results_of[call]):
                left[index] = self._trim_entry(index)

    def _can_join(self, index: int, speaking: Sequence[int]) -> bool:
        """Whether the words beside calls can join the words of the entry that follows."""
        answer = self._entries[index]
        is_answer = answer.role is MessageRole.ASSISTANT and not answer.tool_calls
        has_media = any(self._entries[one].has_media for one in (index, *speaking))
        return self._is_older(index) and is_answer and not has_media

    def _trim_entry(self, index: int) -> ConversationEntry:
        entry = self._entries[index]
        if index in self._results_of:
            return _trim_calls(entry)
        if index in self._tool_names:
            return _trim_result(entry, self._tool_names[index])
        return entry


def _preserved_turns(config: RetentionConfig) -> int:
    return config.preserve_turns if config.preserve_tools_for_latest_turns else 0


def _latest_entries(
    entries: Sequence[ConversationEntry], limit: int | None
) -> list[ConversationEntry]:
    if limit is None or len(entries) <= limit:
        return list(entries)
    start = len(entries) - limit
    loaded = {index for index, one in enumerate(entries) if one.role is MessageRole.SYSTEM}
    for unit in pair(entries):
        indexes = [index for index in unit.indexes if index >= 0]
        if unit.start >= start or any(entries[index].pinned for index in indexes):
            loaded.update(indexes)
    return [entries[index] for index in sorted(loaded)]


def _says_something(entry: ConversationEntry) -> bool:
    return entry.has_media or bool(entry.content and not entry.content.isspace())


def _join_words(heads: Sequence[ConversationEntry], answer: ConversationEntry) -> ConversationEntry:
    texts = [entry.content for entry in (*heads, answer) if entry.content]
    return answer.evolve(
        content="\n\n".join(text for text in texts if not text.isspace()),
        parts=None,
        action="merged",
        reason="joined with words beside calls of an older turn, which are not kept",
    )


def _trim_calls(entry: ConversationEntry) -> ConversationEntry:
    calls = tuple(
        call if call.arguments == "{}" else ToolCall(call.id, call.name, "{}", call.extra)
        for call in entry.tool_calls or ()
    )
    if calls == entry.tool_calls:
        return entry
    reason = "arguments of an older turn's calls are not kept"
    return entry.evolve(tool_calls=calls, action="cleared", reason=reason)


def _trim_result(entry: ConversationEntry, tool_name: str | None) -> ConversationEntry:
    text = entry.content or ""
    # Trimmed before, also where the store lost the status since.
    if text.startswith('{"name": ') and (parse_object(text) or {}).keys() == {"name", "status"}:
        return entry
    name = entry.tool_name or tool_name or "tool"
    return entry.evolve(
        content=json.dumps({"name": name, "status": entry.status or "success"}, ensure_ascii=False),
        parts=None,
        truncated=True,
        original_length=len(text),
        action="cleared",
        reason="results of older turns are kept as name and status",
    )


def _log(step: str, before: Sequence[Any], after: Sequence[Any], preserved: int) -> None:
    known = set(map(id, before))
    trimmed, left_out = sum(id(entry) not in known for entry in after), len(before) - len(after)
    text = "retention (%s): %d entries, %d preserved, %d trimmed, %d left out"
    logger.info(text, step, len(before), preserved, trimmed, left_out)


@lru_cache(maxsize=256)
def _log_view_only(store: str) -> None:
    """Say, once per kind of store, that retention leaves the store alone."""
    logger.warning(
        "%s cannot edit messages in place: retention applies to what is read. Fix: pass "
        "rewrite=True if nothing else writes to this conversation and a crash may lose it.",
        store,
    )
