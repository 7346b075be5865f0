"""`CuratedLLM`: any LLM, every way to chat, curated on the way in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import MockLLM
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from history_curator import BudgetUnsatisfiableError, SlidingWindowManager
from llamaindex_history_curator import CuratedLLM, CuratedMemory
from tests.llamaindex.factories import assistant, call, dumped, result, system, texts, user
from tests.llamaindex.models import RecordingLLM, problems

LIMIT = 400


def lookup(n: int) -> str:
    """Look something up."""
    return f"{n} " * 2_000


def long_history() -> list[ChatMessage]:
    said = [system("rules"), user("task")]
    for number in range(30):
        said += [call(f"c{number}", name="lookup", n=number), result(f"c{number}", "w " * 50)]
    return [*said, user("now?")]


async def _chat(llm: CuratedLLM) -> None:
    llm.chat(long_history())


async def _achat(llm: CuratedLLM) -> None:
    await llm.achat(long_history())


async def _stream(llm: CuratedLLM) -> None:
    list(llm.stream_chat(long_history()))


async def _astream(llm: CuratedLLM) -> None:
    [part async for part in await llm.astream_chat(long_history())]


TOOLS = [FunctionTool.from_defaults(lookup)]


async def _with_tools(llm: CuratedLLM) -> None:
    llm.chat_with_tools(TOOLS, chat_history=long_history())


async def _awith_tools(llm: CuratedLLM) -> None:
    await llm.achat_with_tools(TOOLS, user_msg="now?", chat_history=long_history()[:-1])


async def _stream_with_tools(llm: CuratedLLM) -> None:
    list(llm.stream_chat_with_tools(TOOLS, user_msg=user("now?"), chat_history=long_history()[:-1]))


async def _astream_with_tools(llm: CuratedLLM) -> None:
    stream = await llm.astream_chat_with_tools(TOOLS, chat_history=long_history())
    [part async for part in stream]


WAYS: dict[str, Callable[[CuratedLLM], Any]] = {
    "chat": _chat,
    "achat": _achat,
    "stream_chat": _stream,
    "astream_chat": _astream,
    "chat_with_tools": _with_tools,
    "achat_with_tools": _awith_tools,
    "stream_chat_with_tools": _stream_with_tools,
    "astream_chat_with_tools": _astream_with_tools,
}


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_to_chat_is_curated(way: str) -> None:
    inner = RecordingLLM()
    await WAYS[way](CuratedLLM(llm=inner, token_limit=LIMIT))
    assert len(inner.sent) == 1
    assert inner.costs[0] <= LIMIT
    assert problems(inner.sent[0]) == []
    assert inner.sent[0][0].content == "rules"
    assert inner.sent[0][-1].content == "now?"


def test_a_short_chat_passes_as_it_is() -> None:
    inner, said = RecordingLLM(), [system(), user()]
    CuratedLLM(llm=inner, token_limit=LIMIT).chat(said)
    assert all(sent is given for sent, given in zip(inner.sent[0], said, strict=True))


def test_the_history_given_is_not_changed() -> None:
    said = long_history()
    before = dumped(said)
    CuratedLLM(llm=RecordingLLM(), token_limit=LIMIT).chat(said)
    assert dumped(said) == before


def test_managers_are_taken() -> None:
    inner = RecordingLLM()
    llm = CuratedLLM(llm=inner, token_limit=9_000, managers=[SlidingWindowManager(3)])
    llm.chat([message for n in range(9) for message in (user(f"q{n}"), assistant("a"))] + [user()])
    assert len(inner.sent[0]) <= 4


def test_what_cannot_fit_is_refused() -> None:
    with pytest.raises(BudgetUnsatisfiableError, match="Fix"):
        CuratedLLM(llm=RecordingLLM(), token_limit=50).chat([user("big " * 100)])


async def test_it_curates_the_running_loop_of_a_plain_agent() -> None:
    def answer(number: int, messages: Sequence[ChatMessage]) -> ChatMessage:
        return call(f"c{number}", name="lookup", n=number) if number < 15 else assistant("done")

    for streaming in (True, False):
        inner = RecordingLLM(answer)
        agent = FunctionAgent(
            llm=CuratedLLM(llm=inner, token_limit=5_000), tools=[lookup], streaming=streaming
        )
        memory = CuratedMemory.from_defaults(token_limit=5_000)
        assert str(await agent.run("go", memory=memory)) == "done"
        assert max(inner.costs) <= 5_000
        assert all(problems(sent) == [] for sent in inner.sent)
        assert len(memory.get_all()) == 32


def test_structured_output_is_curated_too() -> None:
    class Verdict(BaseModel):
        """A verdict."""

        word: str = "fine"

    inner = RecordingLLM(lambda number, messages: call("v", name="Verdict", word="good"))
    llm = CuratedLLM(llm=inner, token_limit=LIMIT)
    response = llm.as_structured_llm(Verdict).chat(long_history())
    assert response.raw == Verdict(word="good")
    assert max(inner.costs) <= LIMIT


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


def test_what_the_wrapped_llm_says_about_itself_is_passed_on() -> None:
    inner = RecordingLLM(window=9_000, system_prompt="rules")
    llm = CuratedLLM(llm=inner)
    assert llm.metadata.context_window == 9_000
    assert llm.system_prompt == "rules"
    assert llm.callback_manager is inner.callback_manager
    assert repr(llm) == "CuratedLLM(RecordingLLM)"
    assert texts([inner.chat([user()]).message]) == ["answer 0"]
