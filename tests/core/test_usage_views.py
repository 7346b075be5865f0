"""Views go by what the provider reports, and by the clock."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from history_curator import BudgetUnsatisfiableError, Curator
from history_curator.tokens import UsageAnchor, count_tokens
from tests.support.providers import KINDS, tokenizer

Message = dict[str, Any]
Report = Callable[[Any, Message, int], None]


class Provider:
    """Counts with a tokenizer of its own, times a factor, and adds a prompt nobody sees."""

    def __init__(self, factor: float = 1.0, hidden: int = 0) -> None:
        self.factor, self.hidden = factor, hidden

    def count(self, messages: Sequence[Message]) -> int:
        names = ("role", "content", "tool_calls")
        parts = [{name: each[name] for name in names if name in each} for each in messages]
        total = sum(tokenizer("mistral")(json.dumps(each, ensure_ascii=False)) for each in parts)
        return self.hidden + round(total * self.factor)


def observe(curation: Any, answer: Message, reported: int) -> None:
    curation.observe({"prompt_tokens": reported, "completion_tokens": 9})


def carry(curation: Any, answer: Message, reported: int) -> None:
    answer["usage"] = {"prompt_tokens": reported, "completion_tokens": 9}


def next_messages(number: int, choose: random.Random) -> list[Message]:
    """An answer and a question, or a call and its result."""
    text = f"{number} " + choose.choice(KINDS) * choose.randint(1, 3)
    if number % 5 == 0:
        answer = {"role": "assistant", "content": f"done with {number}"}
        return [answer, {"role": "user", "content": text}]
    function = {"name": "look", "arguments": json.dumps({"at": number})}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": text},
    ]


def run_agent(
    curator: Curator, provider: Provider, report: Report, *, requests: int = 120
) -> tuple[list[Message], list[Any], list[int]]:
    """Return an agent's record, its curations, and what the provider counted for each."""
    choose = random.Random(1)
    record: list[Message] = [{"role": "system", "content": "You look things up."}]
    record.append({"role": "user", "content": "0 " + KINDS[0]})
    curations, counts = [], []
    for number in range(1, requests):
        curation = curator.curate(record)
        curations.append(curation)
        counts.append(provider.count(curation.messages))
        coming = next_messages(number, choose)
        report(curation, coming[0], counts[-1])
        record += coming
    return record, curations, counts


@pytest.mark.parametrize(
    ("report", "factor", "hidden"),
    [(observe, 0.85, 0), (carry, 1.0, 700), (carry, 1.4, 0), (observe, 1.3, 900)],
)
def test_views_fill_the_providers_limit_and_never_exceed_it(
    report: Report, factor: float, hidden: int
) -> None:
    limit = 5_000
    _, curations, counts = run_agent(Curator(max_tokens=limit), Provider(factor, hidden), report)
    assert max(counts) <= limit
    moved = [at for at, each in enumerate(curations) if each.report.compacted and at > 5]
    assert len(moved) >= 2
    assert min(counts[at - 1] for at in moved) >= 0.75 * limit
    beyond = 0
    for curation, counted in zip(curations[6:], counts[6:], strict=True):
        assert curation.tokens + curation.error <= limit
        assert curation.tokens == pytest.approx(counted, rel=0.1, abs=100)
        beyond += counted > curation.tokens + curation.error
    assert beyond <= 0.03 * len(curations)
    for before, now in pairwise(curations):
        if not now.report.compacted:
            prefix = before.report.prefix_entries
            assert now.messages[:prefix] == before.messages[:prefix]


@pytest.mark.parametrize(("factor", "hidden"), [(1.3, 0), (0.9, 500)])
def test_a_restarted_curator_stays_within_the_limit(factor: float, hidden: int) -> None:
    provider = Provider(factor, hidden)
    record, _, _ = run_agent(Curator(max_tokens=4_000), provider, carry)
    for end in range(40, len(record), 17):
        if record[end - 1]["role"] != "assistant":
            assert provider.count(Curator(max_tokens=4_000).curate(record[:end]).messages) <= 4_000


