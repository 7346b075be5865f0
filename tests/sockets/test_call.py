"""One curated call, driven in sync and in async code alike."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

from history_curator import Curator
from history_curator.errors import BudgetUnsatisfiableError
from history_curator.sockets import Ask, Body, CuratedCall, adrive, drive

SAID: list[Any] = [
    {"role": role, "content": f"{n}: " + "word " * 30}
    for n in range(20)
    for role in ("user", "assistant")
] + [{"role": "user", "content": "and now?"}]


class TooLong(Exception):
    """What a provider raises."""


def call_of(above: int, sizes: list[int], **fields: Any) -> CuratedCall:
    def answer(tokens: int) -> str:
        sizes.append(tokens)
        if tokens > above:
            raise TooLong(tokens)
        return f"sent {tokens}"

    async def aanswer(tokens: int) -> str:
        return answer(tokens)

    settings: dict[str, Any] = {
        "curator": Curator(max_tokens=1_000),
        "messages": SAID,
        "arguments": {"max_tokens": 1_000},
        "too_long": (TooLong,),
        "retries": 2,
        **fields,
    }
    return CuratedCall(send=lambda done: Ask(answer, aanswer, (done.tokens,)), **settings)


async def both(make: Callable[[list[int]], CuratedCall]) -> tuple[Any, Any]:
    outcomes = []
    for run in (drive, adrive):
        sizes: list[int] = []
        try:
            result = run(make(sizes).body())
            outcome = result if run is drive else await result
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
    assert all(b <= a * 0.7 for a, b in itertools.pairwise(sizes))


async def test_at_most_so_many_times() -> None:
    sync, asynchronous = await both(lambda sizes: call_of(10, sizes))
    assert sync == asynchronous
    assert sync[0] is TooLong
    assert len(sync[1]) == 3


async def test_when_nothing_smaller_is_left_the_refusal_stands() -> None:
    sync, asynchronous = await both(lambda sizes: call_of(1, sizes, retries=99, shrink=0.2))
    assert sync == asynchronous
    assert sync[0] is TooLong


def test_in_shadow_nothing_is_repeated() -> None:
    sizes: list[int] = []
    with pytest.raises(TooLong):
        drive(call_of(10, sizes, curator=Curator(max_tokens=1_000, mode="shadow")).body())
    assert len(sizes) == 1


def test_a_budget_that_cannot_be_kept_is_our_own_error() -> None:
    with pytest.raises(BudgetUnsatisfiableError):
        drive(call_of(10, [], arguments={"max_tokens": 5}).body())


def test_each_curation_is_inside_what_was_opened() -> None:
    seen: list[Any] = []

    @contextmanager
    def curating() -> Any:
        seen.append("open")
        yield lambda done: seen.append(done.tokens)
        seen.append("closed")

    sizes: list[int] = []
    drive(call_of(1_000, sizes, curating=curating).body())
    assert seen == ["open", sizes[0], "closed"]


async def test_errors_reach_the_body_where_it_asked() -> None:
    def fail() -> None:
        raise KeyError("x")

    def body() -> Body[str]:
        try:
            yield Ask(fail, fail)
        except KeyError:
            return (yield Ask(str, str, (7,)))
        return "never"

    assert drive(body()) == await adrive(body()) == "7"
