"""Each curation as a custom event inside a run, and as one span in a trace."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from langchain_core.callbacks import BaseRunManager
from langchain_core.callbacks.manager import adispatch_custom_event, dispatch_custom_event
from langchain_core.runnables.config import (
    RunnableConfig,
    ensure_config,
    get_callback_manager_for_config,
    patch_config,
)
from langchain_core.tracers.base import BaseTracer

from history_curator.curator import Curation
from history_curator.errors import without_text
from history_curator.integrations import actions_of

EVENT_NAME = "history_curated"
"""The name of the custom event."""

logger = logging.getLogger("history_curator.langchain")


def event_of(curation: Curation, name: str = "history") -> dict[str, Any]:
    """What an event says about a curation: counts before and after, and what was done.

    Costs one pass over the view: nothing of the record is counted for it.

    Examples:
        >>> from history_curator import Curator
        >>> curation = Curator(max_tokens=100).curate([{"role": "user", "content": "hi"}])
        >>> event_of(curation)["messages_after"]
        1
    """
    report = curation.report
    return {
        "event": EVENT_NAME,
        "name": name,
        "messages_before": report.original_count,
        "messages_after": report.curated_count,
        "tokens": report.tokens,
        "max_tokens": report.max_tokens,
        "prefix_entries": report.prefix_entries,
        "actions": dict(actions_of(curation)),
        "strategy": report.strategy,
        "provider": report.provider,
    }


def listened_to(config: RunnableConfig | None) -> bool:
    """Whether a run would be seen by anybody: a callback, a tracer, an event stream.

    Starting a run costs a good part of what curating does, so none is started for nobody.
    """
    return bool(get_callback_manager_for_config(ensure_config(config)).handlers)


def dispatch(event: dict[str, Any], config: RunnableConfig | None = None) -> None:
    """Send a custom event to whoever listens to the current run; silent outside one."""
    with suppress(RuntimeError):
        dispatch_custom_event(EVENT_NAME, event, config=config)


async def adispatch(event: dict[str, Any], config: RunnableConfig | None = None) -> None:
    """Send a custom event to whoever listens to the current run; silent outside one."""
    with suppress(RuntimeError):
        await adispatch_custom_event(EVENT_NAME, event, config=config)


def stream(writer: Callable[[Any], None] | None, event: dict[str, Any]) -> None:
    """Send an event to an agent's custom stream. A broken writer never breaks the run."""
    if writer is None:
        return
    try:
        writer(event)
    except Exception as error:  # noqa: BLE001 - whatever a writer raises
        logger.warning("the stream writer refused a %s event: %s", EVENT_NAME, without_text(error))


def of_graph(function: str) -> Any:
    """What a function of ``langgraph.config`` returns in the graph that is running; None outside.

    Such as ``get_stream_writer``, its custom stream, and ``get_store``.
    """
    with suppress(ImportError, RuntimeError, KeyError, AttributeError):
        return getattr(import_module("langgraph.config"), function)()
    return None


@contextmanager
def span(
    name: str, messages: int, *, announce: bool = True
) -> Iterator[Callable[[dict[str, Any]], None]]:
    """One run in the trace whose input and output are the counts before and after.

    Yields what takes the event of the curation. No run is made when nobody listens, and no custom
    event is sent unless it is to be announced.
    """
    after: dict[str, Any] = {}
    if not listened_to(None):
        yield after.update
        return
    config = ensure_config()
    manager = get_callback_manager_for_config(config)
    run = manager.on_chain_start(None, {"messages": messages}, name=name)
    try:
        yield after.update
    except BaseException as error:
        run.on_chain_error(error)
        raise
    if after and announce:
        dispatch(after, patch_config(config, callbacks=run.get_child()))
    run.on_chain_end(after)


def annotate(run: BaseRunManager, event: dict[str, Any]) -> None:
    """Write the counts into the metadata of a run that is being traced."""
    for handler in run.handlers:
        if isinstance(handler, BaseTracer):
            traced = handler.run_map.get(str(run.run_id))
            if traced is not None:
                extra = traced.extra if isinstance(traced.extra, dict) else {}
                metadata = extra.setdefault("metadata", {})
                metadata.update({f"{EVENT_NAME}.{key}": event[key] for key in _COUNTS})
                traced.extra = extra


_COUNTS = ("messages_before", "messages_after", "tokens", "max_tokens")
