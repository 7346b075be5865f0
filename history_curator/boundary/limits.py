"""`HistoryLimits`: how much conversation a caller may hand in, and its presets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from history_curator.config import explain_problems
from history_curator.errors import ConfigurationError

ENV_PREFIX = "HISTORY_CURATOR_"

_NO_LIMIT = dict.fromkeys(
    ("hard_user_chars", "max_assistant_chars", "hard_assistant_chars", "max_total_chars")
)
_PRESETS: dict[str, dict[str, Any]] = {
    "assistant_first": {},
    "user_first": {
        **_NO_LIMIT,
        "max_user_chars": 8_000,
        "max_assistant_chars": 150,
        "strip_content": False,
        "user_indicator": " ... (truncated, original: {original} chars)",
        "assistant_indicator": " ... (truncated)",
        "user_indicator_room": 100,
    },
    "stateless": {
        **_NO_LIMIT,
        "max_user_chars": None,
        "max_messages": 20,
        "warn_messages": 15,
        "min_messages": 0,
        "max_payload_bytes": 102_400,
        "warn_payload_bytes": 76_800,
        "alternate": True,
    },
}
_HARD = {"max_user_chars": "hard_user_chars", "max_assistant_chars": "hard_assistant_chars"}
"""The limit that is twice a limit, unless it is set."""

_ORDERED = (
    *_HARD.items(),
    ("min_messages", "max_messages"),
    ("warn_messages", "max_messages"),
    ("warn_payload_bytes", "max_payload_bytes"),
    ("user_indicator_room", "max_user_chars"),
)


class HistoryLimits(BaseModel):
    """The limits `validate_history` and `sanitize_history` hold a history to.

    Frozen; a limit of None, or the text ``none``, is no limit. Without arguments it is
    `assistant_first`.

    Attributes:
        max_messages: older messages beyond this many are left out.
        warn_messages: more messages than this earn a warning, before the limit is reached.
        max_user_chars, max_assistant_chars: longer messages are shortened; an orchestrator's
            messages count as an assistant's.
        hard_user_chars, hard_assistant_chars: longer messages are refused. Twice the limit above
            unless set.
        max_total_chars: the oldest messages are left out until the rest is this small.
        min_messages: so many of the latest messages stay at any total size.
        max_payload_bytes, warn_payload_bytes: larger requests are refused, or earn a warning.
        alternate: whether `sanitize_history` makes user and assistant take turns.
        strip_content: whether white space around a message is removed.
        roles: who may speak.
        user_indicator, assistant_indicator: put after a shortened message; ``{original}`` is its
            length before.
        user_indicator_room: characters of `max_user_chars` given up for the indicator.
        omission_indicator: put before the first message kept when older ones were left out.

    Examples:
        >>> HistoryLimits.user_first().max_user_chars
        8000
        >>> HistoryLimits.from_env({"HISTORY_CURATOR_MAX_MESSAGES": "10"}).max_messages
        10
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_messages: PositiveInt | None = 50
    warn_messages: PositiveInt | None = None
    max_user_chars: PositiveInt | None = 150
    hard_user_chars: PositiveInt | None = 300
    max_assistant_chars: PositiveInt | None = 8_192
    hard_assistant_chars: PositiveInt | None = 16_384
    max_total_chars: PositiveInt | None = 15_360
    min_messages: NonNegativeInt = 5
    max_payload_bytes: PositiveInt | None = None
    warn_payload_bytes: PositiveInt | None = None
    alternate: bool = False
    strip_content: bool = True
    roles: tuple[str, ...] = Field(default=("user", "assistant", "orchestrator"), min_length=1)
    user_indicator: str = "... [truncated]"
    assistant_indicator: str = "... [truncated]"
    user_indicator_room: NonNegativeInt = 0
    omission_indicator: str = "... (earlier messages omitted for brevity)\n\n"

    @classmethod
    def assistant_first(cls, **changes: Any) -> HistoryLimits:
        """Short requests, long answers: user 150 characters, assistant 8192, 15360 in all."""
        return cls.preset("assistant_first", **changes)

    @classmethod
    def user_first(cls, **changes: Any) -> HistoryLimits:
        """User messages stay, answers are shortened to 150 characters; no message is refused."""
        return cls.preset("user_first", **changes)

    @classmethod
    def stateless(cls, **changes: Any) -> HistoryLimits:
        """A history sent along with each request: 20 messages, 100 KB, strict alternation."""
        return cls.preset("stateless", **changes)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> HistoryLimits:
        """Return a preset by name, with some limits changed."""
        if name not in _PRESETS:
            raise ConfigurationError(
                f"There is no preset {name!r}. Fix: use one of {', '.join(_PRESETS)}."
            )
        return cls(**_change({**_PRESETS[name]}, changes))

    @classmethod
    def from_env(
        cls, environ: Mapping[str, str] | None = None, *, base: HistoryLimits | None = None
    ) -> HistoryLimits:
        """Read limits from variables such as ``HISTORY_CURATOR_MAX_MESSAGES``.

        ``HISTORY_CURATOR_PRESET`` names what the others change (default: `base`, or
        ``assistant_first``). ``none`` or an empty value lifts a limit; roles are separated by
        commas. A `ConfigurationError` names the variable that is wrong.
        """
        environ = os.environ if environ is None else environ
        given = {
            name.removeprefix(ENV_PREFIX).lower(): environ[name]
            for name in environ
            if name.startswith(ENV_PREFIX)
        }
        preset = given.pop("preset", "").strip().lower()
        limits = cls.preset(preset) if preset else (base or cls())
        try:
            return limits.tuned(**{name: given[name] for name in cls.model_fields if name in given})
        except ValidationError as error:
            raise explain_problems(error, cls, rename=_variable) from error

    def tuned(self, **changes: Any) -> HistoryLimits:
        """Return a copy with some limits changed; hard limits follow the soft ones."""
        return HistoryLimits(**_change(self.model_dump(), changes))

    def soft_limit(self, role: str) -> int | None:
        """Characters beyond which a message of this role is shortened."""
        return self.max_user_chars if role == "user" else self.max_assistant_chars

    def hard_limit(self, role: str) -> int | None:
        """Characters beyond which a message of this role is refused."""
        return self.hard_user_chars if role == "user" else self.hard_assistant_chars

    def shorten(self, role: str, content: str) -> str:
        """Return the text shortened to its role's limit with the indicator, or the text itself."""
        limit = self.soft_limit(role)
        if limit is None or len(content) <= limit:
            return content
        indicator = self.user_indicator if role == "user" else self.assistant_indicator
        limit -= self.user_indicator_room if role == "user" else 0
        return content[: max(limit, 0)] + indicator.replace("{original}", str(len(content)))

    @field_validator("roles", mode="before")
    @classmethod
    def _read_roles(cls, value: Any) -> Any:
        roles = value.split(",") if isinstance(value, str) else value
        if not isinstance(roles, (list, tuple)):
            return roles
        roles = [role.strip().lower() if isinstance(role, str) else role for role in roles]
        if not {"user", "assistant", "orchestrator"}.issuperset(roles):
            raise ValueError("roles must be some of user, assistant and orchestrator")
        return tuple(dict.fromkeys(roles))

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Read ``"none"`` as no limit, and derive the hard limits that are not set."""
        values = dict(data)
        for name, value in values.items():
            is_limit = isinstance(name, str) and name.startswith(("max_", "hard_", "warn_"))
            is_text = isinstance(value, str)
            if is_limit and is_text and value.strip().lower() in ("", "none", "null"):
                values[name] = None
        for soft, hard in _HARD.items():
            if soft in values and hard not in values:
                limit = values[soft]
                is_number = isinstance(limit, int) or (isinstance(limit, str) and limit.isdecimal())
                values[hard] = int(limit) * 2 if is_number else None
        return values

    @model_validator(mode="after")
    def _check_order(self) -> HistoryLimits:
        for low, high in _ORDERED:
            small, large = getattr(self, low), getattr(self, high)
            if small is not None and large is not None and small > large:
                raise ValueError(f"{low} ({small}) must not exceed {high} ({large})")
        return self


def _variable(field: str) -> str:
    return f"{ENV_PREFIX}{field.upper()}"


def _change(limits: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return limits with some changed, without the hard limits that follow a changed soft one."""
    for soft, hard in _HARD.items():
        if soft in changes and limits.get(hard) is not None:
            del limits[hard]
    return {**limits, **changes}
