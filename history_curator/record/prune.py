"""Retention for the messages that a SQL store of LangChain or LlamaIndex already holds.

Rows are edited or removed one by one, so messages that others add meanwhile stay.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
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
    """One row: its key, its message as stored and as text, and the entries read from it."""

    key: Any
    payload: Any
    text: str
    entries: Sequence[ConversationEntry]


@dataclass(frozen=True, slots=True)
class PruneDecision:
    """One row that is ``trimmed`` or ``removed``, with its characters before and afterwards."""

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
        removed = sum(one.action == "removed" for one in decisions)
        verb = "would be" if self.dry_run else "were"
        saved = sum(one.before - one.after for one in decisions)
        trimmed = len(decisions) - removed
        return f"{trimmed} {verb} trimmed, {removed} removed, {saved} characters saved"


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
    and all message text stay; messages added meanwhile are not touched. Running it again
    changes nothing.

    Args:
        url: an SQLAlchemy URL, such as ``sqlite:///chat.db``; async drivers are accepted.
        table: may be left out when only one looks like a conversation.
        session_id: one conversation (LangChain's session, LlamaIndex's key); None is all.
        config: what to keep; by default older turns are trimmed to ``{name, status}``.
        apply: change the store; otherwise the report says what would change.
    """
    config = config or RetentionConfig(persist_tool_invocations="trimmed")
    try:
        sa = importlib.import_module("sqlalchemy")
    except ImportError as error:
        raise ConfigurationError(
            "Pruning needs SQLAlchemy. Fix: pip install sqlalchemy."
        ) from error
    engine, tables = _open(sa, url)
    decisions: list[PruneDecision] = []
    rows: list[StoredRow] = []
    try:
        found, layout = _find_table(tables, table)
        sessions = _find_sessions(sa, engine, found.c[layout.session], session_id)
        for session in sessions:
            try:
                with engine.begin() as connection:
                    read, changes = _prune(connection, found, session, config, apply=apply)
            except sa.exc.SQLAlchemyError as error:
                raise HistoryCuratorError(
                    f"The store failed ({type(error).__name__}) at conversation {session!r}, which "
                    "is as it was. Fix: see that it can be written to, and run it again."
                ) from error
            rows += read
            decisions += changes
    finally:
        engine.dispose()
    report = PruneReport(
        store=engine.url.render_as_string(hide_password=True),
        table=found.name,
        layout=layout.name,
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
    return bool(_prune(connection, table, session_id, retention, aged)[1])


def _prune(
    connection: Any,
    table: Any,
    session: Any,
    config: RetentionConfig,
    aged: int | None = None,
    *,
    apply: bool = True,
) -> tuple[list[StoredRow], list[PruneDecision]]:
    layout = _layout_of(table) or LAYOUTS[0]
    try:
        adapter = adapters()[layout.module].load()
    except (ImportError, KeyError) as error:
        fix = f"pip install 'history-curator[{layout.name.lower()}]'"
        raise ConfigurationError(f"Its messages need {layout.name}. Fix: {fix}.") from error
    order = [table.c[name].desc() for name in layout.order]
    query = table.select().where(table.c[layout.session] == session).order_by(*order)
    newest_first = _read_rows(connection, query, layout, adapter, pages=aged is not None)
    if aged is None:
        rows = list(newest_first)[::-1]
    else:
        latest = latest_turns(newest_first, lambda row: row.entries, config, aged)
        rows = [row for row, _ in latest]
    entries = [entry for row in rows for entry in row.entries]
    stored = {id(one.root): one for one in apply_retention(entries, config, whole=aged is None)}
    decisions = []
    for row in rows:
        after = [stored[id(entry)] for entry in row.entries if id(entry) in stored]
        if list(map(id, after)) == list(map(id, row.entries)):
            continue
        action, text, change = "removed", "", table.delete()
        if after:
            data = _edit_data(row, after, adapter)
            action, text = "trimmed", json.dumps(data)
            payload = text if isinstance(row.payload, str) else data
            change = table.update().values({layout.payload: payload})
        if apply:
            connection.execute(change.where(table.c.id == row.key))
        role, sizes = str(row.entries[0].role), (len(row.text), len(text))
        decisions.append(PruneDecision(str(session), row.key, role, action, *sizes))
    return rows, decisions


def _read_rows(
    connection: Any, query: Any, layout: Layout, adapter: Any, *, pages: bool
) -> Iterator[StoredRow]:
    """Read rows, a few at a time where not all may be needed."""
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
            except Exception:  # noqa: BLE001 - a row of somebody else's, which is left alone
                entries = ()
            yield StoredRow(row["id"], payload, text, entries)
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
    texts: dict[str | None, str | None] = {}
    for entry in row.entries:
        edited = left.get(entry.tool_call_id)
        if edited is not entry:
            texts[entry.tool_call_id] = None if edited is None else edited.content
    return _edit_results(data, texts)


def _edit_results(data: Any, texts: Mapping[str | None, str | None]) -> Any:
    """Return a message's data with these texts as results; None takes a result out."""
    if isinstance(data, dict):
        return {key: _edit_results(value, texts) for key, value in data.items()}
    if not isinstance(data, list):
        return data
    edited = []
    for item in data:
        call_id = str(item.get("tool_use_id")) if isinstance(item, dict) else None
        if call_id not in texts:
            edited.append(_edit_results(item, texts))
        elif texts[call_id] is not None:
            edited.append({**item, "content": texts[call_id]})
    return edited


def _open(sa: Any, url: str) -> tuple[Any, Mapping[str, Any]]:
    """Return a store and its tables by name."""
    scheme, separator, rest = url.partition("://")
    try:
        # Errors of a driver quote what was written, unless they are told not to.
        url = f"{_SYNC_DRIVERS.get(scheme, scheme)}{separator}{rest}"
        engine, schema = sa.create_engine(url, hide_parameters=True), sa.MetaData()
        path = engine.url.database or ""
        is_file = engine.dialect.name == "sqlite" and path and not path.startswith((":", "file:"))
        if is_file and not Path(path).exists():
            raise ConfigurationError(f"There is no store at {path}. Fix: check the URL.")
        schema.reflect(engine)
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        raise ConfigurationError(
            f"The store cannot be opened: {error}. Fix: use a URL such as sqlite:///chat.db."
        ) from error
    return engine, schema.tables


def _find_table(tables: Mapping[str, Any], name: str | None) -> tuple[Any, Layout]:
    fitting = {known: layout for known, table in tables.items() if (layout := _layout_of(table))}
    name = name or (next(iter(fitting)) if len(fitting) == 1 else "")
    if name not in fitting:
        raise ConfigurationError(
            f"{len(fitting)} tables hold conversations of LangChain or LlamaIndex, and {name!r} is "
            f"none of them. Fix: say which with table=, of {', '.join(fitting) or 'none'}."
        )
    return tables[name], fitting[name]


def _layout_of(table: Any) -> Layout | None:
    names = {column.name for column in table.columns}
    fitting = (one for one in LAYOUTS if names.issuperset({one.session, one.payload, *one.order}))
    return next(fitting, None)


def _find_sessions(sa: Any, engine: Any, column: Any, session_id: str | None) -> list[Any]:
    query = sa.select(column).distinct().where(column.is_not(None)).order_by(column)
    with engine.connect() as connection:
        found = [row[0] for row in connection.execute(query)]
    chosen = [one for one in found if session_id is None or str(one) == session_id]
    if session_id is not None and not chosen:
        known = ", ".join(map(str, found[:10]))
        raise ConfigurationError(
            f"There is no conversation {session_id!r}. Fix: use one of {known}."
        )
    return chosen
