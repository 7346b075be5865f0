"""What no input may do: cost more than in proportion to its size. Operations are counted, not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from history_curator import BudgetUnsatisfiableError, Curator
from history_curator.formats import parse_object
from history_curator.rules import tools
from tests.support.extremes import SHAPES, Shape, exchanges, text, users

SIZE = 50
BLOCKS = 60
"""Twice as many are as many as providers take in one message."""
LINEAR = 2.3
"""Twice the size may cost this many times as much."""
AMPLE = 1_000_000
PROFILES = ("core", "portable", "openai", "anthropic", "gemini", "bedrock", "mistral")


def operations(work: Callable[[], object]) -> int:
    """Return how many functions are called, those of the interpreter included."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    except BudgetUnsatisfiableError:
        pass  # a refusal has its price, too
    finally:
        sys.setprofile(before)
    return count


def costs(curator: Curator, messages: list[Any]) -> tuple[int, int]:
    """Return what the first view costs, and the second."""
    return operations(lambda: curator.curate(messages)), operations(
        lambda: curator.curate(list(messages))
    )


def check_growth(make: Callable[[], Curator], shape: Shape, size: int = SIZE) -> None:
    cold, warm = costs(make(), shape(size))
    cold_twice, warm_twice = costs(make(), shape(2 * size))
    assert cold_twice <= LINEAR * cold
    assert warm_twice <= LINEAR * warm


@pytest.mark.parametrize("budget", [None, AMPLE])
@pytest.mark.parametrize("name", SHAPES)
def test_twice_the_messages_cost_twice_as_much(name: str, budget: int | None) -> None:
    shape, full = SHAPES[name]
    size = BLOCKS if full < 5_000 else SIZE
    check_growth(lambda: Curator(max_tokens=budget), shape, size)


@pytest.mark.parametrize("budget", [None, 500])
@pytest.mark.parametrize("name", ["parallel calls", "Anthropic blocks", "Bedrock blocks"])
def test_a_call_is_judged_a_few_times_however_its_message_is_shortened(
    name: str, budget: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = 0

    def counted(arguments: str) -> dict[str, Any] | None:
        nonlocal parsed
        parsed += 1
        return parse_object(arguments)

    monkeypatch.setattr(tools, "parse_object", counted)
    with suppress(BudgetUnsatisfiableError):
        Curator(max_tokens=budget).curate(SHAPES[name][0](2 * BLOCKS))
    assert parsed <= 16 * 2 * BLOCKS


@pytest.mark.parametrize("profile", PROFILES)
def test_a_turn_of_many_exchanges_under_every_profile(profile: str) -> None:
    check_growth(lambda: Curator(max_tokens=AMPLE, provider=profile), exchanges)


@pytest.mark.parametrize("budget", [1_000, AMPLE])
def test_everything_is_pinned(budget: int) -> None:
    def pinned(size: int) -> list[dict[str, object]]:
        return [{**message, "pinned": True} for message in users(size)]

    with suppress(BudgetUnsatisfiableError):
        check_growth(lambda: Curator(max_tokens=budget), pinned, 4 * SIZE)


def test_a_message_is_edited_before_every_call() -> None:
    """Everything given is compared, and only what follows the edit is read anew."""

    def session(size: int) -> int:
        curator, messages = Curator(max_tokens=2_000), users(size)
        curator.curate(messages)

        def edit_each_time() -> None:
            for at in range(4):
                messages[-3]["content"] = text(at)
                curator.curate(messages)

        return operations(edit_each_time)

    assert session(8 * SIZE) <= LINEAR * session(4 * SIZE)
