"""The cost of a view, counted instead of timed: tokenizer calls, characters, messages read."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from benchmarks.data import agent_conversation
from history_curator import Curator, TiktokenCounter
from history_curator.entries import ConversationEntry
from history_curator.formats import DictFormat

BUDGET = 32_000
RESTART_BUDGETS = 8
"""A cold start counts at most so many budgets before the end, and one view."""


class CountingFormat(DictFormat):
    """Dicts, counting how many are read."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        self.reads += 1
        return super().read(message, index)


def count_characters(messages: Iterable[dict[str, Any]]) -> int:
    """The characters of texts, names, and the calls' names and arguments."""
    total = 0
    for message in messages:
        total += len(message.get("content") or "") + len(message.get("name") or "")
        for call in message.get("tool_calls") or ():
            total += len(call["function"]["name"]) + len(call["function"]["arguments"])
    return total


@pytest.fixture(scope="module")
def long_history() -> list[dict[str, Any]]:
    return list(agent_conversation(4_000))


class TestOneView:
    def test_a_cold_view_tokenises_a_bounded_stretch_before_the_end(
        self, long_history: list[dict[str, Any]]
    ) -> None:
        counter = TiktokenCounter("o200k_base")
        Curator(max_tokens=BUDGET, counter=counter).curate(long_history)
        assert counter.characters <= (2 * RESTART_BUDGETS + 2) * BUDGET * 4
        assert counter.characters < count_characters(long_history)

    def test_a_warm_view_tokenises_and_reads_nothing(
        self, long_history: list[dict[str, Any]]
    ) -> None:
        format, counter = CountingFormat(), TiktokenCounter("o200k_base")
        curator = Curator(max_tokens=BUDGET, counter=counter)
        first = curator.curate(long_history, format=format)
        calls, format.reads = counter.calls, 0
        assert curator.curate(long_history, format=format).messages == first.messages
        assert (counter.calls, format.reads) == (calls, 0)

    def test_one_more_message_costs_that_message(self, long_history: list[dict[str, Any]]) -> None:
        format, counter = CountingFormat(), TiktokenCounter("o200k_base")
        curator = Curator(max_tokens=BUDGET, counter=counter)
        curator.curate(long_history, format=format)
        before, format.reads = counter.characters, 0
        question = {"role": "user", "content": "and what does that mean for the release?"}
        curator.curate([*long_history, question], format=format)
        assert format.reads == 1
        # The newest message is no longer the newest: it may be rendered, and counted, once more.
        newest = count_characters(long_history[-4:])
        assert counter.characters - before <= 2 * newest + len(question["content"])


class TestAWholeSession:
    """1,200 messages, one view after each; the budget is reached within the first 300."""

    def test_cost_grows_linearly(self, quarters: list[dict[str, int]]) -> None:
        _, second, third, last = quarters
        for name in second:
            usual = (second[name] + third[name]) / 2
            assert last[name] <= 1.35 * usual, f"{name}: {[part[name] for part in quarters]}"

    def test_a_message_is_read_about_once(self, quarters: list[dict[str, int]]) -> None:
        # And each recap or capped result that is written anew, once.
        assert sum(part["reads"] for part in quarters) <= 1.1 * 1_200

    def test_a_text_is_tokenised_about_once(self, quarters: list[dict[str, int]]) -> None:
        tokenised = sum(part["characters"] for part in quarters)
        assert tokenised <= 2 * count_characters(agent_conversation(1_200))


@pytest.fixture(scope="module")
def quarters() -> list[dict[str, int]]:
    """Reads and characters of each 300 messages of a session."""
    format, counter = CountingFormat(), TiktokenCounter("o200k_base")
    curator = Curator(max_tokens=16_000, counter=counter)
    history: list[dict[str, Any]] = []
    marks = [{"reads": 0, "characters": 0}]
    for message in agent_conversation(1_200):
        history.append(message)
        curator.curate(history, format=format, tail="history")
        if len(history) % 300 == 0:
            marks.append({"reads": format.reads, "characters": counter.characters})
    return [{name: now[name] - before[name] for name in now} for before, now in pairwise(marks)]
