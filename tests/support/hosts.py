"""What a host does to its messages between two calls, and what the next view has to be."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from history_curator import BudgetUnsatisfiableError, Curator

Disturb = Callable[[random.Random, list[Any], list[Any]], None]
"""Takes the messages of the host, and those that the last view showed."""


def view(curator: Curator, history: list[Any], **options: Any) -> list[Any]:
    return curator.curate(history, **{"tail": "history", **options}).messages


def attempt(curator: Curator, history: list[Any], **options: Any) -> list[Any] | None:
    """The view, or None when what must stay does not fit."""
    try:
        return view(curator, history, **options)
    except BudgetUnsatisfiableError:
        return None


def live(seed: int, coming: list[Any], budget: int, disturb: Disturb) -> None:
    """Go through a conversation with one curator, under changing options.

    Every view is the one of a new curator, and shows the very messages of the host.
    """
    rng = random.Random(seed)
    history: list[Any] = []
    curator = Curator(max_tokens=budget)
    while len(history) < 80 and coming:
        some = rng.randint(1, 4)
        history += coming[:some]
        del coming[:some]
        options = {
            "max_tokens": rng.choice([budget, budget, 2 * budget]),
            "reserve": rng.choice([0, 0, 40]),
            "tail": rng.choice(["history", "request"]),
        }
        shown = attempt(curator, history, **options)
        assert shown == attempt(Curator(max_tokens=budget), history, **options)
        given = {id(each) for each in history}
        assert all(id(each) in given for each in shown or () if each in history)
        if len(history) > 2 and rng.random() < 0.7:
            disturb(rng, history, shown or history)


def disturb_models(
    rng: random.Random, history: list[Any], shown: list[Any], reword: Callable[[Any, str], None]
) -> None:
    """Disturb messages that are pydantic models, as those of both frameworks are."""
    act, place = rng.randrange(4), rng.randrange(1, len(history))
    if act == 0:  # an equal message in the place of another
        history[place] = history[place].model_copy()
    elif act == 1:
        history[place] = history[place].model_copy(deep=True)
    elif act == 2:  # other words, in place, wherever the view shows them
        known = [each for each in history if any(each is one for one in shown)]
        reword(
            rng.choice(known or history), f"edited {rng.random()} " + "word " * rng.randint(0, 40)
        )
    else:  # something nobody reads, in place, near the end
        rng.choice(history[-16:]).additional_kwargs["mark"] = rng.randrange(99)


def see_an_equal_message_in_the_place_of_another(
    messages: list[Any], budget: int, copied: Callable[[Any], Any]
) -> None:
    """It is the one that is shown."""
    curator = Curator(max_tokens=budget)
    shown = view(curator, messages)
    place = next(at for at, each in enumerate(messages) if any(each is one for one in shown))
    messages[place] = copied(messages[place])
    again = view(curator, messages)
    assert again == shown
    assert any(each is messages[place] for each in again)
