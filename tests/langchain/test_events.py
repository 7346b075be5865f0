"""A run is started for listeners only, and then every one of them sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.context import _configure_hooks, collect_runs, register_configure_hook

from langchain_history_curator import HistoryCurator
from tests.langchain.factories import human


class Listener(BaseCallbackHandler):
    """Counts the runs it hears of."""

    def __init__(self) -> None:
        self.runs = 0

    def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
        self.runs += 1


@contextmanager
def hook(value: Any) -> Iterator[None]:
    """Listen to every run, as a library does."""
    var: ContextVar[Any] = ContextVar("listener", default=None)
    register_configure_hook(var, inheritable=True)
    token = var.set(value)
    try:
        yield
    finally:
        var.reset(token)
        _configure_hooks.pop()


@pytest.mark.parametrize("wrapped", [False, True])
def test_every_listener_sees_the_run(wrapped: bool) -> None:
    step = HistoryCurator(max_tokens=500)
    chain: Any = RunnableLambda(step.invoke) if wrapped else step
    listener, hooked = Listener(), Listener()
    with hook(hooked), collect_runs() as collected:
        chain.invoke([human()], {"callbacks": [listener]})
    assert listener.runs == hooked.runs == 1 + wrapped
    (run,) = collected.traced_runs
    assert [each.name for each in [run, *run.child_runs]][-1] == "HistoryCurator"
