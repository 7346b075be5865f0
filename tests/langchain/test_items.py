"""Thinking on the wire: a cut takes reasoning off, and no half of an item may stay."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate

from langchain_history_curator import HistoryCurator
from tests.langchain.test_wire import look
from tests.langchain.wires import Step, Wire

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PROMPT = ChatPromptTemplate([("placeholder", "{history}")])


def conversation(wire: Wire, turns: int = 8) -> list[BaseMessage]:
    """What a thinking model answers to questions, with two calls in each turn and a search."""
    out: list[BaseMessage] = []
    searches = wire.name in ("responses", "anthropic")
    model = wire.model.bind_tools([look])
    for turn in range(turns):
        calls = tuple((f"{name}{turn}", "look", {"place": "Oslo"}) for name in "cd")
        wire.script = lambda body, calls=calls: Step(calls=calls, thinks=True)
        out.append(HumanMessage(f"{turn}: " + "word " * 60))
        out.append(model.invoke(out))
        out += [ToolMessage("fine " * 60, tool_call_id=id_, name="look") for id_, _, _ in calls]
        wire.script = lambda body: Step(text="It is fine.", thinks=True, searches=searches)
        out.append(model.invoke(out))
    return [*out, HumanMessage("and now?")]


FORMS: list[tuple[str, dict[str, Any]]] = [
    ("responses", {}),
    ("responses", {"output_version": "v0"}),
    ("responses", {"output_version": "responses/v1"}),
    ("responses", {"output_version": "v1"}),
    ("responses", {"store": False, "include": ["reasoning.encrypted_content"]}),
    ("anthropic", {}),
    ("anthropic", {"output_version": "v1"}),
    ("gemini", {"model": "gemini-3-pro-preview"}),
    ("gemini", {"model": "gemini-3-pro-preview", "output_version": "v1"}),
    ("bedrock", {}),
    ("bedrock", {"output_version": "v1"}),
]


@pytest.mark.parametrize(
    ("name", "settings"),
    FORMS,
    ids=[f"{name}-{'-'.join(map(str, of.values()))}" for name, of in FORMS],
)
class TestEveryFormOfAnAnswer:
    """LangChain keeps one answer in several forms; each is cut, and sent, without being refused."""

    @pytest.mark.parametrize("provider", ["core", "auto", "portable"])
    def test_no_half_items(self, name: str, settings: dict[str, Any], provider: str) -> None:
        wire = Wire(name, **settings)
        history = conversation(wire)
        assert not wire.refused
        for budget in (400, 700, 1_000):
            step = HistoryCurator(max_tokens=budget, provider=provider)
            (PROMPT | step | wire.model.bind_tools([look])).invoke({"history": history})
            assert not wire.refused
            assert "1: " + "word " * 60 not in json.dumps(wire.last)  # it was cut
            assert "and now?" in json.dumps(wire.last)


class TestProvider:
    def test_the_provider_is_that_of_the_model_behind_the_step(self) -> None:
        step = HistoryCurator(max_tokens=900, provider="auto")
        assert step.curate("hi").report.provider == "core"
        piped: Any = step | Wire("anthropic").model
        assert piped.first.curate("hi").report.provider == "anthropic"

    @pytest.mark.parametrize("name", ["openai", "responses", "anthropic", "gemini", "bedrock"])
    def test_a_picture_in_a_result_is_shown_where_it_may_be(self, name: str) -> None:
        picture = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
        call: Any = {"name": "look", "args": {"place": "Oslo"}, "id": "c1"}
        said: list[BaseMessage] = [
            HumanMessage("hi"),
            AIMessage("", tool_calls=[call]),
            ToolMessage([{"type": "text", "text": "here"}, picture], tool_call_id="c1"),
        ]
        wire = Wire(name)
        model = wire.model.bind_tools([look])
        (HistoryCurator.for_model(model, max_tokens=5_000) | model).invoke(said)
        assert not wire.refused
        assert (PIXEL in json.dumps(wire.last)) is (name in ("responses", "anthropic", "bedrock"))


@pytest.mark.parametrize("form", ["blocks", "non-standard"])
def test_a_computer_keeps_its_calls_and_the_newest_screenshots(form: str) -> None:
    """OpenAI's computer: calls are items of the answer, screenshots are results of messages."""
    url = f"data:image/png;base64,{PIXEL}"
    history: list[BaseMessage] = [HumanMessage("Book a flight.")]
    for n in range(60):
        call = {"type": "computer_call", "id": f"cu_{n}", "call_id": f"c{n}", "action": {"x": n}}
        blocks: list[Any] = [{"type": "reasoning", "id": f"rs_{n}", "summary": []}, call]
        if form == "non-standard":
            blocks = [{"type": "non_standard", "value": block} for block in blocks]
        picture: list[Any] = [{"type": "input_image", "image_url": url}]
        shot = {"type": "computer_call_output"}
        history += [
            AIMessage(blocks),
            ToolMessage(picture, tool_call_id=f"c{n}", additional_kwargs=shot),
        ]
    step = HistoryCurator(max_tokens=3_000, provider="openai-responses", counter="gpt-5")
    view = step.invoke(history)
    assert view[-1] is history[-1]
    assert view[-2] is history[-2]
    assert 4 < len(view) < len(history)
    shown = [message for message in view if message.type in ("ai", "tool")]
    assert all(one is other for one, other in zip(shown, history[-len(shown) :], strict=True))
    assert any(message.text == "Book a flight." for message in view)


@pytest.mark.parametrize("name", ["anthropic", "openai-responses"])
def test_the_summary_of_the_server_stays_in_front(name: str) -> None:
    summary = AIMessage([{"type": "compaction", "content": "They counted."}])
    history: list[BaseMessage] = [summary]
    for n in range(30):
        history += [HumanMessage(f"{n} " + "word " * 40), AIMessage("yes " * 40)]
    view = HistoryCurator(max_tokens=800, provider=name).invoke([*history, HumanMessage("so?")])
    assert len(view) < 30
    assert next(message for message in view if message.type == "ai") is summary
