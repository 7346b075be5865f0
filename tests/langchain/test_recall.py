"""The recall tool."""

from __future__ import annotations

import pytest

from langchain_history_curator import recall_tool
from tests.langchain.factories import human


def test_a_growing_record() -> None:
    said = [human("hello")]
    tool_ = recall_tool(lambda: said)
    assert "Nothing" in tool_.invoke({"query": "zebra"})
    said.append(human("a zebra"))
    assert "a zebra" in tool_.invoke({"query": "zebra"})


def test_in_an_agent_the_model_sees_only_what_it_may_fill_in() -> None:
    pytest.importorskip("langgraph.prebuilt")
    schema = recall_tool().tool_call_schema.model_json_schema()
    assert sorted(schema["properties"]) == ["handle", "lines", "query"]
