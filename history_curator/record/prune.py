"""Cleans the tool details of older turns out of an existing SQL store.

`prune_store` is what ``history-curator prune`` runs; `prune_session` does the same to one
conversation over an engine that is already there, for adapters. Both know the tables of LangChain's
``SQLChatMessageHistory`` (and ``PostgresChatMessageHistory``) and of LlamaIndex's
``SQLAlchemyChatStore``, read a row as the framework's format does, and edit rows in place, so
other writers lose nothing.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Iterable, Iterator
from operator import is_not
from pathlib import Path
from typing import Any

from history_curator.errors import ConfigurationError, HistoryCuratorError
from history_curator.record._pruned import PruneDecision, PruneReport
from history_curator.record._stored import LAYOUTS, Layout, StoredRow
from history_curator.record.retention import apply_retention, latest_turns
from history_curator.config import RetentionConfig

__all__ = ["PruneDecision", "PruneReport", "prune_session", "prune_store"]

logger = logging.getLogger("history_curator.retention")

_PAGE = 32
"""Rows read at first where only the end of a conversation matters."""

_SYNC_DRIVERS = {
    "sqlite+aiosqlite": "sqlite",
    "postgresql+asyncpg": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql+aiomysql": "mysql+pymysql",
}


def prune_store(
    url: str,
    *,
    table: str | None = None,
    session_id: str | None = None,
    config: RetentionConfig | None = None,
    apply: bool = False,
) -> PruneReport:
    """Apply retention to what a store already holds, or say what that would do.

    Nothing is written unless `apply` is set. Each conversation is cleaned in one transaction: all
    of it or nothing. Preserved turns and everything said in words stay. Messages added meanwhile
    are not touched, so the store may be in use. Running it again changes nothing.

    Args:
        url: an SQLAlchemy URL, such as ``sqlite:///chat.db``; async drivers are accepted.
        table: the table; may be left out when only one looks like a conversation.
        session_id: one conversation (LangChain's session, LlamaIndex's key); None is all.
        config: what to keep; by default older turns are trimmed to ``{name, status}``.
        apply: change the store; otherwise the report says what would change.

    Raises:
        ConfigurationError: the store, table or conversation is not there, or SQLAlchemy is not.
        HistoryCuratorError: the store failed on the way. It names the conversation, which is as it
            was; those before it are done.
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
            try:
                with engine.begin() as connection:
                    pruning = _Pruning(sa, connection, found, layout, session)
                    decisions += pruning.decide(config)
                    if apply:
                        pruning.write()
            except sa.exc.SQLAlchemyError as error:
                raise HistoryCuratorError(
                    f"The store failed ({type(error).__name__}) at conversation {session!r}, which "
                    "is as it was. Fix: see that it can be written to, and run it again."
                ) from error
            rows += len(pruning.rows)
            characters += sum(pruning.sizes.values())
        report = PruneReport(
            store=engine.url.render_as_string(hide_password=True),
            table=found.name,
            layout=layout.name,
            dry_run=not apply,
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
    engine: Any, table: Any, session_id: Any, config: RetentionConfig, *, aged: int | None = None
) -> tuple[PruneDecision, ...]:
    """Apply retention to one conversation, in one transaction.

    Rows are edited and removed one by one, never rewritten, so messages that others add meanwhile
    stay. Calling it again changes nothing.

    Args:
        engine: a sync SQLAlchemy engine, such as ``SQLChatMessageHistory.engine``.
        table: an SQLAlchemy ``Table``, or its name.
        session_id: the conversation.
        config: what to keep.
        aged: how many turns grew old since the last time. Only the preserved turns and these are
            read then, however long the conversation is. None looks at all of it.

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
        decisions = tuple(pruning.decide(config, aged=aged))
        pruning.write()
    return decisions


class _Pruning:
    """One conversation in one transaction."""

    def __init__(self, sa: Any, connection: Any, table: Any, layout: Layout, session: Any) -> None:
        self._sa = sa
        self._connection = connection
        self._table = table
        self._layout = layout
        self._session = session
        self.rows: list[tuple[Any, StoredRow]] = []
        self.sizes: dict[Any, int] = {}
        self._updates: dict[Any, Any] = {}
        self._deletes: list[Any] = []

    def decide(
        self, config: RetentionConfig, *, aged: int | None = None
    ) -> Iterator[PruneDecision]:
        """Work out what happens to every row."""
        if aged is None:
            self.rows = list(self._newest_first(pages=False))[::-1]
        else:
            found = latest_turns(
                self._newest_first(pages=True), lambda row: row[1].entries, config, aged=aged
            )
            self.rows = [row for row, _ in found]
        entries = [entry for _, stored in self.rows for entry in stored.entries]
        kept = {
            id(entry.root): entry for entry in apply_retention(entries, config, whole=aged is None)
        }
        for row, stored in self.rows:
            before = stored.entries
            after = [kept[id(entry)] for entry in before if id(entry) in kept]
            if not before:
                yield self._decision(row, "unknown", "unreadable", "not a message", None)
            elif not after:
                self._deletes.append(row)
                reason = "tool details of older turns are not kept"
                yield self._decision(row, str(before[0].role), "removed", reason, 0)
            elif len(after) < len(before) or any(map(is_not, after, before)):
                self._updates[row] = stored.written(after)
                size = len(_text(self._updates[row]))
                reason = next((one.reason for one in after if one.reason), "")
                yield self._decision(row, str(before[0].role), "trimmed", reason or "", size)

    def write(self) -> None:
        """Do what was decided."""
        table, layout = self._table, self._layout
        for row, stored in self._updates.items():
            self._connection.execute(
                table.update().where(table.c.id == row).values({layout.payload: stored})
            )
        for row in self._deletes:
            self._connection.execute(table.delete().where(table.c.id == row))

    def _newest_first(self, *, pages: bool) -> Iterator[tuple[Any, StoredRow]]:
        """Read rows from the end, a few at a time where not all may be needed."""
        table, layout, codec = self._table, self._layout, self._layout.rows
        query = (
            self._sa.select(table.c.id, table.c[layout.payload])
            .where(table.c[layout.session] == self._session)
            .order_by(*(table.c[name].desc() for name in layout.order))
            .with_for_update()
        )
        start, size = 0, _PAGE
        while True:
            part = query.limit(size).offset(start) if pages else query
            found: Iterable[Any] = self._connection.execute(part).fetchall()
            count = 0
            for count, (row, payload) in enumerate(found, 1):  # noqa: B007
                self.sizes[row] = len(_text(payload))
                yield row, StoredRow(payload, codec)
            if not pages or count < size:
                return
            start, size = start + size, 2 * size

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
        # Errors of a driver quote what was written, unless they are told not to.
        engine = sa.create_engine(
            f"{_SYNC_DRIVERS.get(scheme, scheme)}{separator}{rest}", hide_parameters=True
        )
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        raise ConfigurationError(
            f"The store cannot be opened: {error}. Fix: use a URL such as sqlite:///chat.db."
        ) from error
    path = engine.url.database
    is_file = path and path != ":memory:" and not path.startswith("file:")
    if engine.format.name == "sqlite" and is_file and not Path(path).exists():
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


def _text(payload: Any) -> str:
    return payload if isinstance(payload, str) else json.dumps(payload)


def _listed(names: Any) -> str:
    return ", ".join(map(str, names)) or "none"
