"""Generated conversations of every wire format: what is written is what was counted."""

from __future__ import annotations

import pytest

from history_curator.errors import ConversionError
from history_curator.rules import repair_conversation
from tests.wire.generators import FORMATS, draw
from tests.wire.promises import BUDGETS, PROVIDERS, hold

AT_NIGHT = (pytest.mark.nightly, pytest.mark.timeout(0))


def check(wire, number):
    """Hold one view against every promise; return the error where there is none."""
    providers = PROVIDERS[wire]
    provider = providers[number // 3 % len(providers)]
    budget = BUDGETS[number // 10 % len(BUDGETS)]
    label = f"draw({wire!r}, {number}) for {provider}, {budget} tokens"
    return hold(draw(wire, number), provider, budget, label)


@pytest.mark.parametrize("views", [2_000, pytest.param(100_000, marks=AT_NIGHT)])
@pytest.mark.parametrize("wire", FORMATS)
def test_thousands_of_views(wire, views):
    sent, count = 0, views // len(FORMATS)
    for number in range(count):
        refusal = check(wire, number)
        sent += refusal is None
        if isinstance(refusal, ConversionError):
            assert number % 3 == 2, (number, refusal)  # only odd fields cannot be read
        elif refusal is not None:
            assert refusal.needed > refusal.max_tokens, number
    assert sent > count // 2


@pytest.mark.parametrize("wire", FORMATS)
def test_a_valid_conversation_comes_back_as_the_same_objects(wire):
    for number in range(0, 150, 3):
        messages = draw(wire, number)
        if any("function_call" in message for message in messages):
            continue  # the old way to call, which becomes the new one
        back = repair_conversation(messages, PROVIDERS[wire][0], tail="history")
        assert [id(each) for each in back] == [id(each) for each in messages], number
