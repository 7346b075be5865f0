"""Retention for the messages that a SQL store of LangChain or LlamaIndex already holds.

Rows are edited or removed one by one, so messages that others add meanwhile stay.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from history_curator.config import RetentionConfig
from history_curator.entries import ConversationEntry
from history_curator.errors import ConfigurationError, HistoryCuratorError
from history_curator.formats import adapters, find_format, parse_json
from history_curator.record.retention import apply_retention, latest_turns

logger = logging.getLogger("history_curator.retention")

PAGE_ROWS = 32
"""Rows read at a time where only the end of a conversation matters."""

_SYNC_DRIVERS = {
    "sqlite+aiosqlite": "sqlite",
    "postgresql+asyncpg": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
}


class Layout(NamedTuple):
    """The columns of a framework's table, and the root module of its message classes."""

    name: str
    session: str
    payload: str
    order: tuple[str, ...]
    module: str


LAYOUTS = (
    Layout("LangChain", "session_id", "message", ("id",), "langchain_core"),
    Layout("LlamaIndex", "key", "data", ("timestamp", "id"), "llama_index"),
)


class StoredRow(NamedTuple):
    """One row: its key, its message as text and as stored, and the entries read from it."""

    key: Any
    text: str
    payload: Any
    entries: Sequence[ConversationEntry]


@dataclass(frozen=True, slots=True)
class PruneDecision:
    """One row that is ``trimmed``, ``removed`` or ``unreadable`` (left alone).

    Its size before and afterwards is in characters.
    """

    session_id: str
    row: Any
    role: str
    action: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class PruneReport:
    """The rows of a store that were cleaned, or would be, out of those that were looked at."""

    store: str
    table: str
    layout: str
    dry_run: bool
    sessions: int
    rows: int
    characters: int
    decisions: tuple[PruneDecision, ...]

    def explain(self) -> str:
        """Return the outcome in words, with a line for each conversation that changes."""
        head = f"{self.store}, table {self.table} ({self.layout}): {self.rows} messages of "
        head += f"{self.sessions} conversations; {self._total(self.decisions)} of {self.characters}"
        by_session: dict[str, list[PruneDecision]] = {}
        for decision in self.decisions:
            by_session.setdefault(decision.session_id, []).append(decision)
        lines = [f"  {name}: {self._total(some)}" for name, some in by_session.items()]
        return "\n".join([head, *lines])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    def _total(self, decisions: Sequence[PruneDecision]) -> str:
        actions = [decision.action for decision in decisions]
        verb = "would be" if self.dry_run else "were"
        text = f"{actions.count('trimmed')} {verb} trimmed, {actions.count('removed')} removed, "
        if "unreadable" in actions:
            text += f"{actions.count('unreadable')} are not messages and left alone, "
        return text + f"{sum(one.before - one.after for one in decisions)} characters saved"


Changes = list[tuple[PruneDecision, Any]]
"""Each row that changes, with its new payload; None removes it."""


def prune_store(
    url: str,
    *,
    table: str | None = None,
    session_id: str | None = None,
    config: RetentionConfig | None = None,
    apply: bool = False,
) -> PruneReport:
    """Apply retention to what a store already holds, or say what that would do.

    The store changes only if `apply` is set, each conversation in one transaction. Preserved turns
    and everything said in words stay; messages added meanwhile are not touched, so the store may
    be in use. Running it again changes nothing.

    Args:
        url: an SQLAlchemy URL, such as ``sqlite:///chat.db``; async drivers are accepted.
        table: the table; may be left out when only one looks like a conversation.
        session_id: one conversation (LangChain's session, LlamaIndex's key); None is all.
        config: what to keep; by default older turns are trimmed to ``{name, status}``.
        apply: change the store; otherwise the report says what would change.
    """
    config = config or RetentionConfig(persist_tool_invocations="trimmed")
    try:
        sa = importlib.import_module("sqlalchemy")
    except ImportError as error:
        raise ConfigurationError(
            "Pruning a store needs SQLAlchemy. Fix: pip install sqlalchemy."
        ) from error
    engine = _connect(sa, url)
    decisions: list[PruneDecision] = []
    rows: list[StoredRow] = []
    try:
        found = _find_table(sa, engine, table)
        sessions = _find_sessions(sa, engine, found, session_id)
        for session in sessions:
            try:
                with engine.begin() as connection:
                    read, changes = _plan_changes(connection, found, session, config)
                    if apply:
                        _write_changes(connection, found, changes)
            except sa.exc.SQLAlchemyError as error:
                raise HistoryCuratorError(
                    f"The store failed ({type(error).__name__}) at conversation {session!r}, which "
                    "is as it was. Fix: see that it can be written to, and run it again."
                ) from error
            rows += read
            decisions += [decision for decision, _ in changes]
    finally:
        engine.dispose()
    report = PruneReport(
        store=engine.url.render_as_string(hide_password=True),
        table=found.name,
        layout=_layout_of(found).name,
        dry_run=not apply,
        sessions=len(sessions),
        rows=len(rows),
        characters=sum(len(row.text) for row in rows),
        decisions=tuple(decisions),
    )
    logger.info("%s", report.explain().splitlines()[0])
    return report


