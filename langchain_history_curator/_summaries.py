"""Summaries that outlive the process, and calls that are not the agent's answer."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any

from langchain_core.runnables.config import ensure_config, var_child_runnable_config

from history_curator.managers.summaries import keeping_summaries
from langchain_history_curator._events import of_graph

NAMESPACE = ("history_curator", "summaries")

STATE_KEY = "history_curator_summaries"
"""Where the state of an agent keeps them."""

_MOST = 256
"""Summaries that are kept in memory, and in the state of a conversation."""


@contextmanager
def behind_the_scenes(kept: MutableMapping[str, str] | None = None) -> Iterator[None]:
    """Models called inside are a manager's own: traced as such, and kept out of the answer.

    They carry the tag ``nostream``, by which langgraph leaves them out of streamed messages, and
    ``lc_source: summarization`` in their metadata. Summaries they write are put into `kept`, or
    else into the store of the running graph, where it has one.
    """
    if kept is None and of_graph("get_store") is not None:
        kept = _SHARED
    outer = ensure_config()
    inner = {
        **outer,
        "tags": [*(outer.get("tags") or ()), "nostream"],
        "metadata": {**(outer.get("metadata") or {}), "lc_source": "summarization"},
    }
    token = var_child_runnable_config.set(inner)  # type: ignore[arg-type]
    try:
        with keeping_summaries(kept):
            yield
    finally:
        with suppress(ValueError):  # the body went on in another context
            var_child_runnable_config.reset(token)


class StoredSummaries(MutableMapping[str, str]):
    """Summaries kept in a langgraph store, for ``SummarizingManager(model, cache=…)``.

    A summary is found again after a restart, so nothing is summarised twice. Without a store it
    uses the one of the graph that is running (``create_agent(…, store=store)``); outside of a
    graph, or while the store fails, summaries live in this process.

    Args:
        store: a langgraph ``BaseStore``; None asks the running graph.
        namespace: where in the store.

    Examples:
        >>> summaries = StoredSummaries()
        >>> summaries["k"] = "They talked about boats."
        >>> summaries["k"]
        'They talked about boats.'
    """

    def __init__(self, store: Any = None, *, namespace: tuple[str, ...] = NAMESPACE) -> None:
        self.store = store
        self.namespace = namespace
        self._here: dict[str, str] = {}

    def __getitem__(self, key: str) -> str:
        found = self._ask("get", key)
        return self._here[key] if found is None else str(found.value["summary"])

    def __setitem__(self, key: str, summary: str) -> None:
        self._here[key] = summary
        _shorten(self._here)
        self._ask("put", key, {"summary": summary})

    def __delitem__(self, key: str) -> None:
        self._here.pop(key, None)
        self._ask("delete", key)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._here))

    def __len__(self) -> int:
        return len(self._here)

    def _ask(self, method: str, *arguments: Any) -> Any:
        store = of_graph("get_store") if self.store is None else self.store
        with suppress(Exception):
            return getattr(store, method)(self.namespace, *arguments)
        return None


class StateSummaries(ChainMap[str, str]):
    """Summaries of one conversation: those written now, those of its state, those of this process.

    Args:
        state: what the state holds.
        here: what this process wrote, for calls that failed before the state was written.
    """

    def __init__(self, state: Mapping[str, str], here: dict[str, str]) -> None:
        self.written: dict[str, str] = {}
        self._here = here
        super().__init__(self.written, dict(state), here)

    def __setitem__(self, key: str, summary: str) -> None:
        self.written[key] = self._here[key] = summary
        _shorten(self._here)

    def __delitem__(self, key: str) -> None:
        self.written.pop(key, None)
        self._here.pop(key, None)


def merge_summaries(known: dict[str, str] | None, new: dict[str, str]) -> dict[str, str]:
    """Return what a state keeps: what it knew and what is new, the newest of it."""
    merged = {key: value for key, value in (known or {}).items() if key not in new}
    merged.update(new)
    _shorten(merged)
    return merged


def _shorten(kept: dict[str, str]) -> None:
    while len(kept) > _MOST:
        kept.pop(next(iter(kept)), None)


_SHARED = StoredSummaries()
"""Summaries in the stores of whichever graphs are running."""
