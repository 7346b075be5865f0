"""Cleans the tool details of older turns out of an existing SQL store.

`prune_store` is what ``history-curator prune`` runs; `prune_session` does the same to one
conversation over an engine that is already there, for adapters. Both know the tables of LangChain's
``SQLChatMessageHistory`` (and ``PostgresChatMessageHistory``) and of LlamaIndex's
``SQLAlchemyChatStore``, need SQLAlchemy and neither framework, and edit rows in place, so
other writers lose nothing.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from history_curator.config import RetentionConfig
from history_curator.errors import ConfigurationError
from history_curator.model import ConversationEntry
from history_curator.record._stored import LAYOUTS, Layout, read_stored, write_stored
from history_curator.record.retention import apply_retention

__all__ = ["PruneDecision", "PruneReport", "prune_session", "prune_store"]

logger = logging.getLogger("history_curator.retention")

_SYNC_DRIVERS = {
    "sqlite+aiosqlite": "sqlite",
    "postgresql+asyncpg": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql+aiomysql": "mysql+pymysql",
}


@dataclass(frozen=True, slots=True)
class PruneDecision:
    """What happens to one row.

    Attributes:
        session_id: the conversation.
        row: its primary key.
        role: who spoke.
        action: ``trimmed``, ``removed`` or ``unreadable`` (left alone).
        reason: why.
        before: characters stored before.
        after: characters stored afterwards.
    """

    session_id: str
    row: Any
    role: str
    action: str
    reason: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What was cleaned, or would be.

    Attributes:
        store: the URL, without its password.
        table: the table.
        layout: whose table it is.
        dry_run: whether the store was left as it is.
        sessions: conversations looked at.
        rows: messages looked at.
        characters: what they took before.
        decisions: one per row that changes.
    """

    store: str
    table: str
    layout: str
    dry_run: bool
    sessions: int
    rows: int
    characters: int
    decisions: tuple[PruneDecision, ...]

    @property
    def trimmed(self) -> int:
        """Rows that keep less."""
        return sum(one.action == "trimmed" for one in self.decisions)

    @property
    def removed(self) -> int:
        """Rows that go."""
        return sum(one.action == "removed" for one in self.decisions)

    @property
    def saved(self) -> int:
        """Characters the store no longer holds."""
        return sum(one.before - one.after for one in self.decisions)

    def explain(self) -> str:
        """Return the outcome in words, one line per row that changes."""
        verb = "would be" if self.dry_run else "were"
        summary = (
            f"{self.store}, table {self.table} ({self.layout}): "
            f"{self.rows} messages of {self.sessions} conversations; {self.trimmed} {verb} "
            f"trimmed, {self.removed} {verb} removed, {self.saved} of {self.characters} "
            "characters saved"
        )
        lines = [
            f"  {one.session_id} #{one.row} {one.role}: {one.action}, {one.before} -> {one.after} "
            f"characters ({one.reason})"
            for one in self.decisions
        ]
        return "\n".join([summary, *lines])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        totals = {"trimmed": self.trimmed, "removed": self.removed, "saved": self.saved}
        return {**asdict(self), **totals}


