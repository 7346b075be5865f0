"""One curation: its options, the call at work, and `Curation`, its outcome."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from history_curator.call_budget import Budget
from history_curator.entries import ConversationEntry
from history_curator.formats import MessageFormat
from history_curator.managers.base import Step
from history_curator.memo import Record
from history_curator.report import CurationReport
from history_curator.rules import Tail


class CallOptions(NamedTuple):
    """The arguments of `Curator.curate` beside the messages."""

    tools: Sequence[Mapping[str, Any]] | None
    reserve: int
    tail: Tail | None
    session: Any
    max_tokens: int | None
    format: MessageFormat | None
    query: str | None
    key: Hashable
    idle: float | None


@dataclass
class Call:
    """One call at work.

    Attributes:
        given: the messages as they are read and written.
        record: all of them; `curated` is what the managers left of it.
        budget: the tokens of the call; None without a budget.
        overhead: tokens of tools and priming.
        compactions: managers whose view does not go on from the request before.
    """

    options: CallOptions
    format: MessageFormat
    given: Sequence[Any]
    record: Record
    curated: Record
    tail: Tail
    budget: Budget | None
    overhead: int
    warnings: list[str] = field(default_factory=list)
    compactions: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


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
