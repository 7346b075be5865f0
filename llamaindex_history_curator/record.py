"""The record of a memory, in any chat store, and the settings that are saved with it."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY, BaseChatStoreMemory
from llama_index.core.storage.chat_store import SimpleChatStore

from history_curator.config import CuratorConfig, CuratorFields, RetentionConfig
from history_curator.curator import Curator
from history_curator.errors import ConfigurationError, ConversionError
from history_curator.integrations import ConfigSource
from history_curator.record.outbox import WriteBehind
from history_curator.record.retention import Retention
from history_curator.run_steps import Call, Steps, run_async, run_sync
from llamaindex_history_curator._rows import copy_message, message_from_dict, message_to_dict
from llamaindex_history_curator.chat_store import (
    check_chat_store,
    make_pruner,
    open_conversation,
    replaces_in_one_step,
    with_id,
    without_id,
)
from llamaindex_history_curator.messages import FORMAT
from llamaindex_history_curator.models import make_curator

_SAVED_OPTIONS = frozenset((*CuratorFields.model_fields, "name")) - {
    "max_tokens",
    "counter",
    "provider",
}
_STORE_FIELDS = frozenset(("chat_store", "chat_store_key", "retention", "rewrite"))


class Replaced(NamedTuple):
    """The messages that one `CuratedMemory.set` took out of the record.

    Examples:
        >>> from datetime import datetime, timezone
        >>> lost = Replaced(datetime.now(timezone.utc), (ChatMessage("hi"),))
        >>> len(lost.messages)
        1
    """

    at: datetime
    messages: tuple[ChatMessage, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"at": self.at.isoformat(), "messages": list(map(message_to_dict, self.messages))}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Replaced:
        """Return the object that `to_dict` wrote."""
        messages = tuple(map(message_from_dict, data["messages"]))
        return cls(datetime.fromisoformat(data["at"]), messages)


class RecordMemory(BaseChatStoreMemory):
    """The writing half of a memory: put, set, reset, and everything back.

    Stores copies and returns copies. In a database a message is stored with an id, given when it
    is put; messages that are returned have none. A field that is assigned holds from then on:
    another `chat_store_key` is another conversation.
    """

    chat_store: Any = Field(default_factory=SimpleChatStore, exclude=True, repr=False)
    chat_store_key: str = DEFAULT_CHAT_STORE_KEY
    retention: RetentionConfig | None = None
    rewrite: bool = False

    _conversation: WriteBehind[ChatMessage] = PrivateAttr()
    _retention: Retention = PrivateAttr()
    _replaced: list[Replaced] = PrivateAttr(default_factory=list)
    _is_open: bool = PrivateAttr(default=False)

    def model_post_init(self, context: Any, /) -> None:
        """Open the store."""
        super().model_post_init(context)
        self._open_store()
        self._is_open = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in type(self).model_fields or not self._is_open:
            super().__setattr__(name, value)
            return
        waiting = self._conversation.pending if name in _STORE_FIELDS else ()
        if waiting and not self._conversation.flush():
            raise ConfigurationError(
                f"{name}: {len(waiting)} messages still wait for the chat store, which is down. "
                "Fix: assign it when `degraded` is False."
            )
        before = dict(self.__dict__)
        super().__setattr__(name, load_retention(value) if name == "retention" else value)
        try:
            self._apply(name)
        except Exception:
            self.__dict__.update(before)
            raise

    def _apply(self, name: str) -> None:
        """Make a field that was assigned hold."""
        if name in _STORE_FIELDS:
            self._open_store()
        if name in ("chat_store", "chat_store_key"):
            self._replaced = []

    def _open_store(self) -> None:
        store = check_chat_store(self.chat_store)
        prune = None
        if self.retention is not None:
            prune = make_pruner(store, self.chat_store_key, self.retention)
        self._retention = Retention(
            FORMAT,
            self.retention,
            store=type(store).__name__,
            in_place=prune is not None,
            rewrites=self.rewrite or replaces_in_one_step(store),
            shadow=self._is_shadow,
        )
        self._conversation = open_conversation(store, self.chat_store_key, self._stamp, prune)

    @property
    def session_id(self) -> str:
        """The conversation of the store: `chat_store_key`, by the name `Memory` has for it."""
        return self.chat_store_key

    @session_id.setter
    def session_id(self, value: str) -> None:
        self.chat_store_key = value

    def get_all(self) -> list[ChatMessage]:
        """Return the record: everything put and not reset, oldest first."""
        return list(map(hand_out, self._conversation.read()))

    async def aget_all(self) -> list[ChatMessage]:
        """Return the record: everything put and not reset, oldest first."""
        return list(map(hand_out, await self._conversation.aread()))

    def put(self, message: ChatMessage) -> None:
        """Add one message to the record."""
        self.put_messages([message])

    async def aput(self, message: ChatMessage) -> None:
        """Add one message to the record."""
        await self.aput_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages to the record, all at once."""
        run_sync(self._retention.add(self._conversation, _take_in(messages)))

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages to the record, all at once."""
        await run_async(self._retention.add(self._conversation, _take_in(messages)))

    def set(self, messages: list[ChatMessage]) -> None:
        """Replace the record. The messages lost by it can be found in `replaced`."""
        run_sync(self._set(messages))

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replace the record. The messages lost by it can be found in `replaced`."""
        await run_async(self._set(messages))

    def reset(self) -> None:
        """Forget everything, the audit of `set` included."""
        self._conversation.clear()
        self._replaced.clear()

    async def areset(self) -> None:
        """Forget everything, the audit of `set` included."""
        await self._conversation.aclear()
        self._replaced.clear()

    def _set(self, messages: Sequence[ChatMessage]) -> Steps[None]:
        conversation, fresh = self._conversation, _take_in(messages)

        def change(stored: list[ChatMessage]) -> list[ChatMessage]:
            lost = _missing_from(fresh, list(map(without_id, stored)))
            if lost:
                self._replaced.append(Replaced(datetime.now(timezone.utc), tuple(lost)))
            return fresh

        if not (yield Call(conversation.rewrite, conversation.arewrite, (change,))):
            yield Call(conversation.clear, conversation.aclear)
            yield Call(conversation.add, conversation.aadd, (fresh,))

    @property
    def replaced(self) -> tuple[Replaced, ...]:
        """The messages that every `set` took out of the record, oldest first."""
        return tuple(self._replaced)

    @property
    def degraded(self) -> bool:
        """Whether the chat store failed the last time it was asked."""
        return self._conversation.degraded

    @property
    def _is_shadow(self) -> bool:
        return getattr(getattr(self, "curator", None), "mode", None) == "shadow"

    def _stamp(self, message: ChatMessage) -> ChatMessage:
        # A dict cannot fail halfway, and shadow stores what it is given.
        is_plain = isinstance(self.chat_store, SimpleChatStore) or self._is_shadow
        return message if is_plain else with_id(message)