def prune_store(
    url: str,
    *,
    table: str | None = None,
    session_id: str | None = None,
    config: RetentionConfig | None = None,
    dry_run: bool = True,
) -> PruneReport:
    """Apply retention to what a store already holds.

    Each conversation is cleaned in one transaction: all of it or nothing. Preserved turns and
    everything said in words stay. Messages added meanwhile are not touched, so the store may be
    in use. Running it again changes nothing.

    Args:
        url: an SQLAlchemy URL, such as ``sqlite:///chat.db``; async drivers are accepted.
        table: the table; may be left out when only one looks like a conversation.
        session_id: one conversation (LangChain's session, LlamaIndex's key); None is all.
        config: what to keep; by default older turns are trimmed to ``{name, status}``.
        dry_run: report only.

    Raises:
        ConfigurationError: the store, table or conversation is not there, or SQLAlchemy is not.
    """
    config = config or RetentionConfig(persist_tool_invocations="trimmed")
    sa = _sqlalchemy()
    engine = _connect(sa, url)
    try:
        found, layout = _find_table(sa, engine, table)
        decisions: list[PruneDecision] = []
        rows = characters = 0
        sessions = _sessions(sa, engine, found, layout, session_id)
        for session in sessions:
            with engine.begin() as connection:
                pruning = _Pruning(sa, connection, found, layout, session)
                decisions += pruning.decide(config)
                if not dry_run:
                    pruning.write()
            rows += len(pruning.rows)
            characters += sum(pruning.sizes.values())
        report = PruneReport(
            store=engine.url.render_as_string(hide_password=True),
            table=found.name,
            layout=layout.name,
            dry_run=dry_run,
            sessions=len(sessions),
            rows=rows,
            characters=characters,
            decisions=tuple(decisions),
        )
    finally:
        engine.dispose()
    logger.info("%s", report.explain().splitlines()[0])
    return report


def prune_session(
    engine: Any, table: Any, session_id: Any, config: RetentionConfig
) -> tuple[PruneDecision, ...]:
    """Apply retention to one conversation, in one transaction.

    Rows are edited and removed one by one, never rewritten, so messages that others add meanwhile
    stay. Calling it again changes nothing.

    Args:
        engine: a sync SQLAlchemy engine, such as ``SQLChatMessageHistory.engine``.
        table: an SQLAlchemy ``Table``, or its name.
        session_id: the conversation.
        config: what to keep.

    Raises:
        ConfigurationError: the table does not hold conversations.
    """
    sa = _sqlalchemy()
    if isinstance(table, str):
        found, layout = _find_table(sa, engine, table)
    else:
        found, layout = table, _layout_of(table)
    with engine.begin() as connection:
        pruning = _Pruning(sa, connection, found, layout, session_id)
        decisions = tuple(pruning.decide(config))
        pruning.write()
    return decisions


class _Pruning:
    """One conversation in one transaction."""

    def __init__(self, sa: Any, connection: Any, table: Any, layout: Layout, session: Any) -> None:
        self._connection = connection
        self._table = table
        self._layout = layout
        self._session = session
        columns = [table.c[name] for name in dict.fromkeys(("id", layout.payload))]
        query = (
            sa.select(*columns)
            .where(table.c[layout.session] == session)
            .order_by(*(table.c[name] for name in layout.order))
            .with_for_update()
        )
        self.rows: list[tuple[Any, Any]] = [tuple(row) for row in connection.execute(query)]
        self.sizes = {row: len(_text(payload)) for row, payload in self.rows}
        self._updates: dict[Any, Any] = {}
        self._deletes: list[Any] = []

    def decide(self, config: RetentionConfig) -> Iterator[PruneDecision]:
        """Work out what happens to every row."""
        entries: list[ConversationEntry] = []
        places: dict[int, Any] = {}
        for row, payload in self.rows:
            entry = _read(payload)
            if entry is None:
                yield self._decision(row, "unknown", "unreadable", "not a message", None)
                continue
            entries.append(entry)
            places[id(entry)] = row
        kept = {id(entry.root): entry for entry in apply_retention(entries, config)}
        for entry in entries:
            row = places[id(entry)]
            new = kept.get(id(entry))
            if new is None:
                self._deletes.append(row)
                reason = "tool details of older turns are not kept"
                yield self._decision(row, str(entry.role), "removed", reason, 0)
            elif new is not entry:
                stored = write_stored(new)
                self._updates[row] = stored
                size = len(_text(stored))
                yield self._decision(row, str(entry.role), "trimmed", new.reason or "", size)

    def write(self) -> None:
        """Do what was decided."""
        table, layout = self._table, self._layout
        was_text = {row: isinstance(payload, str) for row, payload in self.rows}
        for row, stored in self._updates.items():
            value = json.dumps(stored) if was_text[row] else stored
            self._connection.execute(
                table.update().where(table.c.id == row).values({layout.payload: value})
            )
        for row in self._deletes:
            self._connection.execute(table.delete().where(table.c.id == row))

    def _decision(
        self, row: Any, role: str, action: str, reason: str, after: int | None
    ) -> PruneDecision:
        before = self.sizes[row]
        size = before if after is None else after
        return PruneDecision(str(self._session), row, role, action, reason, before, size)


