from __future__ import annotations

import pytest

from history_curator.errors import ConversionError
from history_curator.rules import get_profile
from history_curator.testing import SEQUENCES, parse, parse_entries, show


class TestParse:
    @pytest.mark.parametrize("text", [given for given, _ in SEQUENCES])
    def test_show_reads_off_what_parse_wrote(self, text):
        assert show(parse(text)) == show(parse_entries(text)) == text

    def test_every_text_is_different(self):
        texts = [each["content"] for each in parse("S U A U A(c1) T(c1) T(c1)")]
        spoken = [text for text in texts if text]
        assert len(set(spoken)) == len(spoken) == 6

    def test_marks(self):
        blank, both, bare = parse("U~ A+(c1) A(c1)")
        assert not blank["content"].strip()
        assert both["content"]
        assert both["tool_calls"]
        assert bare["content"] is None

    @pytest.mark.parametrize("text", ["X", "U A(c1", "U(c1)", "T", "T(c1,c2)", "Ux"])
    def test_what_cannot_be_read_is_named(self, text):
        with pytest.raises(ConversionError, match=r"word \d: .* Fix:"):
            parse(text)

    def test_the_entries_are_bound_to_their_messages(self):
        assert all(entry.source for entry in parse_entries("U A"))


class TestShow:
    def test_marks_what_nobody_said_and_what_was_renamed(self):
        repaired = get_profile("portable").repair(parse_entries("U A(c1) T(c1) A(c1) U"))
        assert show(repaired) == "U A(c1) T(c1) A(c1') T*(c1') A* U"

    def test_langchain_messages(self):
        messages = pytest.importorskip("langchain_core.messages")
        call = {"id": "c1", "name": "look", "args": {}}
        given = [
            messages.HumanMessage("hi"),
            messages.AIMessage("", tool_calls=[call]),
            messages.ToolMessage("42", tool_call_id="c1"),
        ]
        assert show(given) == "U A(c1) T(c1)"
