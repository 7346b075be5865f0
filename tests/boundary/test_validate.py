"""Validation beyond the required cases, which docs/specification.md lists and runs."""

from __future__ import annotations

import copy
from datetime import datetime, timezone
from typing import Any

import pytest

from history_curator.boundary import (
    HistoryLimits,
    ValidatedHistory,
    format_history,
    sanitize_history,
    validate_history,
)
from history_curator.errors import HistoryValidationError
from tests.boundary.factories import TIME, dialogue, said

NOW = datetime(2025, 10, 29, 14, 0, tzinfo=timezone.utc)
USER_FIRST = HistoryLimits.user_first()
BIG = [said("assistant", f"{number} " + "z" * 2_000) for number in range(10)]


def validate(history: Any, limits: HistoryLimits | None = None) -> ValidatedHistory:
    """Validate, and hold the promise that the given history is not changed."""
    before = copy.deepcopy(history)
    try:
        return validate_history(history, limits, now=NOW)
    finally:
        assert history == before


def codes(result: ValidatedHistory) -> list[str]:
    return [warning.code for warning in result.warnings]


def contents(result: ValidatedHistory) -> list[str]:
    return [message["content"] for message in result.messages or ()]


class TestTimestamps:
    @pytest.mark.parametrize(
        ("timestamp", "code"),
        [
            *((missing, "missing_timestamp") for missing in (None, "")),
            *((word, "invalid_timestamp") for word in ("yesterday", "29/10/2025", "-12")),
            *((2025, "invalid_timestamp"), (["2025-10-29"], "invalid_timestamp")),
            *((f"2025-{rest}:00:00", "invalid_timestamp") for rest in ("13-01T00", "10-29T25")),
        ],
    )
    def test_none_or_a_wrong_one_becomes_the_current_time(self, timestamp: Any, code: str) -> None:
        result = validate([said("user", "a", timestamp), said("assistant", "b")])
        assert [one["timestamp"] for one in result.records] == [NOW.isoformat(), TIME]
        assert codes(result) == [code]
        assert result.warnings[0].field == "conversation_history[0].timestamp"

    @pytest.mark.parametrize(
        "time",
        ["T13:30:00Z", "T13:30:00.5Z", "T13:30:00.123456789+02:00", "T13:30:00-0500", " 13:30", ""],
    )
    def test_iso_8601_is_kept_as_written(self, time: str) -> None:
        result = validate([said("user", "a", f"2025-10-29{time}")])
        assert result.warnings == ()
        assert result.records[0]["timestamp"] == f"2025-10-29{time}"


class TestLength:
    @pytest.mark.parametrize(
        ("role", "soft", "hard"), [("user", 150, 300), ("assistant", 8_192, 16_384)]
    )
    def test_long_messages_are_shortened_and_far_too_long_ones_refused(
        self, role: str, soft: int, hard: int
    ) -> None:
        assert validate([said(role, "x" * soft)]).warnings == ()
        result = validate([said(role, "x" * hard)])
        assert contents(result) == ["x" * soft + "... [truncated]"]
        assert codes(result) == ["long_message"]
        assert f"from {hard} to {soft + 15}" in result.warnings[0].message
        with pytest.raises(HistoryValidationError, match=f"hard limit of {hard}") as caught:
            validate([said("assistant", "fine"), said(role, "x" * (hard + 1))])
        assert caught.value.field == "conversation_history[1].content"
        assert caught.value.value == f"{hard + 1} characters"

    def test_white_space_is_removed_unless_users_come_first(self) -> None:
        history = [said("user", "  indented\n")]
        assert contents(validate(history)) == ["indented"]
        assert contents(validate(history, USER_FIRST)) == ["  indented\n"]


