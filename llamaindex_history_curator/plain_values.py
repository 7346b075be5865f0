"""Messages and chat stores as plain values: copies, JSON, rows, and fields of tool calls.

As JSON no field is lost. LlamaIndex's own way loses some: the simple chat store's serialiser fails
on current pydantic, and `ChatMessage` turns the bytes of a thought signature into text for good.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar, get_args

from llama_index.core.base.llms.types import (
    BaseContentBlock,
    ChatMessage,
    ContentBlock,
    MessageRole,
    TextBlock,
)
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python
from sqlalchemy.engine import URL, make_url

from history_curator.entries import BYTES, decode_value
from history_curator.errors import ConfigurationError, ConversionError

_V = TypeVar("_V")
_set, _new = object.__setattr__, object.__new__
_SHARED = frozenset((str, bytes, int, float, bool, type(None), MessageRole))
_MAX_DEPTH = 100
_BLOCKS: dict[str, type[Any]] = {
    kind.model_fields["block_type"].default: kind for kind in get_args(get_args(ContentBlock)[0])
}


def copy_value(value: _V, depth: int = 0) -> _V:
    """Return a copy of a message, of plain data or of a model, to be edited in place.

    LlamaIndex rewrites ``block.text`` of the messages a memory returns, so what is stored and
    what is handed out must not be the same objects. Texts and bytes are shared, and so are
    objects that are neither plain data nor models of plain data.

    Raises:
        ConversionError: when it is nested deeper than any provider takes.
    """
    kind: Any = value.__class__
    if kind in _SHARED:
        return value
    if depth > _MAX_DEPTH:
        raise ConversionError(
            f"a value is nested more than {_MAX_DEPTH} levels deep.", fix="send it as text."
        )
    depth += 1
    if isinstance(value, dict):
        return {key: copy_value(item, depth) for key, item in value.items()}  # type: ignore[return-value]
    if isinstance(value, (list, tuple)):
        items = [copy_value(item, depth) for item in value]
        return items if isinstance(value, list) else tuple(items)  # type: ignore[return-value]
    if isinstance(value, bytearray):
        return value[:]  # type: ignore[return-value]
    if not isinstance(value, BaseModel):
        return value
    private = value.__pydantic_private__
    if private is not None and not isinstance(value, BaseContentBlock):
        return value
    copied: Any = _new(kind)
    fields = {name: copy_value(item, depth) for name, item in value.__dict__.items()}
    _set(copied, "__dict__", fields)
    _set(copied, "__pydantic_fields_set__", value.__pydantic_fields_set__.copy())
    _set(copied, "__pydantic_extra__", copy_value(value.__pydantic_extra__, depth))
    _set(copied, "__pydantic_private__", None if private is None else private.copy())
    return copied  # type: ignore[no-any-return]


def message_to_dict(message: ChatMessage) -> dict[str, Any]:
    """Return a message as plain JSON values. SDK objects become dicts; bytes stay bytes.

    Examples:
        >>> message_from_dict(message_to_dict(ChatMessage("hi"))) == ChatMessage("hi")
        True
    """
    return {
        "role": message.role.value,
        "blocks": [_encode(block.model_dump()) for block in message.blocks],
        "additional_kwargs": _encode(message.additional_kwargs),
    }


def message_from_dict(data: Mapping[str, Any]) -> ChatMessage:
    """Return the message that `message_to_dict` wrote.

    Raises:
        ConversionError: when the role is missing or unknown.
    """
    try:
        blocks = [_read_block(block) for block in data.get("blocks", ())]
        message = ChatMessage(role=data["role"], blocks=blocks)
    except (KeyError, ValidationError) as error:
        raise ConversionError(
            f"not a stored message ({error}).", fix="pass what message_to_dict returned."
        ) from error
    # Set afterwards: given to the constructor, a legacy "images" keyword adds its images again.
    message.additional_kwargs = decode_value(data.get("additional_kwargs") or {})
    return message


def _read_block(data: Mapping[str, Any]) -> Any:
    fields = decode_value(data)
    kind = _BLOCKS.get(fields.get("block_type", "text"), TextBlock)
    try:
        return kind(**fields)
    except ValidationError:
        # Such as an image whose file is gone: the record still has to load.
        return kind.model_construct(**fields)


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (bytes, bytearray)):
        return {BYTES: base64.b64encode(value).decode("ascii")}
    if isinstance(value, BaseModel):
        return _encode(value.model_dump())
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_encode(item) for item in value]
    return to_jsonable_python(value, fallback=str)


def load(data: dict[str, Any]) -> ChatMessage:
    """Return the message of a row."""
    return ChatMessage.model_validate(data)


def dump(message: ChatMessage) -> dict[str, Any]:
    """Return what a row holds of a message."""
    return message.model_dump(mode="json")


# How a memory that was saved as JSON finds its chat store again.


def is_in_memory(store: Any) -> bool:
    """Whether a store lives in the memory of this process, and nowhere else."""
    if not isinstance(store, SQLAlchemyChatStore):
        return isinstance(store, SimpleChatStore)
    url = _url_of(store)
    name = url.database or ""
    return url.get_backend_name() == "sqlite" and (
        name in ("", ":memory:") or "mode=memory" in name or url.query.get("mode") == "memory"
    )


def _url_of(store: SQLAlchemyChatStore) -> URL:
    engine = store._async_engine
    return make_url(store.async_database_uri) if engine is None else engine.url


def store_reference(store: Any) -> dict[str, Any] | None:
    """Return the address of a SQL store, or None where only its owner can open it again.

    A password is never written down, nor an address that leaves out how to connect.
    """
    if type(store) is not SQLAlchemyChatStore or is_in_memory(store):
        return None
    url = make_url(store.async_database_uri)
    if url.password or _url_of(store) != url:
        return None
    if url.get_backend_name() == "sqlite" and not str(url.database).startswith("file:"):
        url = url.set(database=os.path.abspath(str(url.database)))
    return {
        "table_name": store.table_name,
        "async_database_uri": url.render_as_string(),
        "db_schema": store.db_schema,
    }


class MissingStore(BaseChatStore):
    """Stands for a store that is not open in this process: every use is an error that says so."""

    kind: str

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ConfigurationError(
            f"the {self.kind} of this memory is not open in this process, so nothing can be read "
            "or added. Fix: pass memory= to the run of the agent, or chat_store= to "
            "CuratedMemory.from_dict."
        )

    set_messages = get_messages = add_message = get_keys = _refuse  # type: ignore[pydantic-field]
    delete_messages = delete_message = delete_last_message = _refuse  # type: ignore[pydantic-field]


# Fields of tool calls, which adapters keep as mappings and as objects of their SDKs.


def get_field(holder: Any, key: str | None) -> Any:
    """Return a field of a mapping or of an object, or None."""
    if key is None:
        return None
    return holder.get(key) if isinstance(holder, Mapping) else getattr(holder, key, None)


def set_field(holder: Any, key: str, value: Any) -> None:
    """Set a field of a mapping or of an object."""
    if isinstance(holder, dict):
        holder[key] = value
    else:
        setattr(holder, key, value)


def find_key(holder: Any, keys: Sequence[str]) -> str | None:
    """Return the first of some keys that has a value."""
    return next((key for key in keys if get_field(holder, key) is not None), None)


def get_first(holder: Any, keys: Sequence[str]) -> Any:
    """Return the first value under some keys."""
    return get_field(holder, find_key(holder, keys))
