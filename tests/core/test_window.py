"""The window: promised prefixes are repeated, compactions leave enough, small changes move nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator import BudgetUnsatisfiableError, ConversationEntry, Curation, Curator
from history_curator.rules import PROVIDERS
from tests.support.messages import assistant, call, result, system, user
from tests.support.shapes import KINDS, chat, fills, longest_run, loop, repeated, word_loop

BUDGET = 3_000
TOOL = {"type": "function", "function": {"name": "extra", "description": "more " * 200}}


def session(seed: int, turns: int = 12) -> list[dict[str, Any]]:
    """An agent at work: parallel calls, results long and short, in any order."""
    rng = random.Random(seed)
    messages = [system("be brief")]
    for turn in range(turns):
        messages.append(user(f"question {turn}: " + "why? " * rng.choice([1, 20, 300])))
        for step in range(rng.randint(0, 4)):
            ids = [f"c{turn}-{step}-{place}" for place in range(rng.randint(1, 3))]
            messages.append(call(*ids, path=f"src/{turn}/{step}.py"))
            answers = [
                result(name, f"line of {name}\n" * rng.choice([1, 8, 60, 400])) for name in ids
            ]
            rng.shuffle(answers)
            messages += answers
        messages.append(assistant(f"answer {turn} " + "so. " * rng.randint(1, 40)))
    return messages


def requests(messages: list[dict[str, Any]]) -> list[int]:
    """How much of a session stood before each model call."""
    return [at for at, each in enumerate(messages) if at > 1 and each["role"] == "assistant"]


def recap_of(curation: Curation) -> ConversationEntry | None:
    return next((entry for entry in curation.entries if entry.origin == "recap"), None)


@given(
    seed=st.integers(0, 10_000),
    budget=st.sampled_from([900, 2_000, 6_000]),
    provider=st.sampled_from(PROVIDERS),
    recall=st.booleans(),
)
def test_the_next_view_repeats_the_promised_prefix_unless_it_compacts(
    seed: int, budget: int, provider: str, recall: bool
) -> None:
    messages = session(seed)
    curator = Curator(max_tokens=budget, provider=provider, recall_tool=recall)
    before: list[Any] = []
    promised = 0
    for at in requests(messages):
        try:
            curation = curator.curate(messages[:at], tail="request")
        except BudgetUnsatisfiableError:
            promised = 0
            continue
        if not curation.report.compacted:
            assert list(curation.entries[:promised]) == before[:promised]
        before, promised = list(curation.entries), curation.report.prefix_entries


@given(
    seed=st.integers(0, 10_000),
    options=st.sampled_from([{}, {"reserve": 500}, {"max_tokens": 2_000}, {"max_tokens": 9_000}]),
)
def test_a_view_that_does_not_only_grow_is_reported_as_compacted(
    seed: int, options: dict[str, Any]
) -> None:
    messages = session(seed)
    curator = Curator(max_tokens=BUDGET)
    before: Curation | None = None
    for at in requests(messages):
        try:
            curation = curator.curate(messages[:at], tail="request", **options)
        except BudgetUnsatisfiableError:
            before = None
            continue
        if before is not None:
            kept = before.entries == curation.entries[: len(before.entries)]
            assert curation.report.compacted is not kept
        before = curation


class TestSmallChanges:
    """What differs for one call alone changes the cut of no other."""

    def cuts(self, seed: int, change: Any) -> tuple[list[Any], list[Any]]:
        """What the calls without the change show, with and without it in the calls between."""
        plain, moved = Curator(max_tokens=8_000), Curator(max_tokens=8_000)
        messages = session(seed, turns=30)
        with_change, without = [], []
        for number, at in enumerate(requests(messages)):
            if number % 2:
                moved.curate(messages[:at], tail="request", **change)
                plain.curate(messages[:at], tail="request")
            else:
                with_change.append(moved.curate(messages[:at], tail="request").messages)
                without.append(plain.curate(messages[:at], tail="request").messages)
        return with_change, without

    @pytest.mark.parametrize("seed", range(2))
    @pytest.mark.parametrize("change", [{"reserve": 2_000}, {"tools": [TOOL]}])
    def test_a_reserve_or_a_tool_for_one_call(self, seed: int, change: dict[str, Any]) -> None:
        with_change, without = self.cuts(seed, change)
        assert with_change == without
        assert any(len(one) < 40 for one in without)  # something was cut

    @pytest.mark.parametrize("seed", range(2))
    def test_a_reserve_changes_not_even_its_own_view_while_that_fits(self, seed: int) -> None:
        messages, curator = session(seed, turns=30), Curator(max_tokens=8_000)
        same = 0
        for at in requests(messages):
            plain = curator.curate(messages[:at], tail="request")
            if plain.tokens + 1_000 <= 8_000 and len(plain.messages) < at:
                reserved = curator.curate(messages[:at], tail="request", reserve=1_000)
                assert reserved.messages == plain.messages
                same += 1
        assert same > 10

    def test_a_clock_in_the_system_prompt(self) -> None:
        messages = session(1, turns=30)
        still, ticking = Curator(max_tokens=8_000), Curator(max_tokens=8_000)
        compactions = 0
        for number, at in enumerate(requests(messages)):
            now = system("be brief. It is " + "nearly " * (number % 5 * 4) + f"{number}:00.")
            told = ticking.curate([now, *messages[1:at]], tail="request")
            plain = still.curate(
                [system("be brief. It is 00:00."), *messages[1:at]], tail="request"
            )
            assert told.messages[1:] == plain.messages[1:]
            compactions += plain.report.compacted
        assert compactions > 2


class TestFill:
    """How full a compaction leaves the view, in any script."""

    @pytest.mark.parametrize("make", ["chat", "loop"])
    @pytest.mark.parametrize("kind", KINDS)
    def test_units_up_to_a_tenth(self, kind: str, make: str) -> None:
        budget = 8_000
        unit = int(budget * 0.09)
        messages = chat(kind, unit, 3 * budget) if make == "chat" else loop(kind, unit, 45)
        found = fills(messages, budget)
        assert found
        assert min(found) >= 0.55


@pytest.mark.parametrize(
    ("words", "budget", "most"),
    [(450, 4_000, 30), (450, 8_000, 21), (1_200, 8_000, 40), (1_200, 16_000, 27)],
)
def test_a_tool_loop_never_starts_anew_twice_in_a_row(words: int, budget: int, most: int) -> None:
    shares = repeated(word_loop(words), budget)
    assert 2 < sum(share < 0.5 for share in shares) <= most
    assert longest_run(shares) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_our_closing_message_is_not_in_the_promised_prefix(provider: str) -> None:
    """A view that has to end on the user is ended by us; the answer joins what stood before."""
    history = [user("go on until you are done"), assistant("the first half")]
    view = Curator(max_tokens=BUDGET, provider=provider).curate(history, tail="request")
    history += [assistant("the second half"), user("and now?")]
    following = Curator(max_tokens=BUDGET, provider=provider).curate(history, tail="request")
    promised = view.report.prefix_entries
    assert view.messages[:promised] == following.messages[:promised]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("count", [1, 3, 130])  # the last is more than one message may carry
@pytest.mark.parametrize("after", [[], [assistant("meanwhile"), user("and now?")]])
def test_calls_that_wait_for_a_result_are_not_promised(
    provider: str, count: int, after: list[dict[str, Any]]
) -> None:
    ids = [f"c{place}" for place in range(count)]
    history = [user("go"), call(*ids), *map(result, ids[1:]), *after]
    curator = Curator(max_tokens=9_000, provider=provider)
    assert curator.curate(history).report.prefix_entries == 1
    assert curator.curate([*history, result(ids[0])]).report.prefix_entries > 1
