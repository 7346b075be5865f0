"""`Curation`: the outcome of one curation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from history_curator.entries import ConversationEntry
from history_curator.report import CurationReport


@dataclass(frozen=True, slots=True)
class Curation:
    """The outcome of one curation.

    Attributes:
        messages: the view, in the format it was given in.
        entries: the view as entries.
        tokens: its tokens: messages, tools and priming. Where the provider reported what it counted
            for an earlier view, that number and what was added; otherwise as counted here.
        error: the provider exceeds `tokens` by more than this in fewer than one of a hundred calls;
            None without a report.
    """

    messages: list[Any]
    entries: Sequence[ConversationEntry]
    tokens: int
    _report: list[Any] = field(repr=False, compare=False)  # it, or a function that returns it
    error: int | None = None
    _observe: Callable[[Any], None] | None = field(default=None, repr=False, compare=False)

    @property
    def report(self) -> CurationReport:
        """A decision for every entry; worked out on first access."""
        if not isinstance(self._report[0], CurationReport):
            self._report[0] = self._report[0]()
        report: CurationReport = self._report[0]
        return report

    def observe(self, usage: Any, *, model: str | None = None) -> None:
        """Take the provider's usage report for this view; the next one is counted from there.

        Args:
            usage: the report, or the answer that carries it: of OpenAI, Anthropic, Gemini, Bedrock,
                LangChain or LlamaIndex. None, or an answer without usage, teaches nothing.
            model: who answered; for callers that know it.

        Examples:
            >>> from history_curator import Curator
            >>> curator, messages = (
            ...     Curator(max_tokens=1_000),
            ...     [{"role": "user", "content": "hello"}],
            ... )
            >>> curator.curate(messages).observe({"prompt_tokens": 58, "completion_tokens": 3})
            >>> messages += [
            ...     {"role": "assistant", "content": "hi"},
            ...     {"role": "user", "content": "so?"},
            ... ]
            >>> curator.curate(messages).tokens > 58  # the report, and the tokens added since
            True
        """
        if self._observe is not None:
            self._observe(usage)

    def __reduce__(self) -> tuple[Any, ...]:
        return Curation, (self.messages, self.entries, self.tokens, [self.report], self.error)
