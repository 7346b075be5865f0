"""Refuse settings that cannot work, where they are given."""

from __future__ import annotations

from collections.abc import Iterable

from history_curator.errors import ConfigurationError


def check_count(manager: object, field: str, value: int | None, least: int = 0) -> None:
    """Require a whole number of at least ``least``, or None."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(
            f"{type(manager).__name__}.{field} is {value!r}. Fix: a whole number, {least} or more."
        )


def check_choice(manager: object, field: str, value: str, choices: Iterable[str]) -> None:
    """Require one of a few words."""
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ConfigurationError(
            f"{type(manager).__name__}.{field} is {value!r}. Fix: one of {listed}."
        )
