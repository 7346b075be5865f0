"""Results: tables, files and the recommendation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from history_curator import Curator
from history_curator.lab import (
    PolicyResult,
    ReplayResults,
    named_policy,
    replay,
)
from tests.lab.test_replay import session


@pytest.fixture(scope="module")
def found() -> Any:
    policies = {
        "mine": Curator(max_tokens=900),
        "all": named_policy("no curation", 900),
        "trim": "trim_messages",
    }
    return replay(
        [session(30), session(8)], policies, max_tokens=900, progress=False, executor="serial"
    )


class TestOutput:
    def test_the_frame_has_a_row_for_each_policy(self, found: Any) -> None:
        frame = found.to_frame()
        assert list(frame.index) == ["mine", "all", "trim"]
        assert frame.loc["mine", "cost"] == found["mine"].cost > 0

    def test_json_has_a_row_for_each_policy(self, found: Any) -> None:
        rows = json.loads(found.to_json())["policies"]
        assert [row["name"] for row in rows] == ["mine", "all", "trim"]

    def test_names_are_escaped_on_pages(self, tmp_path: Path) -> None:
        results = replay([session(2)], {"<b>": "no curation"}, progress=False, executor="serial")
        page = results.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
        assert "<b>" not in page
        assert "&lt;b&gt;" in page
        assert "default-src 'none'" in page


def policy(name: str, cost: float, lost: int, **changes: Any) -> PolicyResult:
    values = {"calls": 10, "tokens_sent": 100, "cost": cost,
              "lost": lost, "needed": 100}  # fmt: skip
    return PolicyResult(name, **{**values, **changes})


def results(*policies: PolicyResult) -> ReplayResults:
    return ReplayResults({each.name: each for each in policies}, "none", "core")


CHEAP, KNEE, DEAR = policy("cheap", 1, 50), policy("knee", 1.3, 5), policy("dear", 9, 0)


class TestFrontier:
    def test_a_policy_beaten_on_both_is_not_on_it(self) -> None:
        found = results(policy("a", 1, 9), policy("b", 2, 10), policy("c", 3, 1))
        assert found.frontier() == ["a", "c"]

    @pytest.mark.parametrize("fault", ["failed", "invalid", "over_budget"])
    def test_a_policy_that_is_not_sound_is_not_on_it_or_recommended(self, fault: str) -> None:
        broken = policy("broken", 0, 0, **{fault: 3})
        one_is_sound = results(broken, policy("a", 1, 9))
        assert (one_is_sound.frontier(), one_is_sound.recommend()) == (["a"], "Use a.")
        assert results(broken).frontier() == []
        assert "each sent a request that is invalid" in results(broken).recommend()


class TestRecommend:
    def test_the_knee_is_recommended(self) -> None:
        assert results(CHEAP, KNEE, DEAR).recommend() == "Use knee."

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"calls": 0, "tokens_sent": 0}, "No message answers"),
            ({"needed": 0}, "No policy is recommended: no call used anything"),
            ({"failed": 10, "tokens_sent": 0, "note": "the budget is 20"}, "a: the budget is 20"),
        ],
    )
    def test_without_a_measurement_the_reason_is_said(
        self, changes: dict[str, Any], message: str
    ) -> None:
        assert message in results(policy("a", 1, 1, **changes)).recommend()
