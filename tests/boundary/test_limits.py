"""Limits: the presets' numbers, and every way to tune them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from history_curator.boundary import HistoryLimits, validate_history
from history_curator.errors import ConfigurationError, HistoryValidationError
from tests.boundary.factories import said


class TestModel:
    def test_the_hard_limit_is_a_multiple_of_the_soft_one(self) -> None:
        assert HistoryLimits(max_user_chars=500).hard_limit("user") == 1_000
        assert HistoryLimits(max_user_chars=500, hard_factor=3).hard_limit("user") == 1_500
        assert HistoryLimits(max_user_chars=None).hard_limit("user") is None
        assert HistoryLimits(hard_factor=None).hard_limit("assistant") is None

    @pytest.mark.parametrize(
        "wrong",
        [{"max_messages": 0}, {"roles": ["user", "system"]}, {"roles": []}, {"max_mesages": 3}],
    )
    def test_limits_that_cannot_work_are_refused(self, wrong: dict[str, object]) -> None:
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

    def test_variables_change_a_preset(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HISTORY_CURATOR_MAX_ASSISTANT_CHARS", "99")
        limits = HistoryLimits.from_env(base=HistoryLimits.user_first())
        assert limits == HistoryLimits.user_first(max_assistant_chars=99)

    def test_errors_name_the_variable(self) -> None:
        with pytest.raises(ConfigurationError, match=r"HISTORY_CURATOR_MAX_MESSAGES: .*'many'"):
            HistoryLimits.from_env({"HISTORY_CURATOR_MAX_MESSAGES": "many"})


class TestInForce:
    def test_roles(self) -> None:
        with pytest.raises(HistoryValidationError, match=r"user\|assistant \(got 'orchestrator'\)"):
            validate_history(
                [said("orchestrator", "x")], HistoryLimits(roles=("user", "assistant"))
            )
