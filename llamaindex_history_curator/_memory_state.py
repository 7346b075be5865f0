"""A memory as JSON, and back: in this process whole, elsewhere with what JSON can hold."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakValueDictionary

from llama_index.core.memory import FactExtractionMemoryBlock
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from history_curator.errors import ConfigurationError
from history_curator.config import CuratorConfig, RetentionConfig
from history_curator.config import CuratorFields
from history_curator.integrations import ConfigSource
from llamaindex_history_curator._memory_record import Replaced
from llamaindex_history_curator._options import make_curator
from llamaindex_history_curator._rows import message_from_dict, message_to_dict
from llamaindex_history_curator._store import MissingStore, describe_store, find_store, is_in_memory

if TYPE_CHECKING:
    from llama_index.core.base.llms.types import ChatMessage

    from history_curator.curator import Curator
    from llamaindex_history_curator._memory import CuratedMemory
    from llamaindex_history_curator._store import ChatStore

OPTIONS = tuple(
    name
    for name in (*CuratorFields.model_fields, "name")
    if name not in ("max_tokens", "counter", "provider")
)
"""Arguments of a curator that JSON can hold, beside those that every memory has."""

_memories: WeakValueDictionary[str, CuratedMemory] = WeakValueDictionary()


def remember(memory: CuratedMemory) -> str:
    """Return a name under which this process finds the memory again while it lives."""
    name = uuid4().hex
    _memories[name] = memory
    return name


def settings_of(
    made_of: Mapping[str, Any], options: Mapping[str, Any], config: ConfigSource | None
) -> dict[str, Any]:
    """Return what is saved of the arguments of a memory, so that its curator can be made again.

    Args:
        made_of: what the curator is made of.
        options: what it was given beside limit, provider, counter and managers.
        config: where the rest comes from; it is saved with everything else in its place.
    """
    if config is None:
        saved = {name: options[name] for name in OPTIONS if name in options}
        return saved | (
            {"counter": made_of["counter"]} if isinstance(made_of["counter"], str) else {}
        )
    plain = {
        name: value
        for name, value in made_of.items()
        if name in CuratorConfig.model_fields and isinstance(value, (str, int, float, type(None)))
    }
    return {"config": CuratorConfig.load(config).model_copy(update=plain).to_dict()}


def dump(memory: CuratedMemory, messages: list[ChatMessage]) -> dict[str, Any]:
    """Return a memory as plain JSON values."""
    curator, store = memory.curator, memory.chat_store
    is_sql = isinstance(store, SQLAlchemyChatStore)
    return {
        "class_name": memory.class_name(),
        "version": 1,
        "live": memory._live,
        "token_limit": memory.token_limit,
        "chat_store_key": memory.chat_store_key,
        "chat_store": getattr(store, "kind", store.class_name()),
        "store": describe_store(store),
        "inside": memory._is_at_hand or (is_sql and is_in_memory(store.async_database_uri)),
        "provider": curator.profile.name,
        "counter": curator.counter.name,
        "managers": [type(manager).__name__ for manager in curator.managers],
        "settings": memory._settings,
        "retention": None if memory.retention is None else memory.retention.model_dump(),
        "mark_cache": memory.mark_cache,
        "reserve": memory.reserve,
        "blocks": {
            "names": [block.name for block in memory.memory_blocks],
            "insert_method": memory.insert_method.value,
            "chat_history_token_ratio": memory.chat_history_token_ratio,
            "handed": memory._handed.number,
            "facts": {
                block.name: list(block.facts)
                for block in memory.memory_blocks
                if isinstance(block, FactExtractionMemoryBlock)
            },
        },
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
    memory_blocks: Any = None,
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
    store, inside = _find_store(data, chat_store, alive)
    memory = cls(
        chat_store=store,
        chat_store_key=data["chat_store_key"],
        curator=curator,
        retention=RetentionConfig(**data["retention"]) if data["retention"] else None,
        mark_cache=data["mark_cache"],
        rewrite=bool(data.get("rewrite")),
        reserve=data.get("reserve", 0),
        **_find_blocks(data.get("blocks") or {}, memory_blocks, alive),
    )
    memory._settings = dict(data["settings"])
    said = list(map(message_from_dict, data["messages"]))
    if inside:
        memory._buffer.add(said)
        memory._handed.number = (data.get("blocks") or {}).get("handed")
    elif isinstance(store, MissingStore):
        memory._mirror = said
    memory._replaced = [
        Replaced(
            datetime.fromisoformat(item["at"]), tuple(map(message_from_dict, item["messages"]))
        )
        for item in data["replaced"]
    ]
    return memory


def _find_store(
    data: dict[str, Any], given: Any, alive: CuratedMemory | None
) -> tuple[ChatStore, bool]:
    """Return the store, and whether the saved messages have to be put into it."""
    if given is not None:
        return given, False
    simple, described = data["chat_store"] == SimpleChatStore.class_name(), data.get("store")
    if simple and not described:
        return SimpleChatStore(), True
    found = find_store(described) if alive is None else alive.chat_store
    if found is None and data.get("inside"):
        return SimpleChatStore(), True
    return found or MissingStore(kind=data["chat_store"], described=described), False


def _find_blocks(saved: dict[str, Any], given: Any, alive: CuratedMemory | None) -> dict[str, Any]:
    if not saved:
        return {}
    fitting = {key: saved[key] for key in ("insert_method", "chat_history_token_ratio")}
    if given is None and alive is not None:
        template = alive.memory_blocks_template
        return {**fitting, "memory_blocks": alive.memory_blocks, "memory_blocks_template": template}
    blocks = list(given or ())
    missing = [name for name in saved["names"] if all(block.name != name for block in blocks)]
    if missing:
        _warn_of([f"memory block {name}" for name in missing], "memory_blocks=")
    for block in blocks:
        for fact in saved["facts"].get(block.name, ()):
            if fact not in block.facts:
                block.facts.append(fact)
    return {**fitting, "memory_blocks": blocks}


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


def _warn_of(
    lost: list[str], given: str = "managers=, counter= or curator=, or make the memory with config="
) -> None:
    warnings.warn(
        f"cannot be restored from JSON: {', '.join(lost)}. Fix: call from_dict with {given}.",
        UserWarning,
        stacklevel=6,
    )