def _sqlalchemy() -> Any:
    try:
        return importlib.import_module("sqlalchemy")
    except ImportError as error:
        raise ConfigurationError(
            "Pruning a store needs SQLAlchemy. Fix: pip install sqlalchemy."
        ) from error


def _connect(sa: Any, url: str) -> Any:
    scheme, separator, rest = url.partition("://")
    try:
        engine = sa.create_engine(f"{_SYNC_DRIVERS.get(scheme, scheme)}{separator}{rest}")
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        raise ConfigurationError(
            f"The store cannot be opened: {error}. Fix: use a URL such as sqlite:///chat.db."
        ) from error
    path = engine.url.database
    if engine.dialect.name == "sqlite" and path and path != ":memory:":
        from pathlib import Path

        if not Path(path).exists() and not path.startswith("file:"):
            raise ConfigurationError(f"There is no store at {path}. Fix: check the URL.")
    return engine


def _find_table(sa: Any, engine: Any, name: str | None) -> tuple[Any, Layout]:
    try:
        inspector = sa.inspect(engine)
        columns = {
            table: {column["name"] for column in inspector.get_columns(table)}
            for table in inspector.get_table_names()
        }
    except sa.exc.SQLAlchemyError as error:
        raise ConfigurationError(f"The store cannot be read: {error}") from error
    fitting = {
        table: layout
        for table, names in columns.items()
        for layout in LAYOUTS
        if layout.columns <= names
    }
    if name is not None:
        if name not in columns:
            raise ConfigurationError(
                f"There is no table {name!r}; the store has {_listed(columns)}."
            )
        if name not in fitting:
            raise ConfigurationError(
                f"Table {name!r} does not hold conversations of LangChain or LlamaIndex; "
                f"these do: {_listed(fitting)}."
            )
    elif len(fitting) == 1:
        name = next(iter(fitting))
    else:
        raise ConfigurationError(
            f"{len(fitting)} tables look like conversations: {_listed(fitting)}. "
            "Fix: say which with table=."
        )
    return sa.Table(name, sa.MetaData(), autoload_with=engine), fitting[name]


def _layout_of(table: Any) -> Layout:
    names = {column.name for column in table.columns}
    for layout in LAYOUTS:
        if layout.columns <= names:
            return layout
    raise ConfigurationError(
        f"Table {table.name!r} does not hold conversations of LangChain or LlamaIndex; "
        f"it has the columns {_listed(sorted(names))}."
    )


def _sessions(
    sa: Any, engine: Any, table: Any, layout: Layout, session_id: str | None
) -> list[Any]:
    column = table.c[layout.session]
    query = sa.select(column).distinct().order_by(column)
    with engine.connect() as connection:
        found = [row[0] for row in connection.execute(query) if row[0] is not None]
    if session_id is None:
        return found
    chosen = [session for session in found if str(session) == session_id]
    if not chosen:
        raise ConfigurationError(
            f"There is no conversation {session_id!r} in table {table.name!r}. "
            f"Fix: use one of {_listed([str(session) for session in found[:10]])}."
        )
    return chosen


def _read(payload: Any) -> ConversationEntry | None:
    if isinstance(payload, str):
        try:
            payload = json.loads(payload)
        except ValueError:
            return None
    return read_stored(payload) if isinstance(payload, dict) else None


def _text(payload: Any) -> str:
    return payload if isinstance(payload, str) else json.dumps(payload)


def _listed(names: Any) -> str:
    return ", ".join(map(str, names)) or "none"
