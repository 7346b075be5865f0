"""The reading half of a memory: a view of the record, and memory blocks beside it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from llama_index.core.async_utils import asyncio_run
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory.memory import DEFAULT_MEMORY_BLOCKS_TEMPLATE, InsertMethod

from history_curator.curator import Curator
from history_curator.errors import BudgetUnsatisfiableError
from history_curator.config import RetentionConfig, check_options
from history_curator.integrations import Ask, Body, adrive, drive, entries_of, rebuilt
from llamaindex_history_curator._format import DIALECT
from llamaindex_history_curator._events import publish, span
from llamaindex_history_curator._memory_blocks import Blocks, Gathered, Handed
from llamaindex_history_curator._memory_record import RecordMemory, handed_out
from llamaindex_history_curator._options import make_curator
from llamaindex_history_curator._socket import Viewer, check_reserve, limit_of

DEFAULT_TOKEN_LIMIT = 30_000

logger = logging.getLogger("llamaindex_history_curator")


class ViewMemory(RecordMemory):
    """The reading half of a memory: `get` returns a view of the record that fits."""

    token_limit: int = Field(default=DEFAULT_TOKEN_LIMIT, gt=0)
    curator: Any = Field(default=None, exclude=True, repr=False)
    mark_cache: bool = False
    reserve: int = Field(default=0, ge=0)
    memory_blocks: list[Any] = Field(default_factory=list, exclude=True)
    memory_blocks_template: Any = Field(default=DEFAULT_MEMORY_BLOCKS_TEMPLATE, exclude=True)
    insert_method: InsertMethod = InsertMethod.SYSTEM
    chat_history_token_ratio: float = 0.7

    _settings: dict[str, Any] = PrivateAttr(default_factory=dict)
    _viewer: Viewer = PrivateAttr()
    _last_resort: Curator = PrivateAttr()
    _blocks: Blocks | None = PrivateAttr(default=None)
    _handed: Handed = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Open the store."""
        super().model_post_init(context)
        if self.curator is None:
            self.curator = make_curator(token_limit=self.token_limit)
        self.token_limit = limit_of(self.curator)
        self._open_view()
        self._ready = True

    def _open_view(self) -> None:
        check_reserve(self.reserve, self.token_limit)
        # Off the budget, because a reserve of one call would cut every view anew.
        curator = self.curator
        if self.reserve:
            curator = rebuilt(curator, max_tokens=self.token_limit - self.reserve)
        self._viewer = Viewer(
            curator,
            "memory",
            mark_cache=self.mark_cache,
            copy=handed_out,
        )
        self._last_resort = Curator(counter=self.curator.counter, provider=self.curator.profile)
        self._handed = Handed(self.chat_store, self.chat_store_key)
        self._blocks = None
        if self.memory_blocks:
            self._blocks = Blocks(
                self.memory_blocks,
                self.memory_blocks_template,
                self.insert_method,
                self.chat_history_token_ratio,
            )

    def _changed(self, name: str) -> None:
        fields = self.__dict__
        if name == "token_limit":
            check_options({"max_tokens": self.token_limit}, max_tokens=name)
            fields["curator"] = rebuilt(self.curator, max_tokens=self.token_limit)
        elif name == "curator":
            fields["token_limit"] = limit_of(self.curator)
            self._settings = {}
        elif name == "retention" and isinstance(fields["retention"], dict):
            fields["retention"] = RetentionConfig.from_dict(fields["retention"])
        super()._changed(name)
        self._open_view()

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
        return drive(self._get(input, initial_token_count))

    @span
    async def aget(
        self,
        input: str | None = None,  # noqa: A002 - the name BaseMemory gives it
        initial_token_count: int = 0,
        **kwargs: Any,
    ) -> list[ChatMessage]:
        """Return the view; see `get`."""
        return await adrive(self._get(input, initial_token_count))

    @property
    def tokenizer_fn(self) -> Callable[[str], Sequence[int]]:
        """A tokenizer whose tokens can only be counted; chat engines ask for it."""
        count = self.curator.counter.count
        return lambda text: range(count(text))

    def _put(self, messages: Sequence[ChatMessage]) -> Body[None]:
        yield from super()._put(messages)
        yield from self._hand_over()

    def _get(self, asked: Any, initial: int) -> Body[list[ChatMessage]]:
        said = self._seen((yield Ask(self._buffer.read, self._buffer.aread)))
        messages = said if self._shadow else self._kept.context(said)
        question = _unasked(messages, asked) if asked else None
        check_options({"reserve": initial})
        reserve = initial
        if question is not None:
            reserve += self.curator.counter.count(question) + 4
        try:
            if self._blocks is not None:
                beside = yield from self._beside(self._blocks, messages, question, reserve)
                if beside is not None:
                    return beside
            return (yield from self._view(messages, reserve, question))
        except BudgetUnsatisfiableError as error:
            return self._copies(self._degrade(messages, error))

    def _beside(
        self, blocks: Blocks, messages: list[ChatMessage], question: str | None, reserve: int
    ) -> Body[list[ChatMessage] | None]:
        """Return the view with what the blocks say, or None when they leave it no room."""
        view = yield from self._view(messages, reserve, question)
        asked = [] if question is None else [ChatMessage(role="user", content=question)]
        gather = partial(
            blocks.gather,
            [*view, *asked],
            self.chat_store_key,
            limit=self.token_limit,
            used=self._cost(view) + reserve + self.reserve,
            count=self._cost,
        )
        found: Gathered = yield Ask(lambda: asyncio_run(gather()), gather)
        cost = self._cost(found.as_messages())
        try:
            view = yield from self._view(messages, reserve + cost, question)
        except BudgetUnsatisfiableError:
            logger.warning("%s: memory blocks of %s tokens leave no room, so they are left out. "
                           "Fix: give them a priority above 0, or a larger budget.", self, cost)  # fmt: skip
            return None
        placed = blocks.place(view, found)
        if not found.messages:
            return placed
        # Messages of a block were never looked at: the rules hold for them as well.
        sealed = self._last_resort.curate(placed, tail="history", format=DIALECT).messages
        return self._copies(sealed)

    def _view(
        self, messages: list[ChatMessage], reserve: int, question: str | None
    ) -> Body[list[ChatMessage]]:
        if not messages:
            return []
        options = {
            "reserve": reserve,
            "tail": "history",
            "query": question,
            "key": self.chat_store_key,
        }
        view = yield Ask(self._viewer.view, self._viewer.aview, (messages,), options)
        return list(view)

    def _hand_over(self) -> Body[None]:
        """Give the blocks what has left the view since they were last given something."""
        blocks = self._blocks
        if blocks is None:
            return
        messages = self._seen((yield Ask(self._buffer.read, self._buffer.aread)))
        curator, options = self._viewer.curator, {"tail": "history", "format": DIALECT}
        try:
            curation = yield Ask(curator.curate, curator.acurate, (messages,), options)
        except BudgetUnsatisfiableError:
            return
        shown = {entry.sequence for entry in curation.entries if entry.origin is None}
        cut = max((n + 1 for n in range(len(messages)) if n not in shown), default=0)
        start = yield from self._handed.read()
        if cut <= start:
            return
        left = [one for one in messages[start:cut] if one.role.value != "system"]
        yield from self._handed.write(cut)

        async def hand_over() -> None:
            for some in self._portions(self._copies(left)):
                await blocks.hand_over(some, self.chat_store_key)

        yield Ask(lambda: asyncio_run(hand_over()), hand_over)

    def _portions(self, messages: Sequence[ChatMessage]) -> list[list[ChatMessage]]:
        """Return messages in portions of whole turns, of a tenth of the budget where they can."""
        portions: list[list[ChatMessage]] = [[]]
        for message in messages:
            full = self._cost(portions[-1]) >= self.token_limit // 10
            if message.role.value == "user" and full:
                portions.append([])
            portions[-1].append(message)
        return portions

    def _cost(self, messages: Sequence[ChatMessage]) -> int:
        return sum(map(self.curator.counter.count_entry, entries_of(DIALECT, messages)))

    def _degrade(
        self, messages: list[ChatMessage], error: BudgetUnsatisfiableError
    ) -> list[ChatMessage]:
        """Return the latest turn: the provider's refusal says more than an error of ours."""
        logger.warning("%s: only the latest turn is returned. %s", self, error)
        users = [place for place, message in enumerate(messages) if message.role.value == "user"]
        start = users[-1] if users else len(messages) - 1
        system = [message for message in messages[:start] if message.role.value == "system"]
        curation = self._last_resort.curate(
            [*system, *messages[start:]], tail="history", format=DIALECT
        )
        publish(curation, "memory", degraded=True)
        return curation.messages


def _unasked(messages: list[ChatMessage], asked: str | ChatMessage) -> str | None:
    """Return the question, unless it is already the latest message."""
    question = asked.content or "" if isinstance(asked, ChatMessage) else asked
    if messages and messages[-1].role.value == "user" and messages[-1].content == question:
        return None
    return question
