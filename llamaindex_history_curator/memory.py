"""`CuratedMemory`: the whole record in any chat store, a curated view for the model."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms import LLM
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY, BaseChatStoreMemory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from pydantic import model_serializer, model_validator

from history_curator.config import RetentionConfig, SharedOptions, check_names, check_options
from history_curator.curator import Curation, Curator
from history_curator.errors import BudgetUnsatisfiableError, ConfigurationError, a_type
from history_curator.managers import RelevanceManager
from history_curator.record.branches import Branches
from history_curator.record.outbox import WriteBehind
from history_curator.record.retention import Retention
from history_curator.run_steps import Call, Steps, run_async, run_sync
from llamaindex_history_curator import chat_store as stores
from llamaindex_history_curator import models
from llamaindex_history_curator.chat_store import ChatStore, hand_out
from llamaindex_history_curator.messages import (
    FORMAT,
    message_from_dict,
    message_to_dict,
    read_calls,
)
from llamaindex_history_curator.tools_and_events import publish, span

DEFAULT_TOKEN_LIMIT = 30_000
_DATABASE = ("async_database_uri", "async_engine", "table_name", "db_schema")
logger = logging.getLogger("llamaindex_history_curator")
_asked: ContextVar[dict[str, str | None]] = ContextVar("asked")
"""The question that this task put last, by the id of the memory."""
_live: WeakValueDictionary[str, CuratedMemory] = WeakValueDictionary()


class CuratedMemory(BaseChatStoreMemory):
    """A memory whose record is complete and whose view always fits and is never invalid.

    `get` returns a view within `token_limit`, with the system message, the latest question and
    whole tool exchanges, or the latest turn where that alone is too large. `get_all` returns
    everything ever put. Both return copies. Safe to share between threads and tasks. While the store
    is down the conversation goes on from memory, and the store catches up when it is back. Settings
    cannot be changed: make another memory over the same store.

    Examples:
        >>> from llama_index.core.llms import ChatMessage
        >>> memory = CuratedMemory.from_defaults(token_limit=60)
        >>> for number in range(9):
        ...     memory.put(ChatMessage(f"question {number}"))
        ...     memory.put(ChatMessage(f"answer {number}", role="assistant"))
        >>> len(memory.get_all()), len(memory.get()) < 18
        (18, True)
    """

    token_limit: int = Field(default=DEFAULT_TOKEN_LIMIT, frozen=True)
    curator: Any = Field(default=None, exclude=True, repr=False, frozen=True)
    chat_store: Any = Field(default=None, exclude=True, repr=False, frozen=True)
    chat_store_key: str = Field(default=DEFAULT_CHAT_STORE_KEY, frozen=True)
    retention: RetentionConfig | None = Field(default=None, frozen=True)

    _id: str = PrivateAttr(default_factory=lambda: uuid4().hex)
    _counter: str | None = PrivateAttr(default=None)
    _conversation: WriteBehind[ChatMessage] = PrivateAttr()
    _retention: Retention = PrivateAttr()
    _shortened: list[Hashable] = PrivateAttr(default_factory=list)
    """The keys of the messages of the last view, where it was shorter than the record."""
    _write: models.AdapterWriter = PrivateAttr()

    def __init__(self, **data: Any) -> None:
        check_names(
            type(self).__name__, data, {*type(self).model_fields, "class_name"}, models.FIXES
        )
        limit = data.get("token_limit", DEFAULT_TOKEN_LIMIT)
        curator = data.get("curator") or models.make_curator(token_limit=limit)
        if curator.max_tokens is None:
            raise ConfigurationError("curator: it has no budget. Fix: give the Curator max_tokens.")
        store = SimpleChatStore() if data.get("chat_store") is None else data["chat_store"]
        if not isinstance(store, ChatStore):
            raise ConfigurationError(
                f"chat_store: {a_type(store)} is not a chat store. "
                "Fix: pass a BaseChatStore or an AsyncDBChatStore."
            )
        data |= {"chat_store": store, "curator": curator, "token_limit": curator.max_tokens}
        super().__init__(**data)
        self._write = models.AdapterWriter(curator.profile.name)
        is_shadow, rules = curator.mode == "shadow", self.retention
        applied = None if is_shadow else rules
        edits = stores.can_edit(store)
        self._retention = Retention(FORMAT, applied, store=store, edits_store=edits)
        self._conversation = stores.open_conversation(
            store, self.chat_store_key, rules, stamps=not is_shadow
        )
        _live[self._id] = self

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows this memory by."""
        return "CuratedMemory"

    @classmethod
    def from_defaults(
        cls,
        chat_history: list[ChatMessage] | None = None,
        llm: LLM | None = None,
        chat_store: ChatStore | None = None,
        chat_store_key: str = DEFAULT_CHAT_STORE_KEY,
        token_limit: int | None = None,
        *,
        session_id: str | None = None,
        token_flush_size: int | None = None,
        sql_store: ChatStore | None = None,
        retention: RetentionConfig | dict[str, Any] | None = None,
        curator: Curator | None = None,
        **options: Any,
    ) -> CuratedMemory:
        """Create a memory from the arguments of `ChatMemoryBuffer` and, by name, of `Memory`.

        ``async_database_uri`` or ``async_engine``, ``table_name`` and ``db_schema`` open a SQL store,
        where a conversation without a name gets one of its own. Further options are ``managers`` and
        those of `Curator`. Limit, counter and provider follow `llm` where they are not given;
        `curator` stands for all of them. `chat_history` replaces the stored messages.

        `retention` says how much of older turns' tool details is stored, and shown; a store that
        has to clear a conversation before it writes it anew keeps everything.
        """
        known = {*cls.from_defaults.__annotations__, *models.CURATOR_OPTIONS, *_DATABASE}
        check_names(cls.__name__, options, known - {"options", "return"}, models.FIXES)
        database = {name: options.pop(name) for name in _DATABASE if name in options}
        chat_store, key = chat_store or sql_store, session_id or chat_store_key
        if chat_store is None and any(database.values()):
            chat_store = SQLAlchemyChatStore(**{"table_name": "llama_index_memory", **database})
            if key == DEFAULT_CHAT_STORE_KEY:
                key = str(uuid4())  # no two people share a conversation
        if token_limit is None and curator is None:
            token_limit = models.budget_for_llm(llm) if llm else DEFAULT_TOKEN_LIMIT
        if token_flush_size is not None:
            options["compact_to"] = 1.0 - token_flush_size / (token_limit or DEFAULT_TOKEN_LIMIT)
        memory = cls(
            chat_store=chat_store,
            chat_store_key=key,
            curator=models.make_curator(
                llm=llm, curator=curator, token_limit=token_limit, **options
            ),
            retention=retention,
        )
        counter = (
            curator.counter.name if curator else options.get("counter", models.counter_for_llm(llm))
        )
        memory._counter = counter if isinstance(counter, str) else None
        if chat_history is not None:
            memory.set(chat_history)
        return memory

    @property
    def tokenizer_fn(self) -> Callable[[str], Sequence[int]]:
        """A tokenizer whose tokens can only be counted; chat engines ask for it."""
        count = self.curator.counter.count
        return lambda text: range(count(text))

    @property
    def degraded(self) -> bool:
        """Whether the chat store failed the last time it was asked."""
        return self._conversation.failure is not None

    def get_all(self, status: MessageStatus | None = None) -> list[ChatMessage]:
        """Return the record, oldest first: of a database, also what `Memory` archived in it."""
        if status is None:
            return list(map(hand_out, run_sync(self._conversation.read())))
        given = (self.chat_store, "get_messages", self.chat_store_key, status)
        return list(map(hand_out, stores.call_by_status(*given)))

    async def aget_all(self, status: MessageStatus | None = None) -> list[ChatMessage]:
        """Return the record; see `get_all`."""
        if status is None:
            return list(map(hand_out, await run_async(self._conversation.read())))
        return await asyncio.to_thread(self.get_all, status)

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
        taken = _take_in(messages)
        is_question = bool(taken) and taken[-1].role.value == "user"
        _asked.set({self._id: taken[-1].content} if is_question else {})
        await run_async(self._retention.add(self._conversation, taken))

    def set(self, messages: list[ChatMessage]) -> None:
        """Replace the record. A view of this memory replaces nothing: what follows it is added."""
        taken, view = _take_in(messages), self._shortened
        is_view = bool(view) and list(map(FORMAT.key_of, taken[: len(view)])) == view
        if is_view:
            problem = f"the messages begin with a view of {self}: only what follows it is added. "
            fix = "Fix: leave chat_history out, or call reset() first."
            warnings.warn(problem + fix, UserWarning, stacklevel=2)
            taken = taken[len(view) :]
        run_sync(self._conversation.add(taken, replace=not is_view))

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replace the record; see `set`."""
        await asyncio.to_thread(self.set, messages)

    def reset(self, status: MessageStatus | None = None) -> None:
        """Forget everything; of a database, only what has a `status`, if one is given."""
        self._shortened = []
        if status is None:
            run_sync(self._conversation.add([], replace=True))
        else:
            stores.call_by_status(self.chat_store, "delete_messages", self.chat_store_key, status)

    async def areset(self, status: MessageStatus | None = None) -> None:
        """Forget everything; see `reset`."""
        await asyncio.to_thread(self.reset, status)

    @span
    def get(
        self,
        input: str | None = None,  # noqa: A002 - the name BaseMemory gives it
        initial_token_count: int = 0,
        **kwargs: Any,
    ) -> list[ChatMessage]:
        """Return the view, with tokens left for the question `input` and for the caller."""
        return run_sync(self._get(input, initial_token_count))

    @span
    async def aget(
        self,
        input: str | None = None,  # noqa: A002 - the name BaseMemory gives it
        initial_token_count: int = 0,
        **kwargs: Any,
    ) -> list[ChatMessage]:
        """Return the view; see `get`. The question that this task put last is the last in it."""
        question = input or _asked.get({}).get(self._id)
        return await run_async(self._get(question, initial_token_count))

    def _get(self, asked: Any, reserve: int) -> Steps[list[ChatMessage]]:
        curator = self.curator
        messages: list[ChatMessage] = yield from self._conversation.read()
        if curator.mode != "shadow":
            messages = self._retention.context(messages)
        check_options({"reserve": reserve})
        # A text, a message, or a `QueryBundle`.
        text = getattr(asked, "query_str", None) or getattr(asked, "content", None) or asked
        question = text if isinstance(text, str) else None
        if not messages:
            return []
        messages = _put_last(messages, question)
        if messages[-1].role.value == "user" and messages[-1].content == question:
            question = None
        if question:
            reserve += curator.counter.count(question) + 4
        options = {"reserve": reserve, "tail": "history", "query": question, "format": FORMAT}
        options["key"] = self.chat_store_key
        curate, is_degraded = (curator.curate, curator.acurate), False
        try:
            curation: Curation = yield Call(*curate, (messages,), options)
        except BudgetUnsatisfiableError as error:
            # The smallest view there is: the provider's refusal says more than an error of ours.
            problem = str(error).replace("Fix: max_tokens", "Fix: token_limit")
            logger.warning("%s: what must stay is returned. %s", self, problem)
            options, is_degraded = {**options, "max_tokens": error.needed}, True
            curation = yield Call(*curate, (messages,), options)
        publish(curation, "memory", is_degraded=is_degraded)
        view = list(map(hand_out, curation.messages))
        is_shorter = len(view) < len(messages)
        self._shortened = list(map(FORMAT.key_of, view)) if is_shorter else []
        return view if curator.mode == "shadow" else self._write(view)

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the settings, and a record held in this process, as JSON values."""
        curator, store = self.curator, self.chat_store
        is_held_here = isinstance(store, SimpleChatStore)
        options = {name: getattr(curator, name, None) for name in SharedOptions.__annotations__}
        options |= {"provider": curator.profile.name, "counter": self._counter}
        options |= {"token_limit": self.token_limit, "chat_store_key": self.chat_store_key}
        options = {name: one for name, one in options.items() if isinstance(one, (str, int, float))}
        if self.retention is not None:
            options["retention"] = self.retention.model_dump()
        lost = [one for one in curator.managers if not isinstance(one, RelevanceManager)]
        return {
            "class_name": self.class_name(),
            "id": self._id,
            "options": options,
            "lost": [*(type(one).__name__ for one in lost), *["counter"][bool(self._counter) :]],
            "chat_store": getattr(store, "kind", store.class_name()),
            "messages": [*map(message_to_dict, self.get_all())] if is_held_here else None,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> CuratedMemory:
        """Return the memory that `to_dict` wrote: in the same process that memory itself.

        Elsewhere, or with arguments of `from_defaults`, which win, it is a memory like it. Without
        ``chat_store`` a memory whose record is not in this process says so when it is used.
        """
        if data.get("class_name") != cls.class_name():
            problem = f"data: it is of {data.get('class_name')!r}, not {cls.class_name()!r}."
            raise ConfigurationError(f"{problem} Fix: pass what to_dict returned.")
        live = _live.get(data["id"])
        if live is not None and not kwargs:
            return live
        options, messages = dict(data["options"]), data["messages"]
        if "curator" in kwargs:
            options = {name: options.get(name) for name in ("chat_store_key", "retention")}
        elif data["lost"] and not kwargs.keys() & {"managers", "counter"}:
            problem = f"cannot be restored from JSON: {', '.join(data['lost'])}."
            fix = "Fix: call from_dict with managers=, counter= or curator=."
            warnings.warn(f"{problem} {fix}", UserWarning, stacklevel=3)
        if "chat_store" in kwargs:
            messages = None
        elif messages is None:
            options["chat_store"] = stores.MissingStore(kind=data["chat_store"])
        memory = cls.from_defaults(**{**options, **kwargs})
        run_sync(memory._conversation.add(list(map(message_from_dict, messages or ()))))
        return memory

    @model_serializer(mode="wrap")
    def custom_model_dump(self, handler: Any, info: Any) -> dict[str, Any]:
        """Return `to_dict`, so that pydantic's own dump loses nothing either."""
        return self.to_dict()

    @model_validator(mode="wrap")
    @classmethod
    def _restore(cls, data: Any, handler: Any) -> Any:
        is_saved = isinstance(data, dict) and "options" in data
        return cls.from_dict(data) if is_saved else handler(data)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self).from_dict, (self.to_dict(),))

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> CuratedMemory:
        is_held_here = isinstance(self.chat_store, SimpleChatStore)
        given = {} if is_held_here else {"chat_store": self.chat_store}
        return type(self).from_dict(self.to_dict(), curator=self.curator, **given)

    def __repr__(self) -> str:
        return f"CuratedMemory({self.chat_store_key!r}, token_limit={self.token_limit})"

    __str__ = __repr__


