"""Who listens to a run: exactly whom langchain-core would tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.globals import get_debug, set_debug
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables.config import (
    ensure_config,
    get_callback_manager_for_config,
    var_child_runnable_config,
)
from langchain_core.tracers.context import (
    _configure_hooks,
    collect_runs,
    register_configure_hook,
    tracing_v2_enabled,
)
from langsmith.run_helpers import tracing_context
from langsmith.utils import get_env_var

from langchain_history_curator import HistoryCurator
from langchain_history_curator.tools_and_events import has_listeners
from tests.langchain.factories import human


class Listener(BaseCallbackHandler):
    """Counts the runs it hears of."""

    def __init__(self) -> None:
        self.runs = 0

    def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
        self.runs += 1


def listeners(config: RunnableConfig | None) -> list[BaseCallbackHandler]:
    """Whom langchain-core would tell."""
    return get_callback_manager_for_config(ensure_config(config)).handlers


@contextmanager
def inherited(callbacks: Any) -> Iterator[None]:
    token = var_child_runnable_config.set({"callbacks": callbacks})
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


@contextmanager
def debugging() -> Iterator[None]:
    before = get_debug()
    set_debug(True)
    try:
        yield
    finally:
        set_debug(before)


@contextmanager
def hook(*, value: Any = None, env_var: str | None = None) -> Iterator[None]:
    """What a library does that wants to hear of every run."""
    var: ContextVar[Any] = ContextVar("listener", default=None)
    register_configure_hook(var, True, Listener if env_var else None, env_var)
    token = var.set(value)
    try:
        yield
    finally:
        var.reset(token)
        _configure_hooks.pop()


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        get_env_var.cache_clear()
        try:
            yield
        finally:
            patch.undo()
            get_env_var.cache_clear()


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracer that sends nothing anywhere."""

    class Tracer(Listener):
        def __init__(self, **settings: Any) -> None:
            super().__init__()

    for module in ("langchain", "context"):
        monkeypatch.setattr(f"langchain_core.tracers.{module}.LangChainTracer", Tracer)


class TestNobody:
    @pytest.mark.parametrize(
        "config",
        [
            None,
            {},
            {"callbacks": None},
            {"callbacks": []},
            {"callbacks": CallbackManager(handlers=[])},
            {"tags": ["a"], "metadata": {"b": 1}, "configurable": {"c": 2}, "run_name": "d"},
        ],
    )
    def test_nobody_is_named(self, config: RunnableConfig | None) -> None:
        assert not has_listeners(config)

    def test_what_is_set_to_nobody(self) -> None:
        with environment(LANGSMITH_TRACING="false"), tracing_context(enabled=False):
            assert not has_listeners(None)
            assert not listeners(None)

    def test_a_hook_whose_variable_is_off(self) -> None:
        with hook(env_var="LISTENER"), environment(LISTENER="0"):
            assert not has_listeners(None)
            assert not listeners(None)


class TestSomebody:
    @pytest.mark.parametrize(
        "setting",
        [
            inherited([Listener()]),
            inherited(CallbackManager(handlers=[Listener()])),
            debugging(),
            collect_runs(),
            tracing_v2_enabled(),
            tracing_context(enabled=True),
            environment(LANGSMITH_TRACING="true"),
            environment(LANGCHAIN_TRACING_V2="true"),
            hook(value=Listener()),
        ],
        ids=[
            "a callback of the run around it",
            "the manager of the run around it",
            "debugging",
            "collected runs",
            "tracing of a block",
            "a tracing context",
            "LANGSMITH_TRACING",
            "LANGCHAIN_TRACING_V2",
            "a hook of a library",
        ],
    )
    def test_is_heard(self, setting: Any) -> None:
        with setting:
            assert listeners(None)
            assert has_listeners(None)
            assert has_listeners({"tags": ["a"], "callbacks": None})
        assert not has_listeners(None)

    def test_a_hook_with_a_variable(self) -> None:
        with hook(env_var="LISTENER"), environment(LISTENER="1"):
            assert has_listeners(None)

    @pytest.mark.parametrize(
        "callbacks", [[Listener()], CallbackManager(handlers=[Listener()])], ids=["list", "manager"]
    )
    def test_callbacks(self, callbacks: Any) -> None:
        assert has_listeners({"callbacks": callbacks})

    def test_an_empty_list_stands_for_those_around_it(self) -> None:
        config: RunnableConfig = {"callbacks": []}
        with inherited([Listener()]):
            assert has_listeners(config) == bool(listeners(config))


@pytest.mark.parametrize("name", ["LANGCHAIN_TRACING", "LANGCHAIN_HANDLER"])
def test_tracing_of_old_is_refused_as_ever(name: str) -> None:
    with environment(**{name: "1"}), pytest.raises(RuntimeError, match="no longer supported"):
        HistoryCurator(max_tokens=500).invoke([human()])


@pytest.mark.parametrize("wrapped", [False, True])
def test_every_way_of_listening_sees_the_run(wrapped: bool) -> None:
    step = HistoryCurator(max_tokens=500)
    chain: Any = RunnableLambda(step.invoke) if wrapped else step
    listener, hooked = Listener(), Listener()
    with hook(value=hooked), collect_runs() as collected:
        chain.invoke([human()], {"callbacks": [listener]})
    assert listener.runs == hooked.runs == 1 + wrapped
    (run,) = collected.traced_runs
    assert [each.name for each in [run, *run.child_runs]][-1] == "HistoryCurator"
