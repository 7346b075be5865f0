"""Copies that share nothing editable with the original."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from llama_index.core.base.llms.types import BaseContentBlock, ChatMessage, TextBlock, ToolCallBlock
from pydantic import BaseModel

from history_curator.dialects._fields import MAX_DEPTH, too_deep

M = TypeVar("M", bound=BaseModel)

_set, _new = object.__setattr__, object.__new__
_FLAT = {str, bytes, int, float, bool, type(None)}


def copy_message(message: ChatMessage) -> ChatMessage:
    """Return a copy that shares nothing that can be edited in place.

    LlamaIndex rewrites ``block.text`` of the messages a memory returns, so what is stored and
    what is handed out must not be the same objects. Texts and bytes are shared, and so are
    objects in the keywords that are neither plain data nor models of plain data.
    """
    twin: ChatMessage = copy_plain(message) or _copy(message)
    return twin


def copy_model(model: M, update: Mapping[str, Any] | None = None) -> M:
    """Return what ``model.model_copy(update=update)`` does, several times as fast."""
    if model.__pydantic_extra__ is not None or _private(model) is not None:
        return model.model_copy(update=update)  # rare, and has rules of its own
    if update is None:
        return _twin(model, model.__dict__.copy())
    twin = _twin(model, {**model.__dict__, **update})
    twin.__pydantic_fields_set__.update(update)
    return twin


def _twin(model: M, fields: dict[str, Any]) -> M:
    """A model of the same class with these fields, and nothing beside them."""
    twin: M = _new(model.__class__)
    _set(twin, "__dict__", fields)
    _set(twin, "__pydantic_fields_set__", model.__pydantic_fields_set__.copy())
    _set(twin, "__pydantic_extra__", None)
    _set(twin, "__pydantic_private__", None)
    return twin


def is_flat(values: Iterable[Any]) -> bool:
    """Whether values are all of the kinds that cannot be edited."""
    return _FLAT.issuperset(map(type, values))


def copy_plain(message: ChatMessage) -> ChatMessage | None:
    """Return the same for a message of texts, calls and keywords; None for one that holds more."""
    if message.__class__ is not ChatMessage:
        return None
    fields = message.__dict__.copy()
    keywords = fields["additional_kwargs"]
    if keywords:
        if not is_flat(keywords.values()):
            return None
        fields["additional_kwargs"] = keywords.copy()
    else:
        fields["additional_kwargs"] = {}
    blocks: list[Any] = []
    for block in fields["blocks"]:
        inside = block.__dict__.copy()
        if block.__class__ is ToolCallBlock and inside["tool_kwargs"].__class__ is dict:
            arguments = inside["tool_kwargs"]
            if not is_flat(arguments.values()):
                return None
            inside["tool_kwargs"] = arguments.copy()
        elif block.__class__ is not TextBlock:
            return None
        blocks.append(_twin(block, inside))
    fields["blocks"] = blocks
    return _twin(message, fields)


def _copy(value: Any, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise too_deep()
    if isinstance(value, dict):
        return {key: _copy(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_copy(item, depth + 1) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, bytearray):
        return value[:]
    if not isinstance(value, BaseModel):
        return value
    if _private(value) is not None and not isinstance(value, BaseContentBlock):
        return value
    twin = copy_model(value)
    twin.__dict__.update(_copy(twin.__dict__, depth + 1))
    if twin.__pydantic_extra__:
        _set(twin, "__pydantic_extra__", _copy(twin.__pydantic_extra__, depth + 1))
    return twin


def _private(model: BaseModel) -> Any:
    return getattr(model, "__pydantic_private__", None)
