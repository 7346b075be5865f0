"""A lost prompt cache is noticed from the answers, and its reason named, once."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from history_curator import CacheLost, Curator, EventBus
from history_curator.cache_loss import read_own_reason
from history_curator.tokens import count_tokens
from tests.support.messages import exchange, system, user

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in "abc"]


class CachingProvider:
    """Answers with Anthropic's usage: it reads what a request shares with the start of the last."""

    def __init__(self) -> None:
        self.held: list[str] = []

    def answer(self, messages: list[Any], tools: Any = None) -> dict[str, Any]:
        prompt = [json.dumps(each, sort_keys=True) for each in (tools, *messages)]
        pairs = enumerate(zip(self.held, prompt, strict=False))
        shorter = min(len(self.held), len(prompt))
        same = next((at for at, (old, new) in pairs if old != new), shorter)
        sizes = [count_tokens([{"role": "user", "content": text}]) for text in prompt]
        self.held = prompt
        read = sum(sizes[:same])
        cached = {"cache_read_input_tokens": read, "cache_creation_input_tokens": sum(sizes) - read}
        return {"id": "msg_1", "usage": {"input_tokens": 1, "output_tokens": 5, **cached}}


def requests(turns: int = 40) -> list[list[dict[str, Any]]]:
    """The record before each request of a session with long results."""
    words = [f"word{number}" for number in range(250)]
    steps = (exchange(f"c{at}", text=f"{at} {' '.join(words)}") for at in range(turns))
    record = [system(), user("Find the fault."), *(message for step in steps for message in step)]
    return [record[: at + 1] for at, each in enumerate(record) if each["role"] == "tool"]


def run(
    curator: Curator, *, change: Any = None, at: int = 12, behind: Any = None, **options: Any
) -> list[tuple[int, CacheLost]]:
    """Return the losses of a session, with the request at which each was noticed."""
    provider, losses = CachingProvider(), []
    for number, record in enumerate(requests()):
        arguments: dict[str, Any] = {"tools": TOOLS}
        if number >= at and change is not None:
            record = change(record, arguments, number)  # noqa: PLW2901
        curation = curator.curate(record, **arguments, **options)
        sent = curation.messages
        if number >= at and behind is not None:
            sent = behind(sent)
        answer = provider.answer(sent, arguments["tools"])
        loss = curation.check_cache(answer)
        losses += [] if loss is None else [(number, loss)]
        assert curation.check_cache(answer) is None  # each answer is judged once
    return losses


@pytest.mark.parametrize("budget", [8_000, 20_000, None])
def test_a_session_that_is_only_compacted_loses_nothing(budget: int | None) -> None:
    assert run(Curator(max_tokens=budget, provider="anthropic")) == []


def test_a_list_of_tools_in_another_order_is_named() -> None:
    def shuffle(record: Any, arguments: Any, number: int) -> Any:
        arguments["tools"] = TOOLS[number % 2 :] + TOOLS[: number % 2]
        return record

    losses = run(Curator(max_tokens=20_000, provider="anthropic"), change=shuffle)
    assert [loss.reason for _, loss in losses] == ["tools changed"]
    assert losses[0][0] in (12, 13)


def test_a_clock_in_the_system_message_is_named() -> None:
    def clock(record: Any, arguments: Any, number: int) -> Any:
        return [{"role": "system", "content": f"It is {number} o'clock."}, *record[1:]]

    (at, loss), *rest = run(Curator(max_tokens=20_000, provider="anthropic"), change=clock)
    assert (at, loss.reason, loss.message, loss.is_ours) == (12, "prefix changed", 0, True)
    assert not rest
    assert "The view changed at message 0" in str(loss)


def test_a_change_behind_the_curator_is_named_with_its_message() -> None:
    def redact(messages: list[Any]) -> list[Any]:
        return [*messages[:7], {**messages[7], "content": "[redacted]"}, *messages[8:]]

    (at, loss), *rest = run(Curator(max_tokens=20_000, provider="anthropic"), behind=redact)
    assert (at, loss.reason, loss.message, loss.is_ours) == (12, "prefix changed", 7, False)
    assert not rest
    assert loss.read_tokens < loss.expected_tokens


def test_a_pause_is_named() -> None:
    curator, provider = Curator(max_tokens=60_000, provider="anthropic"), CachingProvider()
    records = requests(10)
    curator.curate(records[5]).check_cache(provider.answer(records[5]))
    provider.held = []
    loss = curator.curate(records[6], idle=299).check_cache(provider.answer(records[6]))
    assert loss is not None
    assert loss.reason == "prefix changed"
    curator, provider = Curator(max_tokens=60_000, provider="openai"), CachingProvider()
    curator.curate(records[5]).check_cache(provider.answer(records[5]))
    provider.held = []
    loss = curator.curate(records[6], idle=301).check_cache(provider.answer(records[6]))
    assert loss is not None
    assert loss.reason == "idle"


def test_a_request_below_the_minimum_of_the_model_that_answers_is_named() -> None:
    curator, provider = Curator(max_tokens=60_000, provider="anthropic"), CachingProvider()
    records = requests(4)
    curator.curate(records[2]).check_cache(provider.answer(records[2]))
    provider.held = []
    answer = {**provider.answer(records[3]), "model": "claude-haiku-4-5"}  # caches from 4,096 on
    loss = curator.curate(records[3]).check_cache(answer)
    assert loss is not None
    assert loss.reason == "too small"


