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
    return [*found.used, *found.found]


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
        expected = ["src/app.py", "#W5565470", "ann_lee_1234@example.com", "1234567"]
        assert names(result(text)) == expected

    def test_prose_gives_none(self) -> None:
        assert names(result("the weather is fine and nothing happened today")) == []

    def test_the_number_taken_from_one_entry_is_bounded(self) -> None:
        listing = "\n".join(f"dir/file{n}.py" for n in range(10_000))
        assert len(names(result(listing))) == 100

    def test_a_giant_without_a_break_is_read_in_time(self) -> None:
        assert names(result("a/" * 200_000)) == []
        assert names(result("a1" * 200_000)) == []


class TestRanking:
    def test_an_argument_counts_more_than_a_find(self) -> None:
        ranked = rank_identifiers([Mentions(used=("used.py",), found=("found.py",))])
        assert ranked == ["used.py", "found.py"]

    def test_later_and_oftener_count_more(self) -> None:
        said = ["old.py"], [], ["new.py"], ["often.py"], ["often.py"]
        mentions = [Mentions(used=tuple(names)) for names in said]
        assert rank_identifiers(mentions) == ["often.py", "new.py", "old.py"]
