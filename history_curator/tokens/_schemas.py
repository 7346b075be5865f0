"""What tool schemas cost: OpenAI's published arithmetic, over every way to write a tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from history_curator.errors import ConfigurationError

_FUNCTION, _PROPERTIES, _PROPERTY, _ENUM_BLOCK, _ENUM_ITEM, _END = 7, 3, 3, -3, 3, 12
_DEPTH = 32
_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
# Told by the arithmetic itself, or not shown to a model.
_TOLD = frozenset(("type", "description", "enum", "required", "$schema", "$ref"))
_TOLD_OF_TOOLS = frozenset(("type", "name", "description", "strict", "cache_control", *_SCHEMAS))

Count = Callable[[str], int]


def count_schemas(tools: Sequence[Mapping[str, Any]], count: Count) -> int:
    """Return the tokens of tool schemas, all of what they say.

    Takes OpenAI tools (``{"type": "function", "function": {...}}``), Anthropic tools
    (``{"name", "description", "input_schema"}``), Gemini's ``function_declarations``, Bedrock's
    ``toolSpec``, plain function dicts and Responses-style tools. A schema inside a schema (items,
    alternatives, definitions) counts like a property, every other word of it as text. Built-in
    tools of a provider, which carry no schema, and dicts of any other kind count as their JSON.

    Raises:
        ConfigurationError: naming the tool that is not a mapping, or that JSON cannot carry.
    """
    total = 0
    for index, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            raise ConfigurationError(
                f"tools[{index}]: expected a mapping, got {type(tool).__name__}. "
                "Fix: pass tool schemas as dicts, not callables or tool objects."
            )
        try:
            total += sum(_count_tool(each, count) for each in _functions(tool))
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"tools[{index}]: cannot be written as JSON ({error}). "
                "Fix: pass a schema that does not hold itself."
            ) from error
    return total + _END if total else 0


def _functions(tool: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the functions of a tool; Gemini lists several in one."""
    for key in ("function", "toolSpec"):
        if isinstance(tool.get(key), Mapping):
            tool = tool[key]
    listed = tool.get("function_declarations", tool.get("functionDeclarations"))
    if not isinstance(listed, (list, tuple)):
        yield tool
        return
    yield from (each for each in listed if isinstance(each, Mapping))
    rest = {key: value for key, value in tool.items() if value is not listed}
    if rest:
        yield rest


def _count_tool(tool: Mapping[str, Any], count: Count) -> int:
    name = tool.get("name")
    schema = next((tool[key] for key in _SCHEMAS if isinstance(tool.get(key), Mapping)), None)
    if not isinstance(name, str) or (schema is None and "description" not in tool):
        return _FUNCTION + count(_json(tool))
    total = _FUNCTION + count(f"{name}:{_line(tool.get('description'))}")
    for key, value in tool.items():
        if key not in _TOLD_OF_TOOLS:
            total += count(f"{key}:{_json(value)}")
    if schema is None:
        return total
    if isinstance(schema.get("json"), Mapping):  # Bedrock
        schema = schema["json"]
    if schema.get("description") is not None:
        total += count(_line(schema["description"]))
    return total + _count_inside(schema, count, 0)


def _count_inside(schema: Mapping[str, Any], count: Count, depth: int) -> int:
    """Count everything in a schema but its own type and description."""
    if depth > _DEPTH:
        return count(_json(schema))
    total = 0
    options = schema.get("enum")
    if isinstance(options, (list, tuple)) and options:
        total += _ENUM_BLOCK + sum(_ENUM_ITEM + count(_word(item)) for item in options)
    for key, value in schema.items():
        if key in _TOLD:
            continue
        if key in _NAMED and isinstance(value, Mapping):
            if value:
                total += _PROPERTIES if key == "properties" else 0
                total += sum(_count_named(name, value[name], count, depth) for name in value)
        elif isinstance(value, Mapping):
            total += _count_nested(value, count, depth)
        elif isinstance(value, (list, tuple)) and any(isinstance(each, Mapping) for each in value):
            for each in value:
                if isinstance(each, Mapping):
                    total += _count_nested(each, count, depth)
                else:
                    total += count(_word(each))
        elif value not in (None, True, False):
            total += count(f"{key}:{_word(value)}")
    return total


def _count_named(name: Any, spec: Any, count: Count, depth: int) -> int:
    if not isinstance(spec, Mapping):
        return _PROPERTY + count(f"{name}:{spec}")
    told = count(f"{name}:{_type(spec)}:{_line(spec.get('description'))}")
    return _PROPERTY + told + _count_inside(spec, count, depth + 1)


def _count_nested(spec: Mapping[str, Any], count: Count, depth: int) -> int:
    """Count a schema without a name: array items, an alternative."""
    told = count(f"{_type(spec)}:{_line(spec.get('description'))}")
    return told + _count_inside(spec, count, depth + 1)


def _type(spec: Mapping[str, Any]) -> str:
    return _word(spec.get("type", spec.get("$ref", "any")))


def _word(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _line(description: Any) -> str:
    return str(description).removesuffix(".") if description is not None else ""
