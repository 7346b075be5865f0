"""Results: tables, files, plots and the recommendation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from history_curator import Curator
from history_curator.errors import ConfigurationError
from history_curator.lab import (
    PolicyResult,
    ReplayResults,
    named_policy,
    plot_frontier,
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

    def test_json_round_trips(self, found: Any, tmp_path: Path) -> None:
        text = found.to_json(tmp_path / "results.json")
        assert json.loads(text) == json.loads((tmp_path / "results.json").read_text())
        assert [row["name"] for row in json.loads(text)["policies"]] == ["mine", "all", "trim"]

    def test_names_are_escaped_on_pages(self, tmp_path: Path) -> None:
        results = replay([session(2)], {"<b>": "no curation"}, progress=False, executor="serial")
        page = results.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
        for text in (results._repr_html_(), page):
            assert "<b>" not in text
            assert "&lt;b&gt;" in text
        assert "default-src 'none'" in page


class TestPlots:
    @pytest.fixture(autouse=True)
    def off_screen(self) -> None:
        pytest.importorskip("matplotlib", reason="matplotlib is absent").use("Agg")

    def test_frontier_names_every_policy_and_hollows_the_unsound(self, found: Any) -> None:
        import matplotlib.pyplot as plt

        _, axes = plt.subplots()
        assert plot_frontier(found, ax=axes) is axes
        assert {text.get_text() for text in axes.texts} == {"mine", "all", "trim"}
        filled = [len(points.get_facecolor()) > 0 for points in axes.collections]
        assert filled == [found[name].sound for name in ("mine", "all", "trim")]
        assert filled[:2] == [True, False]


def policy(name: str, cost: float, lost: int, **changes: Any) -> PolicyResult:
    values = {"calls": 10, "tokens_sent": 100, "cost": cost,
              "lost": lost, "needed": 100}  # fmt: skip
    return PolicyResult(name, **{**values, **changes})


def results(*policies: PolicyResult) -> ReplayResults:
    return ReplayResults({each.name: each for each in policies}, {}, "none", "core")


CHEAP, KNEE, DEAR = policy("cheap", 1, 50), policy("knee", 1.3, 5), policy("dear", 9, 0)


class TestFrontier:
    def test_a_policy_beaten_on_both_is_not_on_it(self) -> None:
        found = results(policy("a", 1, 9), policy("b", 2, 10), policy("c", 3, 1))
        assert found.frontier() == ["a", "c"]

    @pytest.mark.parametrize("fault", ["failed", "invalid", "over_budget"])
    def test_a_policy_that_is_not_sound_is_not_on_it_or_recommended(self, fault: str) -> None:
        broken = policy("broken", 0, 0, **{fault: 3})
        assert results(broken, policy("a", 1, 9)).frontier() == ["a"]
        assert results(broken).frontier() == []
        assert "each sent a request that is invalid" in results(broken).advise()


class TestRecommend:
    def test_the_knee_is_recommended(self) -> None:
        assert results(CHEAP, KNEE, DEAR).recommend() == "knee"

    @pytest.mark.parametrize("fault", [{"invalid": 2}, {"over_budget": 1}, {"failed": 1}])
    def test_an_unsound_policy_is_ruled_out_while_another_is_sound(
        self, fault: dict[str, int]
    ) -> None:
        bad = policy("best", 0.1, 0, **fault)
        assert results(bad, policy("sound", 5, 5)).recommend() == "sound"

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"calls": 0, "tokens_sent": 0}, "No message answers"),
            ({"needed": 0}, "No policy is recommended: no call used anything"),
            (
                {"failed": 10, "tokens_sent": 0, "note": "the budget is 20"},
                "a: the budget is 20",
            ),
        ],
    )
    def test_results_without_a_measurement_are_an_error(
        self, changes: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=message):
            results(policy("a", 1, 1, **changes)).recommend()
