"""A long run with every class of model, as a strict provider sees them.

Parallel calls, searches of the provider's own, images, thinking, a human who approves, a
structured answer, checkpoints in SQLite, and a machine that goes down in the middle.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from history_curator.tokens import get_counter
from langchain_history_curator import HistoryCuratorMiddleware
from tests.langchain.wires import NAMES, Request, Step, Wire

pytest.importorskip("langchain.agents")
pytest.importorskip("langgraph.checkpoint.sqlite")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.structured_output import ToolStrategy
from langgraph.checkpoint import sqlite
from langgraph.types import Command

STEPS = 44
BUDGET = 16_000
THREAD: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 10 * STEPS}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SEARCHES: dict[str, list[dict[str, Any]]] = {
    "anthropic": [{"type": "web_search_20250305", "name": "web_search"}],
    "responses": [{"type": "web_search"}],
}


class Verdict(BaseModel):
    """What it all came to."""

    steps: int


@tool
def look(step: int, part: int = 0) -> str:
    """Look at something.

    Args:
        step: which step this is.
        part: which of several things.
    """
    return f"step {step}, part {part}: " + f"fact {step * part} " * (100 + step * 37 % 400)


@tool
def paint(step: int) -> str:
    """Paint something; a human has to approve."""
    return f"step {step}: painted"


@tool
def photo(step: int) -> list[dict[str, Any]]:
    """Take a photo."""
    picture = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    return [{"type": "text", "text": f"step {step}: "}, picture]


class Machine:
    """The model's side: where it stands survives the restart of the agent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.step = 0
        self.down_at: int | None = 25

    def __call__(self, body: Request) -> Step:
        if self.step == self.down_at:
            self.down_at = None
            raise ConnectionError("the machine went down")
        step, self.step = self.step, self.step + 1
        if step >= STEPS:
            return Step(calls=((f"call{step}", "Verdict", {"steps": step}),))
        if step % 40 == 20:
            return Step(calls=((f"call{step}", "paint", {"step": step}),), thinks=self.thinks)
        if step % 40 == 30:
            return Step(calls=((f"call{step}", "photo", {"step": step}),), thinks=self.thinks)
        count = 3 if step % 7 == 3 else 1
        return Step(
            calls=tuple(
                (f"call{step}x{part}", "look", {"step": step, "part": part})
                for part in range(count)
            ),
            thinks=self.thinks,
            searches=step % 11 == 5 and self.name in SEARCHES,
        )

    @property
    def thinks(self) -> bool:
        return self.name in ("responses", "gemini", "bedrock", "anthropic")


def run(name: str, path: Path, *, curated: bool) -> tuple[list[Wire], list[Any], Any]:
    machine = Machine(name)
    wires: list[Wire] = []
    given: Any = {
        "messages": [
            HumanMessage(
                [
                    {"type": "text", "text": "What is in this picture? Look often."},
                    {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
                ],
                id="q",
            )
        ]
    }
    while True:
        # Sent whole it would be refused: a photo in a result, for one.
        wire = Wire(name, machine, strict=curated)
        wires.append(wire)
        connection = sqlite3.connect(path, check_same_thread=False)
        ours = [HistoryCuratorMiddleware(max_tokens=BUDGET, counter="o200k_base")]
        agent: Any = create_agent(
            wire.model,
            [look, paint, photo, *SEARCHES.get(name, [])],
            system_prompt="Look closely.",
            middleware=[
                HumanInTheLoopMiddleware(interrupt_on={"paint": True}),
                *marking(name),
                *(ours if curated else []),
            ],
            response_format=ToolStrategy(Verdict),
            checkpointer=sqlite.SqliteSaver(connection),
        )
        try:
            state = agent.invoke(given, THREAD, durability="exit")
            while "__interrupt__" in state:
                approved = Command(resume={"decisions": [{"type": "approve"}]})
                state = agent.invoke(approved, THREAD, durability="exit")
            return wires, state["messages"], state["structured_response"]
        except Exception as error:
            if machine.down_at is not None or len(wires) > 1:
                raise error from None
            given = None  # go on from the checkpoint
        finally:
            connection.close()


def marking(name: str) -> list[Any]:
    """What marks a request for the provider's cache, where the provider wants marks."""
    if name != "anthropic":
        return []
    from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware

    return [AnthropicPromptCachingMiddleware()]


def parts(body: Request) -> list[Any]:
    """A request as what a prompt cache compares: tools and system, then message by message."""
    key = next(key for key in ("messages", "input", "contents") if key in body)
    head = {name: body.get(name) for name in ("tools", "toolConfig", "system", "systemInstruction")}
    return [head, *body[key]]


def texts(part: Any) -> Iterator[str]:
    """Every text in a piece of JSON, and no image."""
    if isinstance(part, dict):
        for value in part.values():
            yield from texts(value)
    elif isinstance(part, list):
        for value in part:
            yield from texts(value)
    elif isinstance(part, str) and PIXEL not in part:
        yield part


@cache
def tokens(part: str) -> int:
    count = get_counter("o200k_base").count
    return sum(map(count, texts(json.loads(part))))


def units(body: Request) -> list[str]:
    return [json.dumps(part, sort_keys=True) for part in parts(body)]


# The others take minutes: their converters read the whole conversation for every request.
SOON = ("openai", "anthropic")
EACH = [name if name in SOON else pytest.param(name, marks=pytest.mark.nightly) for name in NAMES]


@pytest.fixture(scope="module", params=EACH)
def runs(request: Any, tmp_path_factory: Any) -> Any:
    path = tmp_path_factory.mktemp(request.param)
    return (
        request.param,
        run(request.param, path / "curated.db", curated=True),
        run(request.param, path / "whole.db", curated=False),
    )


class TestLongRun:
    def test_no_request_is_refused_and_every_one_fits(self, runs: Any) -> None:
        name, (wires, _, verdict), _ = runs
        assert [wire.refused for wire in wires] == [[], []], name
        assert sum(len(wire.requests) for wire in wires) == STEPS + 2  # one of them went down
        assert verdict.steps == STEPS
        bodies = [body for wire in wires for body in wire.requests]
        assert max(sum(map(tokens, units(body))) for body in bodies) <= BUDGET

    def test_the_state_is_complete(self, runs: Any) -> None:
        _, (_, messages, _), (_, whole, _) = runs
        assert [shape(m) for m in messages] == [shape(m) for m in whole]
        results = [m for m in messages if isinstance(m, ToolMessage) and m.name != "Verdict"]
        calls = [c for m in messages if isinstance(m, AIMessage) for c in m.tool_calls]
        assert len(results) == len(calls) - 1
        assert all(len(m.text) > 100 for m in results if m.name == "look")
        assert all(PIXEL in str(m.content) for m in results if m.name == "photo")


def shape(message: Any) -> tuple[Any, ...]:
    return (
        message.type,
        message.text,
        getattr(message, "tool_call_id", None),
        tuple(call["id"] for call in getattr(message, "tool_calls", ())),
    )
