"""What a view costs, counted instead of timed: tokenizer calls, characters, entries touched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from benchmarks._conversation import conversation
from history_curator import Curator, TiktokenCounter
from history_curator.model import ConversationEntry
from history_curator.read import DictDialect

BUDGET = 32_000


class CountingDialect(DictDialect):
    """Dicts, counting what is read and looked at."""

    def __init__(self) -> None:
        self.reads = 0
        self.looks = 0

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        self.reads += 1
        return super().read(message, index)

    def glance(self, messages: Sequence[Any]) -> list[Any]:
        self.looks += len(messages)
        return super().glance(messages)

    def fingerprint(self, message: Any) -> Any:
        self.looks += 1
        return super().fingerprint(message)


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
    def test_cold_tokenises_little_more_than_it_sends(
        self, long_history: list[dict[str, Any]]
    ) -> None:
        curator = Curator(max_tokens=BUDGET, counter=CountingCounter())
        view = curator.curate(long_history)
        assert curator.counter.characters <= 2 * sent_characters(view.messages)

    def test_warm_calls_no_tokenizer_and_reads_nothing(
        self, long_history: list[dict[str, Any]]
    ) -> None:
        dialect, counter = CountingDialect(), CountingCounter()
        curator = Curator(max_tokens=BUDGET, counter=counter)
        first = curator.curate(long_history, dialect=dialect)
        assert dialect.reads == len(long_history)
        calls, dialect.reads, dialect.looks, counter.entries = counter.calls, 0, 0, 0
        again = curator.curate(long_history, dialect=dialect)
        assert again.messages == first.messages
        assert counter.calls == calls
        assert dialect.reads == 0
        assert dialect.looks <= 2 * len(again.entries)
        assert counter.entries <= 4 * len(again.entries)

    def test_one_more_message_reads_and_tokenises_that_message(
        self, long_history: list[dict[str, Any]]
    ) -> None:
        dialect, counter = CountingDialect(), CountingCounter()
        curator = Curator(max_tokens=BUDGET, counter=counter)
        curator.curate(long_history, dialect=dialect)
        before, dialect.reads = counter.characters, 0
        question = {"role": "user", "content": "and what does that mean for the release?"}
        curator.curate([*long_history, question], dialect=dialect)
        assert dialect.reads == 1
        # The newest message is no longer the newest: its form may be counted once more.
        newest = sent_characters(long_history[-4:])
        assert counter.characters - before <= 2 * newest + len(question["content"])


class TestAWholeSession:
    def test_cost_grows_linearly(self) -> None:
        short, long = _session(500), _session(2_000)
        for name in ("reads", "looks", "entries", "characters", "calls"):
            growth = long[name] / max(1, short[name])
            assert growth <= 4 * 1.25, f"{name} grew {growth:.2f}-fold over four times the length"

    def test_every_message_is_read_once(self) -> None:
        assert _session(500)["reads"] == 500

    def test_every_text_is_tokenised_about_once(self) -> None:
        messages = conversation(2_000)
        assert _session(2_000)["characters"] <= 2 * sent_characters(messages)


def _session(n: int) -> dict[str, int]:
    dialect, counter = CountingDialect(), CountingCounter()
    curator = Curator(max_tokens=BUDGET, counter=counter)
    history: list[dict[str, Any]] = []
    for message in conversation(n):
        history.append(message)
        view = curator.curate(history, dialect=dialect)
        assert view.tokens <= BUDGET
    return {
        "reads": dialect.reads,
        "looks": dialect.looks,
        "entries": counter.entries,
        "characters": counter.characters,
        "calls": counter.calls,
    }
