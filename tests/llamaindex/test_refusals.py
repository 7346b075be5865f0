"""A provider that says a request is too long is asked again with a smaller view."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentStream
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms import MockLLM
from pydantic import BaseModel, PrivateAttr

from history_curator import BudgetUnsatisfiableError, Curator
from llamaindex_history_curator import CuratedFunctionAgent, CuratedLLM, CuratedReActAgent
from tests.llamaindex.factories import assistant, user
from tests.llamaindex.test_usage import KINDS, STYLES, TOOLS, ask, asks
from tests.llamaindex.wires import NAMES, Request, Wire

SAID = [each for n in range(30) for each in (user(f"{n} " + "word " * 60), assistant("yes " * 60))]
ASKED = [*SAID, user("and now?")]
WORDS = {
    "openai": "This model's maximum context length is {most} tokens. However, your messages resulted "
    "in {size} tokens.",
    "responses": "Your input exceeds the context window of this model. Please adjust your input.",
    "anthropic": "prompt is too long: {size} tokens > {most} maximum",
    "gemini": "The input token count ({size}) exceeds the maximum number of tokens allowed ({most}).",
    "bedrock": "Input is too long for requested model.",
}


def counted(body: Request) -> int:
    """A provider that counts more than we do."""
    return len(json.dumps(body)) // 3


class Small(Wire):
    """Takes less than the budget of the curator says."""

    most = 3_000

    def __init__(self, name: str, *given: Any, **settings: Any) -> None:
        self.refusals = 0
        super().__init__(name, *given, counts=lambda body: (counted(body), 0), **settings)

    def answer(self, body: Request) -> tuple[int, Request]:
        if counted(body) <= self.most:
            return super().answer(body)
        self.requests.append(body)
        self.refusals += 1
        words = WORDS[self.name].format(most=self.most, size=counted(body))
        return 400, {"error": {"message": words, "code": 400, "status": "INVALID_ARGUMENT"}}


@pytest.mark.parametrize("tools", [False, True], ids=["plain", "tools"])
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", NAMES)
def test_a_smaller_view_is_sent(name: str, style: str, tools: bool) -> None:
    if name == "bedrock" and style.startswith("a"):
        pytest.skip("needs aioboto3")
    wire = Small(name)
    llm = CuratedLLM(wire.llm, token_limit=6_000)
    answers = ask(llm, style, ASKED, tools)
    assert answers[-1].message.content == "ok"
    assert 1 <= wire.refusals <= 2
    sizes = [counted(each) for each in wire.requests]
    assert sizes == sorted(sizes, reverse=True)
    assert "and now?" in json.dumps(wire.last)


@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini"])
def test_the_next_view_is_small_enough_at_once(name: str) -> None:
    wire = Small(name)
    llm = CuratedLLM(wire.llm, token_limit=3_000)
    said = list(ASKED)
    for number in range(8):
        said += [llm.chat(said).message, user(f"{number} " + "word " * 60)]
    assert wire.refusals == 1


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streaming"])
@pytest.mark.parametrize("kind", ["function", "react"])
async def test_agents_go_on_with_a_smaller_view(kind: str, streaming: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if streaming else {}
    wire = Small("openai", asks(kind), additional_kwargs=options)
    agent = KINDS[kind](
        llm=wire.llm, tools=TOOLS, curator=Curator(max_tokens=4_000), streaming=streaming
    )
    answer = await agent.run("what is it?", chat_history=SAID)
    assert "done" in str(answer)
    assert wire.refusals >= 1
    assert len(wire.requests) == 3 + wire.refusals
    assert all("what is it?" in json.dumps(each) for each in wire.requests)


class Answer(BaseModel):
    """What is asked for."""

    text: str


class Refusing(MockLLM):
    """Answers in a form, or refuses; its errors are no provider's own."""

    _most: int = PrivateAttr()
    _words: str = PrivateAttr()
    _seen: list[int] = PrivateAttr(default_factory=list)

    def __init__(self, most: int, words: str = "input is too long") -> None:
        super().__init__()
        self._most, self._words = most, words

    def chat(self, messages: Any, **kwargs: Any) -> Any:
        self._take(messages)
        return super().chat(messages, **kwargs)

    def structured_predict(self, output_cls: Any, prompt: Any, **kwargs: Any) -> Any:
        self._take(prompt.format_messages())
        return output_cls(text="ok")

    async def astructured_predict(self, output_cls: Any, prompt: Any, **kwargs: Any) -> Any:
        return self.structured_predict(output_cls, prompt, **kwargs)

    def _take(self, messages: list[ChatMessage]) -> None:
        self._seen.append(sum(len(each.content or "") for each in messages))
        if self._seen[-1] > self._most:
            raise ValueError(self._words)


