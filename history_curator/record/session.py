"""`HistorySession`: the full record of a conversation, and selectors over it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any
from uuid import UUID, uuid4

from typing_extensions import TypeVar

from history_curator.entries import (
    ConversationEntry,
    decode_value,
    encode_value,
    entry_from_dict,
    entry_to_dict,
)
from history_curator.errors import ConfigurationError, ConversionError
from history_curator.events import ConversationRecorded, EventBus
from history_curator.formats import (
    DictFormat,
    MessageFormat,
    MessageGroup,
    find_format,
    parse_json,
    read_entries,
    ungroup_items,
)

K = TypeVar("K", default=ConversationEntry)


class HistorySession:
    """The full record of a conversation, for audit, replay and recall.

    Entries are only ever added. Each gets the evaluation it belongs to, its position within it and
    the time; `ConversationRecorded` is published for each. As JSON a session keeps every field of
    dict messages; messages of a framework come back as dicts. Thread-safe.

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
        self._slices: dict[type, tuple[Any, ...]] = {}
        self._lock = threading.RLock()

    @property
    def entries(self) -> tuple[ConversationEntry, ...]:
        """Every entry, oldest first."""
        return tuple(self._entries)

    @property
    def messages(self) -> list[Any]:
        """Every message as the object that was recorded; dicts where formats were mixed."""
        entries = self.entries
        sources = [entry.source for entry in entries if entry.source is not None]
        return ungroup_items((_common_format(sources) or DictFormat()).write(entries))

    def append(self, message: Any, *, evaluation_id: UUID | None = None) -> ConversationEntry:
        """Record one message or entry; return it as recorded, of several entries the last."""
        return self.record([message], evaluation_id=evaluation_id)[-1]

    def record(
        self, messages: Sequence[Any], *, evaluation_id: UUID | None = None
    ) -> tuple[ConversationEntry, ...]:
        """Record messages of any format, or entries; nothing when one cannot be read."""
        entries = read_entries(messages, find_format(messages), start=len(self._entries))
        recorded, now = list[ConversationEntry](), datetime.now(timezone.utc)
        with self._lock:
            for entry in entries:
                run = evaluation_id or entry.evaluation_id or self.evaluation_id
                same = (one.sequence for one in reversed(self._entries) if one.evaluation_id == run)
                at, number = entry.created_at or now, next(same, -1) + 1
                stamped = replace(entry, evaluation_id=run, created_at=at, sequence=number)
                recorded.append(stamped)
                self._entries.append(stamped)
        for entry in recorded:
            self.bus.publish(ConversationRecorded(entry, self.session_id, now))
        return tuple(recorded)

    def register_reducer(
        self, event_type: type[Any], reducer: Callable[..., Any], *, slice_type: type[Any]
    ) -> Callable[[], None]:
        """Collect a slice of anything from this session's events; return a function to end it.

        For each event of the type that names this session, the slice becomes
        ``reducer(slice, event, context=session)``; `select_all` returns it by the slice type.
        """

        def reduce(event: Any) -> None:
            if getattr(event, "session_id", self.session_id) != self.session_id:
                return
            with self._lock:
                known = self._slices.get(slice_type, ())
                self._slices[slice_type] = tuple(reducer(known, event, context=self))

        return self.bus.subscribe(event_type, reduce)

    def fork(self, at: int | None = None) -> HistorySession:
        """Start a branch that shares the first `at` entries; negative counts from the end."""
        branch = HistorySession(bus=self.bus)
        branch.parent_id = self.session_id
        branch._entries = list(self.entries[: position_of(at, len(self))])
        return branch

    def to_json(self) -> str:
        """Return the session as JSON, each message once."""
        messages: list[Any] = []
        indexes: dict[int, int] = {}
        items = []
        for entry in self.entries:
            item, source = encode_value(entry_to_dict(entry)), entry.source
            if isinstance(source, (Mapping, MessageGroup)):
                if id(source) not in indexes:
                    indexes[id(source)] = len(messages)
                    messages.append(encode_value(source))
                item["message"], item["edited"] = indexes[id(source)], entry.original is not None
                item["part"] = entry.span[0] if entry.span else 0
            items.append(item)
        data = {name: getattr(self, name) for name in ("session_id", "evaluation_id", "parent_id")}
        data |= {"messages": messages, "entries": items}
        return json.dumps(data, ensure_ascii=False, default=str)

    @classmethod
    def from_json(cls, text: str, *, bus: EventBus | None = None) -> HistorySession:
        """Return the session that `to_json` wrote, or raise a `ConversionError`."""
        try:
            data = parse_json(text)
            ids = {name: UUID(data[name]) for name in ("session_id", "evaluation_id")}
            session = cls(**ids, bus=bus)
            session.parent_id = UUID(data["parent_id"]) if data["parent_id"] else None
            decoded = map(decode_value, data["messages"])
            sources = [MessageGroup(one) if isinstance(one, list) else one for one in decoded]
            common = _common_format(sources)
            session._entries = [_load_entry(item, sources, common) for item in data["entries"]]
        except ConversionError:
            raise
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            problem = f"not a session as written by to_json ({type(error).__name__})."
            raise ConversionError(problem, fix="pass the text unchanged.") from error
        return session

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ConversationEntry]:
        return iter(self.entries)


def position_of(at: int | None, count: int) -> int:
    """Return how many of `count` messages a branch shares; negative counts from the end."""
    if at is None:
        return count
    if not -count <= at <= count:
        fix = f"Fix: pass {-count} to {count}."
        raise ConfigurationError(f"at: {at} is outside this conversation of {count}. {fix}")
    return at if at >= 0 else count + at


def select_all(session: HistorySession, kind: type[K] | None = None) -> tuple[K, ...]:
    """Return every entry of a session, oldest first, or the slice that reducers collected."""
    wanted: type[Any] = kind or ConversationEntry
    return session._slices.get(wanted, session.entries if wanted is ConversationEntry else ())


def select_where(
    session: HistorySession, kind: type[K], predicate: Callable[[K], bool]
) -> tuple[K, ...]:
    """Return the entries or slice items that a predicate holds for, oldest first."""
    return tuple(item for item in select_all(session, kind) if predicate(item))


def get_evaluation_history(
    session: HistorySession, evaluation_id: UUID
) -> tuple[ConversationEntry, ...]:
    """Return all entries of one run, oldest first."""
    return tuple(entry for entry in session.entries if entry.evaluation_id == evaluation_id)


def _common_format(sources: Sequence[Any]) -> MessageFormat | None:
    """Return the one format that reads and writes all these messages, or None."""
    flat = ungroup_items(sources)
    if all(isinstance(message, Mapping) for message in flat):
        return find_format(flat)
    formats = {found.name: found for found in (find_format([message]) for message in flat)}
    return next(iter(formats.values())) if len(formats) == 1 else None


def _load_entry(
    data: Mapping[str, Any], sources: Sequence[Any], common: MessageFormat | None
) -> ConversationEntry:
    item = decode_value(data)
    entry = entry_from_dict(item)
    if "message" not in item:
        return entry
    source = sources[item["message"]]
    reader = common or _common_format([source]) or DictFormat()
    recorded = reader.read(source, entry.sequence)[item["part"]]
    entry = replace(entry, source=source, span=recorded.span)
    if item["edited"]:
        return replace(entry, original=recorded)
    fields = ("tool_calls", "parts", "reasoning")  # what a provider keeps beside calls is not JSON
    return replace(entry, **{name: getattr(recorded, name) for name in fields})
