"""`CuratedChatMessageHistory`: any chat history, with a view in front of its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any
from uuid import uuid4

from langchain_core.chat_history import BaseChatMessageHistory, InMemoryChatMessageHistory
from langchain_core.messages import BaseMessage, SystemMessage
from typing_extensions import Unpack

from history_curator.config import RetentionConfig, SharedOptions, check_options
from history_curator.curator import Curation
from history_curator.record.branches import Branches
from history_curator.record.outbox import WriteBehind
from history_curator.record.prune import prune_connection
from history_curator.record.retention import Retention
from history_curator.run_steps import run_async, run_sync
from langchain_history_curator.messages import FORMAT
from langchain_history_curator.models import budget_arguments, build_curator


class CuratedChatMessageHistory(BaseChatMessageHistory):
    """Wraps a chat history: `messages` is the view, `record` is everything.

    Adding a message stores it, reading `messages` curates the stored ones. While the store is down
    the conversation goes on from memory, and the new messages reach the store when it is back. Without
    a `store` (None, a missing database) it stays in memory. A message without an id is stored as a
    copy with one, so that it is neither lost nor stored twice.

    `reserve` keeps tokens free for the system prompt and the question that are appended; options are
    those of `Curator`. With a `retention` older turns are shown as it says, and stored so where rows
    can be edited in place (``SQLChatMessageHistory``); other stores keep everything.

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
        store: BaseChatMessageHistory | None,
        *managers: Any,
        max_tokens: int | None = None,
        reserve: int = 0,
        retention: RetentionConfig | Mapping[str, Any] | None = None,
        name: str = "history",
        **options: Unpack[SharedOptions],
    ) -> None:
        check_options({"reserve": reserve})
        if retention is not None and not isinstance(retention, RetentionConfig):
            retention = RetentionConfig.from_dict(retention)
        if store is None:  # made without its constructor, which warns that the class is deprecated
            store = InMemoryChatMessageHistory.model_construct(messages=[])
        self.store, self.retention = store, retention
        self.max_tokens, self.reserve = max_tokens, reserve
        owner = type(self).__name__
        self.curator = build_curator(owner, managers, options, max_tokens=max_tokens, name=name)
        is_shadow = self.curator.mode == "shadow"
        editors = {} if retention is None else _row_editors(store, retention)
        rules = None if is_shadow else retention
        self._retention = Retention(FORMAT, rules, store=store, edits_store=bool(editors))
        self._outbox: WriteBehind[BaseMessage] = WriteBehind(
            **_store_calls(store),
            **editors,
            stamp=(lambda message: message) if is_shadow else _with_id,
            key=attrgetter("id"),
            name=f"{name} ({type(store).__name__})",
        )

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The view: the messages the model gets to see, ready for the next one."""
        return self.curate().messages

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the view, read asynchronously."""
        return (await self.acurate()).messages

    @property
    def record(self) -> list[BaseMessage]:
        """Every message, as stored."""
        return run_sync(self._outbox.read())

    async def aget_record(self) -> list[BaseMessage]:
        """Return every message, read asynchronously."""
        return await run_async(self._outbox.read())

    @property
    def degraded(self) -> bool:
        """Whether the store failed last time, so that the conversation goes on from memory."""
        return self._outbox.failure is not None

    @property
    def pending(self) -> tuple[BaseMessage, ...]:
        """The messages that wait for the store."""
        return self._outbox.pending

    def curate(self) -> Curation:
        """Return the view together with its report."""
        shown = self._retention.context(self.record)
        return self.curator.curate(shown, **self._arguments())

    async def acurate(self) -> Curation:
        """Return the view together with its report."""
        shown = self._retention.context(await self.aget_record())
        return await self.curator.acurate(shown, **self._arguments())

    def _arguments(self) -> dict[str, Any]:
        budget = budget_arguments(self.max_tokens, self.reserve)
        return {**budget, "tail": "history", "format": FORMAT}

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages, or hold them until the store is back."""
        run_sync(self._retention.add(self._outbox, list(messages)))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages, or hold them until the store is back."""
        await run_async(self._retention.add(self._outbox, list(messages)))

    def flush(self) -> bool:
        """Deliver the messages that wait for the store. True when none are left."""
        return run_sync(self._outbox.flush())

    def clear(self) -> None:
        """Forget everything, here and in the store."""
        run_sync(self._outbox.add([], replace=True))

    async def aclear(self) -> None:
        """Forget everything, here and in the store."""
        await run_async(self._outbox.add([], replace=True))


def _with_id(message: BaseMessage) -> BaseMessage:
    return message if message.id else message.model_copy(update={"id": str(uuid4())})


class ChatHistoryBranches(Branches[CuratedChatMessageHistory]):
    """Forks a stored conversation, lists its branches and switches between them.

    A branch is a session of the same store, and so is the list of them (``"<key>:branches"``).
    `store` opens the chat history of a session id; managers and options are those of
    `CuratedChatMessageHistory`, which `open` returns for the current branch.

    Examples:
        >>> from langchain_core.chat_history import InMemoryChatMessageHistory as Store
        >>> from langchain_core.messages import HumanMessage
        >>> stores = {"ann": Store(messages=[HumanMessage("hello"), HumanMessage("Oslo?")])}
        >>> branches = ChatHistoryBranches("ann", lambda key: stores.setdefault(key, Store()))
        >>> branches.fork("edited", at=1).add_messages([HumanMessage("Rome?")])
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
            buffer=lambda history: history._outbox,
            line=SystemMessage,
            text=lambda message: message.content,
        )


def _row_editors(store: Any, retention: RetentionConfig) -> dict[str, Any]:
    """Return the functions that apply retention to the rows of ``SQLChatMessageHistory``, if it is."""
    table = getattr(getattr(store, "sql_model_class", None), "__table__", None)
    if table is None or not {"id", "message", "session_id"} <= set(table.columns.keys()):
        return {}
    engine: Any = getattr(store, "engine", None)
    async_engine: Any = getattr(store, "async_engine", None)

    def edit() -> None:
        with engine.begin() as connection:
            prune_connection(connection, table, store.session_id, retention)

    async def aedit() -> None:
        async with async_engine.begin() as connection:
            await connection.run_sync(prune_connection, table, store.session_id, retention)

    return {"edit": edit if engine else None, "aedit": aedit if async_engine else None}


def _store_calls(store: BaseChatMessageHistory) -> dict[str, Any]:
    calls: dict[str, Any] = {"append": store.add_messages, "clear": store.clear}
    calls["load"] = lambda: store.messages
    if getattr(store, "async_mode", True):  # else its async methods only raise
        calls |= {"aload": store.aget_messages, "aappend": store.aadd_messages}
        calls["aclear"] = store.aclear
    return calls
