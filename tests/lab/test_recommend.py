from __future__ import annotations

from typing import Any

import pytest

from history_curator.errors import ConfigurationError
from history_curator.lab import PolicyResult, ReplayResults, frontier, recommend


def policy(name: str, cost: float, lost: int, **changes: Any) -> PolicyResult:
    values: dict[str, Any] = {
        "name": name, "conversations": 1, "calls": 10, "sampled": 1.0, "tokens_sent": 100,
        "peak": 10, "budget_use": 0.5, "over_budget": 0, "cached_share": 0.9, "cost": cost,
        "costs": {}, "invalid": 0, "violations": {}, "failed": 0, "lost_identifiers": lost,
        "identifiers": 100, "repeated_calls": 0, "repeats": 0, "evidence_recall": None,
        "questions": 0, "ms_per_view": 1.0, "roles": {},
    }  # fmt: skip
    return PolicyResult(**{**values, **changes})


def results(*policies: PolicyResult) -> ReplayResults:
    return ReplayResults({each.name: each for each in policies}, {}, "none", "core", 1.0)


class TestFrontier:
    def test_what_is_beaten_on_both_is_not_on_it(self) -> None:
        line = frontier([policy("a", 1, 9), policy("b", 2, 10), policy("c", 3, 1)])
        assert [each.name for each in line] == ["a", "c"]

    def test_a_policy_that_failed_is_not_on_it_unless_all_did(self) -> None:
        broken = policy("broken", 0, 0, failed=3)
        assert results(broken, policy("a", 1, 9)).frontier() == ["a"]
        assert results(broken).frontier() == ["broken"]

    def test_a_tie_is_listed_once(self) -> None:
        assert len(frontier([policy("a", 1, 5), policy("b", 1, 5)])) == 1


class TestRecommend:
    def test_it_takes_the_knee_of_the_frontier(self) -> None:
        advice = recommend(results(policy("cheap", 1, 50), policy("knee", 1.3, 5),
                                   policy("dear", 9, 0)))  # fmt: skip
        assert advice.name == "knee"
        assert advice.frontier == ("cheap", "knee", "dear")
        assert "cheap is cheaper" in str(advice)
        assert "dear loses less" in str(advice)

    def test_a_limit_on_missed_takes_the_cheapest_within(self) -> None:
        found = results(policy("cheap", 1, 50), policy("knee", 1.3, 5), policy("dear", 9, 0))
        assert recommend(found, max_missed=0.6).name == "cheap"
        assert recommend(found, max_missed=0.01).name == "dear"

    def test_a_limit_nobody_keeps_is_said(self) -> None:
        found = results(policy("cheap", 1, 50), policy("dear", 9, 2))
        advice = recommend(found, max_missed=0.0)
        assert advice.name == "dear"
        assert "No sound policy stays within a missed of 0.00%; the closest is dear" in advice.why
        assert "No sound policy" not in recommend(found, max_missed=0.02).why

    @pytest.mark.parametrize("fault", [{"invalid": 2}, {"over_budget": 1}, {"failed": 1}])
    def test_an_unsound_policy_is_ruled_out_and_named(self, fault: dict[str, int]) -> None:
        advice = recommend(results(policy("best", 0.1, 0, **fault), policy("sound", 5, 5)))
        assert advice.name == "sound"
        assert advice.ruled_out[0][0] == "best"
        assert "Ruled out: best" in advice.why

    def test_the_least_bad_when_nothing_is_sound(self) -> None:
        advice = recommend(results(policy("a", 1, 1, invalid=1)))
        assert advice.name == "a"
        assert "least bad" in advice.why

    def test_nothing_measured_is_an_error(self) -> None:
        with pytest.raises(ConfigurationError, match="no policy"):
            recommend(results(policy("a", 1, 1, sampled=0.0)))

    def test_a_talk_without_a_call_is_named_as_such(self) -> None:
        with pytest.raises(ConfigurationError, match="no call to replay"):
            recommend(results(policy("a", 0, 0, calls=0, sampled=0.0, tokens_sent=0)))

    def test_requests_that_were_all_refused_are_no_choice(self) -> None:
        nothing = policy("a", 0, 0, failed=10, tokens_sent=0, note="the budget is 20")
        with pytest.raises(ConfigurationError, match="a: the budget is 20"):
            recommend(results(nothing))
