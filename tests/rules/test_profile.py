"""A profile finds violations, and repairs units and views."""

from __future__ import annotations

from pathlib import Path

import pytest

from history_curator.rules import PROVIDERS, get_profile, profiles
from history_curator.testing import SEQUENCES, parse_entries, show
from tests.support.messages import assistant, entries

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}


def test_verdicts_come_from_the_caller_where_it_remembers_them() -> None:
    profile, view = get_profile("core"), parse_entries("S U A(c1) T(c1) A U")
    asked = []
    assert profile.repair(view, is_valid=lambda entry: not asked.append(entry)) is view
    assert asked == view


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("A(c1,c2) T(c2) T(c1)", "A(c1,c2) T(c1) T(c2)"),
        ("A(c1,c2) T(c2)", "A(c1,c2) T*(c1) T(c2)"),
        ("A~(c1) T(c1)", "A(c1) T(c1)"),
        ("A", "A"),  # who speaks first and last is no matter of a unit
        ("A(c1) T(c1)", "A(c1) T(c1)"),
    ],
)
def test_a_unit_is_repaired_by_the_rules_that_can_judge_it_alone(unit: str, expected: str) -> None:
    profile, given = get_profile("core"), tuple(parse_entries(unit))
    repaired = profile.repair_unit(given)
    assert show(repaired) == expected
    assert (repaired is given) is (unit == expected)
    assert profile.repair_unit(repaired) is repaired


def test_a_unit_without_reasoning_is_the_very_unit_where_there_is_none_or_it_is_kept() -> None:
    plain = tuple(entries([assistant("42")]))
    thinking = tuple(entries([assistant([THOUGHT, {"type": "text", "text": "42"}])]))
    assert get_profile("anthropic").without_reasoning(plain) is plain
    assert get_profile("openai").without_reasoning(thinking) is thinking
    (stripped,) = get_profile("anthropic").without_reasoning(thinking)
    assert (stripped.reasoning, stripped.content) == (None, "42")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_bridge_is_returned_where_the_profile_would_insert_one(provider: str) -> None:
    view = parse_entries("U A(c1) T(c1) U")
    profile = get_profile(provider)
    inserted = [entry.origin for entry in profile.repair(view)].count("bridge")
    assert (profile.bridge(view[2], view[3]) is not None) is bool(inserted)
    assert profile.bridge(view[3], view[2]) is None


def test_every_rule_of_a_provider_has_its_order_of_repair_and_a_row_in_the_docs() -> None:
    rows = (Path(__file__).parents[2] / "docs" / "providers.md").read_text(encoding="utf-8")
    for provider in PROVIDERS:
        for rule in get_profile(provider).rules:
            assert type(rule) in profiles._DEFAULTS, f"{type(rule).__name__} has no place"
            assert f"| {rule.code} |" in rows, f"{rule.code} has no row in docs/providers.md"


@pytest.mark.parametrize("given", [given for given, _ in SEQUENCES])
def test_a_portable_conversation_breaks_no_rule_of_any_provider(given: str) -> None:
    repaired = get_profile("portable").repair(parse_entries(given))
    for provider in {*PROVIDERS} - {"mistral"}:  # whose call ids have a form of their own
        assert get_profile(provider).find(repaired) == [], provider
