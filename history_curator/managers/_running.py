"""Run one manager, sync or async, and make sure that what it returns can be gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import isawaitable, iscoroutinefunction
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry

Entries = Sequence[ConversationEntry]


def run_manager(manager: Any, entries: Entries, context: CurationContext) -> Entries:
    """Return what a manager's ``curate`` returns, given a list of its own.

    Raises:
        ConfigurationError: when it is async only, or returns something else than entries.
    """
    curate = getattr(manager, "curate", None)
    if curate is None or iscoroutinefunction(curate):
        raise ConfigurationError(
            f"{type(manager).__name__} is async only. Fix: use `await curator.acurate(…)`."
        )
    return _checked(manager, curate(list(entries), context=context))


async def arun_manager(manager: Any, entries: Entries, context: CurationContext) -> Entries:
    """Run a manager's ``acurate`` where it has one, else its ``curate``."""
    curate = getattr(manager, "acurate", None) or manager.curate
    returned = curate(list(entries), context=context)
    return _checked(manager, await returned if isawaitable(returned) else returned)


def _checked(manager: Any, returned: Any) -> Entries:
    if not isinstance(returned, Sequence) or not all(
        isinstance(entry, ConversationEntry) for entry in returned
    ):
        raise ConfigurationError(
            f"{type(manager).__name__} returned something other than a list of entries. "
            "Fix: return the entries to keep, edited ones made with entry.evolve(…)."
        )
    return returned
