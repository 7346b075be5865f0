"""What tool schemas cost: OpenAI's published arithmetic, over every way to write a tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from history_curator.errors import ConfigurationError

_FUNCTION, _PROPERTIES, _PROPERTY, _ENUM_BLOCK, _ENUM_ITEM, _END = 7, 3, 3, -3, 3, 12
_DEPTH = 32


def count_schemas(tools: Sequence[Mapping[str, Any]], count: Callable[[str], int]) -> int:
    """Return the tokens of tool schemas.

    Takes OpenAI tools (``{"type": "function", "function": {...}}``), Anthropic tools
    (``{"name", "description", "input_schema"}``), plain function dicts and Responses-style
    tools. Built-in tools of a provider, which carry no schema, count as their JSON text. Nested
    objects and array items count like properties.

    Raises:
        ConfigurationError: naming the tool that is not a mapping.
    """
    total = 0
    for index, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            raise ConfigurationError(
                f"tools[{index}]: expected a mapping, got {type(tool).__name__}. "
                "Fix: pass tool schemas as dicts, not callables or tool objects."
            )
        total += _count_tool(tool, count)
    return total + _END if total else 0


def _count_tool(tool: Mapping[str, Any], count: Callable[[str], int]) -> int:
    inner = tool.get("function")
    function: Mapping[str, Any] = inner if isinstance(inner, Mapping) else tool
    name = function.get("name")
    schema = _first_mapping(function, ("parameters", "input_schema", "inputSchema"))
    if not isinstance(name, str) or (schema is None and "description" not in function):
        return _FUNCTION + count(json.dumps(tool, default=str, ensure_ascii=False))
    total = _FUNCTION + count(f"{name}:{_line(function.get('description'))}")
    if schema is None:
        return total
    definitions = _first_mapping(schema, ("$defs", "definitions")) or {}
    for definition in (schema, *definitions.values()):
        if isinstance(definition, Mapping):
            total += _count_properties(definition, count, 0)
    return total


def _count_properties(schema: Mapping[str, Any], count: Callable[[str], int], depth: int) -> int:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties or depth > _DEPTH:
        return 0
    total = _PROPERTIES
    for name, spec in properties.items():
        total += _PROPERTY
        if not isinstance(spec, Mapping):
            total += count(f"{name}:{spec}")
            continue
        total += count(f"{name}:{_type(spec)}:{_line(spec.get('description'))}")
        for inner in _variants(spec):
            options = inner.get("enum")
            if isinstance(options, Sequence) and options and not isinstance(options, str):
                total += _ENUM_BLOCK + sum(_ENUM_ITEM + count(str(item)) for item in options)
            total += _count_properties(inner, count, depth + 1)
    return total


def _variants(spec: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield a property's schema and the schemas inside it: array items, anyOf and the like."""
    yield spec
    if depth > _DEPTH:
        return
    nested: list[Any] = [spec.get("items"), spec.get("additionalProperties")]
    for key in ("anyOf", "oneOf", "allOf"):
        several = spec.get(key)
        if isinstance(several, Sequence) and not isinstance(several, str):
            nested.extend(several)
    for inner in nested:
        if isinstance(inner, Mapping):
            yield from _variants(inner, depth + 1)


def _type(spec: Mapping[str, Any]) -> str:
    kind = spec.get("type", spec.get("$ref", "any"))
    return kind if isinstance(kind, str) else json.dumps(kind, default=str)


def _line(description: Any) -> str:
    return str(description).removesuffix(".") if description is not None else ""


def _first_mapping(mapping: Mapping[str, Any], keys: Sequence[str]) -> Mapping[str, Any] | None:
    for key in keys:
        value = mapping.get(key)
        if isinstance(value, Mapping):
            return value
    return None