def prune_connection(
    connection: Any, table: Any, session_id: Any, retention: RetentionConfig, aged: int | None
) -> bool:
    """Apply retention to one conversation in an open transaction; return whether it changed.

    `aged` is how many turns grew old since the last time: only those and the preserved turns are
    read. None looks at all of them.
    """
    _, changes = _plan_changes(connection, table, session_id, retention, aged)
    _write_changes(connection, table, changes)
    return any(decision.action != "unreadable" for decision, _ in changes)


def _plan_changes(
    connection: Any, table: Any, session: Any, config: RetentionConfig, aged: int | None = None
) -> tuple[list[StoredRow], Changes]:
    adapter = _load_adapter(_layout_of(table))
    newest_first = _read_rows(connection, table, session, adapter, pages=aged is not None)
    if aged is None:
        rows = list(newest_first)[::-1]
    else:
        latest = latest_turns(newest_first, lambda row: row.entries, config, aged)
        rows = [row for row, _ in latest]
    entries = [entry for row in rows for entry in row.entries]
    stored = {id(one.root): one for one in apply_retention(entries, config, whole=aged is None)}
    changes: Changes = []
    for row in rows:
        after = [stored[id(entry)] for entry in row.entries if id(entry) in stored]
        action, text, payload = "removed", "", None
        if not row.entries:
            action, text, payload = "unreadable", row.text, row.payload
        elif after:
            if list(map(id, after)) == list(map(id, row.entries)):
                continue
            data = _edit_data(row, after, adapter)
            action, text = "trimmed", json.dumps(data)
            payload = text if isinstance(row.payload, str) else data
        role = str(row.entries[0].role) if row.entries else "unknown"
        sizes = len(row.text), len(text)
        changes.append((PruneDecision(str(session), row.key, role, action, *sizes), payload))
    return rows, changes


def _write_changes(connection: Any, table: Any, changes: Changes) -> None:
    column = _layout_of(table).payload
    for decision, payload in changes:
        if decision.action == "trimmed":
            change = table.update().values({column: payload})
        elif decision.action == "removed":
            change = table.delete()
        else:
            continue
        connection.execute(change.where(table.c.id == decision.row))


def _read_rows(
    connection: Any, table: Any, session: Any, adapter: Any, *, pages: bool
) -> Iterator[StoredRow]:
    """Read rows from the end, a few at a time where not all may be needed."""
    layout = _layout_of(table)
    order = [table.c[name].desc() for name in layout.order]
    query = table.select().where(table.c[layout.session] == session).order_by(*order)
    offset, size = 0, PAGE_ROWS
    while True:
        page = query.limit(size).offset(offset) if pages else query
        found = connection.execute(page.with_for_update()).mappings().fetchall()
        for row in found:
            payload = row[layout.payload]
            text = payload if isinstance(payload, str) else json.dumps(payload)
            try:
                message = adapter.load(parse_json(text))
                entries = find_format([message]).read(message, 0)
            except Exception:  # noqa: BLE001 - whatever a row of somebody else's raises
                entries = ()
            yield StoredRow(row["id"], text, payload, entries)
        if not pages or len(found) < size:
            return
        offset, size = offset + size, 2 * size


