"""The budget of a model: what its limit means, and how much of it the answer takes."""

from __future__ import annotations

import pytest

from history_curator.errors import ConfigurationError
from history_curator.integrations import (
    Budget,
    Window,
    answer_is_apart,
    budget_of,
    is_fraction,
    share_of,
)


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
    assert budget_of(Window("m", 10_000), output=0, margin=0, taken=10).max_tokens == 9_990


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
        ("bedrock", 200_000, False),
        ("core", 272_000, False),
    ],
)
def test_limits_of_the_input_alone(provider: str, limit: int, apart: bool) -> None:
    assert answer_is_apart(provider, limit) is apart


class TestShare:
    BUDGET = Budget(8_000, 10_000, 1_500, "m")

    def test_is_of_the_whole_limit_and_never_more_than_the_budget(self) -> None:
        assert share_of(self.BUDGET, 0.5).max_tokens == 5_000
        assert share_of(self.BUDGET, 0.9) is self.BUDGET

    @pytest.mark.parametrize("share", [0.0, 1.5, -0.1])
    def test_outside_of_the_window_is_refused(self, share: float) -> None:
        with pytest.raises(ConfigurationError, match="a share of the model's window"):
            is_fraction(share)
