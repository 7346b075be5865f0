"""Our own calls, each with caches of its own, so that every measurement starts cold."""

from __future__ import annotations

import gc
from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any

from benchmarks._conversation import BUDGET
from history_curator import Curator, TiktokenCounter

View = Callable[[list[Any]], Any]


def fresh_counter() -> TiktokenCounter:
    """A counter with its encoding loaded and nothing counted."""
    counter = TiktokenCounter("o200k_base")
    assert counter.exact, "the o200k_base encoding is needed"
    return counter


def core() -> View:
    """``Curator(max_tokens=…).curate(messages)`` on dicts."""
    return _curating(None, itemgetter("role"))


def _curating(format: Any, role: Callable[[Any], str]) -> View:
    """A view with the tail it has for a caller.

    It is a request after a user or tool message, and a history that goes on after the assistant's.
    """
    curate = Curator(max_tokens=BUDGET, counter=fresh_counter()).curate

    def view(messages: list[Any]) -> Any:
        asked = role(messages[-1]) in ("user", "human", "tool")
        return curate(messages, tail="request" if asked else "history", format=format)

    return view


def langchain() -> View:
    """``HistoryCurator(max_tokens=…).invoke(messages)``."""
    from langchain_history_curator import HistoryCurator

    gc.collect()  # runnables made alike share the curator of one that is still alive
    step = HistoryCurator(max_tokens=BUDGET, counter=fresh_counter())
    assert step.curator.counter.calls == 0
    return step.invoke


def langchain_messages() -> View:
    """The core on LangChain messages: reading and writing, without the chain around it."""
    from langchain_history_curator import LangChainFormat

    return _curating(LangChainFormat(), attrgetter("type"))


def llamaindex_messages() -> View:
    """The core on LlamaIndex messages: reading and writing, without the memory around it."""
    from llamaindex_history_curator import LlamaIndexFormat

    return _curating(LlamaIndexFormat(), attrgetter("role.value"))


def llamaindex_memory() -> Any:
    """A ``CuratedMemory`` to put to and get from."""
    from llamaindex_history_curator import CuratedMemory

    return CuratedMemory.from_defaults(token_limit=BUDGET, counter=fresh_counter())
