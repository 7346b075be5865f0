"""Whose rules hold where the model is known."""

from __future__ import annotations

import pytest

from history_curator import get_profile
from history_curator.integrations import Asked, rules_for

OPUS = Asked(("claude-opus-4-8",), in_place=True)


def test_a_profile_of_ones_own_stays_as_it_is():
    mine = get_profile("anthropic", later_system="demote")
    assert rules_for(mine, OPUS) is mine


@pytest.mark.parametrize(
    ("asked", "stays"),
    [
        (OPUS, True),
        (Asked(("anthropic/claude-sonnet-5",), in_place=True), True),
        (Asked(("claude-opus-4-7",), in_place=True), False),
        (Asked(("claude-3-5-sonnet-20241022",), in_place=True), False),
        (Asked(("claude-opus-4-8",), in_place=False), False),
        (Asked(("claude-opus-4-8", None), in_place=True), False),
        (Asked(), False),
    ],
)
def test_later_system_messages_stay_where_model_and_client_take_them(asked, stays):
    assert rules_for("anthropic", asked).hoists is not stays


def test_a_provider_whose_rules_are_the_same_for_all_models_has_one_profile():
    assert rules_for("openai", Asked(("gpt-4o",))) is rules_for("openai", Asked(("gpt-5",)))


def test_reasoning_is_handed_on():
    assert rules_for("anthropic", OPUS, "keep").reasoning == "keep"
