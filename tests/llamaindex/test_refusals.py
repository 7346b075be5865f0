"""A provider that says a request is too long is asked again with a smaller view."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentStream
from llama_index.core.base.llms.types import ChatResponse
from llama_index.core.llms import MockLLM
from llama_index.core.prompts import ChatPromptTemplate
from pydantic import BaseModel, Field

from history_curator import BudgetUnsatisfiableError, Curator
from llamaindex_history_curator import CuratedFunctionAgent, CuratedLLM, CuratedReActAgent
from tests.llamaindex.factories import assistant, user
from tests.llamaindex.test_usage import KINDS, REPORTED, STYLES, TOOLS, ask, asks
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
@pytest.mark.parametrize("kind", KINDS)
async def test_agents_go_on_with_a_smaller_view(kind: str, streaming: bool) -> None:
    wire = Small("openai", asks(kind), **REPORTED)
    curator = Curator(max_tokens=4_000)
    agent = KINDS[kind](llm=wire.llm, tools=TOOLS, curator=curator, streaming=streaming)
    assert "done" in str(await agent.run("what is it?", chat_history=SAID))
    assert wire.refusals >= 1
    assert len(wire.requests) == 3 + wire.refusals
    assert all("what is it?" in json.dumps(each) for each in wire.requests)


class Answer(BaseModel):
    """What is asked for."""

    text: str


class Mocked(MockLLM):
    """Takes fields of its own."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        for name, value in fields.items():
            setattr(self, name, value)


class Refusing(Mocked):
    """Answers in a form, or refuses; its errors are no provider's own."""

    most: int = 0
    words: str = "input is too long"
    seen: list[int] = Field(default_factory=list)

    def chat(self, messages: Any, **kwargs: Any) -> Any:
        self.seen.append(sum(len(each.content or "") for each in messages))
        if self.seen[-1] > self.most:
            raise ValueError(self.words)
        return super().chat(messages, **kwargs)

    def structured_predict(self, output_cls: Any, prompt: Any, **kwargs: Any) -> Any:
        self.chat(prompt.format_messages())
        return output_cls(text="ok")

    async def astructured_predict(self, output_cls: Any, prompt: Any, **kwargs: Any) -> Any:
        return self.structured_predict(output_cls, prompt, **kwargs)


async def test_a_structured_answer_is_asked_for_again() -> None:
    llm, prompt = Refusing(most=6_000), ChatPromptTemplate(message_templates=ASKED)
    curated = CuratedLLM(llm, token_limit=3_000)
    assert curated.structured_predict(Answer, prompt).text == "ok"
    assert len(llm.seen) == 2
    assert (await curated.astructured_predict(Answer, prompt)).text == "ok"
    assert len(llm.seen) == 3  # the limit was learned


@pytest.mark.parametrize(
    ("words", "asked", "error", "told", "times"),
    [
        ("input is too long", ASKED, ValueError, "too long", 3),  # two more times at the most
        ("the key is not valid", ASKED, ValueError, "key", 1),
        ("input is too long", [user("word " * 2_000)], ValueError, "too long", 1),  # none smaller
        ("input is too long", [user("word " * 9_000)], BudgetUnsatisfiableError, "Fix", 0),
    ],
)
def test_errors_that_stand(words: str, asked: list[Any], error: Any, told: str, times: int) -> None:
    llm = Refusing(most=0, words=words)
    with pytest.raises(error, match=told):
        CuratedLLM(llm, token_limit=3_000).chat(asked)
    assert len(llm.seen) == times


class Streaming(Mocked):
    """Says some of an answer, and then that the request was too long; or nothing but that."""

    said: int = 0
    asked: int = 0

    async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        self.asked += 1

        async def chunks() -> Any:
            for number in range(self.said):
                yield ChatResponse(message=assistant("so " * number), delta="so ")
            raise ValueError("input is too long")

        return chunks()


@pytest.mark.parametrize(("said", "asked"), [(0, 3), (2, 1)], ids=["refused", "begun"])
async def test_an_agent_is_not_asked_again_once_something_was_shown(said: int, asked: int) -> None:
    llm, shown = Streaming(said=said), []
    running = CuratedReActAgent(llm=llm, token_limit=3_000).run("what is it?", chat_history=SAID)
    async for event in running.stream_events():
        shown += [event.delta] if isinstance(event, AgentStream) else []
    with pytest.raises(ValueError, match="too long"):
        await running
    assert shown == ["so "] * said
    assert llm.asked == asked


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streaming"])
async def test_an_llm_that_asks_again_itself_is_asked_once(streaming: bool) -> None:
    wire = Small("openai")
    wire.most = 0
    llm = CuratedLLM(wire.llm, token_limit=4_000)
    agent = CuratedFunctionAgent(llm=llm, tools=TOOLS, token_limit=4_000, streaming=streaming)
    with pytest.raises(Exception, match="maximum context length"):
        await agent.run("what is it?", chat_history=SAID)
    assert len(wire.requests) == 3
