"""`CuratedChatMessageHistory`: any chat history, with a view in front of its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any
from uuid import uuid4

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, SystemMessage
from typing_extensions import Self, Unpack

from history_curator.curator import Curation
from history_curator.record.resilience import WriteBehind
from history_curator.config import CuratorConfig, RetentionConfig, SharedOptions, check_options
from history_curator.integrations import (
    Branches,
    ConfigSource,
    Retention,
    adrive,
    drive,
    load_settings,
    prune_connection,
)
from langchain_history_curator._format import DIALECT, without_removed
from langchain_history_curator._options import Lasting, build_curator, check_no_share, spend


class CuratedChatMessageHistory(Lasting, BaseChatMessageHistory):
    """Wraps a chat history: `messages` is the view, `record` is everything.

    Nothing is removed from the store: adding a message stores that message, reading `messages`
    curates what is stored. The view depends on the record alone, so it is the same however often
    it is read, which is what `RunnableWithMessageHistory` relies on. While the store is down the
    conversation goes on from memory, and what was said reaches the store when it is back.

    A message without an id is stored as a copy with one, made when it is added: by it a write
    whose outcome is unknown is found again among what others wrote, also where it says the same.

    A store that keeps a part of each message only (langchain-redis drops calls, ids and names) is
    given the rest among its ``additional_kwargs``; `record` and `messages` have it back in place.

    With a `RetentionConfig` older turns are shown as it says. They are stored so as well where
    rows can be edited in place (``SQLChatMessageHistory``), in one transaction that loses nothing
    others write meanwhile: a turn when it grows old, and what was missed (an outage, a result that
    came late) with the first message that is added after the record was read. Other stores keep
    everything, unless `rewrite` is set.

    With ``mode="shadow"`` the store is given what is added, as it is, and nothing else happens to
    it; `messages` is the whole record.

    Args:
        store: any `BaseChatMessageHistory`: in memory, SQLite, Postgres, Redis.
        managers: applied in order; none is the budget alone.
        max_tokens: the budget of the view.
        reserve: tokens to leave free for what is appended: the system prompt and the question.
        retention: what the store keeps of older turns' tool details.
        rewrite: apply retention also to a store that cannot edit messages in place, by clearing
            it and adding what is kept. A crash in between loses the conversation, and so does
            a second writer with what it adds meanwhile.
        retry_after: seconds to leave a failed store alone.
        name: what events and log lines call it.
        options: the other settings of `Curator`.

    Examples:
        >>> from langchain_core.chat_history import InMemoryChatMessageHistory as Store
        >>> from langchain_core.messages import HumanMessage
        >>> history = CuratedChatMessageHistory(Store(), max_tokens=1_000)
        >>> history.add_messages([HumanMessage("hello")])
        >>> [message.text for message in history.messages]
        ['hello']
    """

    def __init__(
        self,
        store: BaseChatMessageHistory,
        *managers: Any,
        max_tokens: int | None = None,
        reserve: int = 0,
        retention: RetentionConfig | Mapping[str, Any] | None = None,
        rewrite: bool = False,
        retry_after: float = 0.0,
        name: str = "history",
        **options: Unpack[SharedOptions],
    ) -> None:
        owner = type(self).__name__
        check_no_share(owner, max_tokens, "budget_for_model(model).max_tokens")
        self.store = store
        self.reserve = reserve
        if retention is not None and not isinstance(retention, RetentionConfig):
            retention = RetentionConfig.from_dict(retention)
        self.retention = retention
        self.rewrite = rewrite
        self.max_tokens = max_tokens
        check_options({"max_tokens": max_tokens, "reserve": reserve})
        self.curator = build_curator(managers, None, options, name=name, owner=owner)
        in_place = _edits_rows(store)
        self._kept = Retention(
            DIALECT,
            retention,
            store=type(store).__name__,
            in_place=in_place,
            rewrites=rewrite,
            shadow=self._shadow,
        )
        editors = _editors(store, retention) if retention is not None and in_place else {}
        # A SQL store made for sync sessions has async methods that only raise.
        both = getattr(store, "async_mode", True)
        self._packs = _keeps_parts(store)
        self._buffer: WriteBehind[BaseMessage] = WriteBehind(
            lambda: self._loaded(store.messages),
            lambda messages: store.add_messages(self._stored(messages)),
            clear=store.clear,
            aload=self._load_async if both else None,
            aappend=self._append_async if both else None,
            aclear=store.aclear if both else None,
            **editors,
            stamp=None if self._shadow else _with_id,
            key=attrgetter("id"),
            retry_after=retry_after,
            name=f"{name} ({type(store).__name__})",
        )
        self._finish()

    @classmethod
    def from_config(
        cls,
        config: ConfigSource,
        store: BaseChatMessageHistory,
        *,
        objects: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> Self:
        """Wrap a store as a `CuratorConfig`, a mapping, or a YAML or TOML file says.

        Args:
            config: the configuration, `retention` included.
            store: any `BaseChatMessageHistory`.
            objects: what ``"@name"`` options stand for, such as a summarizer.
            overrides: arguments of the history; they win over the configuration.
        """
        settings = load_settings(config, objects, overrides)
        settings.setdefault("retention", CuratorConfig.load(config).retention)
        return cls(store, *settings.pop("managers", ()), **settings)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The view: what the model gets to see, ready for the next message."""
        return self.curate().messages

    async def aget_messages(self) -> list[BaseMessage]:
        """The view, read asynchronously."""
        return (await self.acurate()).messages

    @property
    def record(self) -> list[BaseMessage]:
        """Everything said, as stored."""
        return self._buffer.read()

    async def aget_record(self) -> list[BaseMessage]:
        """Everything said, read asynchronously."""
        return await self._buffer.aread()

    @property
    def degraded(self) -> bool:
        """Whether the store failed last time, so that the conversation goes on from memory."""
        return self._buffer.degraded

    @property
    def pending(self) -> tuple[BaseMessage, ...]:
        """What waits for the store."""
        return self._buffer.pending

    def curate(self) -> Curation:
        """Return the view together with its report."""
        return self.curator.curate(
            self._kept.context(without_removed(self.record)), **self._arguments()
        )

    async def acurate(self) -> Curation:
        """Return the view together with its report."""
        record = await self.aget_record()
        return await self.curator.acurate(
            self._kept.context(without_removed(record)), **self._arguments()
        )

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages, or keep them until the store is back."""
        drive(self._kept.add(self._buffer, list(messages)))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages, or keep them until the store is back."""
        await adrive(self._kept.add(self._buffer, list(messages)))

    def flush(self) -> bool:
        """Deliver what waits for the store. True when nothing is left."""
        return self._buffer.flush()

    async def aflush(self) -> bool:
        """Deliver what waits for the store. True when nothing is left."""
        return await self._buffer.aflush()

    def clear(self) -> None:
        """Forget everything, here and in the store."""
        self._buffer.clear()

    async def aclear(self) -> None:
        """Forget everything, here and in the store."""
        await self._buffer.aclear()

    async def _load_async(self) -> list[BaseMessage]:
        return self._loaded(await self.store.aget_messages())

    async def _append_async(self, messages: Sequence[BaseMessage]) -> None:
        await self.store.aadd_messages(self._stored(messages))

    def _stored(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        return list(map(_packed, messages)) if self._packs else list(messages)

    def _loaded(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        return list(map(_unpacked, messages)) if self._packs else list(messages)

    @property
    def _shadow(self) -> bool:
        return self.curator.mode == "shadow"

    def _arguments(self) -> dict[str, Any]:
        spent = spend(self.max_tokens, self.reserve)
        named = getattr(self.store, "session_id", None)
        key = None if named is None else str(named)
        return {**spent, "tail": "history", "format": DIALECT, "key": key}


def _with_id(message: BaseMessage) -> BaseMessage:
    return message if message.id else message.model_copy(update={"id": str(uuid4())})


class ChatHistoryBranches(Branches[CuratedChatMessageHistory]):
    """Forks a stored conversation, lists its branches and switches between them.

    A branch is a session of the same store; which there are, and which is current, is a session
    too (``"<key>:branches"``), so all of it survives a restart. `open` returns the current branch
    as a `CuratedChatMessageHistory`, for ``RunnableWithMessageHistory`` for instance.

    Args:
        key: the conversation.
        store: opens the chat history of a session id. Where session ids must be UUIDs, derive one
            from it with ``uuid5``.
        managers: of every history; see `CuratedChatMessageHistory`.
        options: its other arguments.

    Examples:
        >>> from langchain_core.chat_history import InMemoryChatMessageHistory as Store
        >>> from langchain_core.messages import HumanMessage
        >>> sessions = {}
        >>> branches = ChatHistoryBranches(
        ...     "ann", lambda key: sessions.setdefault(key, Store()), max_tokens=1_000
        ... )
        >>> branches.open().add_messages([HumanMessage("hello"), HumanMessage("Oslo?")])
        >>> branches.fork("edited", at=1).add_messages([HumanMessage("Rome?")])
        >>> [message.text for message in branches.open().record]
        ['hello', 'Rome?']
        >>> [message.text for message in branches.switch("main").record]
        ['hello', 'Oslo?']
    """

    def __init__(
        self,
        key: str,
        store: Callable[[str], BaseChatMessageHistory],
        *managers: Any,
        **options: Any,
    ) -> None:
        super().__init__(
            key,
            lambda session: CuratedChatMessageHistory(store(session), *managers, **options),
            buffer=lambda history: history._buffer,
            line=SystemMessage,
            text=lambda message: message.content,
        )


# What some stores can do, and what some cannot. Rows of a SQL store can be edited in place.
# langchain-redis stores text, kind and ``additional_kwargs`` of a message, and drops its id, its
# name, the calls it makes and what it cost: a result would come back without its call. What such a
# store drops travels in ``additional_kwargs``, which no provider is sent, and is put back on reading.

_FIELDS = "history_curator_fields"
_DROPPED = (
    "id", "name", "tool_calls", "invalid_tool_calls", "usage_metadata", "response_metadata"
)  # fmt: skip
_COLUMNS = frozenset({"id", "message", "session_id"})


def _edits_rows(store: Any) -> bool:
    """Whether a store is laid out like ``SQLChatMessageHistory``, so that rows can be edited."""
    table = getattr(getattr(store, "sql_model_class", None), "__table__", None)
    if table is None or not any(_engines(store)):
        return False
    named = getattr(store, "session_id_field_name", "session_id") == "session_id"
    return named and {column.name for column in table.columns} >= _COLUMNS


def _engines(store: Any) -> tuple[Any, Any]:
    return getattr(store, "engine", None), getattr(store, "async_engine", None)


def _editors(store: Any, retention: RetentionConfig) -> dict[str, Any]:
    """Return what applies retention to the rows of a store, in sync and async code.

    Each takes how many turns grew old (None looks at all), and returns whether anything changed.
    """
    engine, async_engine = _engines(store)
    table = store.sql_model_class.__table__

    def edit(aged: int | None) -> bool:
        with engine.begin() as connection:
            return prune_connection(connection, table, store.session_id, retention, aged)

    async def aedit(aged: int | None) -> bool:
        async with async_engine.begin() as connection:
            changed: bool = await connection.run_sync(
                prune_connection, table, store.session_id, retention, aged
            )
        return changed

    return {"edit": edit if engine else None, "aedit": aedit if async_engine else None}


def _keeps_parts(store: Any) -> bool:
    """Whether a store is known to keep a part of each message only."""
    return any(cls.__module__.startswith("langchain_redis") for cls in type(store).__mro__)


def _packed(message: BaseMessage) -> BaseMessage:
    """Return a copy that carries what the store would drop."""
    given = {name: getattr(message, name, None) for name in _DROPPED}
    fields = {name: value for name, value in given.items() if value}
    extra = {**message.additional_kwargs, _FIELDS: fields}
    return message.model_copy(update={"additional_kwargs": extra})


def _unpacked(message: BaseMessage) -> BaseMessage:
    """Return a message as it was before it was packed; others as they are."""
    fields = message.additional_kwargs.get(_FIELDS)
    if not isinstance(fields, dict):
        return message
    extra = {key: value for key, value in message.additional_kwargs.items() if key != _FIELDS}
    return message.model_copy(update={**fields, "additional_kwargs": extra})
