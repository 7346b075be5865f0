"""Tool schemas count for all they say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from history_curator import ConfigurationError
from history_curator.tokens import TiktokenCounter

LONG = "the quick brown fox compactions over the lazy dog " * 40


counter = TiktokenCounter("o200k_base")


def tool(schema: dict[str, Any], **fields: Any) -> dict[str, Any]:
    body = {"name": "look", "description": "Look.", "parameters": schema, **fields}
    return {"type": "function", "function": body}


class TestOddSchemas:
    def test_very_deep_schemas_count_to_the_bottom(self):
        schema: dict[str, Any] = {"description": LONG}
        for _ in range(80):
            schema = {"properties": {"a": schema}}
        assert counter.count_tools([tool(schema)]) > counter.count(LONG)

    def test_a_schema_that_holds_itself_is_an_error_of_ours(self):
        schema: dict[str, Any] = {"properties": {}}
        schema["properties"]["a"] = schema

        with pytest.raises(ConfigurationError, match=r"tools\[0\]"):
            counter.count_tools([tool(schema)])

    def test_other_fields_of_a_tool_count(self):
        plain = counter.count_tools([tool({})])
        assert counter.count_tools([tool({}, examples=[LONG])]) > plain + counter.count(LONG)


def schema(dice: Random, depth: int = 0) -> dict[str, Any]:
    """A schema of everything that JSON Schema has, and of what it may have one day."""
    inner = [schema(dice, depth + 1) for _ in range(dice.randint(0, 2))] if depth < 2 else []
    named = {f"field {at}": each for at, each in enumerate(inner)}
    every: dict[str, Any] = {
        "type": dice.choice(["object", "string", ["string", "null"]]),
        "description": "What it is.",
        "title": "Title",
        "properties": named,
        "required": list(named),
        "enum": ["a", 1, None],
        "const": "x",
        "default": dice.choice([None, False, "x", {"a": ["b"]}]),
        "examples": ["x", {"y": "z"}],
        "items": inner[0] if inner else {},
        "anyOf": inner,
        "prefixItems": [*inner, True],
        "allOf": [{"description": "z"}],
        "not": {"description": "z"},
        "if": {"properties": {"a": {"const": "x"}}},
        "patternProperties": {"^x": {"description": "y"}},
        "definitions": {"A": {"enum": ["a"]}},
        "additionalProperties": dice.choice([False, {"type": "string"}]),
        "propertyOrdering": list(named),
        "dependentRequired": {"a": ["b"]},
        "$defs": named,
        "$ref": "#/$defs/A",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "why",
        "format": "date",
        "pattern": "^x$",
        "minimum": 3,
        "x-new": {"a": {"b": "c"}},
    }
    kept = dice.sample(sorted(every), dice.randint(1, len(every)))
    return {key: every[key] for key in kept}


def texts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a value where a text stands, key or value: who holds it, and where."""
    places = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(places):
        if isinstance(key, str):
            yield value, (key,)
        if isinstance(inner, str):
            yield value, key
        elif isinstance(inner, (dict, list)):
            yield from texts(inner)


def lengthened(tool: dict[str, Any], number: int) -> dict[str, Any]:
    """The tool with the text at one place made long."""
    tool = json.loads(json.dumps(tool))
    holder, key = list(texts(tool))[number]
    if isinstance(key, tuple):
        holder[LONG] = holder.pop(key[0])
    else:
        holder[key] = LONG
    return tool


BUILT_IN = (
    {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["a.b"]},
    {"type": "computer_20250124", "name": "computer", "display_width_px": 800},
    {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
    {"type": "mcp_toolset", "mcp_server_name": "x", "configs": {"look": {"enabled": True}}},
    {"type": "file_search", "vector_store_ids": ["vs_1"], "filters": {"type": "eq", "key": "k"}},
    {"type": "mcp", "server_label": "x", "server_url": "https://a.b", "require_approval": "never"},
    {"type": "custom", "name": "look", "description": "Look.", "format": {"type": "text"}},
    {"google_search": {}, "code_execution": {}},
    {"googleMaps": {"enableWidget": "x"}},
    {"systemTool": {"name": "nova_grounding"}},
    {"type": "custom", "custom": {"name": "look", "format": {"definition": "x"}}},
)


class TestNothingIsLeftOut:
    @pytest.mark.parametrize("seed", range(6))
    def test_of_any_schema(self, seed):
        given = tool(schema(Random(seed)))
        given["function"]["x-notes"] = {"a": "b"}
        self.check(given)

    @pytest.mark.parametrize("given", BUILT_IN, ids=str)
    def test_of_any_built_in_tool(self, given):
        assert counter.count_tools([given]) >= counter.count(json.dumps(given))
        self.check(given)

    @pytest.mark.parametrize("seed", range(3))
    def test_of_other_ways_to_write_a_tool(self, seed):
        made = schema(Random(seed))
        for given in (
            {"name": "look", "description": "Look.", "input_schema": made},
            {"function_declarations": [{"name": "look", "parameters": made}], "url_context": {}},
            {"functionDeclarations": [{"name": "look", "parametersJsonSchema": made}]},
            {"toolSpec": {"name": "look", "inputSchema": {"json": made}}},
        ):
            self.check(given)

    def check(self, given):
        least = counter.count_tools([given]) + 0.98 * counter.count(LONG) - 24
        for number, _ in enumerate(texts(given)):
            longer = lengthened(given, number)
            assert counter.count_tools([longer]) >= least, list(texts(given))[number]
