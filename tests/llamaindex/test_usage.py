"""What the provider reports reaches the curator, from every way to ask."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.tools import FunctionTool

from history_curator import Curator
from llamaindex_history_curator import CuratedFunctionAgent, CuratedLLM, CuratedReActAgent
from llamaindex_history_curator.models import tool_schemas
from tests.llamaindex.factories import assistant, user
from tests.llamaindex.wires import NAMES, Request, Step, Wire

SAID = [user("word " * 400), assistant("word " * 300), user("and?")]
NEXT = [*SAID, assistant("ok"), user("so?")]
TOOLS = [FunctionTool.from_defaults(fn=lambda q: q, name="look", description="Look.")]


def counted(body: Request) -> tuple[int, int]:
    """A provider that counts more than we do, most of it cached."""
    tokens = 500 + len(json.dumps(body)) // 4
    return tokens, tokens * 2 // 3


REPORTED: dict[str, Any] = {"additional_kwargs": {"stream_options": {"include_usage": True}}}
"""OpenAI reports nothing for a stream unless asked."""


def opened(name: str, style: str) -> tuple[Wire, CuratedLLM, Curator]:
    settings = REPORTED if name == "openai" and "stream" in style else {}
    wire = Wire(name, counts=counted, **settings)
    curator = Curator(max_tokens=8_000)
    return wire, CuratedLLM(wire.llm, curator=curator), curator


async def gathered(chunks: Any) -> list[Any]:
    return [chunk async for chunk in await chunks]


def ask(llm: Any, style: str, said: list[ChatMessage], tools: bool) -> list[Any]:
    given: dict[str, Any] = {"chat_history": said, "tools": TOOLS} if tools else {"messages": said}
    method = getattr(llm, f"{style}_with_tools" if tools else style)
    if style == "chat":
        return [method(**given)]
    if style == "achat":
        return [asyncio.run(method(**given))]
    if style == "stream_chat":
        return list(method(**given))
    return asyncio.run(gathered(method(**given)))


STYLES = ("chat", "achat", "stream_chat", "astream_chat")


class TestLLM:
    @pytest.mark.parametrize("tools", [False, True], ids=["plain", "tools"])
    @pytest.mark.parametrize("style", STYLES)
    @pytest.mark.parametrize("name", NAMES)
    def test_the_next_view_is_counted_from_what_was_reported(
        self, name: str, style: str, tools: bool
    ) -> None:
        if name == "bedrock" and style.startswith("a"):
            pytest.skip("needs aioboto3")
        wire, llm, curator = opened(name, style)
        answers = ask(llm, style, SAID, tools)
        assert answers[-1].message.content == "ok"
        reported, _ = counted(wire.last)
        schemas = tool_schemas(TOOLS) if tools else None
        told = curator.curate(NEXT, tools=schemas)
        assert reported < told.tokens < reported + 50
        assert told.error is not None

    def test_a_stream_that_nobody_reads_to_its_end_says_nothing(self) -> None:
        _, llm, curator = opened("anthropic", "stream_chat")
        for _ in llm.stream_chat(SAID):
            break
        assert curator.curate(NEXT).error is None


KINDS: dict[str, Any] = {"function": CuratedFunctionAgent, "react": CuratedReActAgent}


def asks(kind: str) -> Any:
    """A script: looks twice, in the words of its agent, then answers."""
    looks = {
        "function": lambda n: Step(calls=((f"c{n}", "look", {"q": f"q{n}"}),)),
        "react": lambda n: Step(f'Thought: I look.\nAction: look\nAction Input: {{"q": "q{n}"}}'),
    }
    done = {"function": "done", "react": "Thought: I know.\nAnswer: done"}
    numbers = iter(range(9))

    def script(body: Request) -> Step:
        number = next(numbers)
        return looks[kind](number) if number < 2 else Step(done[kind])

    return script


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streaming"])
@pytest.mark.parametrize("kind", KINDS)
async def test_every_step_of_an_agent_is_counted_from_what_was_reported_for_the_last(
    kind: str, streaming: bool
) -> None:
    wire = Wire("openai", asks(kind), counts=counted, **REPORTED if streaming else {})
    curator = Curator(max_tokens=8_000)
    agent = KINDS[kind](llm=wire.llm, tools=TOOLS, curator=curator, streaming=streaming)
    assert "done" in str(await agent.run("what is it?"))
    assert len(wire.requests) == 3
    assert curator.calibration is not None
    assert curator.calibration.reported == counted(wire.last)[0]
