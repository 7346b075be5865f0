"""`BudgetUnsatisfiableError.needed` is the smallest budget that works."""

from __future__ import annotations

import pytest

from history_curator import BudgetUnsatisfiableError, Curator
from history_curator.errors import ConversionError
from history_curator.formats import find_format
from tests.support.messages import call, result
from tests.wire.blocks import IMAGE, found, says, use, user
from tests.wire.generators import FORMATS, draw
from tests.wire.promises import PROVIDERS

AT_NIGHT = (pytest.mark.nightly, pytest.mark.timeout(0))
TOOLS = [{"name": "look", "description": "Look it up.", "parameters": {"required": ["city"]}}]


def curate(messages, provider, budget, number):
    """Curate as a caller would, every other time with tools and a reserve."""
    beside = {"tools": TOOLS, "reserve": 17} if number % 2 else {}
    curator = Curator(provider=provider, max_tokens=budget)
    return curator.curate(
        messages, format=find_format(messages, provider), tail="request", **beside
    )


def check(wire, number):
    """Whether a budget of 60 tokens is refused; then what is needed works, and one less does not."""
    messages, providers = draw(wire, number), PROVIDERS[wire]
    provider = providers[number // 3 % len(providers)]
    try:
        curate(messages, provider, 60, number)
    except ConversionError:
        return False
    except BudgetUnsatisfiableError as refusal:
        needed = refusal.needed
    else:
        return False
    assert curate(messages, provider, needed, number).tokens <= needed, (wire, number)
    with pytest.raises(BudgetUnsatisfiableError) as caught:
        curate(messages, provider, needed - 1, number)
    assert caught.value.needed == needed, (wire, number)
    return True


@pytest.mark.parametrize("count", [60, pytest.param(2_000, marks=AT_NIGHT)])
@pytest.mark.parametrize("wire", FORMATS)
def test_what_is_needed_works_and_one_token_less_does_not(wire, count):
    assert sum(check(wire, number) for number in range(count)) > count // 3


def test_a_system_message_behind_the_question_takes_its_room():
    """OpenAI takes it there: what fits beside it is kept, and everything where all fits."""
    given = [user(f"question {at} " * 20) for at in range(8)]
    given.append({"role": "system", "content": "be brief " * 200})
    everything = Curator(provider="openai").curate(given).tokens
    for budget in (everything, everything - 1, everything - 300):
        view = Curator(provider="openai", max_tokens=budget).curate(given, tail="request")
        assert (len(view.messages) == len(given)) is (budget == everything)
        assert given[-1] in view.messages
        assert given[-2] in view.messages


def test_a_placeholder_that_is_longer_than_what_it_stands_for_is_not_used():
    given = [user("look"), says(use()), user([found(content=[IMAGE])])]
    everything = Curator(provider="portable").curate(given).tokens
    with pytest.raises(BudgetUnsatisfiableError) as caught:
        Curator(provider="portable", max_tokens=everything - 1).curate(given)
    assert caught.value.needed == everything


def test_what_rules_join_is_counted_joined():
    """The whole costs less than its parts where two messages of the user become one."""
    given = [
        user("first, look here"),
        user("then look there"),
        call("c0", text="looking"),
        result("c0", "what is found " * 40),
        call("c1", text="and again"),
    ]
    with pytest.raises(BudgetUnsatisfiableError) as caught:
        Curator(provider="portable", max_tokens=20, preserve_last_n=5).curate(given)
    needed = caught.value.needed
    view = Curator(provider="portable", max_tokens=needed, preserve_last_n=5).curate(given)
    assert view.tokens == needed
