"""Decisions name whoever made them, and a report survives a copy."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from history_curator import CurationReport, Curator
from tests.support.messages import assistant, call, exchange, result, system, user


def report_of(messages: list[Any], *managers: Any, **options: Any) -> CurationReport:
    return Curator(*managers, **{"max_tokens": 2_000, **options}).curate(messages).report


@pytest.mark.parametrize(
    ("messages", "options", "action", "manager"),
    [
        ([user("a")], {}, "kept", ""),
        ([user("a"), user("b")], {"provider": "portable"}, "merged", "rules"),
        ([user("a"), system()], {"provider": "anthropic"}, "moved", "rules"),
        ([user("a"), result("lost"), user("b")], {}, "dropped", "rules"),
        (
            [user("a"), call("c1"), user("b"), result("c1"), assistant("ok"), user("c")],
            {"provider": "openai"}, "moved", "rules",
        ),
        ([user("a"), *exchange("c", text="row " * 9_000), user("b")], {}, "truncated", "budget"),
        ([user("a"), *exchange("c"), *exchange("d", text="row " * 900)] * 4 + [user("b")],
         {"max_tokens": 1_500}, "dropped", "budget"),
    ],
)  # fmt: skip
def test_a_decision_names_its_manager(
    messages: list[Any], options: dict[str, Any], action: str, manager: str
) -> None:
    decisions = report_of(messages, **options).decisions
    assert manager in {each.manager for each in decisions if each.action == action}


def test_what_a_manager_left_out_does_not_pass_for_a_lost_result() -> None:
    said = [user("a"), user("b"), user("c"), result("lost"), user("d")]
    forgetful = SimpleNamespace(curate=lambda entries, context: entries[2:])
    decisions = report_of(said, forgetful).decisions
    assert [each.manager for each in decisions] == ["SimpleNamespace"] * 2 + ["", "rules", ""]
    assert "without a matching call" in decisions[3].reason


def test_a_copy_of_a_report_gives_the_same_decisions() -> None:
    report = report_of([user("a"), *exchange("c", text="row " * 9_000), user("b")])
    copy = pickle.loads(pickle.dumps(report))
    assert copy.to_json() == report.to_json()
    assert copy.explain() == report.explain()


def test_the_cache_plan_of_a_report_is_that_of_its_view() -> None:
    curator = Curator(max_tokens=8_000, provider="anthropic")
    curation = curator.curate([system("rules " * 2_000), user("a"), assistant("b"), user("c")])
    places = [each.place for each in curation.report.cache_plan.breakpoints]
    assert places == ["front", "heads", "prefix"]
