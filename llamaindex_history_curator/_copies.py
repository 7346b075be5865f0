"""Copies that share nothing editable with the original."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from llama_index.core.base.llms.types import BaseContentBlock, ChatMessage, TextBlock, ToolCallBlock
from pydantic import BaseModel

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


def _copy(value: Any) -> Any:
    copier = _copier(value.__class__)
    return value if copier is None else copier(value)


def _copy_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    return {key: _copy(item) for key, item in value.items()}


def _copy_list(value: list[Any]) -> list[Any]:
    return [_copy(item) for item in value]


def _copy_fields(value: BaseModel) -> BaseModel:
    if _private(value) is not None and not isinstance(value, BaseContentBlock):
        return value
    twin = copy_model(value)
    fields = twin.__dict__
    for name, item in fields.items():
        copier = _copier(item.__class__)
        if copier is not None:
            fields[name] = copier(item)
    if twin.__pydantic_extra__:
        _set(twin, "__pydantic_extra__", _copy_dict(twin.__pydantic_extra__))
    return twin


@lru_cache(maxsize=1024)
def _copier(cls: type) -> Callable[[Any], Any] | None:
    """Return what copies an object of a class; None where it is shared."""
    if issubclass(cls, dict):
        return _copy_dict
    if issubclass(cls, list):
        return _copy_list
    return _copy_fields if issubclass(cls, BaseModel) else None


def _private(model: BaseModel) -> Any:
    return getattr(model, "__pydantic_private__", None)
