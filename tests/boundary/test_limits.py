"""Limits: the presets' numbers, and every way to tune them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from history_curator.boundary import HistoryLimits, validate_history
from history_curator.errors import ConfigurationError, HistoryValidationError
from tests.boundary.factories import dialogue, said


class TestPresets:
    def test_assistant_first(self) -> None:
        limits = HistoryLimits.assistant_first()
        assert limits == HistoryLimits()
        assert (limits.max_user_chars, limits.hard_user_chars) == (150, 300)
        assert (limits.max_assistant_chars, limits.hard_assistant_chars) == (8_192, 16_384)
        assert (limits.max_total_chars, limits.max_messages, limits.min_messages) == (15_360, 50, 5)

    def test_user_first(self) -> None:
        limits = HistoryLimits.user_first()
        assert (limits.max_user_chars, limits.max_assistant_chars) == (8_000, 150)
        assert limits.hard_user_chars is None
        assert limits.hard_assistant_chars is None
        assert limits.max_total_chars is None
        assert limits.max_messages == 50

    def test_stateless(self) -> None:
        limits = HistoryLimits.stateless()
        assert (limits.max_messages, limits.warn_messages) == (20, 15)
        assert limits.max_payload_bytes == 100 * 1024
        assert limits.alternate

    @pytest.mark.parametrize("name", ["assistant_first", "user_first", "stateless"])
    def test_each_takes_changes(self, name: str) -> None:
        assert getattr(HistoryLimits, name)(max_messages=18).max_messages == 18
        assert HistoryLimits.preset(name) == getattr(HistoryLimits, name)()

    def test_unknown(self) -> None:
        with pytest.raises(ConfigurationError, match="assistant_first, user_first, stateless"):
            HistoryLimits.preset("fast")


class TestModel:
    def test_hard_follows_soft_unless_set(self) -> None:
        assert HistoryLimits(max_user_chars=500).hard_user_chars == 1_000
        assert HistoryLimits(max_user_chars=500, hard_user_chars=600).hard_user_chars == 600
        assert HistoryLimits(max_user_chars=None).hard_user_chars is None
        assert HistoryLimits().tuned(max_user_chars=10).hard_user_chars == 20
        assert HistoryLimits.user_first(max_user_chars=500).hard_user_chars is None

    @pytest.mark.parametrize(
        "wrong",
        [
            {"max_user_chars": 500, "hard_user_chars": 100},
            {"min_messages": 60},
            {"warn_messages": 51},
            {"max_messages": 0},
            {"roles": ["user", "system"]},
            {"roles": []},
            {"max_mesages": 3},
        ],
    )
    def test_limits_that_cannot_work(self, wrong: dict[str, object]) -> None:
        with pytest.raises(ValidationError):
            HistoryLimits(**wrong)


class TestEnvironment:
    def test_every_limit_can_be_set(self) -> None:
        chosen = HistoryLimits.user_first(max_messages=7, roles=("user",), warn_messages=6)
        environ = {
            f"HISTORY_CURATOR_{field.upper()}": (
                ",".join(value) if isinstance(value, tuple) else str(value)
            )
            for field, value in chosen.model_dump().items()
        }
        assert HistoryLimits.from_env(environ) == chosen

    def test_preset_and_change(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HISTORY_CURATOR_PRESET", "user_first")
        monkeypatch.setenv("HISTORY_CURATOR_MAX_ASSISTANT_CHARS", "99")
        assert HistoryLimits.from_env() == HistoryLimits.user_first(max_assistant_chars=99)

    def test_none_lifts_a_limit(self) -> None:
        limits = HistoryLimits.from_env({"HISTORY_CURATOR_MAX_TOTAL_CHARS": "none"})
        assert limits.max_total_chars is None

    def test_errors_name_the_variable(self) -> None:
        with pytest.raises(ConfigurationError, match=r"HISTORY_CURATOR_MAX_MESSAGES: .*'many'"):
            HistoryLimits.from_env({"HISTORY_CURATOR_MAX_MESSAGES": "many"})

    def test_other_variables_are_left_alone(self) -> None:
        environ = {"HISTORY_CURATOR_COLOUR": "blue", "HISTORY_CURATOR_ALLOW_DOWNLOAD": "0"}
        assert HistoryLimits.from_env(environ) == HistoryLimits()


class TestInForce:
    def test_payload_limit(self) -> None:
        with pytest.raises(HistoryValidationError, match="payload limit of 1000 bytes"):
            validate_history(
                [said("user", "é" * 500)], HistoryLimits.user_first(max_payload_bytes=1_000)
            )

    def test_early_warning(self) -> None:
        limits = HistoryLimits(warn_messages=10)
        assert validate_history(dialogue(10), limits).warnings == ()
        assert [one.code for one in validate_history(dialogue(11), limits).warnings] == [
            "many_messages"
        ]

    def test_roles(self) -> None:
        with pytest.raises(HistoryValidationError, match=r"user\|assistant, got 'orchestrator'"):
            validate_history(
                [said("orchestrator", "x")], HistoryLimits(roles=("user", "assistant"))
            )
