"""`Curation`: what a curator returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from history_curator.model import ConversationEntry
from history_curator.report import CurationReport


@dataclass(frozen=True, slots=True)
class Curation:
    """The outcome of one curation.

    Attributes:
        messages: the view, in the dialect it was given in.
        entries: the view as entries.
        tokens: what it costs: messages, tools and priming.
    """

    messages: list[Any]
    entries: Sequence[ConversationEntry]
    tokens: int
    _report: list[Any] = field(repr=False, compare=False)  # it, or what makes it

    @property
    def report(self) -> CurationReport:
        """What happened to every entry; made when somebody asks."""
        if not isinstance(self._report[0], CurationReport):
            self._report[0] = self._report[0]()
        made: CurationReport = self._report[0]
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Curation, (self.messages, self.entries, self.tokens, [self.report])
