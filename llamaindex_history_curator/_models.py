"""What an LLM says about itself: its rules, its budget and what counts for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import count as numbers
from typing import Any

from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.llms import LLM
from llama_index.core.tools import BaseTool

from history_curator.formats import provider_for
from history_curator.errors import ConfigurationError
from history_curator.integrations import Window, budget_of
from history_curator.tokens import CachingCounter, TokenCounter, find_family, get_counter

_serial = numbers(1)


def budget_for_llm(
    llm: LLM,
    tools: Sequence[BaseTool] | None = None,
    *,
    output: int | None = None,
    margin: int | None = None,
    counter: str | TokenCounter | None = None,
) -> int:
    """Return the tokens left for messages: window − output − tools − margin.

    Args:
        llm: its ``metadata`` says how large the window is, input and output together.
        tools: tools sent along. Leave out where the curator is given them anyway.
        output: tokens kept for the answer; the LLM's own ``num_output`` by default, and where it
            has none, 4,096 or a quarter of the window.
        margin: tokens kept free for what no counter sees; 5 % of the window by default.
        counter: counts the tools; fitting the model by default.

    Warns:
        UserWarning: when the adapter does not know its window and reports LlamaIndex's default.

    Raises:
        ConfigurationError: when nothing is left.

    Examples:
        >>> from llama_index.core.llms import MockLLM
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     budget_for_llm(MockLLM(max_tokens=900), margin=0)
        3000
    """
    metadata = llm.metadata
    limit = metadata.context_window
    if limit <= 0 or limit == DEFAULT_CONTEXT_WINDOW:
        warnings.warn(
            f"{llm.class_name()} does not know its context window and reports "
            f"LlamaIndex's default of {DEFAULT_CONTEXT_WINDOW} tokens. "
            "Fix: set context_window on the LLM, or pass token_limit.",
            UserWarning,
            stacklevel=2,
        )
        limit = DEFAULT_CONTEXT_WINDOW
    schemas = 0
    if tools:
        schemas = get_counter(counter or counter_for_llm(llm)).count_tools(tool_schemas(tools))
    window = Window(
        llm.class_name(), limit, asked=max(0, metadata.num_output), called="context_window"
    )
    return budget_of(window, output=output, margin=margin, taken=schemas).max_tokens


def counter_for_llm(llm: LLM | None) -> str:
    """Return the name of the counter that fits an LLM's model, as far as it is known."""
    model = "" if llm is None else llm.metadata.model_name
    return model if model and find_family(model) else "o200k_base"


def tool_schemas(tools: Sequence[Any] | None) -> list[dict[str, Any]] | None:
    """Return tools as the schemas they are sent as."""
    if not tools:
        return None
    return [
        tool if isinstance(tool, dict) else tool.metadata.to_openai_tool(skip_length_check=True)
        for tool in tools
    ]


def provider_of(llm: LLM | None) -> str:
    """Return the profile for an LLM, told from its class, then from its model's name."""
    if llm is None:
        return "core"
    found = provider_for(llm.class_name())
    return found if found != "core" else provider_for(llm.metadata.model_name)


class TokenizerCounter(CachingCounter):
    """Counts with a tokenizer of LlamaIndex: a function from a text to its tokens.

    Examples:
        >>> TokenizerCounter(str.split).count("four words of text")
        4
    """

    __slots__ = ("_tokenize",)

    def __init__(self, tokenize: Callable[[str], Sequence[Any]]) -> None:
        # Counts are cached under the name: two functions of one name must not be mixed up.
        label = getattr(tokenize, "__qualname__", type(tokenize).__name__)
        super().__init__(f"{label}#{next(_serial)}")
        self._tokenize = tokenize

    def _count_text(self, text: str) -> int:
        return len(self._tokenize(text))


def counter_of(counter: Any, tokenizer_fn: Callable[[str], Sequence[Any]] | None) -> Any:
    """Return what counts."""
    if tokenizer_fn is None:
        return counter
    if counter is not None:
        raise ConfigurationError(
            "counter and tokenizer_fn are both given. Fix: leave one of them out."
        )
    return TokenizerCounter(tokenizer_fn)
