"""The fourteen required cases of the validation rules, one test each."""

from __future__ import annotations

import copy
from datetime import datetime, timezone
from typing import Any

import pytest

from history_curator.boundary import (
    HistoryLimits,
    ValidatedHistory,
    sanitize_history,
    validate_history,
)
from history_curator.errors import HistoryValidationError
from tests.boundary.factories import TIME, dialogue, said

NOW = datetime(2025, 10, 29, 14, 0, tzinfo=timezone.utc)


def validate(history: Any, limits: HistoryLimits | None = None) -> ValidatedHistory:
    """Validate, and hold the promise that what was given is not changed."""
    before = copy.deepcopy(history)
    try:
        return validate_history(history, limits, now=NOW)
    finally:
        assert history == before


def codes(result: ValidatedHistory) -> list[str]:
    return [warning.code for warning in result.warnings]


def test_01_valid_conversation_history_with_all_fields() -> None:
    history = [said("user", "hello"), said("assistant", "hi there")]
    result = validate(history)
    assert result.messages == history
    assert result.messages is not None
    assert result.messages[0] is not history[0]
    assert result.warnings == ()


class Test02HistoryWithMissingTimestamps:
    @pytest.mark.parametrize("timestamp", [None, ""])
    def test_02_history_with_missing_timestamps_is_auto_fixed(self, timestamp: Any) -> None:
        result = validate([said("user", "a", timestamp), said("assistant", "b")])
        assert result.messages is not None
        assert result.messages[0]["timestamp"] == NOW.isoformat()
        assert result.messages[1]["timestamp"] == TIME
        assert codes(result) == ["missing_timestamp"]
        assert result.warnings[0].field == "conversation_history[0].timestamp"

    def test_field_absent(self) -> None:
        result = validate([{"role": "user", "content": "a"}])
        assert codes(result) == ["missing_timestamp"]


class Test03HistoryWithInvalidTimestamps:
    @pytest.mark.parametrize(
        "timestamp",
        ["yesterday", "2025-13-01T00:00:00", "29/10/2025", 1761744600, "2025-10-29T25:00:00", []],
    )
    def test_03_history_with_invalid_timestamps_is_auto_fixed(self, timestamp: Any) -> None:
        if timestamp == []:
            timestamp = ["2025-10-29"]
        result = validate([said("user", "a", timestamp)])
        assert result.messages is not None
        assert result.messages[0]["timestamp"] == NOW.isoformat()
        assert codes(result) == ["invalid_timestamp"]

    @pytest.mark.parametrize(
        "timestamp",
        [
            "2025-10-29T13:30:00Z",
            "2025-10-29T13:30:00.5Z",
            "2025-10-29T13:30:00.123456789+02:00",
            "2025-10-29T13:30:00-0500",
            "2025-10-29 13:30",
            "2025-10-29",
            "20251029T133000Z",
            "20251029T133000.5+0200",
            "20251029T1330",
            "20251029T13",
            "20251029",
            "2025-W44-3",
            "2025W443T133000Z",
        ],
    )
    def test_every_iso_form_is_kept_as_written(self, timestamp: str) -> None:
        result = validate([said("user", "a", timestamp)])
        assert result.warnings == ()
        assert result.messages is not None
        assert result.messages[0]["timestamp"] == timestamp


def test_04_history_with_too_many_messages() -> None:
    history = dialogue(60)
    result = validate(history)
    assert result.messages == history[-50:]
    assert codes(result) == ["too_many_messages"]
    assert "60 > 50" in result.warnings[0].message
    assert result.given == 60


def test_04_messages_beyond_the_limit_are_not_looked_at() -> None:
    history = [{"role": "nonsense"}, *dialogue(50)]
    assert len(validate(history).messages or ()) == 50


class Test05HistoryWithExcessivelyLongUserMessage:
    def test_05_history_with_excessively_long_user_message(self) -> None:
        result = validate([said("user", "x" * 151)])
        assert result.messages is not None
        assert result.messages[0]["content"] == "x" * 150 + "... [truncated]"
        assert codes(result) == ["long_message"]
        assert "from 151 to 165" in result.warnings[0].message

    def test_at_the_limit_is_kept(self) -> None:
        assert validate([said("user", "x" * 150)]).warnings == ()

    def test_over_the_hard_limit_is_refused(self) -> None:
        assert len(validate([said("user", "x" * 300)]).warnings) == 1
        with pytest.raises(HistoryValidationError, match="hard limit of 300") as caught:
            validate([said("assistant", "fine"), said("user", "x" * 301)])
        assert caught.value.field == "conversation_history[1].content"
        assert caught.value.value == "301 characters"


