"""`ChatHistoryBranches`: the branches of a stored conversation, each a chat history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import SystemMessage

from history_curator.sockets import Branches
from langchain_history_curator._history import CuratedChatMessageHistory


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
