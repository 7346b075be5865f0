"""P1 to P5: system first, roles alternate, allowed first and last message."""

from __future__ import annotations

import pytest

from history_curator.rules import get_profile
from history_curator.rules.roles import (
    OneSystemEntryLeads,
    RequestEndsOnUserOrTool,
    RolesAlternate,
    SomeUserSpeaks,
    UserSpeaksFirst,
)
from history_curator.testing import parse_entries, show
from tests.support.messages import assistant, call, entries, result, system, user

PICTURE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}


def mended(rule, given):
    repaired = rule.repair(parse_entries(given))
    assert rule.find(repaired) == []
    return show(repaired)


class TestSomeUserSpeaks:
    @pytest.mark.parametrize("given", ["", "S", "S A", "U~", "A(c1) T(c1)"])
    def test_silence_is_found_and_broken(self, given):
        rule = SomeUserSpeaks()
        found = rule.find(parse_entries(given))
        assert [(each.index, each.rule) for each in found] == [(None, "P1")]
        assert mended(rule, given).endswith("U*")

    def test_one_text_or_picture_of_the_user_is_enough(self):
        heard = parse_entries("U A A")
        assert SomeUserSpeaks().find(heard) == []
        assert SomeUserSpeaks().repair(heard) == heard
        assert SomeUserSpeaks().find(entries([user([PICTURE])])) == []


class TestOneSystemEntryLeads:
    def test_the_leading_run_is_merged_and_says_what_went_into_it(self):
        given = entries([system("one"), system("two"), user()])
        first, asked = OneSystemEntryLeads().repair(given)
        assert first.content == "one\n\ntwo"
        assert first.action == "merged"
        assert first.metadata["merged"] == [given[1]]
        assert asked is given[2]

    def test_a_late_one_is_hoisted(self):
        assert mended(OneSystemEntryLeads(), "S U A S U") == "S U A U"

    def test_a_single_late_one_moves_to_the_front(self):
        repaired = OneSystemEntryLeads().repair(parse_entries("U S A"))
        assert show(repaired) == "S U A"
        assert repaired[0].action == "moved"

    def test_demoting_keeps_the_prefix(self):
        given = parse_entries("S U A S U")
        repaired = OneSystemEntryLeads(later="demote").repair(given)
        assert repaired[:3] == given[:3]
        assert repaired[3].role.value == "user"
        assert not repaired[3].is_real_user

    def test_a_leading_run_stays_where_it_may(self):
        rule = OneSystemEntryLeads(run=True)
        assert rule.find(parse_entries("S S U A U")) == []
        given = parse_entries("S S U A S U")
        repaired = rule.repair(given)
        assert show(repaired) == "S S S U A U"
        assert repaired[:2] == given[:2]
        assert rule.find(repaired) == []

    def test_one_at_the_front_is_left_alone(self):
        assert OneSystemEntryLeads().find(parse_entries("S U A U")) == []

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ("S U S A U", "S U S A U"),
            ("S U S U A U", "S U U S A U"),
            ("S U A S S", "S U A U* U*"),
            ("S U A S U S", "S U A U S"),
        ],
    )
    def test_a_late_one_stays_where_the_model_takes_it(self, given, expected):
        rule = OneSystemEntryLeads(later="stay")
        assert show(rule.repair(parse_entries(given))) == expected


class TestUserSpeaksFirst:
    def test_an_opening_is_put_before_a_greeting_or_a_call(self):
        assert mended(UserSpeaksFirst(), "S A U") == "S U* A U"
        assert mended(UserSpeaksFirst(), "A(c1) T(c1)") == "U* A(c1) T(c1)"

    def test_the_opening_tells_whether_messages_were_left_out(self):
        profile, given = get_profile("core"), parse_entries("S A U")
        assert profile.repair(given)[1].content == "[Start of the conversation.]"
        opened = profile.repair(given, earlier=True)
        assert opened[1].content == "[Earlier messages are not shown.]"
        assert profile.repair(opened, earlier=True) is opened

    def test_the_culprit_is_named(self):
        (found,) = UserSpeaksFirst().find(parse_entries("S A U"))
        assert (found.index, found.rule) == (1, "P3")
        assert "user" in found.error

    @pytest.mark.parametrize("given", ["", "S", "U A", "S U"])
    def test_a_conversation_that_opens_with_the_user_is_left_alone(self, given):
        assert UserSpeaksFirst().find(parse_entries(given)) == []


class TestRequestEndsOnUserOrTool:
    def test_an_answer_is_followed_by_a_marked_question(self):
        assert mended(RequestEndsOnUserOrTool(), "U A") == "U A U*"

    @pytest.mark.parametrize("given", ["", "U", "U A(c1) T(c1)"])
    def test_a_request_that_ends_on_user_or_tool_is_left_alone(self, given):
        assert RequestEndsOnUserOrTool().find(parse_entries(given)) == []


class TestRolesAlternate:
    def test_users_are_merged_word_for_word(self):
        given = entries([user("one"), user("two"), user("three")])
        (merged,) = RolesAlternate().repair(given)
        assert merged.content == "one\n\ntwo\n\nthree"
        assert merged.metadata["merged"] == given[1:]
        assert merged.root is given[0]

    def test_pictures_survive_a_merge(self):
        given = entries([user("look"), user([{"type": "text", "text": "at"}, PICTURE])])
        (merged,) = RolesAlternate().repair(given)
        assert [part.kind for part in merged.parts] == ["text", "text", "image"]
        assert merged.content == "look\nat"

    def test_text_joins_the_call_after_it(self):
        given = entries([user(), assistant("let me see"), call("c1"), result("c1")])
        repaired = RolesAlternate().repair(given)
        assert show(repaired) == "U A+(c1) T(c1)"
        assert repaired[1].root is given[2]
        assert repaired[1].metadata["merged"] == [given[1]]

    def test_thoughts_survive_a_merge(self):
        given = entries(
            [user(), assistant("a", reasoning_content="x"), assistant("b", reasoning_content="y")]
        )
        assert [block.text for block in RolesAlternate().repair(given)[1].reasoning] == ["x", "y"]

    def test_a_bridge_stands_between_result_and_user(self):
        repaired = RolesAlternate().repair(parse_entries("U A(c1) T(c1) U"))
        assert show(repaired) == "U A(c1) T(c1) A* U"
        assert (repaired[3].origin, repaired[3].action) == ("bridge", "inserted")

    def test_each_part_can_be_switched_off(self):
        given = "U U A A A(c1) T(c1) U"
        assert mended(RolesAlternate(users=False), given) == "U U A+(c1) T(c1) A* U"
        assert mended(RolesAlternate(assistants=False), given) == "U A A A(c1) T(c1) A* U"
        assert mended(RolesAlternate(bridges=False), given) == "U A+(c1) T(c1) U"
