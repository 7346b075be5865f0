"""`ToolResultTruncator`: cap verbose tool results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from history_curator.errors import ConfigurationError
from history_curator.managers._checks import check_choice, check_count
from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry, MessageRole
from history_curator.tokens import Keep, shorten, shorten_tokens

_DEFAULT_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class ToolResultTruncator:
    """Shortens tool results to a number of characters or tokens.

    Guaranteed: a shortened result, its marker included, is within the limit, so it is never
    shortened twice; pinned results, images and everything else of the message stay.

    Args:
        max_length: characters per result; 2,000 when neither limit is given.
        max_tokens: tokens per result, instead of `max_length`.
        keep: which part survives: ``head``, ``tail`` or ``both``.
        suffix: what marks the place of the missing part.

    Examples:
        >>> from history_curator import Curator
        >>> said = [
        ...     {"role": "user", "content": "look"},
        ...     {
        ...         "role": "assistant",
        ...         "content": None,
        ...         "tool_calls": [
        ...             {
        ...                 "id": "c",
        ...                 "type": "function",
        ...                 "function": {"name": "f", "arguments": "{}"},
        ...             }
        ...         ],
        ...     },
        ...     {"role": "tool", "tool_call_id": "c", "content": "x" * 5_000},
        ... ]
        >>> view = Curator(ToolResultTruncator(max_length=100)).curate(said)
        >>> len(view.messages[2]["content"])
        100
    """

    max_length: int | None = None
    max_tokens: int | None = None
    keep: Keep = "head"
    suffix: str = "\n... [truncated]"

    def __post_init__(self) -> None:
        check_count(self, "max_length", self.max_length)
        check_count(self, "max_tokens", self.max_tokens)
        check_choice(self, "keep", self.keep, ("head", "tail", "both"))
        if self.max_length is not None and self.max_tokens is not None:
            raise ConfigurationError(
                "ToolResultTruncator takes max_length or max_tokens, not both. "
                "Fix: use two truncators in a row."
            )

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> list[ConversationEntry]:
        """Return the entries with long tool results shortened."""
        return [
            self._truncate(entry, context)
            if entry.role is MessageRole.TOOL and entry.content and not entry.pinned
            else entry
            for entry in entries
        ]

    def _truncate(self, entry: ConversationEntry, context: CurationContext) -> ConversationEntry:
        text = entry.content or ""
        if self.max_tokens is None:
            limit = _DEFAULT_LENGTH if self.max_length is None else self.max_length
            short = shorten(text, limit, keep=self.keep, marker=self.suffix)
            reason = f"tool result over {limit:,} characters"
        else:
            short = shorten_tokens(
                text, self.max_tokens, context.counter, keep=self.keep, marker=self.suffix
            )
            reason = f"tool result over {self.max_tokens:,} tokens"
        if short == text:
            return entry
        return entry.evolve(
            content=short,
            truncated=True,
            original_length=entry.original_length or len(text),
            action="truncated",
            reason=reason,
        )
