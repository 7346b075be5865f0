"""A real engine behind real clients: no answer, call or usage report is scripted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("httpx")

import httpx

from benchmarks import engine as benchmark
from benchmarks.local_engine import ABSENT, Engine, EngineCounter, find_weights, run_engine
from history_curator import count_tokens
from history_curator.lab import LabConversation

WEIGHTS = find_weights()
pytestmark = pytest.mark.skipif(WEIGHTS is None, reason=ABSENT.removeprefix("skipped: "))
BUDGET = 1_000
TURNS = 15
SYSTEM = "You answer each question with one call of a function."
CITIES = ("Oslo", "Lima", "Pune", "Kyiv", "Cork")
# A model of this size calls a function when it has seen how.
EXAMPLES: tuple[tuple[str, str, dict[str, str], str], ...] = (
    ("What does readme.txt hold?", "read_file", {"path": "readme.txt"}, "12 lines."),
    ("Weather in Rome?", "weather", {"city": "Rome"}, "Rain."),
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    assert WEIGHTS is not None
    with run_engine(WEIGHTS) as running:
        yield running


def read_file(path: str) -> str:
    """Return the lines of a file."""
    return f"{path} holds 12 lines. " + "The first of them begins with a word, not a number. " * 2


def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"In {city} it rains. " + "It has rained since noon, and the wind is from the west. " * 2


def questions() -> Iterator[str]:
    for turn in range(TURNS):
        city = CITIES[turn % len(CITIES)]
        yield f"What does {city.lower()}_{turn}.txt hold?" if turn % 2 else f"Weather in {city}?"


class Wire:
    """What a client sent and received."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.refused: list[str] = []
        hooks = {"response": [self._note]}
        self.client = httpx.Client(event_hooks=hooks, timeout=120)
        ahooks = {"response": [self._anote]}
        self.aclient = httpx.AsyncClient(event_hooks=ahooks, timeout=120)

    def _note(self, response: httpx.Response) -> None:
        response.read()
        self._keep(response)

    async def _anote(self, response: httpx.Response) -> None:
        await response.aread()
        self._keep(response)

    def _keep(self, response: httpx.Response) -> None:
        self.requests.append(json.loads(response.request.content))
        if response.is_error:
            self.refused.append(response.text)
        else:
            self.answers.append(response.json())

    @property
    def messages(self) -> list[list[dict[str, Any]]]:
        return [request["messages"] for request in self.requests]

    @property
    def prompts(self) -> list[int]:
        return [answer["usage"]["prompt_tokens"] for answer in self.answers]

    @property
    def cached(self) -> list[int]:
        usage = (answer["usage"] for answer in self.answers)
        return [each["prompt_tokens_details"]["cached_tokens"] for each in usage]

    @property
    def calls(self) -> int:
        messages = (answer["choices"][0]["message"] for answer in self.answers)
        return sum(bool(message.get("tool_calls")) for message in messages)


def check_traffic(wire: Wire) -> None:
    """Assert what has to hold of the requests of a client, and of what the engine said to them."""
    assert not wire.refused
    assert wire.calls >= TURNS - 3  # nearly each question is looked up by a call
    assert len(wire.requests) == TURNS + wire.calls  # and all are answered
    assert max(wire.prompts) <= BUDGET
    compactions = 0
    for before, at in pairwise(range(len(wire.requests))):
        sent = wire.messages[before]
        if wire.messages[at][: len(sent)] == sent:
            assert wire.cached[at] >= wire.prompts[before]  # all of the request before
        else:
            compactions += 1
    assert 1 <= compactions <= 5
    assert sum(wire.cached) > 0.75 * sum(wire.prompts)


def test_an_agent_of_langchain(engine: Engine) -> None:
    pytest.importorskip("langchain_openai")
    agents = pytest.importorskip("langchain.agents")
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI

    from langchain_history_curator import HistoryCuratorMiddleware

    wire = Wire()
    model = ChatOpenAI(
        model="smollm2", base_url=f"{engine.url}/v1", api_key="none", http_client=wire.client,
        temperature=0, max_tokens=48, stop_sequences=["\n"],
    )  # fmt: skip
    curated = HistoryCuratorMiddleware(max_tokens=BUDGET)
    agent = agents.create_agent(
        model, [read_file, weather], system_prompt=SYSTEM, middleware=[curated]
    )
    messages: list[AnyMessage] = []
    for question, name, arguments, answer in EXAMPLES:
        call = {"name": name, "args": arguments, "id": name}
        result = globals()[name](**arguments)
        messages += [HumanMessage(question), AIMessage("", tool_calls=[call]),
                     ToolMessage(result, tool_call_id=name), AIMessage(answer)]  # fmt: skip
    for question in questions():
        messages = agent.invoke({"messages": [*messages, HumanMessage(question)]})["messages"]
    check_traffic(wire)
    reported = [each.usage_metadata for each in messages if isinstance(each, AIMessage)]
    assert [each["input_tokens"] for each in reported if each] == wire.prompts
    calibration = curated.curator_for(model).calibration
    assert calibration is not None
    assert calibration.reported in wire.prompts[-2:]


async def test_an_agent_of_llamaindex(engine: Engine) -> None:
    pytest.importorskip("llama_index.llms.openai")
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
    from llama_index.core.memory import ChatMemoryBuffer
    from llama_index.llms.openai import OpenAI

    from llamaindex_history_curator import CuratedLLM

    wire = Wire()
    model = OpenAI(  # the name says how long its window is; the engine has one model and ignores it
        model="gpt-4o-mini", api_base=f"{engine.url}/v1", api_key="none", temperature=0,
        max_tokens=48, additional_kwargs={"stop": ["\n"]}, async_http_client=wire.aclient,
    )  # fmt: skip
    llm = CuratedLLM(llm=model, token_limit=BUDGET)
    agent = FunctionAgent(
        tools=[read_file, weather], llm=llm, system_prompt=SYSTEM, streaming=False
    )
    memory = ChatMemoryBuffer.from_defaults(token_limit=100_000)
    for question, name, arguments, answer in EXAMPLES:
        call = ToolCallBlock(tool_call_id=name, tool_name=name, tool_kwargs=arguments)
        result = globals()[name](**arguments)
        memory.put_messages(
            [
                ChatMessage(question),
                ChatMessage(role="assistant", blocks=[call]),
                ChatMessage(result, role="tool", additional_kwargs={"tool_call_id": name}),
                ChatMessage(answer, role="assistant"),
            ]
        )
    for question in questions():
        await agent.run(question, memory=memory)
    check_traffic(wire)
    calibration = llm.curator.calibration
    assert calibration is not None
    assert calibration.reported == wire.prompts[-1]


class TestTheCounter:
    """The benchmark compares tokens only if these are the engine's."""

    def test_it_counts_requests_as_the_engine_does(self, engine: Engine) -> None:
        messages = benchmark.generate_session(2)[:6]
        answer = engine.ask(messages, benchmark.TOOLS)
        counter = EngineCounter(engine)
        assert count_tokens(messages, counter, tools=benchmark.TOOLS) == answer.prompt

    def test_a_session_is_predicted(self, engine: Engine) -> None:
        record = LabConversation("short", benchmark.generate_session(2)[:8], benchmark.TOOLS)
        counter = EngineCounter(engine)
        view = benchmark.curate(record, counter, 2_000)
        first, *others = benchmark.replay(engine, counter, view, 1, record)
        assert first.promised is None
        for call in others:
            assert call.predicted == call.answer.cached
            assert call.promised == call.answer.cached - counter.priming
