"""The budget of a model, the answer's share of it, and whose rules hold where the model is known."""

from __future__ import annotations

import pytest

from history_curator import get_profile
from history_curator.errors import ConfigurationError
from history_curator.integrations import Asked, Window, answer_is_apart, budget_of, rules_for

OPUS = Asked(("claude-opus-4-8",), in_place=True)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window("gpt-4o", 128_000, writes=16_384), 121_600 - 16_384),
        (Window("o3", 200_000, writes=150_000), 190_000 - 100_000),
        (Window("claude", 200_000, asked=8_000, writes=64_000), 182_000),
        (Window("gpt-5", 272_000, apart=True, writes=128_000), 258_400),
        (Window("gemini", 1_048_576, apart=True, asked=4_000), 996_147),
        (Window("large, silent", 100_000), 95_000 - 4_096),
        (Window("small, silent", 8_000), 7_600 - 2_000),
    ],
)
def test_the_answer_gets_what_it_is_promised(window: Window, expected: int) -> None:
    budget = budget_of(window)
    assert budget.max_tokens == expected
    assert f"= {expected}" in budget.source


def test_what_is_asked_for_wins() -> None:
    assert budget_of(Window("m", 10_000, asked=5_000), output=100).max_tokens == 9_400
    assert budget_of(Window("m", 10_000), output=0, margin=0).max_tokens == 10_000


@pytest.mark.parametrize("output", [10_000, 9_500, -1])
def test_no_room_is_an_error_that_says_so(output: int) -> None:
    with pytest.raises(ConfigurationError, match=r"leaves nothing.*Fix: an output from 0 to 9499"):
        budget_of(Window("m", 10_000), output=output)


@pytest.mark.parametrize(
    ("provider", "limit", "apart"),
    [
        ("gemini", 1_048_576, True),
        ("openai", 272_000, True),
        ("openai", 400_000, False),
        ("openai", 128_000, False),
        ("anthropic", 272_000, False),
        ("core", 272_000, False),
    ],
)
def test_limits_of_the_input_alone(provider: str, limit: int, apart: bool) -> None:
    assert answer_is_apart(provider, limit) is apart


@pytest.mark.parametrize(
    ("asked", "stays"),
    [
        (OPUS, True),
        (Asked(("anthropic/claude-sonnet-5",), in_place=True), True),
        (Asked(("claude-opus-4-7",), in_place=True), False),
        (Asked(("claude-3-5-sonnet-20241022",), in_place=True), False),
        (Asked(("claude-opus-4-8",), in_place=False), False),
        (Asked(("claude-opus-4-8", None), in_place=True), False),
        (Asked(), False),
    ],
)
def test_later_system_messages_stay_where_model_and_client_take_them(
    asked: Asked, stays: bool
) -> None:
    assert rules_for("anthropic", asked).hoists is not stays


def test_a_profile_of_ones_own_stays_and_reasoning_is_handed_on() -> None:
    mine = get_profile("anthropic", later_system="demote")
    assert rules_for(mine, OPUS) is mine
    assert not rules_for("anthropic", OPUS, "keep").strips
    assert rules_for("openai", Asked(("gpt-4o",))) is rules_for("openai", Asked(("gpt-5",)))