def _edit_data(row: StoredRow, after: Sequence[ConversationEntry], adapter: Any) -> Any:
    """Return the data of a row with these entries in it."""
    data = parse_json(row.text)
    if len(row.entries) == 1:
        message = find_format([row.entries[0].source]).write(after)[0]
        return {**data, **adapter.dump(message)}
    # Several results in one message: each is edited where it is.
    left = {one.tool_call_id: one for one in after}
    contents: dict[Any, str | None] = {}
    for entry in row.entries:
        edited = left.get(entry.tool_call_id)
        if edited is not entry:
            contents[entry.tool_call_id] = None if edited is None else edited.content
    return _edit_results(data, contents)


def _edit_results(data: Any, contents: dict[Any, str | None]) -> Any:
    if isinstance(data, dict):
        return {key: _edit_results(value, contents) for key, value in data.items()}
    if not isinstance(data, list):
        return data
    edited = []
    for item in data:
        call_id = str(item.get("tool_use_id")) if isinstance(item, dict) else None
        if call_id not in contents:
            edited.append(_edit_results(item, contents))
        elif contents[call_id] is not None:
            edited.append({**item, "content": contents[call_id]})
    return edited


def _load_adapter(layout: Layout) -> Any:
    """Return the module that reads and writes a framework's rows: its ``load`` and ``dump``."""
    try:
        return adapters()[layout.module].load()
    except (ImportError, KeyError) as error:
        raise ConfigurationError(
            f"Reading the messages of a {layout.name} table needs {layout.name}. "
            f"Fix: pip install 'history-curator[{layout.name.lower()}]'."
        ) from error


def _connect(sa: Any, url: str) -> Any:
    scheme, separator, rest = url.partition("://")
    url = f"{_SYNC_DRIVERS.get(scheme, scheme)}{separator}{rest}"
    try:
        # Errors of a driver quote what was written, unless they are told not to.
        engine = sa.create_engine(url, hide_parameters=True)
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        raise ConfigurationError(
            f"The store cannot be opened: {error}. Fix: use a URL such as sqlite:///chat.db."
        ) from error
    path = engine.url.database
    is_file = path and path != ":memory:" and not path.startswith("file:")
    if engine.dialect.name == "sqlite" and is_file and not Path(path).exists():
        raise ConfigurationError(f"There is no store at {path}. Fix: check the URL.")
    return engine


def _find_table(sa: Any, engine: Any, name: str | None) -> Any:
    try:
        tables = sa.MetaData()
        tables.reflect(engine)
    except sa.exc.SQLAlchemyError as error:
        raise ConfigurationError(f"The store cannot be read: {error}") from error
    fitting = [table for table in tables.tables.values() if _find_layout(table)]
    if name is None and len(fitting) != 1:
        names = ", ".join(table.name for table in fitting) or "none"
        raise ConfigurationError(
            f"{len(fitting)} tables look like conversations: {names}. Fix: say which with table=."
        )
    if name is not None and name not in tables.tables:
        raise ConfigurationError(
            f"There is no table {name!r}; the store has {', '.join(tables.tables) or 'none'}."
        )
    table = fitting[0] if name is None else tables.tables[name]
    _layout_of(table)
    return table


def _find_layout(table: Any) -> Layout | None:
    names = {column.name for column in table.columns}
    fitting = (one for one in LAYOUTS if names.issuperset({one.session, one.payload, *one.order}))
    return next(fitting, None)


def _layout_of(table: Any) -> Layout:
    layout = _find_layout(table)
    if layout is None:
        raise ConfigurationError(
            f"Table {table.name!r} does not hold conversations of LangChain or LlamaIndex; "
            f"it has the columns {', '.join(sorted(column.name for column in table.columns))}."
        )
    return layout


def _find_sessions(sa: Any, engine: Any, table: Any, session_id: str | None) -> list[Any]:
    column = table.c[_layout_of(table).session]
    query = sa.select(column).distinct().where(column.is_not(None)).order_by(column)
    with engine.connect() as connection:
        found = [row[0] for row in connection.execute(query)]
    chosen = [one for one in found if session_id is None or str(one) == session_id]
    if session_id is not None and not chosen:
        raise ConfigurationError(
            f"There is no conversation {session_id!r} in table {table.name!r}. "
            f"Fix: use one of {', '.join(map(str, found[:10]))}."
        )
    return chosen
