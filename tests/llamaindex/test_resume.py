"""A memory that is passed is used; one whose store is not open in this process says so."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent

from history_curator import ConfigurationError
from llamaindex_history_curator import CuratedAgentWorkflow, CuratedFunctionAgent, CuratedMemory
from tests.llamaindex.factories import roles, texts, user
from tests.llamaindex.models import RecordingLLM
from tests.llamaindex.wires import Request, Step, Wire

ROOT = Path(__file__).resolve().parents[2]


def agent(llm: RecordingLLM | None = None, **options: Any) -> CuratedFunctionAgent:
    return CuratedFunctionAgent(llm=llm or RecordingLLM(), tools=[], token_limit=9_000, **options)


def elsewhere(memory: CuratedMemory) -> dict[str, Any]:
    """What another process gets of a memory."""
    data: dict[str, Any] = json.loads(json.dumps(memory.to_dict()))
    return {**data, "id": "another process"}


@pytest.mark.parametrize("in_workflow", [False, True])
async def test_a_memory_that_is_passed_is_used_in_a_context_that_had_another(
    in_workflow: bool,
) -> None:
    runner: Any = CuratedAgentWorkflow(agents=[agent()]) if in_workflow else agent()
    context = Context(runner)
    await runner.run(user_msg="first", ctx=context)
    memory = CuratedMemory.from_defaults(token_limit=9_000)
    for question in ("second", "third"):
        await runner.run(user_msg=question, ctx=context, memory=memory)
    assert texts(memory.get_all())[::2] == ["second", "third"]
    assert await context.store.get("memory") is memory


class Elsewhere(SimpleChatStore):
    """A store that cannot be found by what is written down of it."""

    @classmethod
    def class_name(cls) -> str:
        return "Elsewhere"


async def test_a_store_that_is_not_found_says_what_to_pass_and_where() -> None:
    saved = CuratedMemory.from_defaults([user("1")], chat_store=Elsewhere(), token_limit=9_000)
    lost = CuratedMemory.from_dict({**elsewhere(saved), "messages": None})
    told = r"Elsewhere.*memory=.*chat_store="
    with pytest.raises(ConfigurationError, match=told):
        lost.get()
    with pytest.raises(ConfigurationError, match=told):
        await lost.aput(user("2"))
    runner = agent()
    context = Context(runner)
    await context.store.set("memory", lost)
    memory = CuratedMemory.from_defaults(token_limit=9_000)
    await runner.run("go", ctx=context, memory=memory)
    assert texts(memory.get_all())[0] == "go"


@pytest.mark.parametrize("kind", ["agent", pytest.param("workflow", marks=pytest.mark.nightly)])
def test_a_run_that_waits_for_a_person_goes_on_in_another_process(
    kind: str, tmp_path: Path
) -> None:
    uri = f"sqlite+aiosqlite:///{tmp_path / 'chats.db'}"
    saved = json.dumps(asyncio.run(begin(kind, uri)))
    command = [sys.executable, "-W", "error::UserWarning", "-c", GO_ON, kind, uri]
    done = subprocess.run(
        command, input=saved, text=True, check=False, capture_output=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["done", "refused:0", "asked:31"]
    record = stored(uri).get_all()
    assert roles(record) == ["user", *["assistant", "tool"] * 60, "assistant"]
    results = [str(one.content) for one in record if one.role.value == "tool"]
    assert results.pop(30) == "Ada says yes"
    assert all("found fact" in text for text in results)


GO_ON = """
import asyncio, json, sys
from tests.llamaindex.test_resume import go_on

asyncio.run(go_on(*sys.argv[1:], json.load(sys.stdin)))
"""


async def ask(ctx: Context, n: int) -> str:
    """Ask a person."""
    answer = await ctx.wait_for_event(
        HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="may I?")
    )
    return f"Ada says {answer.response}"


ask.__annotations__ = {"ctx": Context, "n": int, "return": str}  # a tool needs the class itself


def find(n: int) -> str:
    """Find something."""
    return f"{n} found " + "fact " * 300


def sixty(kind: str, first: int) -> tuple[Wire, Any]:
    """An agent of sixty steps, from one of them on, over a strict provider."""
    numbers = iter(range(first, 61))

    def script(body: Request) -> Step:
        number = next(numbers)
        if number == 60:
            return Step("done")
        return Step(calls=((f"c{number}", "ask" if number == 30 else "find", {"n": number}),))

    wire = Wire("openai", script)
    made = CuratedFunctionAgent(
        llm=wire.llm, tools=[ask, find], token_limit=4_000, streaming=False, timeout=None
    )
    return wire, made if kind == "agent" else CuratedAgentWorkflow(agents=[made], timeout=None)


def stored(uri: str) -> CuratedMemory:
    return CuratedMemory.from_defaults(
        chat_store=SQLAlchemyChatStore("chats", uri), token_limit=4_000, provider="openai"
    )


async def begin(kind: str, uri: str) -> dict[str, Any]:
    wire, runner = sixty(kind, 0)
    handler = runner.run(user_msg="go", memory=stored(uri), max_iterations=99)
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            break
    saved: dict[str, Any] = json.loads(json.dumps(handler.ctx.to_dict()))
    await handler.cancel_run()
    assert (len(wire.requests), wire.refused) == (31, [])
    return saved


async def go_on(kind: str, uri: str, saved: dict[str, Any]) -> None:
    wire, runner = sixty(kind, 31)
    context = Context.from_dict(runner, saved)
    await context.store.set("memory", stored(uri))
    handler = runner.run(ctx=context)
    handler.ctx.send_event(HumanResponseEvent(response="yes"))
    print(str(await handler), f"refused:{len(wire.refused)}", f"asked:{1 + len(wire.requests)}")