def _take_in(messages: Sequence[Any]) -> list[ChatMessage]:
    """Return copies of messages, and refuse anything else before it is stored."""
    for index, message in enumerate(messages):
        FORMAT.read(message, index)
    return list(map(hand_out, messages))


def _put_last(messages: list[ChatMessage], question: str | None) -> list[ChatMessage]:
    """Put the question of a run that goes on behind everything that other runs have said since.

    A model answers the question that it sees last. While there are more questions than answers,
    some run goes on.
    """
    waiting, found = 0, None
    for place, message in enumerate(messages):
        if message.role.value == "user":
            waiting += 1
            found = place if message.content == question else found
        elif message.role.value == "assistant" and not read_calls(message):
            waiting = max(0, waiting - 1)
            found = found if waiting else None
    if found is None:
        return messages
    return [*messages[:found], *messages[found + 1 :], messages[found]]


class MemoryBranches(Branches[CuratedMemory]):
    """Forks a stored conversation, lists its branches and switches between them.

    A branch is a key of the same chat store, and so is the list of branches (``"<key>:branches"``).
    `open` returns the current branch as a `CuratedMemory`; the options are those of
    `CuratedMemory.from_defaults`, for every memory.

    Examples:
        >>> from llama_index.core.storage.chat_store import SimpleChatStore
        >>> branches = MemoryBranches("ann", SimpleChatStore(), token_limit=1_000)
        >>> branches.open().put_messages([ChatMessage("hello"), ChatMessage("Oslo?")])
        >>> branches.fork("edited", at=1).put(ChatMessage("Rome?"))
        >>> [message.content for message in branches.open().get_all()]
        ['hello', 'Rome?']
    """

    def __init__(self, key: str, chat_store: ChatStore, **options: Any) -> None:
        super().__init__(
            key,
            lambda branch_key: CuratedMemory.from_defaults(
                chat_store=chat_store, chat_store_key=branch_key, **options
            ),
            buffer=lambda memory: memory._conversation,
            line=lambda text: ChatMessage(text, role="system"),
            text=lambda message: message.content,
        )
