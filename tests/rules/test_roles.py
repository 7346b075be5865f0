"""P1 to P5: system first, roles alternate, allowed first and last message."""

from __future__ import annotations

import pytest

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
LOOP = "U U A A A(c1) T(c1) U"


@pytest.mark.parametrize(
    ("rule", "given", "expected"),
    [
        (SomeUserSpeaks(), "", "U*"),
        (SomeUserSpeaks(), "S", "S U*"),
        (SomeUserSpeaks(), "S A", "S A U*"),
        (SomeUserSpeaks(), "U~", "U~ U*"),
        (SomeUserSpeaks(), "A(c1) T(c1)", "A(c1) T(c1) U*"),
        (OneSystemEntryLeads(), "S U A S U", "S U A U"),
        (OneSystemEntryLeads(), "U S A", "S U A"),
        (OneSystemEntryLeads(later="demote"), "S U A S U", "S U A U* U"),
        (OneSystemEntryLeads(run=True), "S S U A S U", "S S S U A U"),
        (OneSystemEntryLeads(later="stay"), "S U S U A U", "S U U S A U"),
        (OneSystemEntryLeads(later="stay"), "S U A S S", "S U A U* U*"),
        (OneSystemEntryLeads(later="stay"), "S U A S U S", "S U A U S"),
        (UserSpeaksFirst(), "S A U", "S U* A U"),
        (UserSpeaksFirst(), "A(c1) T(c1)", "U* A(c1) T(c1)"),
        (RequestEndsOnUserOrTool(), "U A", "U A U*"),
        (RolesAlternate(), "U A(c1) T(c1) U", "U A(c1) T(c1) A* U"),
        (RolesAlternate(users=False), LOOP, "U U A+(c1) T(c1) A* U"),
        (RolesAlternate(assistants=False), LOOP, "U A A A(c1) T(c1) A* U"),
        (RolesAlternate(bridges=False), LOOP, "U A+(c1) T(c1) U"),
    ],
)
def test_a_violation_is_found_and_repaired(rule, given, expected):
    broken = parse_entries(given)
    assert {each.rule for each in rule.find(broken)} == {rule.code}
    repaired = rule.repair(broken)
    assert rule.find(repaired) == []
    assert show(repaired) == expected


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        (SomeUserSpeaks(), "U A A"),
        (OneSystemEntryLeads(), "S U A U"),
        (OneSystemEntryLeads(run=True), "S S U A U"),
        (OneSystemEntryLeads(later="stay"), "S U S A U"),
        (UserSpeaksFirst(), ""),
        (UserSpeaksFirst(), "S"),
        (UserSpeaksFirst(), "S U A"),
        (RequestEndsOnUserOrTool(), ""),
        (RequestEndsOnUserOrTool(), "U A(c1) T(c1)"),
        (RolesAlternate(), "U A(c1) T(c1) A U"),
    ],
)
def test_a_sound_conversation_is_left_alone(rule, given):
    sound = parse_entries(given)
    assert rule.find(sound) == []
    assert all(new is old for new, old in zip(rule.repair(sound), sound, strict=True))


def test_a_picture_is_something_said():
    assert SomeUserSpeaks().find(entries([user([PICTURE])])) == []


def test_leading_system_messages_are_merged_and_name_what_went_into_them():
    given = entries([system("one"), system("two"), user()])
    first, asked = OneSystemEntryLeads().repair(given)
    assert (first.content, first.action) == ("one\n\ntwo", "merged")
    assert first.metadata["merged"] == [given[1]]
    assert asked is given[2]


def test_demoting_keeps_the_prefix_and_is_not_the_users_word():
    given = parse_entries("S U A S U")
    repaired = OneSystemEntryLeads(later="demote").repair(given)
    assert repaired[:3] == given[:3]
    assert not repaired[3].is_real_user


class TestMerging:
    def test_users_are_merged_word_for_word(self):
        given = entries([user("one"), user("two"), user("three")])
        (merged,) = RolesAlternate().repair(given)
        assert merged.content == "one\n\ntwo\n\nthree"
        assert merged.metadata["merged"] == given[1:]
        assert merged.root is given[0]

    def test_pictures_and_thoughts_survive(self):
        given = entries([user("look"), user([{"type": "text", "text": "at"}, PICTURE])])
        (merged,) = RolesAlternate().repair(given)
        assert [part.kind for part in merged.parts] == ["text", "text", "image"]
        assert merged.content == "look\nat"
        thoughts = [assistant("a", reasoning_content="x"), assistant("b", reasoning_content="y")]
        (merged,) = RolesAlternate().repair(entries(thoughts))
        assert [block.text for block in merged.reasoning] == ["x", "y"]

    def test_text_joins_the_call_after_it(self):
        given = entries([user(), assistant("let me see"), call("c1"), result("c1")])
        repaired = RolesAlternate().repair(given)
        assert show(repaired) == "U A+(c1) T(c1)"
        assert repaired[1].root is given[2]
