"""How much of a model's window a budget may use."""

from __future__ import annotations


def window_margin(window: int) -> int:
    """Tokens of a window to leave free: counters and providers differ by a few percent.

    Examples:
        >>> window_margin(100_000)
        5000
    """
    return window - int(window * 0.95)
