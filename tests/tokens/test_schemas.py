"""Tool schemas count for all they say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from history_curator import ConfigurationError
from history_curator.tokens import TiktokenCounter

LONG = "the quick brown fox jumps over the lazy dog " * 40


@pytest.fixture(scope="module")
def counter() -> TiktokenCounter:
    return TiktokenCounter("o200k_base")


def tool(schema: dict[str, Any], **fields: Any) -> dict[str, Any]:
    body = {"name": "look", "description": "Look.", "parameters": schema, **fields}
    return {"type": "function", "function": body}


def wrapped(value: Any) -> dict[str, dict[str, Any]]:
    """One schema for every place a long text can stand in."""
    prop = {"properties": {"a": {"type": "string", "description": value}}}
    return {
        "property": prop,
        "root description": {"type": "object", "description": value},
        "title": {"title": value},
        "items": {"properties": {"a": {"type": "array", "items": {"description": value}}}},
        "items of the root": {"type": "array", "items": prop},
        "alternatives": {"properties": {"a": {"anyOf": [{"type": "null"}, prop]}}},
        "alternatives of the root": {"oneOf": [prop]},
        "all of the root": {"allOf": [{"allOf": [prop]}]},
        "definitions": {"$defs": {"A": {"description": value}}},
        "definitions of definitions": {"$defs": {"A": {"definitions": {"B": prop}}}},
        "enum": {"properties": {"a": {"enum": [value, "b"]}}},
        "enum of the root": {"enum": [value]},
        "enum of a definition": {"$defs": {"A": {"enum": ["a", value]}}},
        "const": {"properties": {"a": {"const": value}}},
        "default": {"properties": {"a": {"default": value}}},
        "default that is data": {"properties": {"a": {"default": {"b": [value]}}}},
        "examples": {"properties": {"a": {"examples": [value]}}},
        "pattern": {"properties": {"a": {"pattern": value}}},
        "a name": {"properties": {value: {"type": "string"}}},
        "additional properties": {"additionalProperties": prop},
        "pattern properties": {"patternProperties": {"^x": {"description": value}}},
        "prefix items": {"properties": {"a": {"prefixItems": [prop, prop]}}},
        "not": {"not": prop},
        "something new": {"x-notes": value},
        "a keyword that is a mapping": {"if": {"properties": {"a": {"const": value}}}},
    }


class TestWhole:
    @pytest.mark.parametrize("place", wrapped(""))
    def test_a_long_text_counts_wherever_it_stands(self, counter, place):
        with_text = counter.count_tools([tool(wrapped(LONG)[place])])
        without = counter.count_tools([tool(wrapped("x")[place])])

        assert with_text - without >= 0.98 * (counter.count(LONG) - 1)

    def test_very_deep_schemas_count_to_the_bottom(self, counter):
        schema: dict[str, Any] = {"description": LONG}
        for _ in range(80):
            schema = {"properties": {"a": schema}}

        assert counter.count_tools([tool(schema)]) > counter.count(LONG)

    def test_a_schema_that_holds_itself_is_an_error_of_ours(self, counter):
        schema: dict[str, Any] = {"properties": {}}
        schema["properties"]["a"] = schema

        with pytest.raises(ConfigurationError, match=r"tools\[0\]"):
            counter.count_tools([tool(schema)])

    def test_what_else_a_tool_says(self, counter):
        plain = counter.count_tools([tool({})])

        assert counter.count_tools([tool({}, examples=[LONG])]) > plain + counter.count(LONG)


class TestEveryWayToWriteATool:
    schema = wrapped(LONG)["property"]

    @pytest.mark.parametrize(
        "given",
        [
            {"type": "function", "name": "look", "description": "Look.", "parameters": schema},
            {"name": "look", "description": "Look.", "input_schema": schema},
            {"function_declarations": [{"name": "look", "parameters": schema}]},
            {"functionDeclarations": [{"name": "look", "parametersJsonSchema": schema}]},
            {"toolSpec": {"name": "look", "inputSchema": {"json": schema}}},
            {"type": "custom", "custom": {"name": "look", "format": {"definition": LONG}}},
            {"type": "mcp", "server_label": "x", "allowed_tools": [LONG]},
        ],
    )
    def test_is_counted(self, counter, given):
        assert counter.count_tools([given]) > counter.count(LONG)

    @pytest.mark.parametrize("built_in", [{"google_search": {}}, {"type": "web_search"}])
    def test_built_in_tools_count_as_their_text(self, counter, built_in):
        assert counter.count_tools([built_in]) >= counter.count(json.dumps(built_in))

    def test_gemini_lists_several_and_a_built_in_one(self, counter):
        one = {"name": "look", "parameters": self.schema}
        given = {"function_declarations": [one, one], "google_search": {}}

        assert counter.count_tools([given]) > 2 * counter.count(LONG)
