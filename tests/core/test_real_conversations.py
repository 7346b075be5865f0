"""The same guarantees over real conversations, and what the ladder is worth on them."""

from __future__ import annotations

from typing import Any

import pytest

from history_curator import ConversionError, Curation, Curator
from history_curator.rules import PROVIDERS
from tests.support import data
from tests.support.guarantees import curate_and_check

BUDGETS = (None, 1_000, 4_000, 16_000, 64_000)
SAMPLE = 25
"""One conversation of so many in the quick run; the nightly run takes all."""


def sweep(name: str, step: int) -> None:
    """Curate prefixes of conversations, each for another provider."""
    for number, conversation in enumerate(data.load(name)[::step]):
        messages = conversation["messages"]
        if name in data.EDGE_FILES and not _readable(messages):
            continue
        ends = sorted({*range(5, len(messages) + 1, 5), len(messages)})
        for budget in BUDGETS:
            curator = Curator(max_tokens=budget, provider=PROVIDERS[number % len(PROVIDERS)])
            for end in ends:
                curate_and_check(messages[:end], curator=curator)


def _readable(messages: list[Any]) -> bool:
    """Whether there is a conversation at all; if not, the error says which message and why."""
    unread = [
        index
        for index, message in enumerate(messages)
        if message["role"] in ("system", "user") and "content" not in message
    ]
    if unread:
        with pytest.raises(ConversionError, match=rf"messages\[{unread[0]}\]\.content.*Fix:"):
            Curator(max_tokens=BUDGETS[1]).curate(messages)
    return not unread


@pytest.mark.data
@pytest.mark.parametrize("name", data.FILES)
def test_every_guarantee_holds(name: str) -> None:
    sweep(name, 5 if name in data.EDGE_FILES else SAMPLE)


@pytest.mark.data
@pytest.mark.nightly
@pytest.mark.parametrize("name", data.FILES)
def test_every_guarantee_holds_on_all_of_them(name: str) -> None:
    sweep(name, 1)


@pytest.mark.data
def test_the_reported_prefix_is_what_the_next_call_repeats() -> None:
    checked = 0
    for conversation in data.load("coding_sessions")[::12]:
        messages = conversation["messages"]
        curator = Curator(max_tokens=32_000)
        previous: Curation | None = None
        for end, message in enumerate(messages):
            if message["role"] != "assistant" or not end:
                continue
            current = curator.curate(messages[:end])
            if previous is not None and not current.report.compacted:
                checked += 1
                _assert_repeated(previous, current)
            previous = current
    assert checked > 100


def _assert_repeated(before: Curation, after: Curation) -> None:
    count = before.report.prefix_entries
    assert list(before.entries[:count]) == list(after.entries[:count])
