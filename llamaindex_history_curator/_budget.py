"""How many tokens of messages an LLM can take."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW

from history_curator.errors import ConfigurationError
from history_curator.tokens import TokenCounter, find_family, get_counter, window_margin

if TYPE_CHECKING:
    from llama_index.core.llms import LLM
    from llama_index.core.tools import BaseTool

__all__ = ["budget_for_llm", "counter_for_llm", "tool_schemas"]

_UNKNOWN_OUTPUT = 4_096


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

    Example:
        >>> from llama_index.core.llms import MockLLM
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     budget_for_llm(MockLLM(max_tokens=900), margin=0)
        3000
    """
    metadata = llm.metadata
    window = metadata.context_window
    if window <= 0 or window == DEFAULT_CONTEXT_WINDOW:
        warnings.warn(
            f"{llm.class_name()} does not know its context window and reports "
            f"LlamaIndex's default of {DEFAULT_CONTEXT_WINDOW} tokens. "
            "Fix: set context_window on the LLM, or pass token_limit.",
            UserWarning,
            stacklevel=2,
        )
        window = DEFAULT_CONTEXT_WINDOW
    if output is None:
        known = metadata.num_output
        output = known if known > 0 else min(_UNKNOWN_OUTPUT, window // 4)
    if margin is None:
        margin = window_margin(window)
    schemas = 0
    if tools:
        schemas = get_counter(counter or counter_for_llm(llm)).count_tools(tool_schemas(tools))
    left = window - output - schemas - margin
    if left <= 0:
        raise ConfigurationError(
            f"{llm.class_name()}: a window of {window} tokens leaves nothing for messages after "
            f"{output} for the answer, {schemas} for tools and {margin} of margin. "
            "Fix: lower num_output or max_tokens of the LLM, or pass output= or token_limit=."
        )
    return left


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