def hand_out(message: ChatMessage) -> ChatMessage:
    """Return a copy of a stored message, as it was before it was stored."""
    return copy_message(without_id(message))


def _take_in(messages: Sequence[Any]) -> list[ChatMessage]:
    """Return copies of messages, and refuse anything else before it is stored."""
    for index, message in enumerate(messages):
        if not isinstance(message, ChatMessage):
            raise ConversionError(
                f"expected a ChatMessage, got {type(message).__name__}.",
                index=index,
                fix='put ChatMessage(role="user", content=…).',
            )
    return list(map(hand_out, messages))


def _missing_from(fresh: Sequence[ChatMessage], stored: list[ChatMessage]) -> list[ChatMessage]:
    """Return the stored messages that the fresh ones do not hold, in order."""
    there = Counter(map(FORMAT.key_of, fresh))
    lost = []
    for message in stored:
        key = FORMAT.key_of(message)
        if there[key]:
            there[key] -= 1
        else:
            lost.append(message)
    return lost


def load_retention(given: RetentionConfig | dict[str, Any] | None) -> RetentionConfig | None:
    """Return retention as a configuration."""
    return RetentionConfig.from_dict(given) if isinstance(given, dict) else given


def settings_to_save(
    loaded: Mapping[str, Any], options: Mapping[str, Any], config: ConfigSource | None
) -> dict[str, Any]:
    """Return the arguments of a curator that JSON can hold."""
    if config is None:
        saved = {name: options[name] for name in options if name in _SAVED_OPTIONS}
        counter = loaded["counter"]
        return {**saved, "counter": counter} if isinstance(counter, str) else saved
    plain = {
        name: value
        for name, value in loaded.items()
        if name in CuratorConfig.model_fields and isinstance(value, (str, int, float, type(None)))
    }
    return {"config": CuratorConfig.load(config).model_copy(update=plain).to_dict()}


def restore_curator(
    data: Mapping[str, Any], managers: Any = None, counter: Any = None, objects: Any = None
) -> Curator:
    """Return the curator of a saved memory, and warn of what JSON could not hold."""
    settings = dict(data["settings"])
    config, saved_counter = settings.pop("config", None), settings.pop("counter", None)
    given: dict[str, Any] = {"token_limit": data["token_limit"], "counter": counter}
    lost = []
    if config is not None and managers is None:
        curator = make_curator(**given, config=config, objects=objects)
        if counter is None and curator.counter.name != data["counter"]:
            lost = [f"counter {data['counter']}"]
    else:
        lost = [] if managers is not None else list(data["managers"])
        if counter is None and saved_counter is None:
            lost.append(f"counter {data['counter']}")
        given |= {"provider": data["provider"], "counter": counter or saved_counter, **settings}
        curator = make_curator(managers or (), **given)
    if lost:
        warnings.warn(
            f"cannot be restored from JSON: {', '.join(lost)}. Fix: call from_dict with managers=, "
            "counter= or curator=, or make the memory with config=.",
            UserWarning,
            stacklevel=4,
        )
    return curator


def check_reserve(reserve: int, limit: int) -> None:
    """Refuse to reserve all of a budget.

    Raises:
        ConfigurationError: when no tokens are left of it.
    """
    if reserve >= limit:
        raise ConfigurationError(
            f"reserve is {reserve}, which leaves nothing of {limit} tokens. "
            "Fix: a smaller reserve, or a larger token_limit."
        )


def compact_to_of(token_flush_size: int, limit: int) -> float:
    """Return the option ``compact_to`` for a number of tokens that leave the view at once.

    Raises:
        ConfigurationError: when that leaves no view, or takes out no tokens.
    """
    if not 0 < token_flush_size < limit:
        raise ConfigurationError(
            f"token_flush_size is {token_flush_size}. Fix: above 0, below the token_limit "
            f"of {limit}, or leave it out."
        )
    return 1.0 - token_flush_size / limit
