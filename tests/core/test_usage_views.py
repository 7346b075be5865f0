"""Views that go by what the provider reports, and by the clock."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from history_curator import BudgetUnsatisfiableError, Curator
from history_curator.tokens import count_tokens
from tests.support.providers import KINDS, tokenizer

Message = dict[str, Any]


class Provider:
    """Counts with a tokenizer of its own, times a stretch, and adds a prompt nobody sees."""

    def __init__(self, stretch: float = 1.0, hidden: int = 0) -> None:
        self.stretch, self.hidden = stretch, hidden

    def count(self, messages: Sequence[Message]) -> int:
        count = tokenizer("mistral")
        total = 0
        for message in messages:
            kept = {
                key: message[key] for key in ("role", "content", "tool_calls") if key in message
            }
            total += count(json.dumps(kept, ensure_ascii=False))
        return self.hidden + round(total * self.stretch)


def turn(number: int, choose: random.Random, kinds: Sequence[str] = KINDS) -> list[Message]:
    """A question, or a call and its result."""
    text = f"{number} " + choose.choice(kinds) * choose.randint(1, 3)
    if number % 5 == 0:
        return [{"role": "user", "content": text}]
    call = {"id": f"c{number}", "type": "function",
            "function": {"name": "look", "arguments": json.dumps({"at": number})}}  # fmt: skip
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": text},
    ]


Tell = Callable[[Any, Message, int], None]


def observed(curation: Any, answer: Message, reported: int) -> None:
    curation.observe({"prompt_tokens": reported, "completion_tokens": 9})


def carried(curation: Any, answer: Message, reported: int) -> None:
    answer["usage"] = {"prompt_tokens": reported, "completion_tokens": 9}


def talk(
    curator: Curator, provider: Provider, tell: Tell, *, calls: int = 200, seed: int = 1
) -> tuple[list[Message], list[Any], list[int]]:
    """An agent at work: the record, the curations, and what was reported for each."""
    choose = random.Random(seed)
    record: list[Message] = [{"role": "system", "content": "You look things up."}]
    record += turn(0, choose)
    curations, reports = [], []
    for number in range(1, calls):
        curation = curator.curate(record)
        reported = provider.count(curation.messages)
        curations.append(curation)
        reports.append(reported)
        coming = turn(number, choose)
        answer = coming[0]
        if answer["role"] == "user":
            answer = {"role": "assistant", "content": f"done with {number}"}
            coming.insert(0, answer)
        tell(curation, answer, reported)
        record += coming
    return record, curations, reports


@pytest.mark.parametrize(
    ("tell", "stretch", "hidden"),
    [(observed, 0.85, 0), (carried, 1.0, 1_500), (carried, 1.4, 0), (observed, 1.3, 2_000)],
)
class TestScriptedProvider:
    limit = 10_000

    def test_the_window_is_used_and_never_exceeded(
        self, tell: Tell, stretch: float, hidden: int
    ) -> None:
        curator = Curator(max_tokens=self.limit)
        _, curations, reports = talk(curator, Provider(stretch, hidden), tell)
        assert max(reports) <= self.limit
        compactions = [at for at, each in enumerate(curations) if each.report.compacted and at > 5]
        assert len(compactions) >= 2
        assert min(reports[at - 1] for at in compactions) >= 0.95 * self.limit
        for curation, reported in zip(curations[6:], reports[6:], strict=True):
            assert curation.tokens + curation.error <= self.limit
            if not curation.report.compacted:
                assert curation.tokens == pytest.approx(reported, rel=0.05, abs=100)
        beyond = sum(
            reported > curation.tokens + curation.error
            for curation, reported in zip(curations[6:], reports[6:], strict=True)
        )
        assert beyond <= 0.01 * len(curations)
        for before, now in pairwise(curations):
            if not now.report.compacted:
                prefix = before.report.prefix_entries
                assert now.messages[:prefix] == before.messages[:prefix]


class TestReportsOfSomethingElse:
    """Usage found in a history need not be about a view of ours."""

    def test_a_history_that_was_sent_whole_so_far(self) -> None:
        def whole(curation: Any, answer: Message, _reported: int) -> None:
            record = [entry.root.source for entry in curation.report._record]
            answer["usage"] = {"prompt_tokens": provider.count(record), "completion_tokens": 9}

        provider = Provider(1.2)
        _, curations, reports = talk(Curator(max_tokens=5_000), provider, whole)
        assert provider.count([each.root.source for each in curations[-1].report._record]) > 15_000
        assert max(reports) <= 5_000
        assert min(reports[80:]) > 0.35 * 5_000  # a jump may go deeper than low water

    def test_another_agent_that_answers_now_and_then(self) -> None:
        def mixed(_curation: Any, answer: Message, reported: int) -> None:
            count = {3: 4_900, 5: 700}.get(len(told) % 7, reported)
            told.append(count)
            answer["usage"] = {"prompt_tokens": count, "completion_tokens": 9}

        told: list[int] = []
        _, _, reports = talk(Curator(max_tokens=5_000), Provider(1.2), mixed)
        assert max(reports) <= 5_000
        assert min(reports[80:]) > 0.35 * 5_000

    @pytest.mark.parametrize(("stretch", "hidden"), [(0.9, 0), (1.3, 0), (1.1, 800)])
    def test_a_history_of_a_larger_budget_is_never_refused(
        self, stretch: float, hidden: int
    ) -> None:
        provider = Provider(stretch, hidden)
        record, _, _ = talk(Curator(max_tokens=5_000), provider, carried, calls=120)
        asked = [n for n in range(20, len(record), 7) if record[n - 1]["role"] != "assistant"]
        for budget in (4_000, 3_000, 2_000):
            for upto in asked:
                view = Curator(max_tokens=budget).curate(record[:upto]).messages
                assert provider.count(view) <= budget

    @pytest.mark.parametrize("tell", [carried, observed])
    @pytest.mark.parametrize(
        ("before", "after", "at"),
        [(1.0, 1.4, 100), (0.85, 1.45, 63), (1.0, 1.4, 84), (1.3, 0.9, 90)],
    )
    def test_a_model_that_begins_to_count_otherwise(
        self, tell: Tell, before: float, after: float, at: int
    ) -> None:
        """Nobody can know before the first request that is counted so; the next ones fit.

        Where only messages carry what was reported, one that is within the limit may be another
        agent's, and the request after it is the one that may be over.
        """

        def changing(curation: Any, answer: Message, reported: int) -> None:
            tell(curation, answer, reported)
            told.append(reported)
            provider.stretch = before if len(told) < at else after

        told: list[int] = []
        provider = Provider(before)
        _, _, reports = talk(Curator(max_tokens=5_000), provider, changing)
        over = [number - at for number, reported in enumerate(reports) if reported > 5_000]
        assert over in ([], [0], [1]) if tell is carried else over in ([], [0])
        assert max(reports[-60:]) > 0.9 * 5_000


class TestWithoutUsage:
    def test_nothing_changes(self) -> None:
        _, curations, _ = talk(Curator(max_tokens=3_000), Provider(), lambda *_: None, calls=120)
        _, plain, _ = talk(
            Curator(max_tokens=3_000, calibration=False), Provider(), lambda *_: None, calls=120
        )
        for one, other in zip(curations, plain, strict=True):
            assert one.messages == other.messages
            assert one.tokens == other.tokens == count_tokens(one.messages)
            assert one.error is None

    def test_usage_is_passed_over_when_asked_to(self) -> None:
        curator = Curator(max_tokens=3_000, calibration=False)
        _, curations, _ = talk(curator, Provider(1.5), carried, calls=80)
        curations[-1].observe({"prompt_tokens": 5})
        assert all(each.error is None for each in curations)
        assert all(each.tokens == count_tokens(each.messages) for each in curations)

    def test_nonsense_is_not_believed(self) -> None:
        def wrong(_curation: Any, answer: Message, _reported: int) -> None:
            answer["usage"] = {"prompt_tokens": 3}

        _, curations, _ = talk(Curator(max_tokens=3_000), Provider(), wrong, calls=60)
        assert all(each.tokens == count_tokens(each.messages) for each in curations)


class TestUsageReports:
    def test_a_curator_travels(self) -> None:
        curator = pickle.loads(pickle.dumps(Curator(max_tokens=500)))
        curation = pickle.loads(pickle.dumps(curator.curate([{"role": "user", "content": "a"}])))
        curation.observe({"prompt_tokens": 9})
        assert curation.error is None

    def test_what_must_stay_is_sent_though_it_may_be_too_much(self) -> None:
        curator = Curator(max_tokens=1_000)
        said = [{"role": "user", "content": "word " * 900}]
        curator.curate(said).observe({"prompt_tokens": 960})
        said += [{"role": "assistant", "content": "ok"}, said[0] | {"content": "word " * 930}]
        assert curator.curate(said).messages[-1] == said[-1]

    def test_what_cannot_fit_is_refused_in_the_providers_tokens(self) -> None:
        curator = Curator(max_tokens=1_000)
        said = [{"role": "user", "content": "word " * 300}]
        curator.curate(said).observe({"prompt_tokens": 600})
        said += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "word " * 900}]
        with pytest.raises(BudgetUnsatisfiableError) as caught:
            curator.curate(said)
        assert caught.value.needed > 1_000


def timed(minutes: Sequence[float], size: int = 40) -> list[Message]:
    """Questions and answers; each question comes so many minutes after the answer before it."""
    clock, said = 1_700_000_000.0, []
    for number, wait in enumerate(minutes):
        clock += wait * 60
        said.append({"role": "user", "content": f"{number} " + "word " * size, "timestamp": clock})
        clock += 5
        said.append({"role": "assistant", "content": f"answer {number}", "timestamp": clock})
    return said


def compactions(curator: Curator, said: Sequence[Message], **options: Any) -> list[int]:
    ends = range(1, len(said) + 1, 2)
    return [end // 2 for end in ends if curator.curate(said[:end], **options).report.compacted]


class TestClock:
    def test_a_cold_cache_is_used(self) -> None:
        pauses = [0.1] * 30
        curator = Curator(max_tokens=2_000, provider="anthropic")
        warm = compactions(curator, timed(pauses))
        pauses[25] = 20
        cold = compactions(Curator(max_tokens=2_000, provider="anthropic"), timed(pauses))
        assert 25 not in warm
        assert 25 in cold

    def test_a_view_that_has_room_stays(self) -> None:
        pauses = [0.1, 0.1, 90, 0.1, 90]
        assert compactions(Curator(max_tokens=2_000), timed(pauses)) == []

    def test_the_cut_does_not_move_back_afterwards(self) -> None:
        pauses = [0.1] * 30
        pauses[25] = 20
        said = timed(pauses)
        curator = Curator(max_tokens=2_000, provider="anthropic")
        cuts = [curator.curate(said[:end]).report.cut for end in range(1, len(said), 2)]
        assert cuts == sorted(cuts)

    def test_what_the_caller_says_is_remembered(self) -> None:
        said = [{k: v for k, v in each.items() if k != "timestamp"} for each in timed([1] * 30)]
        curator = Curator(max_tokens=2_000, provider="anthropic")
        compactions(curator, said[:50])
        before = curator.curate(said[:51])
        after = curator.curate(said[:51], idle=400)
        assert not before.report.compacted
        assert after.report.compacted
        assert curator.curate(said[:53]).report.cut == after.report.cut
        assert not curator.curate(said[:53]).report.compacted

    def test_a_short_pause_is_none(self) -> None:
        said = [{k: v for k, v in each.items() if k != "timestamp"} for each in timed([1] * 30)]
        curator = Curator(max_tokens=2_000, provider="anthropic")
        assert curator.curate(said[:51], idle=200).messages == curator.curate(said[:51]).messages

    def test_nobody_looks_at_the_wall_clock(self) -> None:
        pauses = [0.1] * 30
        pauses[25] = 20
        said = timed(pauses)
        one, two = (Curator(max_tokens=2_000, provider="anthropic") for _ in range(2))
        views = [one.curate(said[:end]).messages for end in range(1, len(said), 2)]
        assert two.curate(said[:51]).messages == views[25]
        assert two.curate(said[:59]).messages == views[29]


class TestViewsThatHadToBeShorter:
    """A message that carries a usage does not say what was shown; the fold has to know."""

    @pytest.mark.parametrize("stretch", [1.2, 1.5])
    @pytest.mark.parametrize("limit", [1_500, 2_500])
    def test_a_jump_that_keeps_as_much_as_fits(self, stretch: float, limit: int) -> None:
        curator = Curator(max_tokens=limit, compact_to=1.0)
        _, _, reports = talk(curator, Provider(stretch), carried, calls=60)
        assert max(reports[4:]) <= limit

    @pytest.mark.parametrize("stretch", [1.3, 1.5])
    def test_an_exchange_that_is_squeezed(self, stretch: float) -> None:
        limit, choose = 2_000, random.Random(1)
        provider, curator = Provider(stretch), Curator(max_tokens=limit)
        record: list[Message] = [{"role": "user", "content": "look at everything"}]
        reports = []
        for number in range(30):
            curation = curator.curate(record)
            reports.append(provider.count(curation.messages))
            names = [f"c{number}-{at}" for at in range(4 if number % 4 == 3 else 1)]
            calls = [{"id": name, "type": "function",
                      "function": {"name": "look", "arguments": "{}"}} for name in names]  # fmt: skip
            answer: Message = {"role": "assistant", "content": None, "tool_calls": calls}
            carried(curation, answer, reports[-1])
            text = choose.choice(KINDS) * 8
            record += [answer]
            record += [{"role": "tool", "tool_call_id": each, "content": text} for each in names]
        assert max(reports[4:]) <= limit

    def test_what_is_needed_by_the_counts_of_the_provider_works(self) -> None:
        for reported in range(60, 120):
            answer: Message = {"role": "assistant", "content": "yes"}
            answer["usage"] = {"prompt_tokens": reported, "completion_tokens": 9}
            record = [{"role": "user", "content": "may I? " * 12}, answer]
            record.append({"role": "user", "content": "then tell me " * 150})
            with pytest.raises(BudgetUnsatisfiableError) as caught:
                Curator(max_tokens=300).curate(record)
            view = Curator(max_tokens=300).curate(record, max_tokens=caught.value.needed)
            assert view.messages[-1] is record[-1]
