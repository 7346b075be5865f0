"""How much of a conversation its memory blocks were given already."""

from __future__ import annotations

import logging
from typing import Any

from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from llamaindex_history_curator._loops import LoopBridge, bridge_for

logger = logging.getLogger("llamaindex_history_curator")


class Handed:
    """A number of messages, from the oldest on.

    In a SQL store these messages are archived, as `Memory` does, so that the number outlives this
    process; elsewhere it is kept here.

    Args:
        store: any chat store.
        key: the conversation.
    """

    def __init__(self, store: Any, key: str) -> None:
        self._store = store
        self._key = key
        self._bridge: LoopBridge | None = None
        if isinstance(store, AsyncDBChatStore):
            self._bridge = bridge_for(store)
        self.number: int | None = None if self._bridge is not None else 0

    def read(self) -> int:
        """Return the number."""
        if self.number is None and self._bridge is not None:
            self.number = self._bridge.run(self._count)
        return self.number or 0

    async def aread(self) -> int:
        """Return the number."""
        if self.number is None and self._bridge is not None:
            self.number = await self._bridge.arun(self._count)
        return self.number or 0

    def write(self, number: int) -> None:
        """Note a larger number."""
        before, self.number = self.number or 0, number
        if self._bridge is not None:
            self._bridge.run(lambda: self._archive(number - before))

    async def awrite(self, number: int) -> None:
        """Note a larger number."""
        before, self.number = self.number or 0, number
        if self._bridge is not None:
            await self._bridge.arun(lambda: self._archive(number - before))

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