def test_reports_of_the_whole_history_neither_exceed_nor_starve_the_view() -> None:
    """A history that was sent whole so far."""

    provider = Provider(1.2)
    curator = Curator(max_tokens=5_000)
    choose, counts = random.Random(1), []
    record: list[Message] = [{"role": "user", "content": "begin"}]
    for number in range(1, 150):
        counts.append(provider.count(curator.curate(record).messages))
        coming = next_messages(number, choose)
        carry(None, coming[0], provider.count(record))
        record += coming
    assert max(counts) <= 5_000
    assert min(counts[80:]) > 0.3 * 5_000


def test_another_agents_reports_neither_exceed_nor_starve_the_view() -> None:
    def report_others(_curation: Any, answer: Message, counted: int) -> None:
        seen.append(counted)
        carry(None, answer, {3: 4_900, 5: 700}.get(len(seen) % 7, counted))

    seen: list[int] = []
    _, _, counts = run_agent(Curator(max_tokens=5_000), Provider(1.2), report_others, requests=200)
    assert max(counts) <= 5_000
    assert min(counts[80:]) > 0.3 * 5_000


@pytest.mark.parametrize("report", [carry, observe])
@pytest.mark.parametrize(("before", "after"), [(0.85, 1.45), (1.0, 1.4), (1.3, 0.9)])
def test_a_silent_change_of_the_model_costs_one_request(
    report: Report, before: float, after: float
) -> None:
    """Nobody can know before the first request that is counted so; carried reports are doubted once."""

    def report_and_change(curation: Any, answer: Message, counted: int) -> None:
        report(curation, answer, counted)
        seen.append(counted)
        provider.factor = before if len(seen) < 63 else after

    seen: list[int] = []
    provider = Provider(before)
    _, _, counts = run_agent(Curator(max_tokens=5_000), provider, report_and_change, requests=150)
    over = [number - 63 for number, counted in enumerate(counts) if counted > 5_000]
    assert over in ([], [0], [1]) if report is carry else over in ([], [0])
    assert max(counts[-60:]) > 0.8 * 5_000


@pytest.mark.parametrize(
    ("calibration", "usage"),
    [(None, None), (False, None), (False, {"prompt_tokens": 900}), (None, {"prompt_tokens": 3})],
)
def test_counts_are_ours_without_reports_that_can_be_believed(
    calibration: bool | None, usage: Message | None
) -> None:
    def report(_curation: Any, answer: Message, _counted: int) -> None:
        if usage is not None:
            answer["usage"] = usage

    curator = Curator(max_tokens=3_000, calibration=calibration)
    _, curations, _ = run_agent(curator, Provider(), report, requests=50)
    assert all(each.tokens == count_tokens(each.messages) for each in curations)
    assert all(each.error is None for each in curations)


def test_a_saved_calibration_starts_another_curator() -> None:
    first = Curator(max_tokens=2_000)
    messages = [{"role": "user", "content": "word " * 600}]
    first.curate(messages).observe({"prompt_tokens": 900})
    assert first.calibration is not None
    saved = json.loads(json.dumps(asdict(first.calibration)))
    second = Curator(max_tokens=2_000, calibration=UsageAnchor(**saved))
    assert second.calibration == first.calibration
    assert second.curate(messages).tokens == 900


def ask_after_a_report(words: int, more_words: int, reported: int) -> list[Message]:
    """Return a reported question, its answer, and another question."""
    answer: Message = {"role": "assistant", "content": "ok"}
    carry(None, answer, reported)
    question = {"role": "user", "content": "word " * words}
    return [question, answer, {"role": "user", "content": "word " * more_words}]


def test_the_least_view_is_sent_where_it_most_likely_fits() -> None:
    record = ask_after_a_report(900, 918, 960)
    curation = Curator(max_tokens=1_000).curate(record)
    assert curation.messages[-1] is record[-1]
    assert curation.error is not None
    assert curation.tokens <= 1_000


@pytest.mark.parametrize("reported", range(310, 600, 40))
def test_a_view_that_cannot_fit_is_refused_with_the_tokens_it_needs(reported: int) -> None:
    record = ask_after_a_report(290, 990, reported)
    with pytest.raises(BudgetUnsatisfiableError) as caught:
        Curator(max_tokens=1_000).curate(record)
    assert caught.value.needed > 1_000
    view = Curator(max_tokens=1_000).curate(record, max_tokens=caught.value.needed).messages
    assert view[-1] is record[-1]


