"""Memory blocks of LlamaIndex beside the view, within the same budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock
from llama_index.core.memory.memory import BaseMemoryBlock, InsertMethod
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from history_curator.errors import ConfigurationError
from history_curator.integrations import Ask, Body
from llamaindex_history_curator._format import copy_message
from llamaindex_history_curator._store import bridge_for

logger = logging.getLogger("llamaindex_history_curator")

Count = Callable[[Sequence[ChatMessage]], int]


@dataclass(frozen=True, slots=True)
class Gathered:
    """What the blocks say.

    Attributes:
        parts: content blocks, for a system message or the latest question.
        messages: messages of their own, which go in front of the conversation.
    """

    parts: tuple[Any, ...] = ()
    messages: tuple[ChatMessage, ...] = ()

    def as_messages(self) -> list[ChatMessage]:
        """Return it as messages, to be counted."""
        parts = [ChatMessage(role="system", blocks=list(self.parts))] if self.parts else []
        return [*parts, *self.messages]


@dataclass(slots=True)
class Blocks:
    """The memory blocks of a memory.

    They are asked for every view and given what leaves it, as `Memory` does. Blocks of priority 0
    are always whole; of the others those with the highest number give way first, until all of
    them leave the conversation its share.

    Attributes:
        blocks: in the order in which they are shown.
        template: puts what they say into words.
        insert: into a system message or into the latest question.
        share: of the budget, which is the conversation's whatever the blocks say.
    """

    blocks: Sequence[BaseMemoryBlock[Any]]
    template: Any
    insert: InsertMethod
    share: float

    def __post_init__(self) -> None:
        names = [block.name for block in self.blocks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(
                f"memory_blocks: more than one is called {twice[0]!r}. Fix: give each a name."
            )
        if not 0.0 < self.share <= 1.0:
            raise ConfigurationError(
                f"chat_history_token_ratio is {self.share!r}. Fix: above 0, at most 1."
            )
        self.insert = InsertMethod(self.insert)

    async def gather(
        self, said: Sequence[ChatMessage], session: str, *, limit: int, used: int, count: Count
    ) -> Gathered:
        """Return what the blocks say about a conversation, within what it leaves them.

        Args:
            said: the conversation as the blocks see it.
            session: its name.
            limit: tokens for blocks and conversation together.
            used: tokens of the conversation.
            count: counts messages.
        """
        contents: dict[str, Any] = {}
        for block in self.blocks:
            content = await block.aget(list(said), session_id=session)
            if content:
                contents[block.name] = content
        room = max(limit - used, int(limit * (1.0 - self.share)))
        yielding = sorted(self.blocks, key=lambda block: -block.priority)
        for block in yielding:
            for cut in (True, False):
                over = count(self._shown(contents).as_messages()) - room
                if over <= 0 or block.priority == 0 or block.name not in contents:
                    break
                content = contents.pop(block.name)
                kept = await block.atruncate(content, over) if cut else None
                if kept:
                    contents[block.name] = kept
        return self._shown(contents)

    def place(self, view: Sequence[ChatMessage], found: Gathered) -> list[ChatMessage]:
        """Return a view with what the blocks say; what is changed is a copy."""
        out = list(view)
        heads = next(
            (n for n, one in enumerate(out) if one.role is not MessageRole.SYSTEM), len(out)
        )
        out[heads:heads] = map(copy_message, found.messages)
        if not found.parts:
            return out
        if self.insert is InsertMethod.USER:
            users = [n for n, one in enumerate(out) if one.role is MessageRole.USER]
            if users:
                out[users[-1]] = _led(out[users[-1]], found.parts)
                return out
            return [*out, ChatMessage(role="user", blocks=list(found.parts))]
        if heads:
            out[0] = _led(out[0], found.parts)
            return out
        return [ChatMessage(role="system", blocks=list(found.parts)), *out]

    async def hand_over(self, messages: Sequence[ChatMessage], session: str) -> None:
        """Give the blocks what left the view."""
        for block in self.blocks:
            await block.aput(
                list(map(copy_message, messages)), from_short_term_memory=True, session_id=session
            )

    def _shown(self, contents: dict[str, Any]) -> Gathered:
        parts: list[tuple[str, list[Any]]] = []
        messages: list[ChatMessage] = []
        for block in self.blocks:
            content = contents.get(block.name)
            if isinstance(content, str):
                parts.append((block.name, [TextBlock(text=content)]))
            elif content and isinstance(content[0], ChatMessage):
                messages += content
            elif content:
                parts.append((block.name, list(content)))
        if not parts:
            return Gathered((), tuple(messages))
        formatted = self.template.format_messages(memory_blocks=parts)
        return Gathered(tuple(formatted[0].blocks) if formatted else (), tuple(messages))


class Handed:
    """How much of a conversation its memory blocks were given: so many messages, the oldest ones.

    In a SQL store these messages are archived, as `Memory` does, so that the number outlives this
    process; elsewhere it is kept here.

    Args:
        store: any chat store.
        key: the conversation.
    """

    def __init__(self, store: Any, key: str) -> None:
        self._store = store
        self._key = key
        self._bridge = bridge_for(store) if isinstance(store, AsyncDBChatStore) else None
        self.number: int | None = None if self._bridge is not None else 0

    def read(self) -> Body[int]:
        """Return the number."""
        if self.number is None and self._bridge is not None:
            self.number = yield Ask(self._bridge.run, self._bridge.arun, (self._count,))
        return self.number or 0

    def write(self, number: int) -> Body[None]:
        """Note a larger number."""
        new, self.number = number - (self.number or 0), number
        if self._bridge is not None:
            yield Ask(self._bridge.run, self._bridge.arun, (self._archive, new))

    async def _count(self) -> int:
        try:
            return int(await self._store.count_messages(self._key, status=MessageStatus.ARCHIVED))
        except Exception as error:  # noqa: BLE001 - a store that is down is not asked for more
            logger.info("what was archived is not known (%s)", type(error).__name__)
            return 0

    async def _archive(self, count: int) -> None:
        try:
            await self._store.archive_oldest_messages(self._key, n=count)
        except Exception as error:  # noqa: BLE001 - it only says where to go on after a restart
            logger.info("what left the view is not archived (%s)", type(error).__name__)


def _led(message: ChatMessage, parts: Sequence[Any]) -> ChatMessage:
    return message.model_copy(update={"blocks": [*parts, *message.blocks]})
