"""`Curation`: what a curator returns."""

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
        tokens: what it costs: messages, tools and priming. Where the provider reported what it
            counted for the view before, that number and what is new; otherwise as counted here.
        error: in 99 of 100 calls the provider counts no more than this beyond `tokens`; None
            where nothing was reported yet.
    """

    messages: list[Any]
    entries: Sequence[ConversationEntry]
    tokens: int
    _report: list[Any] = field(repr=False, compare=False)  # it, or what makes it
    error: int | None = None
    _observe: Callable[[Any, str | None], None] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def report(self) -> CurationReport:
        """What happened to every entry; made when somebody asks."""
        if not isinstance(self._report[0], CurationReport):
            self._report[0] = self._report[0]()
        made: CurationReport = self._report[0]
        return made

    def observe(self, usage: Any, *, model: str | None = None) -> None:
        """Take what the provider reported for this view; the next one is counted from there.

        Nothing is learned from None, from an answer that carries no usage, nor by a curation that
        came from another process.

        Args:
            usage: what was reported, or the answer that carries it: of OpenAI, Anthropic, Gemini,
                Bedrock, LangChain or LlamaIndex.
            model: who answered, where the usage does not say.

        Examples:
            >>> from history_curator import Curator
            >>> curator, said = Curator(max_tokens=1_000), [{"role": "user", "content": "hello"}]
            >>> curator.curate(said).observe({"prompt_tokens": 58, "completion_tokens": 3})
            >>> said += [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "so?"}]
            >>> curator.curate(said).tokens > 58  # what was reported, and what is new
            True
        """
        if self._observe is not None:
            self._observe(usage, model)

    def __reduce__(self) -> tuple[Any, ...]:
        return Curation, (self.messages, self.entries, self.tokens, [self.report], self.error)
