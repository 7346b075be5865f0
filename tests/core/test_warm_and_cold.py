"""One curator that lives through a session, with edits in place and reserves, against new ones."""

from __future__ import annotations

import random
from typing import Any

import pytest

from history_curator import (
    BudgetUnsatisfiableError,
    Curator,
    TiktokenCounter,
    check_conversation,
    count_tokens,
)
from history_curator.rules import PROVIDERS
from tests.core.test_growing import session
from tests.support.messages import assistant, call, result, user


def outcome(curator: Curator, history: list[Any], reserve: int) -> tuple[Any, ...]:
    try:
        view = curator.curate(history, reserve=reserve, tail="request")
    except BudgetUnsatisfiableError as error:
        return "refused", error.needed
    return view.messages, view.tokens, view.report.prefix_entries, view.report.jumped


@pytest.mark.parametrize("provider", PROVIDERS)
def test_whatever_happened_before_the_outcome_is_that_of_a_new_curator(provider: str) -> None:
    for seed, budget in enumerate((400, 900, 2_500)):
        rng, messages, end = random.Random(seed), session(20, seed), 5
        known = Curator(max_tokens=budget, provider=provider, recall=bool(seed % 2))
        while end < len(messages):
            end += rng.randint(1, 6)
            history, reserve = messages[:end], rng.choice([0, 0, 60])
            edited = rng.choice(history[1:])
            if rng.random() < 0.3 and isinstance(edited.get("content"), str):
                edited["content"] = "edited " + "word " * rng.randint(1, 80)
            new = Curator(max_tokens=budget, provider=provider, recall=bool(seed % 2))
            found = outcome(known, history, reserve)
            assert found == outcome(new, history, reserve)
            if found[0] == "refused":  # what it says is needed is enough
                larger = Curator(max_tokens=found[1], provider=provider, recall=bool(seed % 2))
                assert larger.curate(history, reserve=reserve, tail="request").messages
                continue
            assert count_tokens(found[0]) == found[1] <= budget - reserve
            assert not check_conversation(found[0], provider)


@pytest.mark.parametrize("said", ["user", "user assistant", "user call"])
def test_a_cold_start_counts_a_bounded_stretch_whatever_the_length(said: str) -> None:
    budget, text = 400, "some words that say something else " * 3
    turns = {
        "user": [user(text)],
        "user assistant": [user(text), assistant(text)],
        "user call": [user(text), call("c"), result("c", text), assistant(text)],
    }
    messages = [
        {**message, "content": f"{at}: {message['content'] or ''}"}
        for at in range(2_000)
        for message in turns[said]
    ]
    counter = TiktokenCounter("o200k_base")
    Curator(max_tokens=budget, counter=counter).curate([*messages, user("and now?")])
    assert counter.characters < 40 * budget * 4
