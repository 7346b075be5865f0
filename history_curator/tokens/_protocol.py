"""What a token counter is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from history_curator.entries import ConversationEntry


@runtime_checkable
class TokenCounter(Protocol):
    """Counts tokens of texts, entries and tool schemas; no base class needed.

    Two counters with the same ``name`` must count alike: counts are cached under the name.
    Counting is pure, thread-safe, never raises on any text, and errs on the high side where it
    cannot be exact.

    A counter may also offer ``exceeds(text, limit) -> bool``, whether a text has more than
    ``limit`` tokens without tokenising much more than that, and ``measure(text) -> int``, a
    count that is not worth caching. Both are used where present.
    """

    @property
    def name(self) -> str:
        """A stable name for the arithmetic, such as ``o200k_base``."""

    @property
    def priming(self) -> int:
        """Tokens every request costs on top of its messages."""

    def count(self, text: str) -> int:
        """Return the tokens of a text."""

    def count_entry(self, entry: ConversationEntry) -> int:
        """Return the tokens of one message, its overhead included."""

    def count_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> int:
        """Return the tokens of the tool schemas sent along."""
