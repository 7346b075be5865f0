"""`HistoryLimits`: how much conversation a caller may hand in, and its presets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
)

from history_curator.config import explain_problems


def _read_none(value: Any) -> Any:
    is_none = isinstance(value, str) and value.strip().lower() in ("", "none")
    return None if is_none else value


def _split_roles(value: Any) -> Any:
    return value.replace(" ", "").lower().split(",") if isinstance(value, str) else value


Limit = Annotated[PositiveInt | None, BeforeValidator(_read_none)]
"""A limit; None, or the text ``none``, is no limit."""
Role = Literal["user", "assistant", "orchestrator"]
Roles = Annotated[tuple[Role, ...], BeforeValidator(_split_roles), Field(min_length=1)]


class HistoryLimits(BaseModel):
    """The limits `validate_history` and `sanitize_history` hold a history to; frozen.

    Attributes:
        max_messages: older messages beyond this many are left out.
        warn_messages: more messages than this earn a warning, before the limit is reached.
        max_user_chars, max_assistant_chars: longer messages are shortened, an orchestrator's too.
        hard_factor: messages longer than this many times their limit are refused.
        max_total_chars: the oldest messages are left out until the rest is this small.
        min_messages: so many of the latest messages stay at any total size.
        max_payload_bytes: larger requests are refused by `sanitize_history`.
        alternate: whether `sanitize_history` makes user and assistant take turns.
        strip_content: whether white space around a message is removed.
        roles: who may speak.
        user_indicator, assistant_indicator: put after a shortened message of ``{original}`` length.
        user_indicator_room: characters of `max_user_chars` given up for the indicator.
        omission_indicator: put before the first message kept when older ones were left out.

    Examples:
        >>> HistoryLimits.user_first().max_user_chars
        8000
        >>> HistoryLimits.from_env({"HISTORY_CURATOR_MAX_MESSAGES": "10"}).max_messages
        10
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_messages: Limit = 50
    warn_messages: Limit = None
    max_user_chars: Limit = 150
    max_assistant_chars: Limit = 8_192
    hard_factor: Limit = 2
    max_total_chars: Limit = 15_360
    min_messages: NonNegativeInt = 5
    max_payload_bytes: Limit = None
    alternate: bool = False
    strip_content: bool = True
    roles: Roles = ("user", "assistant", "orchestrator")
    user_indicator: str = "... [truncated]"
    assistant_indicator: str = "... [truncated]"
    user_indicator_room: NonNegativeInt = 0
    omission_indicator: str = "... (earlier messages omitted for brevity)\n\n"

    @classmethod
    def assistant_first(cls, **changes: Any) -> HistoryLimits:
        """Short requests, long answers: user 150 characters, assistant 8192, 15360 in all."""
        return cls(**changes)

    @classmethod
    def user_first(cls, **changes: Any) -> HistoryLimits:
        """User messages stay, answers are shortened to 150 characters; no message is refused."""
        preset = {
            "max_user_chars": 8_000,
            "max_assistant_chars": 150,
            "hard_factor": None,
            "max_total_chars": None,
            "strip_content": False,
            "user_indicator": " ... (truncated, original: {original} chars)",
            "assistant_indicator": " ... (truncated)",
            "user_indicator_room": 100,
        }
        return cls(**{**preset, **changes})

    @classmethod
    def stateless(cls, **changes: Any) -> HistoryLimits:
        """A history sent along with each request: 20 messages, 100 KB, strict alternation."""
        no_limit = dict.fromkeys(("max_user_chars", "max_assistant_chars", "max_total_chars"))
        numbers = {"max_messages": 20, "warn_messages": 15, "max_payload_bytes": 102_400}
        return cls(**{**no_limit, **numbers, "alternate": True, **changes})

    @classmethod
    def from_env(
        cls, environ: Mapping[str, str] | None = None, *, base: HistoryLimits | None = None
    ) -> HistoryLimits:
        """Change `base`, or the defaults, by variables such as ``HISTORY_CURATOR_MAX_MESSAGES``.

        ``none`` lifts a limit; commas separate roles.
        """
        environ = os.environ if environ is None else environ
        names = {name: f"HISTORY_CURATOR_{name.upper()}" for name in cls.model_fields}
        given = {name: environ[env] for name, env in names.items() if env in environ}
        try:
            return cls(**{**(base or cls()).model_dump(), **given})
        except ValidationError as error:
            raise explain_problems(error, cls, rename=names.__getitem__) from error

    def hard_limit(self, role: str) -> int | None:
        """Characters beyond which a message of this role is refused."""
        limit = self.max_user_chars if role == "user" else self.max_assistant_chars
        return limit * self.hard_factor if limit and self.hard_factor else None

    def shorten(self, role: str, content: str) -> str:
        """Return the text shortened to its role's limit with the indicator, or the text itself."""
        limit, room, indicator = self.max_assistant_chars, 0, self.assistant_indicator
        if role == "user":
            limit, room = self.max_user_chars, self.user_indicator_room
            indicator = self.user_indicator
        if limit is None or len(content) <= limit:
            return content
        return content[: limit - room] + indicator.replace("{original}", str(len(content)))