class Test06HistoryWithExcessivelyLongAssistantMessage:
    def test_06_history_with_excessively_long_assistant_message(self) -> None:
        result = validate([said("assistant", "y" * 9_000)])
        assert result.messages is not None
        assert result.messages[0]["content"] == "y" * 8_192 + "... [truncated]"
        assert codes(result) == ["long_message"]

    def test_over_the_hard_limit_is_refused(self) -> None:
        with pytest.raises(HistoryValidationError, match="hard limit of 16384"):
            validate([said("assistant", "y" * 16_385)])


class Test07HistoryExceeding15KBTotal:
    def test_07_history_exceeding_15kb_total(self) -> None:
        history = [said("assistant", f"{number} " + "z" * 2_000) for number in range(10)]
        result = validate(history)
        messages = result.messages
        assert messages is not None
        assert codes(result) == ["total_size"]
        assert "Kept last 7 of 10" in result.warnings[0].message
        assert messages[0]["content"].startswith("... (earlier messages omitted for brevity)\n\n3 ")
        assert messages[1:] == history[4:]
        sizes = [sum(map(len, message.values())) + 10 for message in messages]
        assert sum(sizes) <= 15_360

    def test_the_last_five_are_always_kept(self) -> None:
        history = [said("assistant", "z" * 8_000) for _ in range(8)]
        result = validate(history)
        assert len(result.messages or ()) == 5
        assert "still" in result.warnings[0].message

    def test_no_indicator_when_nothing_could_be_dropped(self) -> None:
        history = [said("assistant", "z" * 8_000) for _ in range(4)]
        result = validate(history)
        assert result.messages == history
        assert codes(result) == ["total_size"]


@pytest.mark.parametrize("role", ["system", "tool", "", "users", None, 3])
def test_08_history_with_invalid_roles(role: Any) -> None:
    history = [*dialogue(3), said(role, "hello")]
    with pytest.raises(HistoryValidationError, match="Role must be one of") as caught:
        validate(history)
    assert caught.value.field == "conversation_history[3].role"


def test_08_roles_are_normalised() -> None:
    messages = validate([said(" USER ", "a"), said("Assistant", "b")]).messages
    assert [message["role"] for message in messages or ()] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"content": "x"}, "'role'"),
        ({"role": "user"}, "'content'"),
        ({"timestamp": TIME}, "'role' and 'content'"),
    ],
)
def test_09_history_with_missing_required_fields(message: dict[str, Any], named: str) -> None:
    with pytest.raises(HistoryValidationError, match=named) as caught:
        validate([message])
    assert caught.value.field == "conversation_history[0]"
    assert caught.value.value == list(message)


@pytest.mark.parametrize("content", ["", "   \n", None])
def test_10_history_with_empty_messages(content: Any) -> None:
    history = [said("user", "a"), said("assistant", content), said("user", "b")]
    result = validate(history)
    assert result.messages == [history[0], history[2]]
    assert codes(result) == ["empty_content"]
    assert result.warnings[0].field == "conversation_history[1].content"


def test_11_edge_case_single_very_long_message() -> None:
    history = [said("assistant", "w" * 16_384)]
    result = validate(history)
    assert result.messages is not None
    assert len(result.messages) == 1
    assert result.messages[0]["content"].endswith("... [truncated]")
    with pytest.raises(HistoryValidationError, match="hard limit"):
        validate([said("assistant", "w" * 1_000_000)])


def test_12_edge_case_empty_list() -> None:
    result = validate([])
    assert result.messages is None
    assert result.warnings == ()


def test_13_edge_case_none_value() -> None:
    result = validate(None)
    assert result.messages is None
    assert result.warnings == ()


def test_14_edge_case_all_messages_invalid_returns_none() -> None:
    result = validate([said("user", " "), said("assistant", "")])
    assert result.messages is None
    assert codes(result) == ["empty_content", "empty_content", "all_filtered"]
    assert result.entries == []


