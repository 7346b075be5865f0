"""Conversations with a provider that counts otherwise: a request over its limit was never foretold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support import windows
from tests.support.windows import Core, LangChain, LlamaIndex, Setting, converse, outcomes

HARD = (2, 46, 108, 440, 527, 1_009, 1_021, 1_063)
"""Seeds of conversations in which a request was over the limit before what it rests on was known."""


def check(found: Any, *, requests: int) -> None:
    assert found.total() == requests
    assert found[windows.FITS] >= 0.97 * requests
    assert not found[windows.KNOWN], "something smaller could have been sent"
    assert found[windows.NEEDLESS] <= 1, "refused, though it fits"
    assert found[windows.BEYOND] <= 0.01 * requests, "the stated error holds in 99 of 100 calls"


@pytest.mark.parametrize("tell", ["carried", "observed", "both"])
def test_reports_reach_the_curator_by_messages_and_by_observe(tell: str) -> None:
    check(outcomes(range(1_000, 1_010), Core, tell=tell), requests=10 * 48)


@pytest.mark.parametrize(
    "changes",
    [
        {"limit": 1_000, "hidden": 50, "factor": 1.5},
        {"compact_to": 1.0},
        {"lost": 0.5},
        {"tell": "carried", "late": 0.06, "rules": "openai", "lowered": 0.33},
    ],
    ids=str,
)
def test_hard_settings_stay_within_the_limit(changes: dict[str, Any]) -> None:
    check(outcomes(range(1_030, 1_038), Core, **changes), requests=8 * 48)


@pytest.mark.parametrize("seed", HARD)
def test_hard_conversations_stay_within_the_limit(seed: int) -> None:
    setting = replace(Setting.drawn(seed), tell="carried")
    kinds = converse(setting, Core(setting))
    assert not {windows.KNOWN, windows.NEEDLESS} & set(kinds)


@pytest.mark.parametrize("integration", [LangChain, LlamaIndex])
def test_frameworks_stay_within_the_limit(integration: Any) -> None:
    found = outcomes(range(1_000, 1_006), integration, tell="carried", lowered=0.0)
    check(found, requests=6 * 48)


def test_a_message_says_as_much_as_a_report_that_is_observed() -> None:
    for seed in range(1_000, 1_006):
        setting = replace(Setting.drawn(seed), changed=None, lowered=0.3, late=0.06)
        carried, observed = replace(setting, tell="carried"), replace(setting, tell="observed")
        assert converse(carried, Core(carried)) == converse(observed, Core(observed))
