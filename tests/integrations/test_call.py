"""One curated call, driven in sync and in async code alike."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

from history_curator import Curator
from history_curator.integrations import CuratedModelCall, is_too_long
from history_curator.run_steps import Call, run_async, run_sync

SAID: list[Any] = [
    {"role": role, "content": f"{n}: " + "word " * 8}
    for n in range(50)
    for role in ("user", "assistant")
] + [{"role": "user", "content": "and now?"}]


class ContextOverflowError(Exception):
    """What LangChain calls it when a request is too long."""


def call_of(above: int, sizes: list[int], **fields: Any) -> CuratedModelCall:
    def answer(tokens: int) -> str:
        sizes.append(tokens)
        if tokens > above:
            raise ContextOverflowError(tokens)
        return f"sent {tokens}"

    async def aanswer(tokens: int) -> str:
        return answer(tokens)

    settings: dict[str, Any] = {
        "curator": Curator(max_tokens=1_000),
        "messages": SAID,
        "arguments": {"max_tokens": 1_000},
        "retries": 2,
        **fields,
    }
    return CuratedModelCall(send=lambda done: Call(answer, aanswer, (done.tokens,)), **settings)


async def both(make: Callable[[list[int]], CuratedModelCall]) -> tuple[Any, Any]:
    outcomes = []
    for run in (run_sync, run_async):
        sizes: list[int] = []
        try:
            result = run(make(sizes).body())
            outcome = result if run is run_sync else await result
        except Exception as error:  # noqa: BLE001 - compared below
            outcome = type(error)
        outcomes.append((outcome, sizes))
    return outcomes[0], outcomes[1]


async def test_a_view_that_was_too_long_is_made_smaller() -> None:
    sync, asynchronous = await both(lambda sizes: call_of(500, sizes))
    assert sync == asynchronous
    answer, sizes = sync
    assert answer == f"sent {sizes[-1]}"
    assert sizes[-1] <= 500
    assert all(b <= a * 0.55 for a, b in itertools.pairwise(sizes))


@pytest.mark.parametrize("factor", [0.5, 0.95, 1.0, 1.5])
def test_a_count_that_was_not_foretold_is_observed(factor: float) -> None:
    curator = Curator(max_tokens=1_000)
    usage = {"prompt_tokens": int(curator.curate(SAID).tokens * factor)}
    run_sync(call_of(1_000, [], curator=curator, usage=lambda _: usage).body())
    assert (curator.calibration is not None) == (factor in (0.5, 1.5))


async def test_at_most_so_many_times() -> None:
    sync, asynchronous = await both(lambda sizes: call_of(10, sizes))
    assert sync == asynchronous
    assert sync[0] is ContextOverflowError
    assert len(sync[1]) == 3


async def test_when_nothing_smaller_is_left_the_refusal_stands() -> None:
    sync, asynchronous = await both(lambda sizes: call_of(1, sizes, retries=99))
    assert sync == asynchronous
    assert sync[0] is ContextOverflowError


def test_each_curation_is_inside_what_was_opened() -> None:
    seen: list[Any] = []

    @contextmanager
    def curating() -> Any:
        seen.append("open")
        yield
        seen.append("closed")

    sizes: list[int] = []
    run_sync(call_of(1_000, sizes, curating=curating).body())
    assert seen == ["open", "closed"]


class OfStatus(Exception):
    """An error of a client, with the status of the response."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status_code = status


@pytest.mark.parametrize(
    "said",
    [
        "prompt is too long: 214532 tokens > 200000 maximum",
        "Error code: 400 - {'error': {'code': 'context_length_exceeded'}}",
        "This model's maximum context length is 128000 tokens. However, you requested 130000.",
        "Your input exceeds the context window of this model. Please adjust your input.",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).",
        "An error occurred (ValidationException): Input is too long for requested model.",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768",
        "the request exceeds the available context size (4096 tokens), try increasing it",
    ],
)
def test_refusals_are_known_by_what_they_say(said: str) -> None:
    assert is_too_long(ValueError(said))
    assert is_too_long(OfStatus(said, 400))
    assert not is_too_long(OfStatus(said, 429))


def test_other_errors_are_none() -> None:
    assert is_too_long(ContextOverflowError("whatever it says"))
    for said in ("Request too large: 30000 tokens per min", "invalid key", "tool name is too long"):
        assert not is_too_long(ValueError(said))