def timed_conversation(*, pause_at: int | None = None, timestamps: bool = True) -> list[Message]:
    """Questions and answers six seconds apart, with one pause of twenty minutes."""
    clock, messages = 1_700_000_000.0, list[Message]()
    for number in range(30):
        clock += 1_200 if number == pause_at else 6
        messages.append(
            {"role": "user", "content": f"{number} " + "word " * 40, "timestamp": clock}
        )
        messages.append({"role": "assistant", "content": f"{number}", "timestamp": clock + 5})
    if not timestamps:
        messages = [{k: v for k, v in each.items() if k != "timestamp"} for each in messages]
    return messages


def compactions(curator: Curator, messages: Sequence[Message]) -> list[int]:
    ends = range(1, len(messages) + 1, 2)
    return [end // 2 for end in ends if curator.curate(messages[:end]).report.compacted]


FORGETFUL = SimpleNamespace(curate=lambda entries, context: entries[10:])


class TestClock:
    def make_curator(self, max_tokens: int = 2_000, *managers: Any) -> Curator:
        return Curator(*managers, max_tokens=max_tokens, provider="anthropic")

    def test_a_pause_in_the_message_times_compacts(self) -> None:
        assert 25 not in compactions(self.make_curator(), timed_conversation())
        assert 25 in compactions(self.make_curator(), timed_conversation(pause_at=25))

    def test_a_small_view_stays_after_a_pause(self) -> None:
        assert compactions(self.make_curator(20_000), timed_conversation(pause_at=25)) == []

    def test_the_cutoff_never_moves_back_after_a_pause(self) -> None:
        messages, curator = timed_conversation(pause_at=25), self.make_curator()
        cuts = [curator.curate(messages[:end]).report.cut for end in range(1, len(messages), 2)]
        assert cuts == sorted(cuts)

    @pytest.mark.parametrize("managers", [(), (FORGETFUL,)], ids=len)
    def test_an_idle_time_that_the_caller_names_compacts_and_is_remembered(
        self, managers: Any
    ) -> None:
        messages = timed_conversation(timestamps=False)
        curator = self.make_curator(2_000, *managers)
        before = curator.curate(messages[:51])
        assert curator.curate(messages[:51], idle=200).messages == before.messages
        after = curator.curate(messages[:51], idle=400)
        assert after.report.compacted
        assert not before.report.compacted
        following = curator.curate(messages[:53])
        assert following.report.cut == after.report.cut > before.report.cut
        assert not following.report.compacted

    @pytest.mark.parametrize(
        ("provider", "seconds"),
        [("anthropic", 300), ("bedrock", 300), ("openai", 3_600), ("gemini", 3_600)],
    )
    def test_a_prefix_lives_as_long_as_its_provider_says(self, provider: str, seconds: int) -> None:
        messages = timed_conversation(timestamps=False)[:51]
        for idle, is_cold in ((seconds - 1, False), (seconds, True)):
            curator = Curator(max_tokens=2_000, provider=provider)
            assert not curator.curate(messages).report.compacted
            assert curator.curate(messages, idle=idle).report.compacted is is_cold


@pytest.mark.parametrize("factor", [1.3, 1.5])
def test_exchanges_that_are_shrunk_fit_the_providers_limit(factor: float) -> None:
    limit, choose = 2_000, random.Random(1)
    provider, curator = Provider(factor), Curator(max_tokens=limit)
    record: list[Message] = [{"role": "user", "content": "look at everything"}]
    counts = []
    for number in range(30):
        counts.append(provider.count(curator.curate(record).messages))
        names = [f"c{number}-{at}" for at in range(4 if number % 4 == 3 else 1)]
        function = {"name": "look", "arguments": "{}"}
        calls = [{"id": name, "type": "function", "function": function} for name in names]
        answer: Message = {"role": "assistant", "content": None, "tool_calls": calls}
        carry(None, answer, counts[-1])
        text = choose.choice(KINDS) * 8
        record += [answer]
        record += [{"role": "tool", "tool_call_id": each, "content": text} for each in names]
    assert max(counts[4:]) <= limit
