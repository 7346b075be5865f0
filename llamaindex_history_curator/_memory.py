"""`CuratedMemory`: the whole record in any chat store, a curated view for the model."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import LLM
from llama_index.core.memory.memory import (
    DEFAULT_MEMORY_BLOCKS_TEMPLATE,
    BaseMemoryBlock,
    InsertMethod,
)
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY

from history_curator.curator import Curator
from history_curator.errors import ConfigurationError
from history_curator.config import CuratorConfig, RetentionConfig, SharedOptions
from history_curator.integrations import Branches
from llamaindex_history_curator import _memory_state
from llamaindex_history_curator._cache import marks_for
from llamaindex_history_curator._memory_blocks import Blocks
from llamaindex_history_curator._memory_view import DEFAULT_TOKEN_LIMIT, ViewMemory
from llamaindex_history_curator._models import budget_for_llm, counter_of
from llamaindex_history_curator._options import (
    check_alone,
    check_keywords,
    curator_from,
    key_of,
    compact_to_of,
    make_curator,
    settings_for,
    store_of,
)
from llamaindex_history_curator._socket import check_reserve, limit_of
from llamaindex_history_curator._store import ChatStore


class CuratedMemory(ViewMemory):
    """A memory whose record is complete and whose view always fits and is never invalid.

    `get` returns a view within `token_limit`, with the system message, the latest question and
    whole tool exchanges; where even the latest turn is too large it returns that turn rather than
    raise. `get_all` returns everything ever put. Both return copies and `put` stores one, because
    LlamaIndex edits messages in place: no edit of what was put or returned reaches the record or
    another view. Safe to share between threads and tasks. While the store is down the conversation
    goes on from memory, and the store catches up when it is back.

    Examples:
        >>> from llama_index.core.llms import ChatMessage
        >>> memory = CuratedMemory.from_defaults(token_limit=60)
        >>> for number in range(9):
        ...     memory.put(ChatMessage(f"question {number}"))
        ...     memory.put(ChatMessage(f"answer {number}", role="assistant"))
        >>> len(memory.get_all()), len(memory.get()) < 18
        (18, True)
    """

    _live: str = PrivateAttr(default="")

    def __init__(self, **data: Any) -> None:
        # The names that other memories have for a field of this one.
        others = {"class_name", "session_id", "tokenizer_fn"}
        check_keywords(type(self).__name__, data, {*type(self).model_fields, *others})
        if "session_id" in data:
            key = data.get("chat_store_key", DEFAULT_CHAT_STORE_KEY)
            data["chat_store_key"] = key_of(key, data.pop("session_id"), {})
        if (tokenizer_fn := data.pop("tokenizer_fn", None)) is not None:
            check_alone(data.get("curator"), tokenizer_fn=tokenizer_fn)
            limit = data.pop("token_limit", DEFAULT_TOKEN_LIMIT)
            counter = counter_of(None, tokenizer_fn)
            data["curator"] = make_curator(token_limit=limit, counter=counter)
        check_alone(data.get("curator"), token_limit=data.get("token_limit"))
        super().__init__(**data)

    def model_post_init(self, context: Any, /) -> None:
        """Open the store."""
        super().model_post_init(context)
        self._live = _memory_state.remember(self)

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows this memory by."""
        return "CuratedMemory"

    @classmethod
    def from_defaults(  # noqa: PLR0917 - in the order of ChatMemoryBuffer
        cls,
        chat_history: list[ChatMessage] | None = None,
        llm: LLM | None = None,
        chat_store: ChatStore | str | None = None,
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
        memory_blocks: Sequence[BaseMemoryBlock[Any]] = (),
        memory_blocks_template: Any = DEFAULT_MEMORY_BLOCKS_TEMPLATE,
        insert_method: InsertMethod = InsertMethod.SYSTEM,
        chat_history_token_ratio: float = 0.7,
        token_flush_size: int | None = None,
        async_database_uri: str | None = None,
        async_engine: Any = None,
        table_name: str | None = None,
        db_schema: str | None = None,
        curator: Curator | None = None,
        config: CuratorConfig | dict[str, Any] | str | Path | None = None,
        rewrite: bool = False,
        objects: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> CuratedMemory:
        """Create a memory.

        Takes what `ChatMemoryBuffer` takes, in its order, and what `Memory` takes, by name.

        Args:
            chat_history: replaces what the store holds under the key.
            llm: the budget, the counter and the provider follow it where not given.
            chat_store: any `BaseChatStore` or `AsyncDBChatStore`, or the name of one that was
                registered; in memory by default.
            chat_store_key: which conversation of the store.
            token_limit: the budget of the view; 30,000 without an LLM.
            tokenizer_fn: counts, instead of a counter.
            session_id: another name for the chat store key.
            managers: history managers, in order, or one alone.
            provider: whose rules hold; ``"auto"`` finds out from the LLM.
            counter: an encoding, a model name or a `TokenCounter`.
            reserve: tokens of the budget to leave for what the caller adds to every view, such as
                the text a chat engine retrieves.
            retention: what the store keeps of older turns' tool details.
            mark_cache: put a `CachePoint` where the cache plan says it pays.
            memory_blocks: say something beside the view, and are given what leaves it. Within the
                budget: those with the highest priority number give way first, 0 never.
            memory_blocks_template: puts what they say into words.
            insert_method: into the system message, or into the latest question.
            chat_history_token_ratio: the share of the budget that no block can take from the
                conversation.
            token_flush_size: how many tokens leave the view at once; ``compact_to`` in tokens.
            async_database_uri: opens a SQL store. Without a session id the conversation gets one
                of its own.
            async_engine: the same, from an engine.
            table_name: where that store keeps the messages.
            db_schema: where that store keeps the table.
            curator: a curator made elsewhere, instead of managers, limit, provider and counter.
            config: the same as data. Managers given this way survive `to_dict` anywhere. Limit,
                provider, counter and options win over it.
            rewrite: apply retention also to a store that can neither edit messages in place nor
                replace them in one step, by deleting and adding. A crash in between loses the
                conversation, and so does a second writer with what it adds meanwhile.
            objects: what ``"@name"`` options of the config stand for.
            options: further arguments of `Curator`: ``recall_tool``, ``compact_to``, ``bus``…

        Raises:
            ConfigurationError: for an argument nobody knows, or a curator or config given
                together with what it is made of.
        """
        arguments = inspect.signature(cls.from_defaults).parameters.keys() - {"options"}
        check_keywords(cls.__name__, options, {*arguments, *SharedOptions.__annotations__, "name"})
        if isinstance(chat_history, str):
            raise ConfigurationError(
                f"chat_history is the text {chat_history!r:.40}. Fix: session_id= names the "
                "conversation; chat_history takes a list of messages."
            )
        if token_flush_size is not None and "compact_to" not in options:
            limit = token_limit or (budget_for_llm(llm) if llm else DEFAULT_TOKEN_LIMIT)
            options["compact_to"] = compact_to_of(token_flush_size, limit)
        database = {
            "async_database_uri": async_database_uri,
            "async_engine": async_engine,
            "table_name": table_name,
            "db_schema": db_schema,
        }
        counter = counter_of(counter, tokenizer_fn)
        fitting = {"token_limit": token_limit, "provider": provider, "counter": counter}
        given = {**fitting, **options}
        check_alone(curator, config=config, objects=objects, managers=managers, **given)
        settings: dict[str, Any] = {}
        if curator is None:
            made_of = settings_for(managers, llm=llm, config=config, objects=objects, **given)
            if made_of.get("max_tokens") is None:
                made_of["max_tokens"] = DEFAULT_TOKEN_LIMIT
            settings = _memory_state.settings_of(made_of, options, config)
            curator = curator_from(made_of, llm)
            if config is not None and retention is None:
                retention = CuratorConfig.load(config).retention
        if isinstance(retention, dict):
            retention = RetentionConfig.from_dict(retention)
        # Looked at here as well, because pydantic turns what its models raise into its own error.
        check_reserve(reserve, limit_of(curator))
        Blocks(memory_blocks, memory_blocks_template, insert_method, chat_history_token_ratio)
        memory = cls(
            chat_store=store_of(chat_store, database),
            chat_store_key=key_of(chat_store_key, session_id, database),
            curator=curator,
            retention=retention,
            mark_cache=marks_for(llm, mark_cache),
            rewrite=rewrite,
            reserve=reserve,
            memory_blocks=list(memory_blocks),
            memory_blocks_template=memory_blocks_template,
            insert_method=insert_method,
            chat_history_token_ratio=chat_history_token_ratio,
        )
        memory._settings = settings
        if chat_history is not None:
            memory.set(chat_history)
        return memory

    # State.

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the record, the audit and the settings as plain JSON values."""
        return {**_memory_state.dump(self, self._snapshot()), "rewrite": self.rewrite}

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> CuratedMemory:
        """Return the memory that `to_dict` wrote.

        Args:
            data: not changed.
            kwargs: ``chat_store``, ``managers``, ``curator``, ``counter``, ``objects`` or
                ``memory_blocks``, which no text can hold. Within one process they are found again
                by themselves, and so is a store anywhere that was registered or has an address
                without a password. A memory whose store is not found says so when it is used.
        """
        return _memory_state.load(cls, data, **kwargs)

    def to_json(self, **kwargs: Any) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, **kwargs)

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
        return type(self).from_dict(self.to_dict())

    def __repr__(self) -> str:
        # Traces carry it as a tag.
        return f"CuratedMemory({self.chat_store_key!r}, token_limit={self.token_limit})"

    __str__ = __repr__


class MemoryBranches(Branches[CuratedMemory]):
    """Forks a stored conversation, lists its branches and switches between them.

    A branch is a key of the same chat store; which there are, and which is current, is a key too
    (``"<key>:branches"``), so all of it survives a restart. `open` returns the current branch as a
    `CuratedMemory`, for an agent or a chat engine.

    Args:
        key: the conversation.
        chat_store: any `BaseChatStore` or `AsyncDBChatStore`.
        options: the other arguments of `CuratedMemory.from_defaults`, for every memory.

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
            lambda found: CuratedMemory.from_defaults(
                chat_store=chat_store, chat_store_key=found, **options
            ),
            buffer=lambda memory: memory._buffer,
            line=lambda text: ChatMessage(text, role="system"),
            text=lambda message: message.content,
        )
