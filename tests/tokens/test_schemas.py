"""Tool schemas count for all they say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from history_curator import ConfigurationError, Curator
from history_curator.tokens import TiktokenCounter

counter = TiktokenCounter("o200k_base")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}}}
TOOLS: tuple[dict[str, Any], ...] = (
    {"type": "function", "function": {"name": "look", "parameters": SCHEMA}},
    {"name": "look", "description": "Look.", "input_schema": SCHEMA},
    {"function_declarations": [{"name": "look", "parameters": SCHEMA}], "url_context": {}},
    {"toolSpec": {"name": "look", "inputSchema": {"json": SCHEMA}}},
    {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["a.b"]},
    {"type": "custom", "custom": {"name": "look", "format": {"definition": "x"}}},
)


@pytest.mark.parametrize("tool", TOOLS, ids=str)
def test_a_tool_in_any_format_counts_as_its_json(tool: dict[str, Any]) -> None:
    assert counter.count_tools([tool]) == counter.count(json.dumps(tool, separators=(",", ":")))


def test_no_tools_cost_nothing() -> None:
    assert counter.count_tools(None) == counter.count_tools([]) == 0


HELD: dict[str, Any] = {"name": "look"}
HELD["properties"] = HELD
DEEP: dict[str, Any] = {}
for _ in range(20_000):
    DEEP = {"properties": DEEP}


@pytest.mark.parametrize("odd", [HELD, DEEP, {("a", 1): "look"}], ids=lambda _: "")
def test_a_schema_that_is_no_json_is_refused_by_position(odd: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"tools\[1\].*Fix"):
        Curator(max_tokens=900).curate([{"role": "user", "content": "hi"}], tools=[*TOOLS[:1], odd])


def test_a_callable_is_refused_by_position() -> None:
    with pytest.raises(ConfigurationError, match=r"tools\[1\].*Fix"):
        counter.count_tools([*TOOLS[:1], print])  # type: ignore[list-item]
