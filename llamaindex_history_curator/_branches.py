"""`MemoryBranches`: the branches of a stored conversation, each a memory."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage

from history_curator.sockets import Branches
from llamaindex_history_curator._memory import CuratedMemory
from llamaindex_history_curator._store import ChatStore


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
