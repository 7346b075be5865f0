"""What a host does to its messages between two calls reaches the next view."""

from __future__ import annotations

import random
from typing import Any

import pytest
from langchain_core.messages import convert_to_messages

from history_curator import ConversationEntry, Curator, MessageRole
from tests.core.test_growing import session

BUDGET = 3_000


def view(curator: Curator, history: list[Any]) -> list[Any]:
    return curator.curate(history, tail="history").messages


def disturb(rng: random.Random, history: list[Any], shown: list[Any]) -> None:
    act, place = rng.randrange(4), rng.randrange(1, len(history))
    if act == 0:  # an equal message in the place of another
        history[place] = history[place].model_copy()
    elif act == 1:
        history[place] = history[place].model_copy(deep=True)
    elif act == 2:  # other words, in place, wherever the view shows them
        known = [each for each in history if any(each is one for one in shown)]
        rng.choice(known).content = f"edited {rng.random()} " + "word " * rng.randint(0, 40)
    else:  # something nobody reads, in place, near the end
        rng.choice(history[-16:]).additional_kwargs["mark"] = rng.randrange(99)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_a_host_does_the_view_is_that_of_a_new_curator(seed: int) -> None:
    rng = random.Random(seed)
    coming, history = convert_to_messages(session(60, seed)), list[Any]()
    curator = Curator(max_tokens=BUDGET)
    while len(history) < 80 and coming:
        for _ in range(rng.randint(1, 4)):
            if coming:
                history.append(coming.pop(0))
        shown = view(curator, history)
        assert shown == view(Curator(max_tokens=BUDGET), history)
        given = {id(each) for each in history}
        assert all(id(each) in given for each in shown if each in history)
        if len(history) > 2 and rng.random() < 0.7:
            disturb(rng, history, shown)


def test_an_equal_message_in_the_place_of_another_is_the_one_that_is_shown() -> None:
    messages = convert_to_messages(session(30))
    curator = Curator(max_tokens=BUDGET)
    shown = view(curator, messages)
    place = next(at for at, each in enumerate(messages) if any(each is one for one in shown))
    messages[place] = messages[place].model_copy()
    again = view(curator, messages)
    assert again == shown
    assert any(each is messages[place] for each in again)


def test_an_entry_that_says_it_stood_elsewhere_is_read_all_the_same() -> None:
    odd = ConversationEntry(MessageRole.USER, "hi", source={"role": "user"}, sequence=99)
    history: list[Any] = [*convert_to_messages(session(3)), odd]
    curator = Curator(max_tokens=BUDGET)
    for _ in range(2):
        assert view(curator, history)[-1].content == "hi"
