"""A prompt that is messages already: nothing in them is a placeholder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.prompts import BasePromptTemplate


class ReadyPrompt(BasePromptTemplate):  # type: ignore[no-redef]
    """Messages as a prompt, for methods of an LLM that take a prompt only.

    Examples:
        >>> prompt = ReadyPrompt.of([ChatMessage("braces {stay}")])
        >>> prompt.format_messages(stay="gone")[0].content
        'braces {stay}'
    """

    ready: list[ChatMessage]

    @classmethod
    def of(cls, messages: Sequence[ChatMessage]) -> ReadyPrompt:
        """Return a prompt of messages."""
        return cls(
            ready=list(messages), metadata={}, template_vars=[], kwargs={}, output_parser=None
        )

    def partial_format(self, **kwargs: Any) -> ReadyPrompt:
        """Return the same."""
        return self

    def format(self, llm: Any = None, **kwargs: Any) -> str:
        """Return the messages as one text."""
        return "\n".join(str(message) for message in self.format_messages(llm))

    def format_messages(self, llm: Any = None, **kwargs: Any) -> list[ChatMessage]:
        """Return the messages, with what a parser asks for."""
        if self.output_parser is None:
            return list(self.ready)
        return self.output_parser.format_messages(list(self.ready))

    def get_template(self, llm: Any = None) -> str:
        """Return the messages as one text."""
        return self.format(llm)
