"""The required cases of the history schema: user first, storage format, prompt section."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

import pytest

from history_curator.boundary import HistoryLimits, format_history, validate_history
from history_curator.entries import MessageRole
from history_curator.errors import HistoryValidationError
from tests.boundary.factories import said

LIMITS = HistoryLimits.user_first()


def context(messages: list[Any]) -> dict[str, Any]:
    before = copy.deepcopy(messages)
    result = validate_history(messages, LIMITS).to_task_context()
    assert messages == before
    return result


def test_user_message_under_limit_preserved() -> None:
    content = "x" * 200
    result = context([said("user", content)])
    assert result["truncated_count"] == 0
    assert result["messages"][0]["content"] == content
    assert result["messages"][0]["truncated"] is False
    assert result["messages"][0]["original_length"] == 200


def test_user_message_over_limit_keeps_7900_characters() -> None:
    stored = context([said("user", "x" * 9_000)])["messages"][0]
    assert stored["content"] == "x" * 7_900 + " ... (truncated, original: 9000 chars)"
    assert len(stored["content"]) <= 8_000
    assert stored["original_length"] == 9_000


@pytest.mark.parametrize("role", ["assistant", "orchestrator"])
def test_assistant_message_over_limit_truncated(role: str) -> None:
    result = context([said(role, "x" * 500)])
    assert result["truncated_count"] == 1
    assert result["messages"][0]["content"] == "x" * 150 + " ... (truncated)"
    assert result["messages"][0]["truncated"] is True
    assert result["messages"][0]["role"] == role


def test_validation_missing_role() -> None:
    with pytest.raises(HistoryValidationError) as caught:
        validate_history([{"content": "no role"}], LIMITS)
    assert "missing required field 'role'" in str(caught.value)


def test_validation_over_50_messages() -> None:
    messages = [{"role": "user", "content": f"msg {number}"} for number in range(60)]
    result = validate_history(messages, LIMITS)
    assert result.messages is not None
    assert len(result.messages) == 50
    assert any("truncating to most recent 50" in one.message for one in result.warnings)


def test_auto_generate_timestamp() -> None:
    result = validate_history([{"role": "user", "content": "no timestamp"}], LIMITS)
    assert result.messages is not None
    datetime.fromisoformat(result.messages[0]["timestamp"])


def test_format_conversation_history_in_prompt() -> None:
    stored = context(
        [
            said("user", "Help me fix a bug", "2025-10-29T10:00:00"),
            said("assistant", "I will help you debug the issue", "2025-10-29T10:00:15"),
        ]
    )
    prompt = format_history(stored)
    assert "💬 CONVERSATION HISTORY" in prompt
    assert "[1] 👤 User (10:00:00):\n    Help me fix a bug\n" in prompt
    assert "[2] 🤖 Assistant (10:00:15):\n    I will help you debug the issue\n" in prompt
    assert prompt.endswith("📊 History metadata: 2 messages\n")


class TestEdgeCases:
    def test_1_empty_conversation_history(self) -> None:
        result = validate_history([], LIMITS)
        assert result.warnings == ()
        assert format_history(result) == ""

    def test_2_malformed_message(self) -> None:
        with pytest.raises(
            HistoryValidationError, match="index 0 missing required field 'content'"
        ):
            validate_history([{"role": "user"}], LIMITS)

    def test_3_too_many_messages(self) -> None:
        result = validate_history([said("user", f"msg {n}") for n in range(100)], LIMITS)
        assert [one.index for one in result.records] == list(range(50, 100))

    def test_4_invalid_role(self) -> None:
        with pytest.raises(HistoryValidationError, match=r"user\|assistant\|orchestrator"):
            validate_history([said("system", "Invalid role")], LIMITS)

    def test_5_missing_timestamp(self) -> None:
        result = validate_history([{"role": "user", "content": "none"}], LIMITS)
        assert result.records[0].timestamp == result.collected_at.isoformat()

    def test_white_space_of_the_user_is_kept(self) -> None:
        assert context([said("user", "  indented\n")])["messages"][0]["content"] == "  indented\n"

    def test_nothing_is_refused_for_length(self) -> None:
        assert context([said("user", "x" * 1_000_000)])["truncated_count"] == 1


class TestTaskContext:
    def test_metadata_compares_moments_not_text(self) -> None:
        stored = context(
            [
                said("user", "first", "2025-10-29T12:00:00+05:00"),
                said("assistant", "second", "2025-10-29T08:00:00Z"),
                said("user", "third", "2025-10-29T09:30:00"),
            ]
        )
        assert stored["total_messages"] == 3
        assert stored["metadata"]["oldest_message"] == "2025-10-29T12:00:00+05:00"
        assert stored["metadata"]["newest_message"] == "2025-10-29T09:30:00"
        assert datetime.fromisoformat(stored["metadata"]["collection_time"])

    def test_nothing_left(self) -> None:
        stored = validate_history(None).to_task_context()
        assert stored["messages"] == []
        assert stored["metadata"]["oldest_message"] is None

    def test_orchestrator_is_an_assistant_entry_of_that_name(self) -> None:
        entry = validate_history([said("orchestrator", "plan")], LIMITS).entries[0]
        assert (entry.role, entry.name, entry.content) == (
            MessageRole.ASSISTANT,
            "orchestrator",
            "plan",
        )
        assert entry.created_at == datetime.fromisoformat("2025-10-29T13:30:00.123456")
