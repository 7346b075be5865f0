"""`CuratedMemory`: the whole record in any chat store, a curated view for the model."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms import LLM
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY
from llama_index.core.storage.chat_store import SimpleChatStore

from history_curator.config import CuratorConfig, RetentionConfig
from history_curator.curator import Curator
from history_curator.errors import BudgetUnsatisfiableError
from history_curator.record.resilience import DEFECTS
from history_curator.record.retention import apply_retention, build_context
from llamaindex_history_curator import _state
from llamaindex_history_curator._budget import counter_for_llm
from llamaindex_history_curator._cache import marks_for
from llamaindex_history_curator._copies import copy_message
from llamaindex_history_curator._dialect import LlamaIndexDialect
from llamaindex_history_curator._events import publish, span
from llamaindex_history_curator._loops import bridge_for
from llamaindex_history_curator._record import RecordMemory, read_all
from llamaindex_history_curator._setup import (
    check_alone,
    check_keywords,
    load_curator,
    make_curator,
)
from llamaindex_history_curator._store import (
    ChatStore,
    check_store,
    log_view_only,
    pruner,
    replaces_at_once,
)
from llamaindex_history_curator._view import Viewer, limit_of

__all__ = ["CuratedMemory"]

DEFAULT_TOKEN_LIMIT = 30_000

logger = logging.getLogger("llamaindex_history_curator")

_DIALECT = LlamaIndexDialect()


class CuratedMemory(RecordMemory):
    """A memory whose record is complete and whose view always fits and is never invalid.

    `get` returns a view within `token_limit`, with the system message, the latest question and
    whole tool exchanges; where even the latest turn is too large it returns that turn rather than
    raise. `get_all` returns everything ever put. Both return copies and `put` stores one, because
    LlamaIndex edits messages in place: no edit of what was put or returned reaches the record or
    another view. Safe to share between threads and tasks. While the store is down the conversation
    goes on from memory, and the store catches up when it is back.

    Example:
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
    rewrite: bool = False

    _settings: dict[str, Any] = PrivateAttr(default_factory=dict)
    _viewer: Viewer = PrivateAttr()
    _last_resort: Curator = PrivateAttr()
    _live: str = PrivateAttr(default="")
    _pruner: Any = PrivateAttr(default=None)

    def model_post_init(self, context: Any, /) -> None:
        """Open the store."""
        super().model_post_init(context)
        if self.curator is None:
            self.curator = make_curator(token_limit=self.token_limit)
        self.token_limit = limit_of(self.curator)
        self._viewer = Viewer(
            self.curator,
            "memory",
            mark_cache=self.mark_cache,
            steady=self.retention is None,
        )
        self._last_resort = Curator(counter=self.curator.counter, provider=self.curator.profile)
        self._live = _state.remember(self)
        if self.retention is not None and self._trims:
            self._pruner = pruner(self.chat_store, self.chat_store_key, self.retention)
            if self._shows_only:
                log_view_only(type(self.chat_store).__name__)

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows this memory by."""
        return "CuratedMemory"

    @classmethod
    def from_defaults(  # noqa: PLR0917 - the first five in the order of ChatMemoryBuffer
        cls,
        chat_history: list[ChatMessage] | None = None,
        llm: LLM | None = None,
        chat_store: ChatStore | None = None,
        chat_store_key: str = DEFAULT_CHAT_STORE_KEY,
        token_limit: int | None = None,
        managers: Any = (),
        provider: str = "auto",
        counter: Any = None,
        retention: RetentionConfig | dict[str, Any] | None = None,
        mark_cache: bool = False,
        curator: Curator | None = None,
        config: CuratorConfig | dict[str, Any] | str | Path | None = None,
        rewrite: bool = False,
        objects: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> CuratedMemory:
        """Create a memory.

        Args:
            chat_history: replaces what the store holds under the key.
            llm: the budget, the counter and the provider follow it where not given.
            chat_store: any `BaseChatStore` or `AsyncDBChatStore`; in memory by default.
            chat_store_key: which conversation of the store.
            token_limit: the budget of the view; 30,000 without an LLM.
            managers: history managers, in order, or one alone.
            provider: whose rules hold; ``"auto"`` finds out from the LLM.
            counter: an encoding, a model name or a `TokenCounter`.
            retention: what the store keeps of older turns' tool details.
            mark_cache: put a `CachePoint` at the end of the stable prefix.
            curator: a curator made elsewhere, instead of managers, limit, provider and counter.
            config: the same as data. Managers given this way survive `to_dict` anywhere. Limit,
                provider, counter and options win over it.
            rewrite: apply retention also to a store that can neither edit messages in place nor
                replace them in one step, by deleting and adding. A crash in between loses the
                conversation, and so does a second writer with what it adds meanwhile.
            objects: what ``"@name"`` options of the config stand for.
            options: further arguments of `Curator`: ``recall``, ``low_water``, ``bus``…

        Raises:
            ConfigurationError: for an argument nobody knows, or a curator or config given
                together with what it is made of.
        """
        arguments = inspect.signature(cls.from_defaults).parameters.keys() - {"options"}
        check_keywords(cls.__name__, options, {*arguments, *_state.OPTIONS, "bus"})
        fitting = {"token_limit": token_limit, "provider": provider, "counter": counter}
        given = {**fitting, **options}
        check_alone(curator, config=config, objects=objects, managers=managers, **given)
        settings: dict[str, Any] = {key: options[key] for key in _state.OPTIONS if key in options}
        if config is not None:
            config = CuratorConfig.load(config)
            if llm is None and token_limit is None and config.max_tokens is None:
                given["token_limit"] = DEFAULT_TOKEN_LIMIT
            curator, config = load_curator(config, objects, managers=managers, llm=llm, **given)
            retention = retention or config.retention
            settings = {"config": config.to_dict()}
        elif curator is None:
            if llm is None and token_limit is None:
                given["token_limit"] = DEFAULT_TOKEN_LIMIT
            if counter is None:
                given["counter"] = counter_for_llm(llm)
            if isinstance(given["counter"], str):
                settings["counter"] = given["counter"]
            curator = make_curator(managers, llm=llm, objects=objects, **given)
        if isinstance(retention, dict):
            retention = RetentionConfig.from_dict(retention)
        # Looked at here as well, because pydantic turns what its models raise into its own error.
        limit_of(curator)
        memory = cls(
            chat_store=SimpleChatStore() if chat_store is None else check_store(chat_store),
            chat_store_key=chat_store_key,
            curator=curator,
            retention=retention,
            mark_cache=marks_for(llm, mark_cache),
            rewrite=rewrite,
        )
        memory._settings = settings
        if chat_history is not None:
            memory._write(list(map(copy_message, chat_history)))
        return memory

    # Reading.

    @span
    def get(
        self,
        input: str | None = None,  # noqa: A002 - the name BaseMemory gives it
        initial_token_count: int = 0,
        **kwargs: Any,
    ) -> list[ChatMessage]:
        """Return the view.

        Args:
            input: the question about to be asked; unless it is in the record, room is left for it
                and managers look for what matters to it.
            initial_token_count: tokens the caller adds; room is left for them.
            kwargs: what other memories take; not used.
        """
        messages = self._loaded(self._buffer.read())
        if not messages:
            return []
        try:
            question = _unasked(messages, input) if input else None
            reserve = self._reserve(question, initial_token_count)
            view = self._viewer.view(messages, reserve=reserve, tail="history", query=question)
            return self._copies(view)
        except BudgetUnsatisfiableError as error:
            return self._degrade(messages, error)

    @span
    async def aget(
        self,
        input: str | None = None,  # noqa: A002 - the name BaseMemory gives it
        initial_token_count: int = 0,
        **kwargs: Any,
    ) -> list[ChatMessage]:
        """Return the view; see `get`."""
        messages = self._loaded(await self._buffer.aread())
        if not messages:
            return []
        try:
            question = _unasked(messages, input) if input else None
            reserve = self._reserve(question, initial_token_count)
            view = await self._viewer.aview(
                messages, reserve=reserve, tail="history", query=question
            )
            return self._copies(view)
        except BudgetUnsatisfiableError as error:
            return self._degrade(messages, error)

    # Writing.

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages to the record, all at once."""
        super().put_messages(messages)
        if self._pruner is None or self._buffer.pending:
            return
        try:
            changed = bridge_for(self.chat_store).run(self._pruner)
        except Exception as error:  # noqa: BLE001
            self._put_off(error)
        else:
            if changed:
                self._seen(self._buffer.read())

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages to the record, all at once."""
        await super().aput_messages(messages)
        if self._pruner is None or self._buffer.pending:
            return
        try:
            changed = await bridge_for(self.chat_store).arun(self._pruner)
        except Exception as error:  # noqa: BLE001
            self._put_off(error)
        else:
            if changed:
                self._seen(await self._buffer.aread())

    @property
    def tokenizer_fn(self) -> Callable[[str], Sequence[int]]:
        """A tokenizer whose tokens can only be counted; chat engines ask for it."""
        count = self.curator.counter.count
        return lambda text: range(count(text))

    # State.

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the record, the audit and the settings as plain JSON values."""
        return {**_state.dump(self, self._snapshot()), "rewrite": self.rewrite}

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> CuratedMemory:
        """Return the memory that `to_dict` wrote.

        Args:
            data: not changed.
            kwargs: ``chat_store``, ``managers``, ``curator``, ``counter`` or ``objects``, which no
                text can hold. Within one process they are found again by themselves.
        """
        memory = _state.load(cls, data, **kwargs)
        memory.rewrite = bool(data.get("rewrite"))
        return memory

    def to_json(self, **kwargs: Any) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, **kwargs)

    @classmethod
    def from_json(cls, data_str: str, **kwargs: Any) -> CuratedMemory:
        """Return the memory that `to_json` wrote."""
        return cls.from_dict(json.loads(data_str), **kwargs)

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

    # Inside.

    def _loaded(self, messages: list[ChatMessage]) -> list[ChatMessage]:
        self._seen(messages)
        if self.retention is None or not messages:
            return messages
        entries = read_all(messages)
        if self._shows_only:
            entries = apply_retention(entries, self.retention)
        return _DIALECT.write(build_context(entries, self.retention))

    @property
    def _trims(self) -> bool:
        return self.retention is not None and self.retention.persist_tool_invocations != "full"

    @property
    def _prunes(self) -> bool:
        if not self._trims or self._pruner is not None:
            return False
        return self.rewrite or replaces_at_once(self.chat_store)

    @property
    def _shows_only(self) -> bool:
        return self._trims and self._pruner is None and not self._prunes

    def _put_off(self, error: Exception) -> None:
        if isinstance(error, DEFECTS):
            raise error
        logger.info("%s: retention waits for the next message. %s", self, error)

    def _reserve(self, question: str | None, initial: int) -> int:
        return initial if question is None else initial + self.curator.counter.count(question) + 4

    def _degrade(
        self, messages: list[ChatMessage], error: BudgetUnsatisfiableError
    ) -> list[ChatMessage]:
        """Return the latest turn: the provider's refusal says more than an error of ours."""
        logger.warning("%s: only the latest turn is returned. %s", self, error)
        users = [place for place, message in enumerate(messages) if message.role.value == "user"]
        start = users[-1] if users else len(messages) - 1
        system = [message for message in messages[:start] if message.role.value == "system"]
        curation = self._last_resort.curate(
            [*system, *messages[start:]], tail="history", dialect=_DIALECT
        )
        publish(curation, "memory", degraded=True)
        return self._copies(curation.messages)


def _unasked(messages: list[ChatMessage], question: str) -> str | None:
    """Return the question, unless it is already the latest message."""
    last = messages[-1]
    return None if last.role.value == "user" and last.content == question else question
