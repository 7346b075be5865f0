"""Every guarantee of a view, over generated conversations, valid and broken."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator import (
    ComposedManager,
    Curator,
    RoleTruncator,
    SlidingWindowManager,
    ToolResultClearer,
    ToolResultTruncator,
    TurnRetentionManager,
)
from tests.support.guarantees import curate_and_check
from tests.support.strategies import broken_conversations, conversations

BUDGETS = st.sampled_from([40, 80, 150, 400, 2_000, None])
PROFILES = ("core", "portable", "openai", "anthropic", "gemini", "bedrock", "mistral")


class KeepEverySecond:
    """A manager that breaks everything it can."""

    def curate(self, entries: Any, *, context: Any) -> Any:
        return entries[::2]


class Backwards:
    """Another one."""

    def curate(self, entries: Any, *, context: Any) -> Any:
        return entries[len(entries) // 2 :]


MANAGERS = (
    (),
    (SlidingWindowManager(3),),
    (SlidingWindowManager(0),),
    (ToolResultTruncator(max_length=20),),
    (ToolResultClearer(keep=1),),
    (TurnRetentionManager(preserve_turns=1),),
    (RoleTruncator(assistant=10),),
    (ComposedManager((ToolResultTruncator(max_length=20), SlidingWindowManager(4))),),
    (KeepEverySecond(),),
    (Backwards(),),
)


TIGHT = (ToolResultTruncator, RoleTruncator, ComposedManager)
"""The ones above whose limits are a few characters."""


@given(broken_conversations(), BUDGETS, st.sampled_from(PROFILES))
def test_the_default_keeps_every_guarantee_on_broken_conversations(
    messages: list[Any], budget: int | None, provider: str
) -> None:
    curate_and_check(messages, curator=Curator(max_tokens=budget, provider=provider))


@given(conversations(max_turns=8), BUDGETS, st.sampled_from([None, 0.5, 1.0]), st.booleans())
def test_the_default_keeps_every_guarantee_on_valid_conversations(
    messages: list[Any], budget: int | None, compact_to: float | None, recall: bool
) -> None:
    curator = Curator(max_tokens=budget, compact_to=compact_to, recall_tool=recall)
    curate_and_check(messages, curator=curator)


@given(broken_conversations(), BUDGETS, st.sampled_from(MANAGERS))
def test_any_manager_is_sealed(messages: list[Any], budget: int | None, managers: Any) -> None:
    # A late result ties an older turn to the preserved one, until a view has put it in its place.
    others = KeepEverySecond | Backwards | TurnRetentionManager
    idempotent = not any(isinstance(each, others) for each in managers)
    curator = Curator(*managers, max_tokens=budget)
    tight = isinstance(managers[0] if managers else None, TIGHT)
    curate_and_check(messages, curator=curator, idempotent=idempotent, tight=tight)


@given(broken_conversations(), st.sampled_from([60, 200, None]))
def test_a_history_may_end_on_the_assistant(messages: list[Any], budget: int | None) -> None:
    curate_and_check(messages, curator=Curator(max_tokens=budget), tail="history")


@given(conversations(max_turns=8))
def test_without_pressure_nothing_is_touched(messages: list[Any]) -> None:
    view = Curator(max_tokens=100_000).curate(messages).messages
    assert all(mine is given for mine, given in zip(view, messages, strict=True))


@pytest.mark.parametrize("provider", PROFILES)
def test_an_empty_history_is_defined(provider: str) -> None:
    view = Curator(max_tokens=1_000, provider=provider).curate([]).messages
    history = Curator(max_tokens=1_000, provider=provider).curate([], tail="history").messages
    assert len(view) <= 1
    assert len(history) <= 1
