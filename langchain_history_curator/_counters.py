"""Counters in the forms `trim_messages` takes: a function of messages, a model, a name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import count as numbers
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

from history_curator.model import ConversationEntry
from history_curator.tokens import TokenCounter, get_counter
from langchain_history_curator._dialect import DIALECT

_serial = numbers(1)


def counter_of(given: Any) -> str | TokenCounter:
    """Return what the core counts with.

    Args:
        given: an encoding or a model's name, a `TokenCounter`, ``"approximate"``, a chat model
            (its ``get_num_tokens_from_messages`` is asked), or a function of a list of messages
            or of one message.
    """
    if given == "approximate":
        given = count_tokens_approximately
    if isinstance(given, (str, TokenCounter)):
        return given
    if isinstance(given, BaseLanguageModel):
        return MessageCounter(given.get_num_tokens_from_messages)
    if callable(given):
        return MessageCounter(given)
    counter: TokenCounter = get_counter(given)  # refuses it, in its own words
    return counter


class MessageCounter:
    """A `TokenCounter` around a function of LangChain messages.

    Messages are counted one by one, less what the function counts for no message at all, so that
    a view of them fits whenever their sum does. Schemas of tools are counted by the core, unless
    the function takes ``tools``.

    Examples:
        >>> counter = MessageCounter(count_tokens_approximately)
        >>> counter.count("four words of text") > 0
        True
    """

    def __init__(self, function: Callable[..., int]) -> None:
        self.function = function
        self._one = _takes_one(function)
        self._tools = _takes(function, "tools")
        label = getattr(function, "__qualname__", type(function).__name__)
        # Counts are cached under the name: two functions of one name must not be mixed up.
        self.name = f"{getattr(function, '__module__', 'counter')}.{label}#{next(_serial)}"
        self.priming = self._priming()

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        return self._ask([HumanMessage(text)]) if text else 0

    def count_entry(self, entry: ConversationEntry) -> int:
        """Return the tokens of one message."""
        if entry.memo_of == self.name and isinstance(entry.memo, int):
            return entry.memo
        tokens = self._ask(DIALECT.write([entry]))
        object.__setattr__(entry, "memo", tokens)
        object.__setattr__(entry, "memo_of", self.name)
        return tokens

    def count_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> int:
        """Return the tokens of the tool schemas sent along."""
        if not tools:
            return 0
        if self._tools and not self._one:
            return int(self.function([], tools=list(tools))) - self.priming
        return get_counter("o200k_base").count_tools(tools)

    def _ask(self, messages: Sequence[BaseMessage]) -> int:
        if self._one:
            return sum(int(self.function(message)) for message in messages)
        return int(self.function(list(messages))) - self.priming

    def _priming(self) -> int:
        if self._one:
            return 0
        try:
            return int(self.function([]))
        except Exception:  # noqa: BLE001 - a function that wants a message has no price for none
            return 0

    def __repr__(self) -> str:
        return f"MessageCounter({self.name!r})"


def _takes_one(function: Callable[..., int]) -> bool:
    """Whether a function wants one message, as `trim_messages` tells it: by its annotation."""
    try:
        first = next(iter(inspect.signature(function).parameters.values()))
    except (StopIteration, TypeError, ValueError):
        return False
    wanted = first.annotation
    if isinstance(wanted, str):
        return wanted.rpartition(".")[2] in ("BaseMessage", "AnyMessage")
    return inspect.isclass(wanted) and issubclass(wanted, BaseMessage)


def _takes(function: Callable[..., int], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
