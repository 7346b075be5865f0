"""How a memory that was saved as JSON finds its chat store again."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy.engine import make_url

from history_curator.errors import ConfigurationError
from llamaindex_history_curator._store import ChatStore, check_store, is_in_memory

_registered: dict[str, ChatStore | Callable[[], ChatStore]] = {}
_opened: WeakValueDictionary[tuple[Any, ...], SQLAlchemyChatStore] = WeakValueDictionary()


def register_store(name: str, store: ChatStore | Callable[[], ChatStore]) -> None:
    """Name a chat store, so that a memory saved in one process finds it in another.

    A saved memory holds the name and no address or password. Call it where the program starts, in
    every process that saves or restores, before `Context.from_dict`.

    Args:
        name: the same in every process.
        store: the store, or a function that opens it, called when a memory first asks for it.

    Examples:
        >>> from llama_index.core.storage.chat_store import SimpleChatStore
        >>> register_store("chats", SimpleChatStore())
        >>> find_store({"name": "chats"}) is find_store({"name": "chats"})
        True
    """
    if not callable(store):
        check_store(store)
    _registered[name] = store


def describe_store(store: Any) -> dict[str, Any] | None:
    """Return what a store is found by, or None where only its owner can open it again.

    That is its registered name, or the address of a SQL store whose address is all there is to
    it: a password is never written down, nor an address that leaves out how to connect.
    """
    if isinstance(store, MissingStore):
        return store.described
    for name, known in _registered.items():
        if known is store:
            return {"name": name}
    if type(store) is not SQLAlchemyChatStore:
        return None
    url, engine = make_url(store.async_database_uri), store._async_engine
    if url.password or is_in_memory(url) or (engine is not None and engine.url != url):
        return None
    if url.get_backend_name() == "sqlite" and not str(url.database).startswith("file:"):
        url = url.set(database=os.path.abspath(str(url.database)))
    return {
        "table_name": store.table_name,
        "async_database_uri": url.render_as_string(),
        "db_schema": store.db_schema,
    }


def find_store(described: dict[str, Any] | None) -> ChatStore | None:
    """Return the store of a description, or None when it cannot be found here."""
    if described is None:
        return None
    if "name" in described:
        store = _registered.get(described["name"])
        if callable(store):
            store = _registered[described["name"]] = check_store(store())
        return store
    key = tuple(sorted(described.items(), key=str))
    opened = _opened.get(key)
    if opened is None:
        opened = _opened[key] = SQLAlchemyChatStore(**described)
    return opened


class MissingStore(BaseChatStore):
    """Stands for a store that could not be found: whoever asks it is told what to do."""

    kind: str
    described: dict[str, Any] | None = None

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows this store by."""
        return "MissingStore"

    def _refuse(self) -> NoReturn:
        name = (self.described or {}).get("name")
        register = f"register_store({name or 'a name'!r}, …)"
        if name is None:
            register += ", there and here,"
        raise ConfigurationError(
            f"the {self.kind} of this memory is not open in this process, so nothing can be read "
            f"or added. Fix: call {register} before Context.from_dict, pass memory= to the run of "
            "the agent, or chat_store= to CuratedMemory.from_dict."
        )

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Refuse."""
        self._refuse()

    def get_messages(self, key: str) -> list[ChatMessage]:
        """Refuse."""
        self._refuse()

    def add_message(self, key: str, message: ChatMessage) -> None:
        """Refuse."""
        self._refuse()

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Refuse."""
        self._refuse()

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Refuse."""
        self._refuse()

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Refuse."""
        self._refuse()

    def get_keys(self) -> list[str]:
        """Refuse."""
        self._refuse()
