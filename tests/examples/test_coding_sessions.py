"""The script that makes coding sessions."""

from __future__ import annotations

from examples.coding_sessions import make_session
from history_curator import check_conversation, count_tokens
from history_curator.lab import LabConversation


def test_a_session_is_long_valid_and_the_same_every_time() -> None:
    messages = make_session(1)
    assert messages == make_session(1) != make_session(2)
    assert count_tokens(messages) > 60_000
    for provider in ("openai", "anthropic"):
        assert check_conversation(messages, provider, tail="history") == []


def test_edits_replace_lines_that_were_read() -> None:
    record = LabConversation("s", make_session(1))
    edits = [call for call in record.calls if "edit_file" in str(record.entries[call].tool_calls)]
    assert len(record.edits) > 0.9 * len(edits) > 20
