"""P6 and P7: calls, their results and their ids."""

from __future__ import annotations

import json

import pytest

from history_curator.rules.tools import (
    CallIdsAreUnique,
    ResultsFollowTheirCalls,
)
from history_curator.testing import parse_entries, show
from tests.support.messages import call, entries, result, user


class TestFinding:
    @pytest.mark.parametrize(
        ("given", "found"),
        [
            ("U T(c1)", [(1, "the result of 'c1' follows no call")]),
            ("U A(c1) U", [(1, "the call 'c1' has no result right after it")]),
            (
                "U A(c1) U T(c1)",
                [
                    (1, "the call 'c1' has no result right after it"),
                    (3, "the result of 'c1' follows no call"),
                ],
            ),
            ("U A(c1) T(c1) T(c1)", [(3, "the result of 'c1' answers no open call before it")]),
            (
                "U A(c1) T(c9)",
                [
                    (1, "the call 'c1' has no result right after it"),
                    (2, "the result of 'c9' answers no open call before it"),
                ],
            ),
            ("U A(c1,c2) T(c2) T(c1)", [(2, "the results are not in the order of their calls")]),
        ],
    )
    def test_each_kind_has_its_words(self, given, found):
        violations = ResultsFollowTheirCalls().find(parse_entries(given))
        assert sorted((each.index, each.message) for each in violations) == found

    @pytest.mark.parametrize(
        ("rule", "given"),
        [
            (ResultsFollowTheirCalls(ordered=False), "U A(c1,c2) T(c2) T(c1)"),
            (ResultsFollowTheirCalls(), "U A(c1) T(c1) A(c1) T(c1) A"),
        ],
        ids=["order is free", "reused ids"],
    )
    def test_sound_exchanges_are_left_alone(self, rule, given):
        assert rule.find(parse_entries(given)) == []


class TestRepairing:
    def test_results_are_the_same_objects_and_only_a_missing_one_is_invented(self):
        given = parse_entries("U A(c1) T(c1) A(c2,c3) U T(c3)")
        repaired = ResultsFollowTheirCalls().repair(given)
        assert show(repaired) == "U A(c1) T(c1) A(c2,c3) T*(c2) T(c3) U"
        assert all(new is old for new, old in zip(repaired[:4], given[:4], strict=True))
        assert (repaired[4].origin, repaired[4].status) == ("placeholder", "error")
        assert repaired[5] is given[5]

    @pytest.mark.parametrize(
        ("first", "second", "stays"), [("old", "new", "new"), ("real", "", "real")]
    )
    def test_of_duplicates_the_last_one_with_words_stays(self, first, second, stays):
        given = entries([user(), call("c1"), result("c1", first), result("c1", second)])
        assert [each.content for each in ResultsFollowTheirCalls().repair(given)[2:]] == [stays]

    def test_a_result_without_an_id_belongs_to_the_open_call(self):
        nameless = {"role": "tool", "content": "42"}
        given = entries([user(), call("c1"), nameless])
        repaired = ResultsFollowTheirCalls().repair(given)
        assert (repaired[2].tool_call_id, repaired[2].content) == ("c1", "42")


class TestIds:
    def test_new_ids_are_the_same_every_time(self):
        given = parse_entries("U A(c1) T(c1) A(c1) T(c1)")
        first, second = (CallIdsAreUnique().repair(given)[3].tool_calls[0].id for _ in range(2))
        assert first == second
        assert first.startswith("call_")

    def test_same_id_other_arguments_are_two_calls(self):
        message = call("c1", "c1")
        message["tool_calls"][1]["function"]["arguments"] = json.dumps({"at": 2})
        given = entries([user(), message, result("c1", "one"), result("c1", "two")])
        assert ResultsFollowTheirCalls().find(given) == []
        repaired = CallIdsAreUnique().repair(given)
        ids = [each.id for each in repaired[1].tool_calls]
        assert len(set(ids)) == 2
        assert [(each.tool_call_id, each.content) for each in repaired[2:]] == [
            (ids[0], "one"),
            (ids[1], "two"),
        ]

    def test_scope_message_lets_turns_reuse_ids(self):
        rule = CallIdsAreUnique(scope="message")
        assert rule.find(parse_entries("U A(c1) T(c1) A(c1) T(c1)")) == []
        assert len(rule.find(parse_entries("U A(c1,c1) T(c1) T(c1)"))) == 1

    def test_a_new_id_never_meets_an_old_one(self):
        fresh = CallIdsAreUnique().repair(parse_entries("U A(c1) T(c1) A(c1) T(c1)"))
        taken = fresh[3].tool_calls[0].id
        given = parse_entries(f"U A({taken}) T({taken}) A(c1) T(c1) A(c1) T(c1)")
        ids = [
            each.tool_calls[0].id for each in CallIdsAreUnique().repair(given) if each.tool_calls
        ]
        assert len(set(ids)) == 3
