"""The recall tool."""

from __future__ import annotations

import pytest
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import HumanMessage

from history_curator.entries import handle_of
from langchain_history_curator import CuratedChatMessageHistory, LangChainFormat, recall_tool
from tests.langchain.factories import ai, answer, human, tool

SAID = [human("look"), ai("a"), tool("a", "line one\nthe code is 4711\nline three"), answer("ok")]


def handle(index: int) -> str:
    return handle_of(LangChainFormat().read(SAID[index], index)[0])


class TestBoundToARecord:
    def test_by_handle_and_lines(self) -> None:
        out = recall_tool(SAID).invoke({"handle": handle(2), "lines": "2"})
        assert "4711" in out
        assert "line one" not in out

    def test_a_foreign_handle_is_refused_in_words(self) -> None:
        assert recall_tool(SAID).invoke({"handle": "r0000000000000000"}).startswith("Refused")

    def test_a_growing_record(self) -> None:
        said = [human("hello")]
        tool_ = recall_tool(lambda: said)
        assert "Nothing" in tool_.invoke({"query": "zebra"})
        said.append(HumanMessage("a zebra"))
        assert "a zebra" in tool_.invoke({"query": "zebra"})

    async def test_a_history_is_read_asynchronously(self) -> None:
        history = CuratedChatMessageHistory(InMemoryChatMessageHistory(messages=SAID))
        assert "4711" in await recall_tool(history).ainvoke({"query": "code"})


def test_in_an_agent_the_model_sees_only_what_it_may_fill_in() -> None:
    pytest.importorskip("langgraph.prebuilt")
    schema = recall_tool().tool_call_schema.model_json_schema()
    assert sorted(schema["properties"]) == ["handle", "lines", "query"]
