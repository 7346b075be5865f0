"""Run one manager, sync or async, and make sure that what it returns can be gone on with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.managers._messages import Messages, takes_messages
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
    ask, read = _prepared(curate, entries, context)
    return _checked(manager, read(ask()))


async def arun_manager(manager: Any, entries: Entries, context: CurationContext) -> Entries:
    """Run a manager's ``acurate`` where it has one, else its ``curate``."""
    curate = getattr(manager, "acurate", None) or manager.curate
    ask, read = _prepared(curate, entries, context)
    returned = ask()
    return _checked(manager, read(await returned if isawaitable(returned) else returned))


def _prepared(
    curate: Callable[..., Any], entries: Entries, context: CurationContext
) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """What asks a manager, in the form it takes, and what reads its answer."""
    if takes_messages(curate):
        messages = Messages(entries)
        return partial(curate, messages.given, session=context.session), messages.read
    return partial(curate, list(entries), context=context), lambda returned: returned


def _checked(manager: Any, returned: Any) -> Entries:
    if not isinstance(returned, Sequence) or not all(
        issubclass(kind, ConversationEntry) for kind in set(map(type, returned))
    ):
        raise ConfigurationError(
            f"{type(manager).__name__} returned something other than a list of entries. "
            "Fix: return the entries to keep, edited ones made with entry.evolve(…)."
        )
    return returned
