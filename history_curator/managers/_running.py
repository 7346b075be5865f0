"""Run one manager, sync or async, in the form it takes, and make sure that what it returns will do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from inspect import isawaitable, iscoroutinefunction, signature
from typing import Any

from history_curator._drive import Body, adrive, drive
from history_curator.errors import ConfigurationError
from history_curator.managers._protocol import CurationContext
from history_curator.formats import entry_to_provider_message, provider_message_to_entry
from history_curator.entries import (
    ConversationEntry,
)

Entries = Sequence[ConversationEntry]


class Driven:
    """A manager whose ``_steps`` are written once, for callers that wait and callers that await."""

    __slots__ = ()

    def curate(self, entries: Entries, *, context: CurationContext) -> Entries:
        """Return what the steps come to; a model they ask is called."""
        return drive(self._steps(entries, context))

    async def acurate(self, entries: Entries, *, context: CurationContext) -> Entries:
        """Like `curate`; a model they ask is awaited."""
        return await adrive(self._steps(entries, context))

    def _steps(self, entries: Entries, context: CurationContext) -> Body[Entries]:
        raise NotImplementedError


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


def takes_messages(curate: Callable[..., Any]) -> bool:
    """Whether a manager's ``curate`` wants messages and a session, not entries and a context."""
    return _takes(getattr(curate, "__func__", curate))


@lru_cache(maxsize=256)
def _takes(function: Callable[..., Any]) -> bool:
    try:
        names = signature(function).parameters
    except (TypeError, ValueError):
        return False
    return "session" in names and "context" not in names


class Messages:
    """Entries as messages for a manager, and what it returns as entries again.

    A message that comes back is the entry it was made of, with the text it has now. Another dict
    is taken for the next message of its role, and of its call, that was not returned yet; one that
    is like none of them is an entry of its own.

    Attributes:
        given: the messages; nobody else has them.
    """

    def __init__(self, entries: Sequence[ConversationEntry]) -> None:
        self._entries = entries
        self.given = [entry_to_provider_message(entry) for entry in entries]

    def read(self, returned: Any) -> Any:
        """Return entries; what is no list of messages is returned as it is."""
        if not isinstance(returned, Sequence) or not all(
            isinstance(message, Mapping) for message in returned
        ):
            return returned
        places = {id(message): place for place, message in enumerate(self.given)}
        entries: list[ConversationEntry] = []
        following = 0
        for message in returned:
            place = places.get(id(message))
            if place is None:
                place = self._like(message, following)
            if place is None:
                entries.append(provider_message_to_entry(message, sequence=len(entries)))
            else:
                following = place + 1
                entries.append(_with_text(self._entries[place], message.get("content")))
        return entries

    def _like(self, message: Mapping[str, Any], start: int) -> int | None:
        wanted = message.get("role"), message.get("tool_call_id")
        for place in range(start, len(self.given)):
            known = self.given[place]
            if (known.get("role"), known.get("tool_call_id")) == wanted:
                return place
        return None


def _with_text(entry: ConversationEntry, content: Any) -> ConversationEntry:
    if not isinstance(content, str) or content == (entry.content or ""):
        return entry
    return entry.evolve(content=content)
