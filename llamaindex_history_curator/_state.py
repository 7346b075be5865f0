"""A memory as JSON, and back: in this process whole, elsewhere with what JSON can hold."""

from __future__ import annotations

import warnings
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakValueDictionary

from llama_index.core.storage.chat_store import SimpleChatStore

from history_curator.config import RetentionConfig
from history_curator.errors import ConfigurationError
from llamaindex_history_curator._audit import Replaced
from llamaindex_history_curator._serialize import message_from_dict, message_to_dict
from llamaindex_history_curator._setup import make_curator

if TYPE_CHECKING:
    from llama_index.core.base.llms.types import ChatMessage

    from history_curator.curator import Curator
    from llamaindex_history_curator._memory import CuratedMemory

__all__ = ["OPTIONS", "dump", "load", "remember"]

OPTIONS = ("low_water", "mode", "name", "preserve_last_n", "reasoning", "recall")
"""Arguments of a curator that JSON can hold."""

_memories: WeakValueDictionary[str, CuratedMemory] = WeakValueDictionary()


def remember(memory: CuratedMemory) -> str:
    """Return a name under which this process finds the memory again while it lives."""
    name = uuid4().hex
    _memories[name] = memory
    return name


def dump(memory: CuratedMemory, messages: list[ChatMessage]) -> dict[str, Any]:
    """Return a memory as plain JSON values."""
    curator = memory.curator
    return {
        "class_name": memory.class_name(),
        "version": 1,
        "live": memory._live,
        "token_limit": memory.token_limit,
        "chat_store_key": memory.chat_store_key,
        "chat_store": memory.chat_store.class_name(),
        "provider": curator.profile.name,
        "counter": curator.counter.name,
        "managers": [type(manager).__name__ for manager in curator.managers],
        "settings": memory._settings,
        "retention": None if memory.retention is None else memory.retention.to_dict(),
        "mark_cache": memory.mark_cache,
        "messages": list(map(message_to_dict, messages)),
        "replaced": [
            {"at": item.at.isoformat(), "messages": list(map(message_to_dict, item.messages))}
            for item in memory.replaced
        ],
    }


def load(
    cls: type[CuratedMemory],
    data: dict[str, Any],
    *,
    chat_store: Any = None,
    managers: Any = None,
    curator: Any = None,
    counter: Any = None,
    objects: Any = None,
) -> CuratedMemory:
    """Return the memory that `dump` wrote."""
    if data.get("class_name") != cls.class_name() or data.get("version") != 1:
        raise ConfigurationError(
            f"not a stored {cls.class_name()}. Fix: pass what to_dict or to_string returned."
        )
    alive = _memories.get(data.get("live", ""))
    if curator is None and managers is None and counter is None and alive is not None:
        curator = alive.curator
    if curator is None:
        curator = _rebuild_curator(data, managers, counter, objects)
    inside = data["chat_store"] == SimpleChatStore.class_name()
    if chat_store is None and not inside:
        chat_store = None if alive is None else alive.chat_store
        if chat_store is None:
            warnings.warn(
                f"the {data['chat_store']} of this memory is not open here: the record is restored "
                "as it was saved, in memory. Fix: pass chat_store= to from_dict.",
                UserWarning,
                stacklevel=4,
            )
    memory = cls(
        chat_store=SimpleChatStore() if chat_store is None else chat_store,
        chat_store_key=data["chat_store_key"],
        curator=curator,
        retention=RetentionConfig(**data["retention"]) if data["retention"] else None,
        mark_cache=data["mark_cache"],
    )
    memory._settings = dict(data["settings"])
    if chat_store is None:
        memory._buffer.add(list(map(message_from_dict, data["messages"])))
    memory._replaced = [
        Replaced(
            datetime.fromisoformat(item["at"]), tuple(map(message_from_dict, item["messages"]))
        )
        for item in data["replaced"]
    ]
    return memory


def _rebuild_curator(data: dict[str, Any], managers: Any, counter: Any, objects: Any) -> Curator:
    settings = dict(data["settings"])
    config = settings.pop("config", None)
    if config is not None and managers is None:
        limit = data["token_limit"]
        curator = make_curator(token_limit=limit, counter=counter, config=config, objects=objects)
        if counter is None and curator.counter.name != data["counter"]:
            _warn_of([f"counter {data['counter']}"])
        return curator
    known = settings.pop("counter", None)
    lost = [] if managers is not None else list(data["managers"])
    if counter is None and known is None:
        lost.append(f"counter {data['counter']}")
    if lost:
        _warn_of(lost)
    return make_curator(
        managers or (),
        token_limit=data["token_limit"],
        provider=data["provider"],
        counter=counter or known,
        **settings,
    )


def _warn_of(lost: list[str]) -> None:
    warnings.warn(
        f"cannot be restored from JSON: {', '.join(lost)}. "
        "Fix: make the memory with config=, or pass managers=, counter= or curator= to "
        "from_dict.",
        UserWarning,
        stacklevel=6,
    )
