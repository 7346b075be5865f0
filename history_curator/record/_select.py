"""Ask a session what was said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload
from uuid import UUID

from history_curator.model import ConversationEntry
from history_curator.record._session import HistorySession

K = TypeVar("K")


@overload
def select_all(session: HistorySession) -> tuple[ConversationEntry, ...]: ...


@overload
def select_all(session: HistorySession, kind: type[K]) -> tuple[K, ...]: ...


def select_all(session: HistorySession, kind: type[Any] = ConversationEntry) -> tuple[Any, ...]:
    """Return every entry of a session, oldest first, or the slice that reducers made.

    Examples:
        >>> session = HistorySession()
        >>> _ = session.record([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
        >>> [entry.content for entry in select_all(session)]
        ['a', 'b']
    """
    return session.slice(kind)


def select_where(
    session: HistorySession,
    kind: type[K],
    predicate: Callable[[K], bool],
) -> tuple[K, ...]:
    """Return what a predicate holds for, oldest first.

    Examples:
        >>> session = HistorySession()
        >>> _ = session.append({"role": "user", "content": "hello"})
        >>> len(select_where(session, ConversationEntry, lambda entry: entry.content == "bye"))
        0
    """
    return tuple(entry for entry in select_all(session, kind) if predicate(entry))


def get_evaluation_history(
    session: HistorySession, evaluation_id: UUID
) -> tuple[ConversationEntry, ...]:
    """Return all entries of one run, oldest first.

    Examples:
        >>> session = HistorySession()
        >>> entry = session.append({"role": "user", "content": "hello"})
        >>> get_evaluation_history(session, session.evaluation_id) == (entry,)
        True
    """
    return select_where(
        session, ConversationEntry, lambda entry: entry.evaluation_id == evaluation_id
    )
