"""What a view costs, counted instead of timed: tokenizer calls, characters, entries touched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from benchmarks._conversation import conversation
from history_curator import Curator, TiktokenCounter
from history_curator.formats import DictFormat
from history_curator.entries import ConversationEntry
from history_curator.window._fold import SPAN

BUDGET = 32_000


class CountingFormat(DictFormat):
    """Dicts, counting what is read and looked at."""

    def __init__(self) -> None:
        self.reads = 0
        self.looks = 0

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        self.reads += 1
        return super().read(message, index)

    def peek(self, messages: Sequence[Any]) -> list[Any]:
        self.looks += len(messages)
        return super().peek(messages)

    def twin(self, message: Any) -> Any:
        self.looks += 1
        return super().twin(message)


class CountingCounter(TiktokenCounter):
    """Tiktoken, counting how many entries it is asked for."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        super().__init__("o200k_base")
        self.entries = 0

    def count_entry(self, entry: ConversationEntry) -> int:
        self.entries += 1
        return super().count_entry(entry)


def sent_characters(messages: Iterable[dict[str, Any]]) -> int:
    """What a view is made of: texts, names, and the calls' names and arguments."""
    total = 0
    for message in messages:
        total += len(message.get("content") or "") + len(message.get("name") or "")
        for call in message.get("tool_calls") or ():
            total += len(call["function"]["name"]) + len(call["function"]["arguments"])
    return total


@pytest.fixture(scope="module")
def long_history() -> list[dict[str, Any]]:
    return list(conversation(10_000))


class TestOneView:
    def test_cold_tokenises_a_bounded_stretch_before_the_end(
        self, long_history: list[dict[str, Any]]
    ) -> None:
        counter = CountingCounter()
        Curator(max_tokens=BUDGET, counter=counter).curate(long_history)
        assert counter.characters <= (SPAN + 2) * BUDGET * 4
        assert counter.characters < sent_characters(long_history) / 2

    def test_warm_calls_no_tokenizer_and_reads_nothing(
        self, long_history: list[dict[str, Any]]
    ) -> None:
        format, counter = CountingFormat(), CountingCounter()
        curator = Curator(max_tokens=BUDGET, counter=counter)
        first = curator.curate(long_history, format=format)
        assert len(long_history) <= format.reads <= len(long_history) + 2  # and the recap
        calls, format.reads, format.looks, counter.entries = counter.calls, 0, 0, 0
        again = curator.curate(long_history, format=format)
        assert again.messages == first.messages
        assert counter.calls == calls
        assert format.reads == 0
        assert format.looks == len(long_history)  # everything given is compared, once
        assert counter.entries <= 4 * len(again.entries)

    def test_one_more_message_reads_and_tokenises_that_message(
        self, long_history: list[dict[str, Any]]
    ) -> None:
        format, counter = CountingFormat(), CountingCounter()
        curator = Curator(max_tokens=BUDGET, counter=counter)
        curator.curate(long_history, format=format)
        before, format.reads = counter.characters, 0
        question = {"role": "user", "content": "and what does that mean for the release?"}
        curator.curate([*long_history, question], format=format)
        assert format.reads == 1
        # The newest message is no longer the newest: its form may be counted once more.
        newest = sent_characters(long_history[-4:])
        assert counter.characters - before <= 2 * newest + len(question["content"])


class TestAWholeSession:
    """2,000 messages, one view after each; the budget is reached within the first 500."""

    def test_cost_grows_linearly(self, quarters: list[dict[str, int]]) -> None:
        _, second, third, last = quarters
        for name in second.keys() - {"looks"}:  # everything given is compared, at C speed
            usual = (second[name] + third[name]) / 2
            assert last[name] <= 1.25 * usual, f"{name}: {[part[name] for part in quarters]}"

    def test_a_message_is_read_once(self, quarters: list[dict[str, int]]) -> None:
        # And what is written anew, a recap or a capped result, once where it is made.
        assert sum(part["reads"] for part in quarters) <= 1.1 * 2_000

    def test_a_text_is_tokenised_about_once(self, quarters: list[dict[str, int]]) -> None:
        tokenised = sum(part["characters"] for part in quarters)
        assert tokenised <= 2 * sent_characters(conversation(2_000))

    def test_a_view_counts_what_it_shows(self, quarters: list[dict[str, int]]) -> None:
        for part in quarters:
            assert part["entries"] <= 4 * part["shown"]


@pytest.fixture(scope="module")
def quarters() -> list[dict[str, int]]:
    """What each 500 messages of a session cost."""
    format, counter = CountingFormat(), CountingCounter()
    curator = Curator(max_tokens=16_000, counter=counter)
    history: list[dict[str, Any]] = []
    shown = 0
    marks = [dict.fromkeys(("reads", "looks", "entries", "characters", "calls", "shown"), 0)]
    for message in conversation(2_000):
        history.append(message)
        view = curator.curate(history, format=format, tail="history")
        assert view.tokens <= 16_000
        shown += len(view.entries)
        if len(history) % 500 == 0:
            marks.append(
                {
                    "reads": format.reads,
                    "looks": format.looks,
                    "entries": counter.entries,
                    "characters": counter.characters,
                    "calls": counter.calls,
                    "shown": shown,
                }
            )
    return [{name: now[name] - before[name] for name in now} for before, now in pairwise(marks)]
