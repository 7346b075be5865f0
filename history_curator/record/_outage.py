"""Whether a store is down, and what is said about it."""

from __future__ import annotations

import logging
import time

logger = logging.getLogger("history_curator.store")


class Outage:
    """One warning when a store goes down, one message when it is back, the error in between.

    Args:
        name: the store's name in log messages.
        retry_after: seconds to leave a store alone that failed.
        defects: errors that waiting does not cure: they are raised.
    """

    def __init__(self, name: str, retry_after: float, defects: tuple[type[Exception], ...]) -> None:
        self._name = name
        self._retry_after = retry_after
        self._defects = defects
        self._failed_at = 0.0
        self.failure: Exception | None = None

    @property
    def resting(self) -> bool:
        """Whether the store failed so lately that it is left alone."""
        if self.failure is None or self._retry_after <= 0:
            return False
        return time.monotonic() - self._failed_at < self._retry_after

    def begins(self, error: Exception) -> None:
        """Take note of a failure."""
        if isinstance(error, self._defects):
            raise error
        if self.failure is None:
            # Not the error itself: a driver's may quote the messages it was given.
            logger.warning(
                "%s is unavailable (%s): the conversation goes on from memory, and what is said is "
                "stored when it comes back",
                self._name,
                type(error).__name__,
            )
        self._failed_at, self.failure = time.monotonic(), error

    def ends(self) -> None:
        """The store answered."""
        if self.failure is not None:
            self.failure = None
            logger.info("%s is available again", self._name)

    def postponed(self, error: Exception) -> None:
        """Say that an edit waits until the next time; raise what waiting does not cure."""
        if isinstance(error, self._defects):
            raise error
        logger.info("%s: what it holds is edited later (%s)", self._name, type(error).__name__)
