"""However small the budget, there is a view or a refusal, and never another error."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import history_curator
from history_curator import (
    BudgetUnsatisfiableError,
    ComposedManager,
    Curator,
    EventBus,
    ObservableManager,
    PassthroughManager,
    RelevanceManager,
    RoleTruncator,
    SlidingWindowManager,
    SummarizingManager,
    ToolResultClearer,
    ToolResultTruncator,
    TurnRetentionManager,
    count_tokens,
)
from history_curator.rules import PROVIDERS
from tests.support.strategies import broken_conversations

MANAGERS: dict[str, tuple[Any, ...]] = {
    "composed": (ComposedManager((SlidingWindowManager(4), ToolResultClearer())),),
    "observable": (ObservableManager(PassthroughManager(), EventBus()),),
    "passthrough": (PassthroughManager(),),
    "relevance": (RelevanceManager(),),
    "role_truncator": (RoleTruncator(),),
    "sliding_window": (SlidingWindowManager(2),),
    "summarizing": (SummarizingManager(lambda prompt: "so far: orders"),),
    "tool_result_clearer": (ToolResultClearer(keep=1),),
    "tool_result_truncator": (ToolResultTruncator(max_length=20),),
    "turn_retention": (TurnRetentionManager(preserve_turns=1),),
    "none": (),
}
_ENDINGS = ("Manager", "Truncator", "Clearer")
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"retrieve": True},
    {"retrieve": 0.3},
    {"recall_tool": True, "compact_to": 1.0},
    {"preserve_last_n": 3},
)


def test_every_shipped_manager_is_tried() -> None:
    names = [each for each in history_curator.__all__ if each.endswith(_ENDINGS)]
    shipped = {type(manager).__name__ for managers in MANAGERS.values() for manager in managers}
    assert set(names) - {"HistoryManager"} == shipped


@pytest.mark.parametrize("name", MANAGERS)
@given(
    messages=broken_conversations(max_turns=8),
    budget=st.integers(1, 200),
    provider=st.sampled_from(PROVIDERS),
    options=st.sampled_from(OPTIONS),
)
def test_there_is_a_view_that_fits_or_a_refusal(
    name: str, messages: list[Any], budget: int, provider: str, options: dict[str, Any]
) -> None:
    curator = Curator(*MANAGERS[name], max_tokens=budget, provider=provider, **options)
    with suppress(BudgetUnsatisfiableError):
        view = curator.curate(messages, query="where is the order?").messages
        assert not view or count_tokens(view) <= budget
