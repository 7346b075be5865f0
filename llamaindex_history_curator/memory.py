"""`CuratedMemory`: the whole record in any chat store, a curated view for the model."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms import LLM
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY
from llama_index.core.storage.chat_store import SimpleChatStore
from pydantic import ValidationError

from history_curator.config import CuratorConfig, RetentionConfig, SharedOptions, check_options
from history_curator.curator import Curation, Curator
from history_curator.errors import BudgetUnsatisfiableError, ConfigurationError
from history_curator.integrations import ConfigSource, rebuild_curator
from history_curator.record.branches import Branches
from history_curator.run_steps import Call, Steps, run_async, run_sync
from llamaindex_history_curator.chat_store import (
    ChatStore,
    RecordMemory,
    hand_out,
    load_retention,
    open_chat_store,
)
from llamaindex_history_curator.messages import FORMAT
from llamaindex_history_curator.models import (
    AdapterWriter,
    TokenizerCounter,
    budget_for_llm,
    check_alone,
    check_keywords,
    curator_from,
    load_curator_settings,
    make_curator,
    restore_curator,
    settings_to_save,
)
from llamaindex_history_curator.plain_values import (
    MissingStore,
    is_in_memory,
    message_from_dict,
    message_to_dict,
    store_reference,
)
from llamaindex_history_curator.tools_and_events import finish_view, has_marks, publish, span

DEFAULT_TOKEN_LIMIT = 30_000
_DATABASE = ("async_database_uri", "async_engine", "table_name", "db_schema")
logger = logging.getLogger("llamaindex_history_curator")


class CuratedMemory(RecordMemory):
    """A memory whose record is complete and whose view always fits and is never invalid.

    `get` returns a view within `token_limit`, with the system message, the latest question and
    whole tool exchanges; where even the latest turn is too large it returns that turn rather than
    raise. `get_all` returns everything ever put. Both return copies and `put` stores one, because
    LlamaIndex edits messages in place: no edit of a message that was put or returned reaches the
    record or another view. Safe to share between threads and tasks. While the store is down the
    conversation goes on from memory, and the store catches up when it is back.

    Examples:
        >>> from llama_index.core.llms import ChatMessage
        >>> memory = CuratedMemory.from_defaults(token_limit=60)
        >>> for number in range(9):
        ...     memory.put(ChatMessage(f"question {number}"))
        ...     memory.put(ChatMessage(f"answer {number}", role="assistant"))
        >>> len(memory.get_all()), len(memory.get()) < 18
        (18, True)
    """

    token_limit: int = Field(default=DEFAULT_TOKEN_LIMIT, gt=0)
    curator: Any = Field(default=None, exclude=True, repr=False)
    mark_cache: bool = False
    reserve: int = Field(default=0, ge=0)

    _settings: dict[str, Any] = PrivateAttr(default_factory=dict)
    _view_curator: Curator = PrivateAttr()
    _write: AdapterWriter = PrivateAttr()

    def __init__(self, **data: Any) -> None:
        check_keywords(type(self).__name__, data, {*type(self).model_fields, "class_name"})
        if data.get("curator") is not None:
            check_alone("a curator", token_limit=data.get("token_limit"))
        try:
            super().__init__(**data)
        except ValidationError as error:
            cause = error.errors()[0].get("ctx", {}).get("error")
            raise (cause if isinstance(cause, ConfigurationError) else error) from None

    def model_post_init(self, context: Any, /) -> None:
        """Open the store and the view."""
        if self.curator is None:
            self.curator = make_curator(token_limit=self.token_limit)
        self.token_limit = _limit_of(self.curator)
        super().model_post_init(context)
        self._open_view()
        self._is_open = True

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows this memory by."""
        return "CuratedMemory"

    @classmethod
    def from_defaults(  # noqa: PLR0917 - in the order of ChatMemoryBuffer
        cls,
        chat_history: list[ChatMessage] | None = None,
        llm: LLM | None = None,
        chat_store: ChatStore | None = None,
        chat_store_key: str = DEFAULT_CHAT_STORE_KEY,
        token_limit: int | None = None,
        tokenizer_fn: Callable[[str], Sequence[Any]] | None = None,
        *,
        session_id: str | None = None,
        managers: Any = (),
        provider: str = "auto",
        counter: Any = None,
        reserve: int = 0,
        retention: RetentionConfig | dict[str, Any] | None = None,
        mark_cache: bool = False,
        token_flush_size: int | None = None,
        curator: Curator | None = None,
        config: ConfigSource | None = None,
        rewrite: bool = False,
        objects: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> CuratedMemory:
        """Create a memory.

        Takes the arguments of `ChatMemoryBuffer`, in its order, and those of `Memory`, by name,
        without its memory blocks: ``async_database_uri`` or ``async_engine``, ``table_name`` and
        ``db_schema`` open a SQL store, where a conversation without a session id gets one of its
        own. Further options are those of `Curator`: ``recall_tool``, ``compact_to``, ``bus``…
        Limit, counter and provider follow `llm` where they are not given; `curator` stands for all
        of them, and what is given beside `config` wins. `chat_history` replaces what is stored.

        `reserve` leaves tokens to what the caller adds, such as retrieved text. `retention` says
        how much the store keeps of older turns' tool details; `rewrite` applies it also to a store
        that can neither edit messages in place nor replace them in one step, where a crash in
        between loses the conversation. `mark_cache` puts a `CachePoint` where the cache plan says
        that it pays, `token_flush_size` is ``compact_to`` in tokens, and `objects` are what
        ``"@name"`` options of the config stand for.
        """
        database = {name: options.pop(name, None) for name in _DATABASE}
        known = inspect.signature(cls.from_defaults).parameters.keys() - {"options"}
        known = {*known, *SharedOptions.__annotations__, *_DATABASE, "name"}
        check_keywords(cls.__name__, options, known)
        if isinstance(chat_history, str):
            raise ConfigurationError(
                f"chat_history is the text {chat_history!r:.40}. Fix: session_id= names the "
                "conversation; chat_history takes a list of messages."
            )
        if tokenizer_fn is not None:
            if counter is not None:
                raise ConfigurationError(
                    "counter and tokenizer_fn are both given. Fix: leave one of them out."
                )
            counter = TokenizerCounter(tokenizer_fn)
        if token_flush_size is not None and "compact_to" not in options:
            limit = token_limit or (budget_for_llm(llm) if llm else DEFAULT_TOKEN_LIMIT)
            if not 0 < token_flush_size < limit:
                raise ConfigurationError(
                    f"token_flush_size is {token_flush_size}. Fix: above 0, below the token_limit "
                    f"of {limit}, or leave it out."
                )
            options["compact_to"] = 1.0 - token_flush_size / limit
        given = {"token_limit": token_limit, "provider": provider, "counter": counter, **options}
        settings: dict[str, Any] = {}
        if curator is None:
            loaded = load_curator_settings(
                managers, llm=llm, config=config, objects=objects, **given
            )
            if loaded.get("max_tokens") is None:
                loaded["max_tokens"] = DEFAULT_TOKEN_LIMIT
            settings = settings_to_save(loaded, config)
            curator = curator_from(loaded, llm)
        else:
            check_alone("a curator", config=config, objects=objects, managers=managers, **given)
        if config is not None and retention is None:
            retention = CuratorConfig.load(config).retention
        if any(database.values()) and chat_store_key == DEFAULT_CHAT_STORE_KEY:
            session_id = session_id or str(uuid4())  # no two people share a conversation
        memory = cls(
            chat_store=open_chat_store(chat_store, database),
            chat_store_key=session_id or chat_store_key,
            curator=curator,
            retention=load_retention(retention),
            mark_cache=has_marks(llm, mark_cache),
            rewrite=rewrite,
            reserve=reserve,
        )
        memory._settings = settings
        if chat_history is not None:
            memory.set(chat_history)
        return memory

    def _apply(self, name: str) -> None:
        fields = self.__dict__
        if name == "token_limit":
            check_options({"max_tokens": self.token_limit}, max_tokens=name)
            fields["curator"] = rebuild_curator(self.curator, max_tokens=self.token_limit)
        elif name == "curator":
            fields["token_limit"] = _limit_of(self.curator)
            self._settings = {}
        super()._apply(name)
        self._open_view()

    def _open_view(self) -> None:
        if self.reserve >= self.token_limit:
            raise ConfigurationError(
                f"reserve is {self.reserve}, which leaves nothing of {self.token_limit} tokens. "
                "Fix: a smaller reserve, or a larger token_limit."
            )
        # Off the budget, because a reserve of one call would move the cutoff of every view.
        curator = self.curator
        if self.reserve:
            curator = rebuild_curator(curator, max_tokens=self.token_limit - self.reserve)
        self._view_curator = curator
        self._write = AdapterWriter(curator.profile.name)

    @property
    def tokenizer_fn(self) -> Callable[[str], Sequence[int]]:
        """A tokenizer whose tokens can only be counted; chat engines ask for it."""
        count = self.curator.counter.count
        return lambda text: range(count(text))

    # The view.

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
        """Return the view; see `get`."""
        return await run_async(self._get(input, initial_token_count))

    def _get(self, asked: Any, reserve: int) -> Steps[list[ChatMessage]]:
        messages: list[ChatMessage] = yield from self._conversation.read()
        if not self._is_shadow:
            messages = self._retention.context(messages)
        check_options({"reserve": reserve})
        question = asked.content if isinstance(asked, ChatMessage) else asked
        if question and messages and messages[-1].role.value == "user":
            question = None if messages[-1].content == question else question
        if question:
            reserve += self.curator.counter.count(question) + 4
        if not messages:
            return []
        options = {
            "reserve": reserve,
            "tail": "history",
            "query": question or None,
            "key": self.chat_store_key,
            "format": FORMAT,
        }
        curator = self._view_curator
        try:
            curation: Curation = yield Call(curator.curate, curator.acurate, (messages,), options)
        except BudgetUnsatisfiableError as error:
            return self._degrade(messages, error)
        write = None if self._is_shadow else self._write
        view = list(map(hand_out, curation.messages))
        return finish_view(curation, view, "memory", write, self.mark_cache)

    def _degrade(
        self, messages: list[ChatMessage], error: BudgetUnsatisfiableError
    ) -> list[ChatMessage]:
        """Return the latest turn: the provider's refusal says more than an error of ours."""
        logger.warning("%s: only the latest turn is returned. %s", self, error)
        roles = [message.role.value for message in messages]
        start = max((place for place, role in enumerate(roles) if role == "user"), default=-1)
        system = [one for one in messages[:start] if one.role.value == "system"]
        turn = [*system, *messages[start:]]
        unlimited = Curator(counter=self.curator.counter, provider=self.curator.profile)
        curation = unlimited.curate(turn, tail="history", format=FORMAT)
        publish(curation, "memory", degraded=True)
        return list(map(hand_out, curation.messages))

    # State.

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the settings, and a record held in this process, as JSON values."""
        curator, store, is_inside = self.curator, self.chat_store, is_in_memory(self.chat_store)
        record = self.get_all() if is_inside else ()
        names = ("token_limit", "chat_store_key", "mark_cache", "reserve", "rewrite")
        return {
            "class_name": self.class_name(),
            "version": 1,
            **{name: getattr(self, name) for name in names},
            "chat_store": getattr(store, "kind", store.class_name()),
            "store": store_reference(store),
            "inside": is_inside,
            "provider": curator.profile.name,
            "counter": curator.counter.name,
            "managers": [type(manager).__name__ for manager in curator.managers],
            "settings": self._settings,
            "retention": None if self.retention is None else self.retention.model_dump(),
            "messages": list(map(message_to_dict, record)),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> CuratedMemory:
        """Return the memory that `to_dict` wrote.

        A SQL store whose address has no password is opened again; any other one says so when it is
        used. Pass ``chat_store``, ``managers``, ``curator``, ``counter`` or ``objects`` here.
        """
        known = ("chat_store", "managers", "curator", "counter", "objects")
        check_keywords("from_dict", kwargs, known)
        if data.get("class_name") != cls.class_name():
            raise ConfigurationError(
                f"data: it is of {data.get('class_name')!r}, not {cls.class_name()!r}. "
                "Fix: pass what to_dict or to_string returned."
            )
        store, is_inside = kwargs.pop("chat_store", None), False
        if store is None and data["inside"]:
            store, is_inside = SimpleChatStore(), True
        elif store is None and data["store"]:
            store = open_chat_store(None, data["store"])
        memory = cls(
            chat_store=store or MissingStore(kind=data["chat_store"]),
            chat_store_key=data["chat_store_key"],
            curator=kwargs.pop("curator", None) or restore_curator(data, **kwargs),
            retention=load_retention(data["retention"]),
            mark_cache=data["mark_cache"],
            rewrite=data["rewrite"],
            reserve=data["reserve"],
        )
        memory._settings = data["settings"]
        if is_inside:
            run_sync(memory._conversation.add(list(map(message_from_dict, data["messages"]))))
        return memory

    def to_string(self) -> str:
        """Return `to_dict` as JSON text."""
        return self.to_json()

    @classmethod
    def from_string(cls, json_str: str, **kwargs: Any) -> CuratedMemory:
        """Return the memory that `to_string` wrote."""
        return cls.from_json(json_str, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self).from_dict, (self.to_dict(),))

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> CuratedMemory:
        given = {} if is_in_memory(self.chat_store) else {"chat_store": self.chat_store}
        return type(self).from_dict(self.to_dict(), curator=self.curator, **given)

    def __repr__(self) -> str:
        return f"CuratedMemory({self.chat_store_key!r}, token_limit={self.token_limit})"

    __str__ = __repr__


def _limit_of(curator: Curator) -> int:
    if curator.max_tokens is None:
        raise ConfigurationError(
            "curator: it has no budget. Fix: give the Curator max_tokens, or pass managers and "
            "token_limit instead of a curator."
        )
    return curator.max_tokens


class MemoryBranches(Branches[CuratedMemory]):
    """Forks a stored conversation, lists its branches and switches between them.

    A branch is a key of the same chat store; the list of branches, and which one is current, is a
    key too (``"<key>:branches"``), so all of it survives a restart. `open` returns the current
    branch as a `CuratedMemory`, for an agent or a chat engine.

    The options are the other arguments of `CuratedMemory.from_defaults`, for every memory.

    Examples:
        >>> from llama_index.core.storage.chat_store import SimpleChatStore
        >>> branches = MemoryBranches("ann", SimpleChatStore(), token_limit=1_000)
        >>> branches.open().put_messages([ChatMessage("hello"), ChatMessage("Oslo?")])
        >>> branches.fork("edited", at=1).put(ChatMessage("Rome?"))
        >>> [message.content for message in branches.open().get_all()]
        ['hello', 'Rome?']
        >>> [message.content for message in branches.switch("main").get_all()]
        ['hello', 'Oslo?']
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
