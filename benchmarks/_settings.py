"""How much to measure: quick, full, or next to nothing for the tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """What one run measures.

    Attributes:
        name: the command, for the table.
        rounds: turns per comparison.
        session: messages of the whole session.
        buffer_session: messages of ChatMemoryBuffer's session, which grows too fast for more.
        views: lengths of the conversations of a single view.
        slow_views: the longest conversation of ChatMemoryBuffer and litellm, in messages.
        growth: lengths of the sessions whose growth is fitted.
        cold: messages of the cold view and of the memory held.
        samples: prefixes of a whole session a slow peer is asked for; None is every one.
        quick_samples: the same for peers that are merely slower.
        recorded: how many recorded coding sessions.
        processes: new processes per figure that needs one.
    """

    name: str
    rounds: int
    session: int
    buffer_session: int
    views: tuple[int, ...]
    slow_views: tuple[int, int]
    growth: tuple[int, ...]
    cold: int
    samples: int | None
    quick_samples: int | None
    recorded: int
    processes: int


QUICK = Settings(
    name="make bench",
    rounds=3,
    session=1_000,
    buffer_session=500,
    views=(100, 1_000, 10_000),
    slow_views=(1_000, 100),
    growth=(250, 500, 1_000, 2_000, 4_000),
    cold=10_000,
    samples=20,
    quick_samples=100,
    recorded=4,
    processes=5,
)
FULL = Settings(
    name="make bench-full",
    rounds=5,
    session=1_000,
    buffer_session=500,
    views=(100, 1_000, 10_000),
    slow_views=(1_000, 1_000),
    growth=(250, 500, 1_000, 2_000, 4_000),
    cold=10_000,
    samples=None,
    quick_samples=None,
    recorded=20,
    processes=9,
)
TINY = Settings(
    name="a trial",
    rounds=1,
    session=24,
    buffer_session=16,
    views=(12, 24),
    slow_views=(12, 12),
    growth=(12, 24, 48),
    cold=60,
    samples=3,
    quick_samples=4,
    recorded=0,
    processes=1,
)
