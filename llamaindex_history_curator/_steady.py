"""The same object for the same message, so that it is read and counted once."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.base.llms.types import ChatMessage

__all__ = ["Steady"]


class Steady:
    """Replaces messages by the equal ones it saw last time.

    A database returns new objects on every load, an agent makes its system message anew on every
    step, a memory hands out copies. Nothing depends on this but speed.
    """

    def __init__(self) -> None:
        self._last: list[ChatMessage] = []

    def __call__(self, messages: Sequence[ChatMessage] | None) -> list[ChatMessage]:
        """Return the messages, in a list of their own."""
        last = self._last
        found = list(messages or ())
        if found[: len(last)] == last:  # at C speed, without a look at what is the very same
            found[: len(last)] = last
            self._last = found
            return found[:]
        for place, (message, known) in enumerate(zip(found, last, strict=False)):
            if message is not known and message == known:
                found[place] = known
        self._last = found
        return found[:]
