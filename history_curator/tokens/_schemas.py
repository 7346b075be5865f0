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
_UNSHOWN = frozenset(("strict", "cache_control"))
"""What is for the provider, and not shown to a model."""

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
    for key in ("function", "toolSpec", "function_declarations", "functionDeclarations"):
        inside = tool.get(key)
        listed: Sequence[Any] = inside if isinstance(inside, (list, tuple)) else (inside,)
        if inside is not None and all(isinstance(each, Mapping) for each in listed):
            yield from listed
            tool = {name: tool[name] for name in tool if name != key and name not in _UNSHOWN}
            if tool.get("type", "function") == "function":
                tool.pop("type", None)
    if tool:
        yield tool


def _count_tool(tool: Mapping[str, Any], count: Count) -> int:
    name = tool.get("name")
    held = next((key for key in _SCHEMAS if isinstance(tool.get(key), Mapping)), None)
    if not isinstance(name, str) or (held is None and "description" not in tool):
        return _FUNCTION + count(_json(tool))
    total = _FUNCTION + count(f"{name}:{_line(tool.get('description'))}")
    for key, value in tool.items():
        told = key in ("name", "description", held) or (key, value) == ("type", "function")
        if not told and key not in _UNSHOWN:
            total += count(f"{key}:{_json(value)}")
    if held is None:
        return total
    schema = tool[held]
    if schema.keys() == {"json"} and isinstance(schema["json"], Mapping):  # Bedrock
        schema = schema["json"]
    if schema.get("type", "object") != "object":
        total += count(_type(schema))
    if schema.get("description") is not None:
        total += count(_line(schema["description"]))
    return total + _count_inside(schema, count, 0)


def _count_inside(schema: Mapping[str, Any], count: Count, depth: int) -> int:
    """Count everything in a schema but its own type and description."""
    if depth > _DEPTH:
        return count(_json(schema))
    total = 0
    for key, value in schema.items():
        listed = isinstance(value, (list, tuple))
        if key in ("type", "description"):
            continue
        if key == "enum" and listed and value:
            total += _ENUM_BLOCK + sum(_ENUM_ITEM + count(_word(item)) for item in value)
        elif key in _NAMED and isinstance(value, Mapping):
            if value:
                total += _PROPERTIES if key == "properties" else count(key)
                total += sum(_count_named(name, value[name], count, depth) for name in value)
        elif isinstance(value, Mapping):
            total += count(key) + _count_nested(value, count, depth)
        elif listed and any(isinstance(each, Mapping) for each in value):
            total += count(key)
            for each in value:
                if isinstance(each, Mapping):
                    total += _count_nested(each, count, depth)
                else:
                    total += count(_word(each))
        else:
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
    return _word(spec.get("type", "any"))


def _word(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _line(description: Any) -> str:
    return str(description).removesuffix(".") if description is not None else ""
