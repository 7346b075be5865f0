"""What leaves the machine: real LLMs, a scripted transport, and the JSON it got."""

from __future__ import annotations

import json

import pytest
from llama_index.core.base.llms.types import (
    CacheControl,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.tools import FunctionTool

from llamaindex_history_curator import CuratedFunctionAgent, CuratedLLM, CuratedMemory
from tests.llamaindex.factories import assistant, call, result, system, user, wire
from tests.llamaindex.wires import NAMES, Request, Step, Wire


def said(body: Request) -> str:
    return json.dumps(body, ensure_ascii=False)


def cited(text: str = "The sky is blue.") -> CitableBlock:
    return CitableBlock(title="Sky", source="sky.txt", content=[TextBlock(text=text)])


MARK = CachePoint(cache_control=CacheControl(type="ephemeral"))

ODD: dict[str, list[ChatMessage]] = {
    "developer": [ChatMessage(role="developer", content="Be brief."), user("a"), assistant("b")],
    "chatbot": [user("a"), ChatMessage(role="chatbot", content="b")],
    "model": [user("a"), ChatMessage(role="model", content="b")],
    "calls in keywords alone": [
        user("a"),
        ChatMessage(
            role="assistant",
            additional_kwargs={"tool_calls": [wire("c1", arguments='{"q": "x"}')]},
        ),
        result("c1", "found"),
        assistant("b"),
    ],
    "arguments as text": [
        user("a"),
        ChatMessage(
            role="assistant",
            blocks=[
                TextBlock(text=""),
                ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs='{"q": "x"}'),
            ],
            additional_kwargs={"tool_calls": [wire("c1", arguments='{"q": "x"}')]},
        ),
        result("c1", "found"),
        assistant("b"),
    ],
    "a call id": [
        user("a"), call("c1", q="x"),
        ChatMessage(role="tool", content="found", additional_kwargs={"call_id": "c1"}),
        assistant("b"),
    ],
    "a cache point": [
        ChatMessage(role="system", blocks=[TextBlock(text="Be brief."), MARK]),
        ChatMessage(role="user", blocks=[TextBlock(text="a"), MARK]),
        assistant("b"),
    ],
    "a citable block": [
        ChatMessage(role="user", blocks=[TextBlock(text="a"), cited()]), assistant("b"),
    ],
    "a citable result": [
        user("a"), call("c1", q="x"),
        ChatMessage(role="tool", blocks=[cited()], additional_kwargs={"tool_call_id": "c1"}),
        assistant("b"),
    ],
    "a citation": [
        user("a"),
        ChatMessage(
            role="assistant",
            blocks=[
                TextBlock(text="b"),
                CitationBlock(
                    cited_content=TextBlock(text="The sky"), source="sky.txt", title="Sky",
                    additional_location_info={},
                ),
            ],
        ),
    ],
}  # fmt: skip


