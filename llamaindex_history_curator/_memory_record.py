"""The record: everything said, in any chat store, whether it is up or down."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY, BaseChatStoreMemory
from llama_index.core.storage.chat_store import SimpleChatStore

from history_curator.errors import ConfigurationError, ConversionError
from history_curator.record.resilience import WriteBehind
from history_curator.config import RetentionConfig
from history_curator.integrations import Ask, Body, Retention, adrive, drive
from llamaindex_history_curator._format import DIALECT, copy_message
from llamaindex_history_curator._rows import message_to_dict
from llamaindex_history_curator._store import (
    check_store,
    open_store,
    pruner,
    replaces_at_once,
    with_id,
    without_id,
)

_STORED = frozenset(("chat_store", "chat_store_key", "retention", "rewrite"))


class Replaced(NamedTuple):
    """What one `CuratedMemory.set` took out of the record.

    Examples:
        >>> from datetime import datetime, timezone
        >>> lost = Replaced(datetime.now(timezone.utc), (ChatMessage("hi"),))
        >>> len(lost.messages)
        1
    """

    at: datetime
    messages: tuple[ChatMessage, ...]


class RecordMemory(BaseChatStoreMemory):
    """The writing half of a memory: put, set, reset, and everything back.

    Stores copies and returns copies. Safe to share between threads and tasks. In a database a
    message is stored with an id, given when it is put; what is returned has none. A field that is
    assigned holds from then on: another `chat_store_key` is another conversation.
    """

    chat_store: Any = Field(default_factory=SimpleChatStore, exclude=True, repr=False)
    chat_store_key: str = DEFAULT_CHAT_STORE_KEY
    retention: RetentionConfig | None = None
    rewrite: bool = False

    _buffer: WriteBehind[ChatMessage] = PrivateAttr()
    _mirror: list[ChatMessage] | None = PrivateAttr(default=None)
    _replaced: list[Replaced] = PrivateAttr(default_factory=list)
    _kept: Retention = PrivateAttr()
    _ready: bool = PrivateAttr(default=False)

    def model_post_init(self, context: Any, /) -> None:
        """Open the store."""
        super().model_post_init(context)
        self._open_store()

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in type(self).model_fields or not self._ready:
            super().__setattr__(name, value)
            return
        if name in _STORED and self._buffer.pending and not self._buffer.flush():
            raise ConfigurationError(
                f"{name}: {len(self._buffer.pending)} messages still wait for the chat store, "
                "which is down. Fix: assign it when `degraded` is False."
            )
        before = self.__dict__[name]
        super().__setattr__(name, value)
        try:
            self._changed(name)
        except Exception:
            self.__dict__[name] = before
            raise

    def _changed(self, name: str) -> None:
        """Make what was assigned hold."""
        if name in ("chat_store", "chat_store_key"):
            self._mirror, self._replaced = None, []
        if name in _STORED:
            self._open_store()

    def _open_store(self) -> None:
        check_store(self.chat_store)
        prune = None
        if self.retention is not None:
            prune = pruner(self.chat_store, self.chat_store_key, self.retention)
        self._kept = Retention(
            DIALECT,
            self.retention,
            store=type(self.chat_store).__name__,
            in_place=prune is not None,
            rewrites=self.rewrite or replaces_at_once(self.chat_store),
            shadow=self._shadow,
        )
        self._buffer = open_store(
            self.chat_store, self.chat_store_key, stamp=self._stamp, prune=prune
        )

    @property
    def session_id(self) -> str:
        """Which conversation of the store: `chat_store_key`, by the name `Memory` has for it."""
        return self.chat_store_key

    @session_id.setter
    def session_id(self, value: str) -> None:
        self.chat_store_key = value

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
        drive(self._put(messages))

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages to the record, all at once."""
        await adrive(self._put(messages))

    def set(self, messages: list[ChatMessage]) -> None:
        """Replace the record. What is lost by it can be found in `replaced`."""
        drive(self._set(messages))

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replace the record. What is lost by it can be found in `replaced`."""
        await adrive(self._set(messages))

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
        return list(map(handed_out, messages))

    def _noted(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        fresh = list(map(without_id, _checked(messages)))
        if not self._is_at_hand and self._mirror is not None:
            self._mirror = [*self._mirror, *fresh]
        return fresh

    @property
    def _shadow(self) -> bool:
        return getattr(getattr(self, "curator", None), "mode", None) == "shadow"

    def _stamp(self, message: ChatMessage) -> ChatMessage:
        # A dict cannot fail halfway, and shadow stores what it is given.
        return message if self._is_at_hand or self._shadow else with_id(message)

    # Inside: each body is written once, and driven in sync and async code.

    def _put(self, messages: Sequence[ChatMessage]) -> Body[None]:
        aged = yield from self._kept.add(self._buffer, self._noted(messages))
        if aged != 0 and self._mirror is not None:
            self._mirror = self._kept.retained(self._mirror, aged) or self._mirror

    def _set(self, messages: Sequence[ChatMessage]) -> Body[None]:
        buffer, fresh = self._buffer, _checked(messages)
        if not (yield Ask(buffer.rewrite, buffer.arewrite, (self._swap(fresh),))):
            yield Ask(buffer.clear, buffer.aclear)
            yield Ask(buffer.add, buffer.aadd, (fresh,))
        self._mirror = fresh[:]

    def _swap(self, fresh: list[ChatMessage]) -> Callable[[list[ChatMessage]], list[ChatMessage]]:
        def change(stored: list[ChatMessage]) -> list[ChatMessage]:
            lost = _missing(stored, fresh)
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
            return list(map(without_id, self._mirror))
        return list(map(without_id, self._buffer.read()))

    @property
    def _is_at_hand(self) -> bool:
        return isinstance(self.chat_store, SimpleChatStore)


def handed_out(message: ChatMessage) -> ChatMessage:
    """Return what is given out of a stored message: a copy, as it was before it was stored."""
    return copy_message(without_id(message))


def _checked(messages: Sequence[Any]) -> list[ChatMessage]:
    """Return copies of messages, and refuse anything else before it is stored."""
    for index, message in enumerate(messages):
        if not isinstance(message, ChatMessage):
            raise ConversionError(
                f"expected a ChatMessage, got {type(message).__name__}.",
                index=index,
                fix='put ChatMessage(role="user", content=…).',
            )
    return list(map(copy_message, messages))


def _missing(stored: Sequence[ChatMessage], fresh: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return the stored messages that the fresh ones do not hold, in order."""
    stored = [without_id(message) for message in stored]
    if list(fresh[: len(stored)]) == stored:
        return []
    there = Counter(map(_identity, fresh))
    lost = []
    for message in stored:
        key = _identity(message)
        if there[key]:
            there[key] -= 1
        else:
            lost.append(message)
    return lost


def _identity(message: ChatMessage) -> str:
    return json.dumps(message_to_dict(message), sort_keys=True)
