"""Identifiers: what is taken from an entry, and in which order."""

from __future__ import annotations

import json

from history_curator.entries import ConversationEntry, MessageRole, ToolCall
from history_curator.window.identifiers import Mentions, find_identifiers, rank_identifiers


def called(arguments: str) -> ConversationEntry:
    return ConversationEntry(MessageRole.ASSISTANT, tool_calls=(ToolCall("c1", "t", arguments),))


def result(text: str) -> ConversationEntry:
    return ConversationEntry(MessageRole.TOOL, text, tool_call_id="c1")


def names(entry: ConversationEntry) -> list[str]:
    found = find_identifiers(entry)
    return [value for _, value in (*found.used, *found.found)]


class TestIdentifiersOf:
    def test_argument_values_at_any_depth(self) -> None:
        arguments = {"path": "a/b.py", "options": [{"id": "user_17"}, 60000], "flag": True}
        assert names(called(json.dumps(arguments))) == ["a/b.py", "user_17", "60000"]

    def test_malformed_arguments_give_none(self) -> None:
        assert names(called('{"path": ')) == []

    def test_long_or_many_line_values_are_not_identifiers(self) -> None:
        assert names(called(json.dumps({"a": "x" * 500, "b": "one\ntwo"}))) == []

    def test_paths_ids_mails_and_numbers_in_results(self) -> None:
        text = "see src/app.py, order #W5565470, ann_lee_1234@example.com and 1234567 of 12"
        assert names(result(text)) == ["src/app.py", "#W5565470", "ann_lee_1234@example.com"]

    def test_a_value_stands_under_its_key_or_its_tool(self) -> None:
        text = json.dumps(
            {"item_id": 4421337, "address1": "12 Main", "total": 120000, "size": "a/b"}
        )
        assert find_identifiers(result(text)).found == (("item_id", "4421337"),)
        called_for = called(json.dumps({"order": {"id": "#W1"}, "timeout": 120000}))
        assert find_identifiers(called_for).used == (("timeout", "120000"),)
        log = ConversationEntry(MessageRole.TOOL, "see src/a.py", tool_name="grep")
        assert find_identifiers(log).found == (("grep", "src/a.py"),)

    def test_words_with_a_slash_and_tags_are_no_identifiers(self) -> None:
        assert names(result("rear/front and/or <b1> </div>")) == []

    def test_the_number_taken_from_one_entry_is_bounded(self) -> None:
        listing = "\n".join(f"dir/file{n}.py" for n in range(10_000))
        assert len(names(result(listing))) == 100

    def test_a_giant_without_a_break_is_read_in_time(self) -> None:
        assert names(result("a/" * 200_000)) == []
        assert names(result("a1" * 200_000)) == []


class TestRanking:
    def test_an_argument_counts_more_than_a_find(self) -> None:
        ranked = rank_identifiers([Mentions((("path", "used.py"),), (("grep", "found.py"),))])
        assert ranked == [("path", "used.py"), ("grep", "found.py")]

    def test_later_and_oftener_count_more(self) -> None:
        said = ["old.py"], [], ["new.py"], ["often.py"], ["often.py"]
        mentions = [Mentions(tuple(("path", name) for name in names)) for names in said]
        ranked = [value for _, value in rank_identifiers(mentions)]
        assert ranked == ["often.py", "new.py", "old.py"]

    def test_a_key_whose_values_come_again_counts_more(self) -> None:
        said = [(("path", "a.py"), ("text", f"once {n}")) for n in range(4)]
        assert rank_identifiers([Mentions(each) for each in said])[0] == ("path", "a.py")