class TestOddMessages:
    @pytest.mark.parametrize("odd", ODD)
    @pytest.mark.parametrize("name", NAMES)
    def test_nobody_refuses_them(self, name: str, odd: str) -> None:
        opened = Wire(name)
        given = [*ODD[odd], user("so?")]
        before = [message.model_dump() for message in given]
        CuratedLLM(opened.llm, token_limit=8_000).chat(given)
        assert opened.refused == []
        assert [message.model_dump() for message in given] == before
        sent = said(opened.last)
        if "call" in odd or "arguments" in odd:
            assert "found" in sent
            assert "look" in sent
        if "citable" in odd:
            assert "The sky is blue." in sent
        if odd == "developer":
            assert "Be brief." in sent

    @pytest.mark.parametrize("odd", ODD)
    @pytest.mark.parametrize("name", ["openai", "anthropic"])
    def test_nor_by_way_of_a_memory(self, name: str, odd: str) -> None:
        opened = Wire(name)
        memory = CuratedMemory.from_defaults(ODD[odd], llm=opened.llm, token_limit=8_000)
        SimpleChatEngine.from_defaults(llm=opened.llm, memory=memory).chat("so?")
        assert opened.refused == []
        assert [one.role for one in memory.get_all()[: len(ODD[odd])]] == [
            one.role for one in ODD[odd]
        ]

    def test_marks_go_where_they_are_taken(self) -> None:
        marked = ODD["a cache point"]
        counts = {}
        for name in NAMES:
            opened = Wire(name)
            CuratedLLM(opened.llm, token_limit=8_000).chat([*marked, user("so?")])
            sent = said(opened.last)
            counts[name] = sent.count('"cache_control"') + sent.count('"cachePoint"')
        assert counts == {"openai": 0, "responses": 0, "anthropic": 1, "gemini": 0, "bedrock": 2}
        llama = Wire("bedrock", model="us.meta.llama3-3-70b-instruct-v1:0")
        CuratedLLM(llama.llm, token_limit=8_000).chat([*marked, user("so?")])
        assert "cachePoint" not in said(llama.last)

    @pytest.mark.parametrize("name", ["anthropic", "bedrock"])
    async def test_marks_of_a_tool_loop_move_along(self, name: str) -> None:
        numbers = iter(range(9))

        def script(body: Request) -> Step:
            number = next(numbers)
            return Step("done") if number > 5 else Step(calls=((f"c{number}", "look", {"q": "x"}),))

        opened = Wire(name, script)
        agent = CuratedFunctionAgent(
            llm=opened.llm, tools=[look], token_limit=9_000, streaming=False, mark_cache=True,
            system_prompt="Look. " * 3_000,
        )  # fmt: skip
        assert str(await agent.run("What is it?")) == "done"
        assert opened.refused == []
        counts = [said(one).count("cache_control") + said(one).count("cachePoint")
                  for one in opened.requests]  # fmt: skip
        # The adapter of Anthropic takes none on the system prompt.
        assert counts[0] >= 1
        assert set(counts[1:]) == {2 if name == "anthropic" else 3}

    def test_a_citable_block_is_counted_as_what_it_says(self) -> None:
        opened = Wire("openai")
        big = ChatMessage(role="user", blocks=[TextBlock(text="a"), cited("word " * 2_000)])
        said_before = [message for _ in range(3) for message in (big, assistant("b"))]
        CuratedLLM(opened.llm, token_limit=3_000).chat([*said_before, user("so?")])
        assert said(opened.last).count("word") <= 2_100  # one of three, and the recap

    def test_a_message_that_needs_nothing_is_the_same_object(self) -> None:
        plain = [system(), user("a"), call("c1", q="x"), result("c1"), assistant("b"), user("c")]
        for name in set(NAMES) - {"gemini"}:  # whose adapter edits what it is given
            view = CuratedLLM(Wire(name).llm, token_limit=8_000).curate_call(plain).messages
            assert all(one is other for one, other in zip(view, plain, strict=True)), name

    @pytest.mark.parametrize("provider", ["auto", "core"])
    @pytest.mark.parametrize("name", NAMES)
    def test_what_an_adapter_joins_leaves_the_record_as_it_was(
        self, name: str, provider: str
    ) -> None:
        record = [system(), user("begin " * 20)]
        for number in range(30):
            record += [assistant("yes " * 40), user(f"{number} " + "word " * 40), user("and more")]
        before = [message.model_copy(deep=True) for message in record]
        opened = Wire(name)
        CuratedLLM(opened.llm, token_limit=1_500, provider=provider).chat(record)
        assert "Earlier in this conversation" in said(opened.last)
        assert record == before

    def test_signatures_of_gemini_go_back(self) -> None:
        opened = Wire("gemini", lambda body: Step(calls=(("c1", "look", {"q": "x"}),), thinks=True))
        tool = FunctionTool.from_defaults(look)
        curated = CuratedLLM(opened.llm, token_limit=8_000)
        answer = curated.chat_with_tools([tool], chat_history=[user("a")]).message
        curated.chat_with_tools([tool], chat_history=[user("a"), answer, result("c1", "found")])
        assert opened.refused == []
        assert "thoughtSignature" in said(opened.last)
        assert answer.role is MessageRole.ASSISTANT


def look(q: str) -> str:
    """Look something up."""
    return f"found {q}: " + "fact " * 300