class TestTotal:
    def test_the_oldest_messages_are_left_out_until_the_rest_fits(self) -> None:
        result = validate(BIG)
        assert codes(result) == ["total_size"]
        assert "Kept last 7 of 10" in result.warnings[0].message
        texts = contents(result)
        assert texts[0].startswith("... (earlier messages omitted for brevity)\n\n3 ")
        assert result.messages is not None
        assert result.messages[1:] == BIG[4:]
        assert sum(sum(map(len, one.values())) + 10 for one in result.messages) <= 15_360

    @pytest.mark.parametrize(("count", "left"), [(8, 5), (4, 4)])
    def test_the_last_five_are_always_kept(self, count: int, left: int) -> None:
        result = validate([said("assistant", "z" * 8_000) for _ in range(count)])
        assert codes(result) == ["total_size"]
        assert "still" in result.warnings[0].message
        assert len(contents(result)) == left
        assert contents(result)[0].startswith("...") is (left < count)


class TestErrors:
    @pytest.mark.parametrize(
        ("message", "field", "problem"),
        [
            ("b", "", "must be a dictionary"),
            ({"content": "x"}, "", "index 3 missing required field 'role'"),
            ({"role": "user"}, "", "index 3 missing required field 'content'"),
            ({"timestamp": TIME}, "", "'role' and 'content'"),
            (said("user", {"text": "a"}), ".content", "must be text"),
            *[
                (said(role, "hello"), ".role", r"one of user\|assistant\|orchestrator \(got")
                for role in ("system", "tool", "", "users", None, 3)
            ],
        ],
    )
    def test_a_critical_error_names_the_field(self, message: Any, field: str, problem: str) -> None:
        with pytest.raises(HistoryValidationError, match=problem) as caught:
            validate([*dialogue(3), message])
        assert caught.value.field == f"conversation_history[3]{field}"
        kind = {".role": "invalid_value", ".content": "type_error"}.get(field, "missing_field")
        assert caught.value.error_type == ("type_error" if message == "b" else kind)

    def test_the_index_is_the_callers_and_the_field_can_be_named(self) -> None:
        with pytest.raises(HistoryValidationError, match=r"^chat\[59\]\.role"):
            validate_history([*dialogue(59), said("system", "x")], field="chat")


def test_validated_messages_pass_again_unchanged() -> None:
    first = validate([said("assistant", "q" * 9_000), said("user", "x" * 200)])
    assert validate(first.messages).messages == first.messages


class TestAttachments:
    """Only text is passed on; what else a message holds is reported, never lost in silence."""

    CODE = {"type": "code", "language": "python", "content": "print(1)"}  # noqa: RUF012
    IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}  # noqa: RUF012

    @pytest.mark.parametrize("attachments", [[CODE], "code", CODE, [1]])
    def test_attachments_are_left_out_with_a_warning(self, attachments: Any) -> None:
        given = [{**said("user", "Fix this code"), "attachments": attachments}]
        result = validate(given)
        assert result.messages == [said("user", "Fix this code")]
        assert codes(result) == ["attachments"]

    def test_text_blocks_are_joined_and_others_are_left_out(self) -> None:
        blocks = [{"type": "text", "text": "see"}, "this", self.IMAGE]
        result = validate([said("user", blocks), said("user", [self.IMAGE])])
        assert contents(result) == ["see\nthis"]
        assert codes(result) == ["attachments", "attachments", "empty_content"]

    def test_deeply_nested_data_does_no_harm(self) -> None:
        nested: list[Any] = []
        for _ in range(5_000):
            nested = [nested]
        message = {**said("user", "a"), "attachments": [{"type": "code", "content": nested}]}
        assert contents(validate_history([message])) == ["a"]
        assert "    a" in format_history([message])
        with pytest.raises(HistoryValidationError, match="nested too deeply"):
            sanitize_history([message])

    def test_a_stateless_request_reports_attachments_it_leaves_out(self) -> None:
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


def test_the_task_context_compares_moments_not_text() -> None:
    times = ["2025-10-29T12:00:00+05:00", "2025-10-29T08:00:00Z", "2025-10-29T09:30:00"]
    stored = validate([said("user", "x", time) for time in times]).to_task_context()
    assert stored["total_messages"] == 3
    assert stored["metadata"] == {
        "collection_time": NOW.isoformat(),
        "oldest_message": times[0],
        "newest_message": times[2],
    }
