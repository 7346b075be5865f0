"""The record: everything said, in any chat store, whether it is up or down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY, BaseMemory
from llama_index.core.storage.chat_store import SimpleChatStore

from history_curator.config import RetentionConfig
from history_curator.model import ConversationEntry
from history_curator.record.resilience import WriteBehind
from history_curator.record.retention import apply_retention, retention_due
from llamaindex_history_curator._audit import Replaced, missing
from llamaindex_history_curator._copies import copy_message
from llamaindex_history_curator._dialect import LlamaIndexDialect
from llamaindex_history_curator._store import open_store

__all__ = ["RecordMemory", "read_all"]

_DIALECT = LlamaIndexDialect()


class RecordMemory(BaseMemory):
    """The writing half of a memory: put, set, reset, and everything back.

    Stores copies and returns copies. Safe to share between threads and tasks.
    """

    chat_store: Any = Field(default_factory=SimpleChatStore, exclude=True, repr=False)
    chat_store_key: str = DEFAULT_CHAT_STORE_KEY
    retention: RetentionConfig | None = None

    _buffer: WriteBehind[ChatMessage] = PrivateAttr()
    _mirror: list[ChatMessage] | None = PrivateAttr(default=None)
    _replaced: list[Replaced] = PrivateAttr(default_factory=list)

    def model_post_init(self, context: Any, /) -> None:
        """Open the store."""
        super().model_post_init(context)
        self._buffer = open_store(self.chat_store, self.chat_store_key)

    def get_all(self) -> list[ChatMessage]:
        """Return the record: everything put and not reset, oldest first."""
        return self._copies(self._seen(self._buffer.read()))

    async def aget_all(self) -> list[ChatMessage]:
        """Return the record: everything put and not reset, oldest first."""
        return self._copies(self._seen(await self._buffer.aread()))

    # Writing.

    def put(self, message: ChatMessage) -> None:
        """Add one message to the record."""
        self.put_messages([message])

    async def aput(self, message: ChatMessage) -> None:
        """Add one message to the record."""
        await self.aput_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages to the record, all at once."""
        self._buffer.add(self._noted(messages))
        if self._prunes:
            self._buffer.rewrite(self._retain)

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages to the record, all at once."""
        await self._buffer.aadd(self._noted(messages))
        if self._prunes:
            await self._buffer.arewrite(self._retain)

    def set(self, messages: list[ChatMessage]) -> None:
        """Replace the record. What is lost by it can be found in `replaced`."""
        self._write(list(map(copy_message, messages)))

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replace the record. What is lost by it can be found in `replaced`."""
        fresh = list(map(copy_message, messages))
        if not await self._buffer.arewrite(self._swap(fresh)):
            await self._buffer.aclear()
            await self._buffer.aadd(fresh)
        self._mirror = fresh[:]

    def reset(self) -> None:
        """Forget everything, the audit of `set` included."""
        self._buffer.clear()
        self._forget()

    async def areset(self) -> None:
        """Forget everything, the audit of `set` included."""
        await self._buffer.aclear()
        self._forget()

    @property
    def replaced(self) -> tuple[Replaced, ...]:
        """What every `set` took out of the record, oldest first."""
        return tuple(self._replaced)

    @property
    def degraded(self) -> bool:
        """Whether the chat store failed the last time it was asked."""
        return self._buffer.degraded

    def _seen(self, messages: list[ChatMessage]) -> list[ChatMessage]:
        if not self._is_at_hand:
            self._mirror = messages
        return messages

    def _copies(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        return list(map(copy_message, messages))

    def _noted(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        fresh = self._copies(messages)
        if not self._is_at_hand and self._mirror is not None:
            self._mirror = [*self._mirror, *fresh]
        return fresh

    @property
    def _prunes(self) -> bool:
        return self.retention is not None and self.retention.persist_tool_invocations != "full"

    def _retain(self, stored: list[ChatMessage]) -> list[ChatMessage] | None:
        entries = read_all(stored)
        if self.retention is None or not retention_due(entries, self.retention):
            return None
        return _DIALECT.write(apply_retention(entries, self.retention))

    def _write(self, fresh: list[ChatMessage]) -> None:
        if not self._buffer.rewrite(self._swap(fresh)):
            self._buffer.clear()
            self._buffer.add(fresh)
        self._mirror = fresh[:]

    def _swap(self, fresh: list[ChatMessage]) -> Callable[[list[ChatMessage]], list[ChatMessage]]:
        def change(stored: list[ChatMessage]) -> list[ChatMessage]:
            lost = missing(stored, fresh)
            if lost:
                self._replaced.append(Replaced(datetime.now(timezone.utc), tuple(lost)))
            return fresh

        return change

    def _forget(self) -> None:
        self._replaced.clear()
        self._mirror = []

    def _snapshot(self) -> list[ChatMessage]:
        # A store that needs a loop is not asked: this runs inside the caller's loop.
        if not self._is_at_hand and self._mirror is not None:
            return self._mirror
        return self._buffer.read()

    @property
    def _is_at_hand(self) -> bool:
        return isinstance(self.chat_store, SimpleChatStore)


def read_all(messages: Sequence[ChatMessage]) -> list[ConversationEntry]:
    """Return the entries of messages."""
    return [
        entry for index, message in enumerate(messages) for entry in _DIALECT.read(message, index)
    ]
