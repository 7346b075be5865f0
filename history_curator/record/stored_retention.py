"""The record in somebody else's store: read as entries, and kept as retention says."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

from history_curator.config import RetentionConfig
from history_curator.entries import ConversationEntry
from history_curator.formats import MessageFormat
from history_curator.record.resilience import WriteBehind
from history_curator.record.retention import (
    aged_by,
    apply_retention,
    build_context,
    latest_turns,
)
from history_curator.run_steps import Call as Ask
from history_curator.run_steps import Steps as Body

logger = logging.getLogger("history_curator.retention")


def entries_of(format: MessageFormat, messages: Iterable[Any]) -> list[ConversationEntry]:
    """Return messages as entries."""
    return [
        entry for index, message in enumerate(messages) for entry in format.read(message, index)
    ]


class Retention:
    """What retention has to do in one stored conversation, and when.

    A turn is dealt with when it grows old, looking at nothing before it. What was missed (an
    outage, a result that came late, turns stored before retention was on) shows when the record
    is read, and is dealt with when the next message is added.

    Args:
        format: reads and writes the messages.
        config: what to keep; None keeps everything.
        store: the kind of store, for the log line that says it is left alone.
        in_place: whether the store edits what it holds.
        rewrites: whether the store may be rewritten otherwise.
        shadow: whether everything is only reported: the store is left alone.

    Examples:
        >>> from history_curator.formats import DictFormat
        >>> from history_curator.run_steps import run_sync as drive
        >>> config = RetentionConfig(persist_tool_invocations="none")
        >>> kept = Retention(DictFormat(), config, store="list", rewrites=True)
        >>> rows = []
        >>> outbox = WriteBehind(lambda: list(rows), rows.extend)
        >>> drive(kept.add(outbox, [{"role": "user", "content": "next"}]))
        1
        >>> drive(kept.add(outbox, [{"role": "assistant", "content": "answer"}]))
        0
    """

    def __init__(
        self,
        format: MessageFormat,
        config: RetentionConfig | None,
        *,
        store: str,
        in_place: bool = False,
        rewrites: bool = False,
        shadow: bool = False,
    ) -> None:
        self._format = format
        self._config = RetentionConfig() if config is None else config
        self._asked = config is not None and not shadow
        self._trims = config is not None and config.persist_tool_invocations != "full"
        self._in_place = in_place
        self._stores = self._trims and (in_place or rewrites) and not shadow
        self._behind = False
        if self._trims and not self._stores and not shadow:
            _log_view_only(store)

    def add(self, buffer: WriteBehind[Any], messages: Sequence[Any]) -> Body[int | None]:
        """Add messages to a store, and have it keep of older turns what it should.

        Returns how many turns that was: 0 where nothing is due or the store could not, None where
        all of them were looked at.
        """
        stored = yield Ask(buffer.add, buffer.aadd, (messages,))
        aged = self._aged(messages, stored=stored)
        if aged == 0:
            return 0
        if self._in_place:
            done = yield Ask(buffer.edit, buffer.aedit, (aged,))
        else:
            change = partial(self.retained, aged=aged)
            done = yield Ask(buffer.rewrite, buffer.arewrite, (change,))
        self._behind = not done
        return aged if done else 0

    def context(self, messages: list[Any]) -> list[Any]:
        """Return what is handed on towards the model of a record that was read."""
        if not self._asked or not messages:
            return messages
        entries = entries_of(self._format, messages)
        if self._trims:
            kept = apply_retention(entries, self._config)
            self._behind = self._stores and kept != entries
            entries = kept
        return self._format.write(build_context(entries, self._config))

    def retained(self, stored: Sequence[Any], aged: int | None) -> list[Any] | None:
        """Return what a store keeps of its messages, or None when that is all of them."""
        if aged is None:
            entries, older = entries_of(self._format, stored), 0
        else:
            tail = latest_turns(
                reversed(stored), lambda one: self._format.read(one, 0), self._config, aged=aged
            )
            entries = [entry for _, some in tail for entry in some]
            older = len(stored) - len(tail)
        kept = apply_retention(entries, self._config, whole=aged is None)
        return [*stored[:older], *self._format.write(kept)] if kept != entries else None

    def _aged(self, messages: Sequence[Any], *, stored: bool) -> int | None:
        """How many turns to look at after these were added: 0 is none, None is all."""
        if not self._stores:
            return 0
        if not stored:
            self._behind = True
            return 0
        return None if self._behind else aged_by(entries_of(self._format, messages), self._config)


@lru_cache(maxsize=256)
def _log_view_only(store: str) -> None:
    """Say, once per kind of store, that retention leaves the store alone."""
    logger.warning(
        "%s cannot edit messages in place: retention applies to what is read, and the store keeps "
        "everything. Fix: pass rewrite=True if nothing else writes to this conversation and a "
        "crash may lose it.",
        store,
    )


def prune_connection(
    connection: Any, table: Any, session_id: str, retention: RetentionConfig, aged: int | None
) -> bool:
    """Apply retention to the rows of one conversation, in a transaction that is open.

    `aged` is how many turns grew old; None looks at all of them. Returns whether anything changed.
    """
    from history_curator.record.prune import prune_session

    opened = SimpleNamespace(begin=lambda: nullcontext(connection))
    decisions = prune_session(opened, table, session_id, retention, aged=aged)
    return any(decision.action != "unreadable" for decision in decisions)