@pytest.mark.parametrize(("details", "is_noticed"), [({"cached_tokens": 0}, True), (None, False)])
def test_a_provider_that_caches_by_itself_has_to_say_what_it_read(
    details: Any, is_noticed: bool
) -> None:
    curator, records = Curator(max_tokens=60_000, provider="openai"), requests(10)
    answer = {"usage": {"prompt_tokens": 5_000, "prompt_tokens_details": details}}
    assert curator.curate(records[5]).check_cache(answer) is None
    assert (curator.curate(records[6]).check_cache(answer) is not None) is is_noticed


def test_losing_less_than_the_least_that_is_cached_is_no_loss() -> None:
    curator, record = Curator(max_tokens=60_000, provider="anthropic"), requests(4)[2]
    curator.curate(record[:2]).check_cache({"input_tokens": 5, "cache_creation_input_tokens": 900})
    assert curator.curate(record).check_cache({"input_tokens": 2_000}) is None


def test_a_loss_is_published_logged_and_a_warning_of_the_report(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus, seen = EventBus(), list[CacheLost]()
    bus.subscribe(CacheLost, seen.append)
    curator = Curator(max_tokens=60_000, provider="anthropic", bus=bus, name="support")
    provider, records = CachingProvider(), requests(10)
    curator.curate(records[5]).observe(provider.answer(records[5]))
    provider.held = []
    curation = curator.curate(records[6])
    with caplog.at_level(logging.WARNING, "history_curator"):
        curation.observe(provider.answer(records[6]))
    assert [each.reason for each in seen] == ["prefix changed"]
    assert [each.getMessage() for each in caplog.records] == [str(seen[0])]
    assert str(seen[0]) in curation.report.warnings
    assert str(seen[0]) in curation.report.explain()
    assert str(seen[0]).startswith("support: the prompt cache was lost (prefix changed)")


def test_conversations_do_not_mix() -> None:
    curator = Curator(max_tokens=60_000, provider="anthropic")
    for each in ("one", "two"):
        provider = CachingProvider()
        for record in requests(10)[3:6]:
            own = [record[0], {"role": "user", "content": f"Question {each}"}, *record[2:]]
            assert curator.curate(own).check_cache(provider.answer(own)) is None


def test_a_copy_in_another_process_starts_as_new() -> None:
    import pickle

    curator, records = Curator(max_tokens=60_000, provider="anthropic"), requests(10)
    curator.curate(records[5]).check_cache(CachingProvider().answer(records[5]))
    copy = pickle.loads(pickle.dumps(curator))
    assert copy.curate(records[6]).check_cache(CachingProvider().answer(records[6])) is None


ANTHROPIC = {
    "model_changed": "model changed",
    "system_changed": "prefix changed",
    "tools_changed": "tools changed",
    "messages_changed": "prefix changed",
    "previous_message_not_found": None,
    "unavailable": None,
}
OPENAI = {
    "model_changed": "model changed",
    "prompt_cache_key_changed": "prompt cache key changed",
    "tools_changed": "tools changed",
    "reasoning_effort_changed": "reasoning effort changed",
    "context_compacted": "compaction",
    "input_changed": "prefix changed",
}


@pytest.mark.parametrize(("own", "reason"), ANTHROPIC.items())
def test_anthropics_own_reason(own: str, reason: str | None) -> None:
    beta = pytest.importorskip("anthropic.types.beta")
    missed = {"type": own, "cache_missed_input_tokens": 9_000}
    data = {"diagnostics": {"cache_miss_reason": missed}}
    read = beta.BetaDiagnostics.model_validate(data["diagnostics"])
    assert read.cache_miss_reason.type == own  # the client knows this shape
    assert read_own_reason(data) == reason
    assert read_own_reason(type("Message", (), {"diagnostics": read})()) == reason


@pytest.mark.parametrize(("own", "reason"), OPENAI.items())
def test_openais_own_reason(own: str, reason: str) -> None:
    missed = {"type": "cache_miss", "reason": own, "cache_missed_tokens": 9_000}
    assert read_own_reason({"prompt_cache_diagnostics": missed}) == reason


@pytest.mark.parametrize("kind", ["cache_hit", "comparison_response_not_found", "unavailable"])
def test_openais_other_diagnostics_are_no_reason(kind: str) -> None:
    assert read_own_reason({"prompt_cache_diagnostics": {"type": kind}}) is None


def test_a_reason_inside_the_answer_of_a_framework() -> None:
    messages = pytest.importorskip("langchain_core.messages")
    types = pytest.importorskip("llama_index.core.base.llms.types")
    data = {"diagnostics": {"cache_miss_reason": {"type": "tools_changed"}}}
    assert read_own_reason(messages.AIMessage("hi", response_metadata=data)) == "tools changed"
    answer = types.ChatResponse(message=types.ChatMessage("hi"), raw=data)
    assert read_own_reason(answer) == "tools changed"
    assert read_own_reason({"diagnostics": {"cache_miss_reason": None}}) is None


def test_the_providers_own_reason_wins() -> None:
    curator, provider, records = Curator(max_tokens=60_000), CachingProvider(), requests(10)
    curator.curate(records[5]).check_cache(provider.answer(records[5]))
    provider.held = []
    missed = {"cache_miss_reason": {"type": "model_changed", "cache_missed_input_tokens": 1}}
    answer = {**provider.answer(records[6]), "diagnostics": missed}
    loss = curator.curate(records[6]).check_cache(answer)
    assert loss is not None
    assert loss.reason == "model changed"