class TestCriticalErrors:
    @pytest.mark.parametrize("history", ["text", {"role": "user"}, 3, ({"role": "user"},)])
    def test_not_a_list(self, history: Any) -> None:
        with pytest.raises(HistoryValidationError, match="Must be a list") as caught:
            validate(history)
        assert caught.value.field == "conversation_history"
        assert caught.value.value == type(history).__name__

    def test_message_is_not_a_dict(self) -> None:
        with pytest.raises(HistoryValidationError, match="must be a dictionary") as caught:
            validate([said("user", "a"), "b"])
        assert caught.value.field == "conversation_history[1]"

    def test_content_is_not_text(self) -> None:
        with pytest.raises(HistoryValidationError, match="must be text") as caught:
            validate([said("user", {"text": "a"})])
        assert caught.value.field == "conversation_history[0].content"

    def test_index_is_the_callers(self) -> None:
        with pytest.raises(HistoryValidationError) as caught:
            validate([*dialogue(59), said("system", "x")])
        assert caught.value.field == "conversation_history[59].role"

    def test_field_can_be_named(self) -> None:
        with pytest.raises(HistoryValidationError, match=r"^chat\[0\]\.role"):
            validate_history([said("nobody", "x")], field="chat")


def test_several_warnings_at_once_each_with_advice() -> None:
    history = [said("user", "x" * 200, None), said("assistant", ""), *dialogue(55)]
    history[10]["timestamp"] = "soon"
    history[11]["content"] = "  "
    result = validate(history)
    assert codes(result) == ["too_many_messages", "invalid_timestamp", "empty_content"]
    assert all(warning.suggestion for warning in result.warnings)
    assert {warning.severity for warning in result.warnings} <= {"low", "medium", "high"}


def test_validated_messages_pass_again_unchanged() -> None:
    first = validate([said("assistant", "q" * 9_000), said("user", "x" * 200)])
    again = validate(first.messages)
    assert again.messages == first.messages


class TestAttachments:
    """Kept with their message, or reported; never lost in silence."""

    CODE = {"type": "code", "language": "python", "content": "print(1)"}  # noqa: RUF012
    IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}  # noqa: RUF012

    def test_are_kept_as_copies(self) -> None:
        given = {**said("user", "Fix this code"), "attachments": [self.CODE]}
        result = validate([given])
        assert result.warnings == ()
        assert result.messages is not None
        assert result.messages[0]["attachments"] == [self.CODE]
        assert result.to_task_context()["messages"][0]["attachments"] == [self.CODE]
        result.messages[0]["attachments"][0]["content"] = "changed"
        result.records[0].attachments[0]["content"] = "changed"
        assert self.CODE["content"] == "print(1)"
        assert result.entries[0].content == (
            "Fix this code\n[attachment: code, python, 7 characters]"
        )

    def test_blocks_that_are_not_text_are_attachments(self) -> None:
        result = validate([said("user", [{"type": "text", "text": "see"}, "this", self.IMAGE])])
        assert result.warnings == ()
        assert result.records[0].content == "see\nthis"
        assert result.records[0].attachments == (self.IMAGE,)

    def test_a_message_of_attachments_alone_is_not_empty(self) -> None:
        result = validate([said("user", [self.IMAGE])])
        assert result.records[0].attachments == (self.IMAGE,)

    def test_count_towards_the_total(self) -> None:
        big = {"type": "code", "content": "x" * 20_000}
        history = [{**said("user", "old"), "attachments": [big]}]
        history += [said("user", str(number)) for number in range(6)]
        assert [one.index for one in validate(history).records] == [1, 2, 3, 4, 5, 6]

    @pytest.mark.parametrize("wrong", ["code", {"type": "code"}, [1, "x"]])
    def test_malformed_ones_are_reported(self, wrong: Any) -> None:
        result = validate([{**said("user", "a"), "attachments": wrong}])
        assert codes(result) == ["malformed_attachments"]
        assert result.records[0].attachments == ()

    def test_a_stateless_request_reports_what_it_leaves_out(self) -> None:
        history = [
            {"role": "user", "content": "a", "attachments": [self.CODE]},
            {"role": "assistant", "content": [{"type": "text", "text": "b"}, self.IMAGE]},
        ]
        result = sanitize_history({"prompt": "next", "history": history})
        assert [one["content"] for one in result.messages] == ["a", "b", "next"]
        assert [(one.field, one.code) for one in result.warnings] == [
            ("history[0]", "attachments"),
            ("history[1]", "attachments"),
        ]
