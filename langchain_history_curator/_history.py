"""`CuratedChatMessageHistory`: any chat history, with a view in front of its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage
from typing_extensions import Self, Unpack

from history_curator.config import RetentionConfig
from history_curator.curator import Curation
from history_curator.model import ConversationEntry
from history_curator.record.resilience import WriteBehind
from history_curator.record.retention import apply_retention, build_context, retention_due
from langchain_history_curator._dialect import settle
from langchain_history_curator._in_place import async_pruner, edits_rows, log_view_only, pruner
from langchain_history_curator._options import (
    DIALECT,
    ConfigSource,
    CuratorOptions,
    build_curator,
    load_settings,
)


class CuratedChatMessageHistory(BaseChatMessageHistory):
    """Wraps a chat history: `messages` is the view, `record` is everything.

    Nothing is removed from the store: adding a message stores that message, reading `messages`
    curates what is stored. The view depends on the record alone, so it is the same however often
    it is read, which is what `RunnableWithMessageHistory` relies on. While the store is down the
    conversation goes on from memory, and what was said reaches the store when it is back.

    A message without an id is stored as a copy with one: by it a write whose outcome is unknown
    is found again among what others wrote, so the store has to keep ids.

    With a `RetentionConfig` older turns are shown as it says. They are stored so as well where
    rows can be edited in place (``SQLChatMessageHistory``), in one transaction that loses nothing
    others write meanwhile. Other stores keep everything, unless `rewrite` is set.

    Args:
        store: any `BaseChatMessageHistory`: in memory, SQLite, Postgres, Redis.
        managers: applied in order; none is the budget ladder alone.
        max_tokens: the budget of the view.
        reserve: tokens to leave free for what is appended: the system prompt and the question.
        recall: whether placeholders name the handle that `recall_tool` takes.
        retention: what the store keeps of older turns' tool details.
        rewrite: apply retention also to a store that cannot edit messages in place, by clearing
            it and adding what is kept. A crash in between loses the conversation, and so does
            a second writer with what it adds meanwhile.
        retry_after: seconds to leave a failed store alone.
        name: what events and log lines call it.
        options: the other settings of `Curator`.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> class Store(BaseChatMessageHistory):
        ...     def __init__(self):
        ...         self.messages = []
        ...
        ...     def add_messages(self, messages):
        ...         self.messages.extend(messages)
        ...
        ...     def clear(self):
        ...         self.messages = []
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
        recall: bool = False,
        retention: RetentionConfig | Mapping[str, Any] | None = None,
        rewrite: bool = False,
        retry_after: float = 0.0,
        name: str = "history",
        **options: Unpack[CuratorOptions],
    ) -> None:
        self.store = store
        self.reserve = reserve
        if retention is not None and not isinstance(retention, RetentionConfig):
            retention = RetentionConfig.from_dict(retention)
        self.retention = retention
        self.rewrite = rewrite
        self._in_place = edits_rows(store)
        self._stale = False
        if self._trims and not self._rewrites:
            log_view_only(type(store).__name__)
        self.curator = build_curator(managers, max_tokens, options, name=name, recall=recall)
        # A SQL store made for sync sessions has async methods that only raise.
        both = getattr(store, "async_mode", True)
        self._buffer: WriteBehind[BaseMessage] = WriteBehind(
            lambda: list(store.messages),
            store.add_messages,
            clear=store.clear,
            aload=self._load_async if both else None,
            aappend=store.aadd_messages if both else None,
            aclear=store.aclear if both else None,
            **self._replacing(),
            key=_identity,
            retry_after=retry_after,
            name=f"{name} ({type(store).__name__})",
        )

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
        return self.curator.curate(self._context(self.record), **self._arguments())

    async def acurate(self) -> Curation:
        """Return the view together with its report."""
        record = await self.aget_record()
        return await self.curator.acurate(self._context(record), **self._arguments())

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages, or keep them until the store is back."""
        if self._buffer.add(list(messages)) and self._rewrites:
            self._buffer.rewrite(self._retained)
            if self._stale:
                self._buffer.read()
                self._stale = False

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages, or keep them until the store is back."""
        if await self._buffer.aadd(list(messages)) and self._rewrites:
            await self._buffer.arewrite(self._retained)
            if self._stale:
                await self._buffer.aread()
                self._stale = False

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
        return list(await self.store.aget_messages())

    @property
    def _trims(self) -> bool:
        return self.retention is not None and self.retention.persist_tool_invocations != "full"

    @property
    def _rewrites(self) -> bool:
        return self._trims and (self._in_place or self.rewrite)

    def _replacing(self) -> dict[str, Any]:
        """What the buffer does instead of clearing and adding: have the rows edited in place."""
        if self.retention is None or not self._in_place:
            return {}
        prune = pruner(self.store, self.retention)
        aprune = async_pruner(self.store, self.retention)

        def replace(_: Sequence[BaseMessage]) -> None:
            assert prune is not None
            prune()
            self._stale = True

        async def areplace(_: Sequence[BaseMessage]) -> None:
            assert aprune is not None
            await aprune()
            self._stale = True

        return {
            "replace": None if prune is None else replace,
            "areplace": None if aprune is None else areplace,
        }

    def _arguments(self) -> dict[str, Any]:
        return {"reserve": self.reserve, "tail": "history", "dialect": DIALECT}

    def _context(self, record: list[BaseMessage]) -> list[Any]:
        said = settle(record)
        if self.retention is None or not said:
            return said
        entries = _entries(said)
        if self._trims and not self._rewrites:
            entries = apply_retention(entries, self.retention)
        return DIALECT.write(build_context(entries, self.retention))

    def _retained(self, stored: list[BaseMessage]) -> list[BaseMessage] | None:
        assert self.retention is not None
        entries = _entries(stored)
        if not retention_due(entries, self.retention):
            return None
        return DIALECT.write(apply_retention(entries, self.retention))


def _entries(messages: Sequence[BaseMessage]) -> list[ConversationEntry]:
    return [
        entry for index, message in enumerate(messages) for entry in DIALECT.read(message, index)
    ]


def _identity(message: BaseMessage) -> str | None:
    return message.id
