"""`HistorySession`: the record, and what it can be asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, TypeVar, overload
from uuid import UUID, uuid4

from history_curator.errors import ConfigurationError, ConversionError, a_type
from history_curator.entries import ConversationEntry
from history_curator.events import ConversationRecorded, EventBus
from history_curator.record._sources import format_of, dump_entries, load_entries

Reducer = Callable[..., Sequence[Any]]
"""Called as ``reducer(slice, event, context=…)``; returns the new slice."""


@dataclass(frozen=True, slots=True)
class ReducerContext:
    """What a reducer may ask: the session it works for."""

    session: HistorySession


class HistorySession:
    """Everything that was said, in order, for audit, replay and recall.

    Entries are only ever added. Each gets the evaluation it belongs to, its position within it
    and the time; `ConversationRecorded` is published for each. Whatever the model was shown, the
    session holds the whole conversation. Thread-safe.

    As JSON a session keeps the messages as they were given, every field of them, in their own
    format: one that is restored sends what the one that was saved would have sent.

    Args:
        session_id: identifies the session; a new one by default.
        evaluation_id: the run that entries belong to unless told otherwise.
        bus: where events are published.

    Examples:
        >>> session = HistorySession()
        >>> entry = session.append({"role": "user", "content": "hello"})
        >>> entry.sequence, session.entries == (entry,)
        (0, True)
        >>> HistorySession.from_json(session.to_json()).entries == session.entries
        True
    """

    def __init__(
        self,
        *,
        session_id: UUID | None = None,
        evaluation_id: UUID | None = None,
        bus: EventBus | None = None,
    ) -> None:
        self.session_id = session_id or uuid4()
        self.evaluation_id = evaluation_id or uuid4()
        self.parent_id: UUID | None = None
        self.bus = bus or EventBus()
        self._entries: list[ConversationEntry] = []
        self._next: dict[UUID, int] = {}
        self._slices: dict[type, tuple[Any, ...]] = {}
        self._lock = threading.RLock()

    @property
    def entries(self) -> tuple[ConversationEntry, ...]:
        """Every entry, oldest first."""
        with self._lock:
            return tuple(self._entries)

    @property
    def messages(self) -> list[Any]:
        """Every entry as a message of the format it was recorded in, as the very same object.

        Entries that were recorded as such become dicts, and so does everything where formats
        were mixed.
        """
        from history_curator.formats import DictFormat, scattered

        entries = self.entries
        format = format_of([entry.source for entry in entries]) or DictFormat()
        return scattered(format.write(entries))

    def append(self, message: Any, *, evaluation_id: UUID | None = None) -> ConversationEntry:
        """Record one message or entry and return it as recorded.

        Raises:
            ConversionError: when it cannot be read, or holds several entries.
        """
        read = self._read([message])
        if len(read) != 1:
            raise ConversionError(
                f"the message holds {len(read)} entries.", fix="record it with session.record([…])."
            )
        return self._add(read, evaluation_id)[0]

    def record(
        self, messages: Sequence[Any], *, evaluation_id: UUID | None = None
    ) -> tuple[ConversationEntry, ...]:
        """Record messages of any format, or entries, and return them as recorded.

        Raises:
            ConversionError: when one cannot be read. Nothing is recorded then.
        """
        return self._add(self._read(messages), evaluation_id)

    def register_reducer(
        self,
        event_type: type[Any],
        reducer: Reducer,
        *,
        slice_type: type[Any],
    ) -> Callable[[], None]:
        """Collect what this session's events say: a slice of anything, for `select_all`.

        Whenever an event of the type is published on the session's bus, the slice becomes
        ``reducer(slice, event, context=…)``. Events that name another session, or none though
        they could, are not this session's. The reducer runs where the event is published, one at
        a time; what it raises is logged by the bus and leaves the slice as it was. Registering
        again for a slice type replaces nothing: both reducers run. Slices are not part of the
        session's JSON.

        Args:
            event_type: such as `ConversationRecorded` or `HistoryCurated`.
            reducer: takes the slice so far, a tuple, and the event; returns the new slice.
            slice_type: what `select_all` and `select_where` are asked for.

        Returns:
            A function that ends it.

        Examples:
            >>> session = HistorySession()
            >>> stop = session.register_reducer(
            ...     ConversationRecorded,
            ...     lambda known, event, *, context: (*known, event.entry.content),
            ...     slice_type=str,
            ... )
            >>> entry = session.append({"role": "user", "content": "hello"})
            >>> session.slice(str)
            ('hello',)
        """
        context = ReducerContext(self)

        def reduce(event: Any) -> None:
            if getattr(event, "session_id", self.session_id) != self.session_id:
                return
            with self._lock:
                made = reducer(self._slices.get(slice_type, ()), event, context=context)
                self._slices[slice_type] = tuple(made)

        return self.bus.subscribe(event_type, reduce)

    def slice(self, kind: type[Any]) -> tuple[Any, ...]:
        """Return what reducers collected for a slice type; every entry for entries by default."""
        with self._lock:
            known = self._slices.get(kind)
        if known is None and kind is ConversationEntry:
            return self.entries
        return known or ()

    def fork(self, at: int | ConversationEntry | None = None) -> HistorySession:
        """Start a branch that shares the entries up to a point, for an edited message.

        Args:
            at: how many entries to share (negative counts from the end), or the first entry not
                to share; all by default.

        Raises:
            ConfigurationError: when there is no such place in this session.
        """
        with self._lock:
            shared = self._entries[: self._position(at)]
        branch = HistorySession(bus=self.bus)
        branch.parent_id = self.session_id
        branch._entries = shared
        branch._next = _next_sequences(shared)
        return branch

    def to_dict(self) -> dict[str, Any]:
        """Return the session as plain data."""
        return {
            "session_id": str(self.session_id),
            "evaluation_id": str(self.evaluation_id),
            "parent_id": None if self.parent_id is None else str(self.parent_id),
            **dump_entries(self.entries),
        }

    def to_json(self) -> str:
        """Return the session as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, default=str)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, bus: EventBus | None = None) -> HistorySession:
        """Return the session that `to_dict` made this data from; publishes nothing.

        Raises:
            ConversionError: when the data is not a session.
        """
        try:
            session = cls(
                session_id=UUID(data["session_id"]),
                evaluation_id=UUID(data["evaluation_id"]),
                bus=bus,
            )
            parent = data.get("parent_id")
            session.parent_id = UUID(parent) if parent else None
            data["entries"]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConversionError(
                f"not a session as written by to_dict ({error!r}).", fix="pass the data unchanged."
            ) from error
        session._entries = load_entries(data)
        session._next = _next_sequences(session._entries)
        return session

    @classmethod
    def from_json(cls, text: str, *, bus: EventBus | None = None) -> HistorySession:
        """Return the session that `to_json` wrote; publishes nothing."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ConversionError(
                f"not JSON ({error}).", fix="pass the text that to_json returned."
            ) from error
        return cls.from_dict(data, bus=bus)

    def _read(self, messages: Sequence[Any]) -> list[ConversationEntry]:
        from history_curator.formats import detect, read_entries

        return read_entries(messages, detect(messages), start=len(self._entries))

    def _add(
        self, entries: Sequence[ConversationEntry], evaluation_id: UUID | None
    ) -> tuple[ConversationEntry, ...]:
        with self._lock:
            recorded = tuple(self._stamp(entry, evaluation_id) for entry in entries)
            self._entries.extend(recorded)
        for entry in recorded:
            self.bus.publish(
                ConversationRecorded(entry, self.session_id, datetime.now(timezone.utc))
            )
        return recorded

    def _stamp(self, entry: ConversationEntry, evaluation_id: UUID | None) -> ConversationEntry:
        evaluation = evaluation_id or entry.evaluation_id or self.evaluation_id
        sequence = self._next.get(evaluation, 0)
        self._next[evaluation] = sequence + 1
        created = entry.created_at or datetime.now(timezone.utc)
        return replace(entry, evaluation_id=evaluation, sequence=sequence, created_at=created)

    def _position(self, at: int | ConversationEntry | None) -> int:
        if not isinstance(at, ConversationEntry):
            return position_of(at, len(self._entries))
        for position, entry in enumerate(self._entries):
            if entry is at or entry.root is at.root:
                return position
        raise ConfigurationError(
            "at: the entry is not of this session. Fix: pass one of session.entries."
        )

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ConversationEntry]:
        return iter(self.entries)

    def __repr__(self) -> str:
        return f"HistorySession({self.session_id}, {len(self)} entries)"

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()


def position_of(at: int | None, count: int) -> int:
    """Return how many of so many a branch shares; None is all, negative counts from the end.

    Raises:
        ConfigurationError: when there is no such place.

    Examples:
        >>> position_of(-1, 3), position_of(None, 3)
        (2, 3)
    """
    if at is None:
        return count
    if not isinstance(at, int) or isinstance(at, bool):
        raise ConfigurationError(f"at: is {a_type(at)}. Fix: pass a number of messages.")
    if not -count <= at <= count:
        raise ConfigurationError(
            f"at: {at} is outside this conversation of {count}. Fix: pass {-count} to {count}."
        )
    return at if at >= 0 else count + at


def _next_sequences(entries: Sequence[ConversationEntry]) -> dict[UUID, int]:
    following: dict[UUID, int] = {}
    for entry in entries:
        if entry.evaluation_id is not None:
            known = following.get(entry.evaluation_id, 0)
            following[entry.evaluation_id] = max(known, entry.sequence + 1)
    return following


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
