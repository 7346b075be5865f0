"""One flat event per curation, inside a span, kept by a real handler and by OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.base.event import BaseEvent
from pydantic import Field

from llamaindex_history_curator import (
    CuratedFunctionAgent,
    CuratedLLM,
    CuratedMemory,
    HistoryCuratedEvent,
)
from tests.llamaindex.factories import assistant, call, result, system, user
from tests.llamaindex.models import RecordingLLM


class Keeper(BaseEventHandler):
    """Keeps our events."""

    kept: list[HistoryCuratedEvent] = Field(default_factory=list)

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        if isinstance(event, HistoryCuratedEvent):
            self.kept.append(event)


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    root, handler = get_dispatcher(), Keeper()
    root.add_event_handler(handler)
    yield handler
    root.event_handlers.remove(handler)


def long_memory() -> CuratedMemory:
    said = [system("rules"), user("task")]
    for number in range(30):
        said += [call(f"c{number}"), result(f"c{number}", "w " * 200)]
    return CuratedMemory.from_defaults([*said, user("now?")], token_limit=600)


class TestHandler:
    def test_one_event_per_view_with_flat_fields(self, keeper: Keeper) -> None:
        view = long_memory().get()
        (event,) = keeper.kept
        assert event.integration == "memory"
        assert (event.original_count, event.curated_count) == (63, len(view))
        assert event.dropped_count == 63 - len(view) + event.inserted_count
        assert event.cleared_count + event.truncated_count > 0
        assert 0 < event.tokens <= event.max_tokens == 600
        assert 0 < event.prefix_tokens <= event.tokens
        assert event.provider == "core"
        assert event.span_id is not None
        own = set(HistoryCuratedEvent.model_fields) - set(BaseEvent.model_fields)
        assert all(isinstance(getattr(event, name), (int, str, bool)) for name in own)

    def test_a_degraded_view_says_so(self, keeper: Keeper) -> None:
        CuratedMemory.from_defaults([user("big " * 99)], token_limit=20).get()
        assert [event.degraded for event in keeper.kept] == [True]

    async def test_an_agent_says_so_once_per_model_call(self, keeper: Keeper) -> None:
        llm = RecordingLLM(
            lambda number, messages: (
                call(f"c{number}", name="look") if number < 3 else assistant("done")
            )
        )
        agent = CuratedFunctionAgent(llm=llm, tools=[look], token_limit=5_000)
        await agent.run("go")
        events = [event for event in keeper.kept if event.integration == "agent"]
        assert len(events) == len(llm.sent) == 4
        assert all(event.span_id for event in events)


@pytest.fixture
def exporter() -> Iterator[Any]:
    otel = pytest.importorskip("llama_index.observability.otel")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter, root = memory.InMemorySpanExporter(), get_dispatcher()
    before = list(root.event_handlers), list(root.span_handlers)
    otel.LlamaIndexOpenTelemetry(
        span_exporter=exporter, span_processor="simple"
    ).start_registering()
    yield exporter
    root.event_handlers, root.span_handlers = before


async def test_opentelemetry_keeps_the_event_with_its_numbers(exporter: Any) -> None:
    long_memory().get()
    await long_memory().aget()
    agent = FunctionAgent(llm=CuratedLLM(llm=RecordingLLM(), token_limit=5_000), tools=[look])
    await agent.run("go", memory=long_memory())
    spans = exporter.get_finished_spans()
    found = [
        (span.name, event.attributes)
        for span in spans
        for event in span.events
        if event.name == "HistoryCuratedEvent"
    ]
    names = {name for name, _ in found}
    assert {"CuratedMemory.get", "CuratedMemory.aget", "CuratedLLM.astream_chat"} <= names
    expected = {"original_count": 63, "max_tokens": 600, "integration": "memory"}
    assert expected.items() <= dict(found[0][1]).items()


def look() -> str:
    """Look."""
    return "found"
