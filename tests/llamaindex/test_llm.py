"""`CuratedLLM`: any LLM, every way to chat, curated on the way in."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import MockLLM
from llama_index.core.prompts import PromptTemplate
from pydantic import BaseModel

from llamaindex_history_curator import CuratedLLM
from llamaindex_history_curator.llm import ReadyPrompt
from tests.llamaindex.factories import assistant, call, result, system, texts, user
from tests.llamaindex.models import RecordingLLM, problems
from tests.llamaindex.test_usage import STYLES, TOOLS, ask
from tests.llamaindex.wires import Step, Wire

LIMIT = 400


def long_history() -> list[ChatMessage]:
    said = [system("rules"), user("task")]
    for number in range(30):
        said += [call(f"c{number}", name="lookup", n=number), result(f"c{number}", "w " * 50)]
    return [*said, user("now?")]


@pytest.mark.parametrize("tools", [False, True], ids=["plain", "tools"])
@pytest.mark.parametrize("style", STYLES)
def test_every_way_to_chat_is_curated(style: str, tools: bool) -> None:
    inner = RecordingLLM()
    ask(CuratedLLM(llm=inner, token_limit=LIMIT), style, long_history(), tools)
    assert len(inner.sent) == 1
    assert inner.costs[0] <= LIMIT
    assert problems(inner.sent[0]) == []
    assert texts(inner.sent[0])[:: len(inner.sent[0]) - 1] == ["rules", "now?"]


@pytest.mark.parametrize("question", ["now?", user("now?")])
def test_a_question_beside_the_history(question: Any) -> None:
    inner = RecordingLLM()
    llm = CuratedLLM(llm=inner, token_limit=LIMIT)
    llm.chat_with_tools(TOOLS, user_msg=question, chat_history=long_history()[:-1])
    assert inner.sent[0][-1].content == "now?"


async def test_completion_passes_through() -> None:
    llm = CuratedLLM(llm=MockLLM(), token_limit=LIMIT)
    assert llm.complete("hello").text == "hello"
    assert (await llm.acomplete("hello")).text == "hello"
    assert [part.text for part in llm.stream_complete("hi")][-1] == "hi"
    assert [part.text async for part in await llm.astream_complete("hi")][-1] == "hi"


def test_an_llm_without_functions_says_so() -> None:
    llm = CuratedLLM(llm=MockLLM(), token_limit=LIMIT)
    assert llm.metadata.is_function_calling_model is False
    with pytest.raises(NotImplementedError, match="MockLLM cannot call functions"):
        llm.chat_with_tools(TOOLS, chat_history=[user()])


class Verdict(BaseModel):
    """What it came to."""

    score: int


class TestTheWrappedLLM:
    @pytest.mark.parametrize("way", ["sync", "async", "as_structured_llm"])
    def test_structured_answers_are_asked_for_natively_and_curated(self, way: str) -> None:
        wire = Wire("openai", lambda body: Step('{"score": 7}'))
        llm = CuratedLLM(wire.llm, token_limit=1_000)
        said = [message for _ in range(40) for message in (user("x " * 40), assistant("y " * 40))]
        said.append(user('how much is {it}? {"json": 1}'))
        if way == "as_structured_llm":
            answer = llm.as_structured_llm(Verdict).chat(said).raw
        elif way == "sync":
            answer = llm.structured_predict(Verdict, ReadyPrompt(said))
        else:
            answer = asyncio.run(llm.astructured_predict(Verdict, ReadyPrompt(said)))
        assert answer == Verdict(score=7)
        assert "json_schema" in json.dumps(wire.last["response_format"])
        assert wire.last["messages"][-1]["content"] == 'how much is {it}? {"json": 1}'
        assert len(wire.last["messages"]) < 30

    @pytest.mark.filterwarnings("ignore:The 'output_format':DeprecationWarning")
    @pytest.mark.parametrize("name", ["anthropic", "gemini", "bedrock"])
    def test_every_llm_in_its_own_way(self, name: str) -> None:
        def script(body: dict[str, Any]) -> Step:
            if name != "bedrock":
                return Step('{"score": 7}')
            return Step(calls=(("c1", "Verdict", {"score": 7}),))

        wire = Wire(name, script)
        llm = CuratedLLM(wire.llm, token_limit=1_000)
        prompt = PromptTemplate("How good is {what}?")
        assert llm.structured_predict(Verdict, prompt, what="tea") == Verdict(score=7)
        assert "How good is tea?" in json.dumps(wire.last)
        assert wire.refused == []
