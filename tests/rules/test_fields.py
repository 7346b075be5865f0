"""P8 to P12: names, arguments, blanks, keys and images."""

from __future__ import annotations

import pytest

from history_curator.entries import ContentPart, ConversationEntry, MessageRole
from history_curator.rules.content import ImagesFit, MessagesAreWellFormed, NothingIsBlank
from history_curator.rules.tools import ToolNamesAreAccepted
from history_curator.testing import parse_entries, show
from tests.support.messages import assistant, call, entries, result, system, user


def picture(side=None, role=MessageRole.USER):
    return ConversationEntry(role, parts=(ContentPart("image", width=side, height=side),))


class TestNames:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ("look up", "look_up"),
            ("1st", "_1st"),
            ("", "unknown_tool"),
            ("n" * 80, "n" * 64),
            ("näme", "n_me"),
        ],
    )
    def test_odd_names_become_identifiers_on_both_sides(self, given, expected):
        rule = ToolNamesAreAccepted()
        repaired = rule.repair(entries([call("c1", name=given), result("c1", name=given)]))
        assert repaired[0].tool_calls[0].name == repaired[1].tool_name == expected
        assert rule.find(repaired) == []

    def test_a_result_takes_the_name_of_its_call_unless_it_has_none(self):
        rule = ToolNamesAreAccepted()
        given = entries([call("c1", name="look"), result("c1", name="see")])
        assert [each.index for each in rule.find(given)] == [1]
        assert rule.repair(given)[1].tool_name == "look"
        nameless = entries([call("c1"), result("c1")])
        assert rule.repair(nameless) == nameless

    def test_author_names_are_checked_where_asked(self):
        given = entries([user(name="Ada Lovelace")])
        assert ToolNamesAreAccepted().find(given) == []
        assert ToolNamesAreAccepted(authors=True).repair(given)[0].name == "Ada_Lovelace"


class TestBlanks:
    def test_an_entry_without_words_goes(self):
        assert show(NothingIsBlank().repair(parse_entries("S~ U~ A~ U A"))) == "U A"

    def test_blank_text_beside_calls_goes_but_an_empty_string_is_how_frameworks_write_none(self):
        (repaired,) = NothingIsBlank().repair(parse_entries("A~(c1)"))
        assert repaired.content is None
        assert repaired.tool_calls
        assert NothingIsBlank().find(entries([call("c1", text="")])) == []

    def test_a_blank_block_goes_and_its_neighbours_stay(self):
        image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
        blocks = [{"type": "text", "text": " "}, image, {"type": "text", "text": "this"}]
        (repaired,) = NothingIsBlank().repair(entries([user(blocks)]))
        assert [part.kind for part in repaired.parts] == ["image", "text"]

    def test_a_spoken_answer_is_not_blank(self):
        assert NothingIsBlank().find(entries([assistant(None, audio={"id": "a1"})])) == []


class TestForm:
    @pytest.mark.parametrize(
        "message",
        [
            assistant(tool_calls=[]),
            user(tool_calls=[{"id": "c1"}]),
            user(timestamp=1),
            system() | {"location": "here"},
        ],
    )
    def test_stray_keys_go_and_the_message_given_stays_as_it_was(self, message):
        before = dict(message)
        rule = MessagesAreWellFormed()
        given = entries([message])
        assert len(rule.find(given)) == 1
        repaired = rule.repair(given)
        assert rule.find(repaired) == []
        assert set(repaired[0].source) == {"role", "content"}
        assert message == before

    def test_the_same_call_twice_is_one_call(self):
        assert show(MessagesAreWellFormed().repair(parse_entries("U A(c1,c1)"))) == "U A(c1)"


class TestImages:
    @pytest.mark.parametrize(
        ("rule", "pictures", "removed"),
        [
            (ImagesFit(max_images=2), [picture() for _ in range(4)], 2),
            (ImagesFit(max_side=100), [picture(101), picture(100), picture(None)], 1),
            (ImagesFit(crowd=1, crowded_side=9), [picture(10), picture(9)], 1),
            (ImagesFit(), [picture(role=MessageRole.TOOL), picture()], 1),
            (ImagesFit(roles=(MessageRole.TOOL,)), [picture(role=MessageRole.TOOL)], 0),
        ],
    )
    def test_images_beyond_number_size_or_role_are_removed(self, rule, pictures, removed):
        assert len(rule.find(pictures)) == removed
        shown = [entry.content for entry in rule.repair(pictures)]
        assert shown == ["[image removed]"] * removed + [None] * (len(pictures) - removed)

    def test_the_text_beside_an_image_stays(self):
        parts = (ContentPart("text", "see"), ContentPart("image", width=9000, height=1))
        (repaired,) = ImagesFit().repair([ConversationEntry(MessageRole.USER, "see", parts=parts)])
        assert repaired.content == "see\n[image removed]"
