"""Conversations with a provider that counts otherwise: what is over its limit nobody could know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support import windows
from tests.support.windows import Core, LangChain, LlamaIndex, Setting, converse, outcomes

TOLD = ("carried", "observed", "both")
HARD = (2, 46, 48, 108, 210, 290, 316, 440, 453, 472, 527, 571)
"""Seeds of conversations in which a request was over the limit before what it rests on was known."""


def check(found: Any, *, requests: int) -> None:
    assert found.total() == requests
    assert found[windows.FITS] >= 0.97 * requests
    assert not found[windows.KNOWN], "something smaller could have been sent"
    assert not found[windows.NEEDLESS], "refused, though it fits"
    assert found[windows.BEYOND] <= 0.002 * requests, "the stated error holds in 99 of 100 calls"


@pytest.mark.parametrize("tell", TOLD)
def test_however_the_counts_reach_us(tell: str) -> None:
    check(outcomes(range(1_000, 1_024), Core, tell=tell), requests=24 * 48)


@pytest.mark.parametrize(
    "changes",
    [
        {"limit": 1_000, "hidden": 50, "factor": 1.5},
        {"compact_to": 0.5},
        {"compact_to": 1.0},
        {"lost": 0.5},
        {"tell": "carried", "late": 0.06, "rules": "core"},
        {"tell": "carried", "late": 0.06, "rules": "openai"},
    ],
    ids=str,
)
def test_settings_that_are_hard(changes: dict[str, Any]) -> None:
    check(outcomes(range(1_030, 1_042), Core, **changes), requests=12 * 48)


@pytest.mark.parametrize("seed", HARD)
def test_conversations_that_were_hard(seed: int) -> None:
    setting = Setting.drawn(seed)
    kinds = converse(setting, Core(setting))
    assert not {windows.KNOWN, windows.BEYOND, windows.NEEDLESS} & set(kinds)


@pytest.mark.parametrize("socket", [LangChain, LlamaIndex])
def test_frameworks(socket: Any) -> None:
    seeds: Sequence[int] = range(1_000, 1_012)
    check(outcomes(seeds, socket, tell="carried", lowered=0.0), requests=12 * 48)


def test_a_message_says_as_much_as_who_was_handed_the_report() -> None:
    """Also where views were shorter than the cut leaves them, for a budget of one call."""
    for seed in range(1_000, 1_010):
        setting = replace(Setting.drawn(seed), changed=None, lowered=0.3, late=0.06)
        carried, observed = (
            replace(setting, tell="carried"),
            replace(setting, tell="observed"),
        )
        assert converse(carried, Core(carried)) == converse(observed, Core(observed))
