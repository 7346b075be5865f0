"""Views of broken conversations, sent by the real clients to providers that refuse what is wrong."""

from __future__ import annotations

import json
from random import Random

import pytest

from history_curator import Curator
from history_curator.testing import SEQUENCES, parse
from tests.support.messages import assistant, call, result, system, user
from tests.wire.generators import broken, steps, text

VIEWS = 20
PROFILES = {
    "openai": "openai",
    "responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "bedrock": "bedrock",
}

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
LOOK = {"name": "look", "description": "Look it up.", "parameters": PARAMETERS}


def conversation(number):
    """What every framework has words for: texts, calls and results, some of them lost or doubled."""
    rng = Random(number)
    messages = [system(text(rng))] if rng.random() < 0.5 else []
    calls = 0
    for step in steps(rng, ("calls", "calls", "answer")):
        if step == "user":
            messages.append(user(text(rng)))
        elif step == "answer":
            messages.append(assistant(text(rng)))
        else:
            names = [f"call_{calls + place}" for place in range(rng.randint(1, 3))]
            calls += len(names)
            messages += [call(*names), *(result(name, text(rng)) for name in names)]
    return broken(rng, messages) if number % 3 else messages


def send_all(wire, convert, send):
    drawn = [conversation(number) for number in range(VIEWS)]
    for number, given in enumerate([*drawn, *(parse(given) for given, _ in SEQUENCES)]):
        messages = [convert(message) for message in given]
        curator = Curator(provider=PROFILES[wire.name], max_tokens=(None, 1_000)[number % 2])
        if messages:
            send(curator.curate(messages, tail="request").messages)
            assert wire.refused == [], number
    assert len(wire.requests) > VIEWS // 2


def arguments_of(asked):
    return json.loads(asked["function"]["arguments"])


def _to_langchain(message):
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    content, name, role = message["content"] or "", message.get("name"), message["role"]
    if role == "tool":
        return ToolMessage(content, name=name, tool_call_id=message["tool_call_id"])
    if role != "assistant":
        kind = SystemMessage if role == "system" else HumanMessage
        return kind(content, name=name)
    calls = [
        {"id": each["id"], "name": each["function"]["name"], "args": arguments_of(each)}
        for each in message.get("tool_calls", ())
    ]
    return AIMessage(content, name=name, tool_calls=calls)


@pytest.mark.parametrize("name", PROFILES)
def test_langchain(name):
    pytest.importorskip("langchain_core")
    from tests.langchain.wires import Wire

    wire = Wire(name)
    send_all(wire, _to_langchain, wire.model.bind_tools([LOOK]).invoke)


def _to_llama_index(message):
    """A message as the framework has it for all of its clients."""
    from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock

    blocks = [TextBlock(text=message["content"])] if message.get("content") else []
    for each in message.get("tool_calls", ()):
        name, given = each["function"]["name"], arguments_of(each)
        blocks.append(ToolCallBlock(tool_call_id=each["id"], tool_name=name, tool_kwargs=given))
    more = {key: message[key] for key in ("tool_call_id", "name") if key in message}
    return ChatMessage(role=message["role"], blocks=blocks, additional_kwargs=more)


@pytest.mark.parametrize("name", PROFILES)
def test_llama_index(name):
    pytest.importorskip("llama_index.core")
    from tests.llamaindex.wires import Wire

    wire = Wire(name)
    send_all(wire, _to_llama_index, wire.llm.chat)