def refusing(**given: Any) -> tuple[Refusing, CuratedLLM]:
    llm = Refusing(**given)
    return llm, CuratedLLM(llm, token_limit=3_000)


class TestOtherWays:
    async def test_a_structured_answer(self) -> None:
        from llama_index.core.prompts import ChatPromptTemplate

        prompt = ChatPromptTemplate(message_templates=ASKED)
        llm, curated = refusing(most=6_000)
        assert curated.structured_predict(Answer, prompt).text == "ok"
        assert len(llm._seen) == 2
        assert (await curated.astructured_predict(Answer, prompt)).text == "ok"
        assert len(llm._seen) == 3  # the limit was learned

    def test_two_times_at_the_most(self) -> None:
        llm, curated = refusing(most=0)
        with pytest.raises(ValueError, match="too long"):
            curated.chat(ASKED)
        assert len(llm._seen) == 3

    def test_other_errors_pass_through_at_once(self) -> None:
        llm, curated = refusing(most=0, words="the key is not valid")
        with pytest.raises(ValueError, match="key"):
            curated.chat(ASKED)
        assert len(llm._seen) == 1

    def test_when_nothing_smaller_is_left_the_refusal_stands(self) -> None:
        _, curated = refusing(most=0)
        with pytest.raises(ValueError, match="too long"):
            curated.chat([user("word " * 2_000)])

    def test_what_cannot_fit_is_our_own_error(self) -> None:
        llm, curated = refusing(most=0)
        with pytest.raises(BudgetUnsatisfiableError):
            curated.chat([user("word " * 9_000)])
        assert llm._seen == []


class Streaming(MockLLM):
    """Says some of an answer, and then that the request was too long; or nothing but that."""

    _said: int = PrivateAttr()
    _asked: int = PrivateAttr(default=0)

    def __init__(self, said: int) -> None:
        super().__init__()
        self._said = said

    async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        self._asked += 1

        async def chunks() -> Any:
            for number in range(self._said):
                yield ChatResponse(message=assistant("so " * number), delta="so ")
            raise ValueError("input is too long")

        return chunks()


class TestAgentsAskNoMoreThanTheySay:
    @pytest.mark.parametrize(("said", "asked"), [(0, 3), (2, 1)], ids=["refused", "begun"])
    async def test_not_again_once_something_was_shown(self, said: int, asked: int) -> None:
        llm, shown = Streaming(said), []
        agent = CuratedReActAgent(llm=llm, token_limit=3_000)
        running = agent.run("what is it?", chat_history=SAID)
        async for event in running.stream_events():
            shown += [event.delta] if isinstance(event, AgentStream) else []
        with pytest.raises(ValueError, match="too long"):
            await running
        assert shown == ["so "] * said
        assert llm._asked == asked

    @pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streaming"])
    async def test_an_llm_that_asks_again_itself_is_asked_once(self, streaming: bool) -> None:
        wire = Small("openai")
        wire.most = 0
        llm = CuratedLLM(wire.llm, token_limit=4_000)
        agent = CuratedFunctionAgent(llm=llm, tools=TOOLS, token_limit=4_000, streaming=streaming)
        with pytest.raises(Exception, match="maximum context length"):
            await agent.run("what is it?", chat_history=SAID)
        assert len(wire.requests) == 3
