"""`RoleTruncator`: a different limit for every role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from history_curator.managers._checks import check_choice, check_count
from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry, MessageRole
from history_curator.tokens import Keep, shorten


@dataclass(frozen=True, slots=True)
class RoleTruncator:
    """Shortens text by who said it; None leaves a role alone, and system text is never cut.

    Guaranteed: a shortened text, its marker included, is within the limit, so it is never
    shortened twice. Shortened entries have ``truncated`` set and ``original_length`` filled.

    Args:
        user: characters per user entry. Setting it opts in to cutting what the user said.
        assistant: characters per assistant entry.
        tool: characters per tool result.
        keep: which part survives: ``head``, ``tail`` or ``both``.
        suffix: what marks the place of the missing part.

    Examples:
        >>> from history_curator import Curator
        >>> said = [
        ...     {"role": "user", "content": "why?"},
        ...     {"role": "assistant", "content": "because " * 100},
        ...     {"role": "user", "content": "I see"},
        ... ]
        >>> view = Curator(RoleTruncator(user=8_000, assistant=150)).curate(said)
        >>> len(view.messages[1]["content"])
        150
    """

    user: int | None = None
    assistant: int | None = None
    tool: int | None = None
    keep: Keep = "head"
    suffix: str = "... [truncated]"

    def __post_init__(self) -> None:
        for field in ("user", "assistant", "tool"):
            check_count(self, field, getattr(self, field))
        check_choice(self, "keep", self.keep, ("head", "tail", "both"))

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> list[ConversationEntry]:
        """Return the entries with long texts shortened."""
        limits = {
            MessageRole.USER: self.user,
            MessageRole.ASSISTANT: self.assistant,
            MessageRole.TOOL: self.tool,
        }
        return [self._truncate(entry, limits.get(entry.role)) for entry in entries]

    def _truncate(self, entry: ConversationEntry, limit: int | None) -> ConversationEntry:
        text = entry.content
        if limit is None or not text or len(text) <= limit or entry.pinned:
            return entry
        return entry.evolve(
            content=shorten(text, limit, keep=self.keep, marker=self.suffix),
            truncated=True,
            original_length=entry.original_length or len(text),
            action="truncated",
            reason=f"{entry.role.value} text over {limit:,} characters",
        )
