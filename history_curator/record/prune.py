"""Retention for the messages that a SQL store of LangChain or LlamaIndex already holds.

Rows are edited or removed one by one, so messages that others add meanwhile stay.
"""

from __future__ import annotations

import importlib
import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from history_curator.config import RetentionConfig
from history_curator.errors import ConfigurationError, HistoryCuratorError
from history_curator.formats import adapters, find_format, parse_json
from history_curator.record.retention import apply_retention

logger = logging.getLogger("history_curator.retention")

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


@dataclass(frozen=True, slots=True)
class PrunedConversation:
    """How many rows of a conversation there are, and were trimmed or removed; characters saved."""

    table: str
    session_id: str
    rows: int
    trimmed: int
    removed: int
    saved: int

    def __str__(self) -> str:
        numbers = f"{self.rows} messages, {self.trimmed} trimmed, {self.removed} removed"
        return f"{self.table}, {self.session_id}: {numbers}, {self.saved} characters saved"


def prune_store(
    url: str, *, config: RetentionConfig | None = None, apply: bool = False
) -> list[PrunedConversation]:
    """Apply retention to what a store already holds, or say what that would do.

    The store changes only if `apply` is set, each conversation in one transaction. Preserved turns
    and all message text stay, and so do messages added meanwhile. Running it again changes nothing.
    By default older turns are trimmed to ``{name, status}``. The URL is SQLAlchemy's, also of an
    async driver.
    """
    config = config or RetentionConfig(persist_tool_invocations="trimmed")
    try:
        sa = importlib.import_module("sqlalchemy")
    except ImportError as error:
        raise ConfigurationError("Pruning needs it. Fix: pip install sqlalchemy.") from error
    engine, schema = _open_store(sa, url), sa.MetaData()
    pruned, where = list[PrunedConversation](), ""
    try:
        schema.reflect(engine)
        tables = [(one, layout) for one in schema.sorted_tables if (layout := _find_layout(one))]
        for found, layout in tables:
            column = found.c[layout.session]
            query = sa.select(column).distinct().where(column.is_not(None)).order_by(column)
            with engine.connect() as connection:
                sessions = connection.execute(query).scalars().all()
            for session in sessions:
                where = f" at conversation {session!r}, which is as it was"
                with engine.begin() as connection:
                    one = prune_connection(connection, found, session, config, apply=apply)
                    pruned.append(one)
                    logger.info("prune%s: %s", "" if apply else " (dry run)", one)
    except sa.exc.SQLAlchemyError as error:
        fix = "Fix: see that it runs and can be written to, and do it again."
        problem = f"The store failed ({type(error).__name__}){where}"
        raise HistoryCuratorError(f"{problem}. {fix}") from error
    finally:
        engine.dispose()
    if not tables:
        fix = f"Fix: check the URL; found {[one.name for one in schema.sorted_tables]}."
        raise ConfigurationError(f"No conversation of LangChain or LlamaIndex is there. {fix}")
    return pruned


def prune_connection(
    connection: Any, table: Any, session: Any, config: RetentionConfig, *, apply: bool = True
) -> PrunedConversation:
    """Apply retention to one conversation in an open transaction, or say what that would do."""
    layout = _find_layout(table)
    assert layout is not None
    try:
        adapter = adapters()[layout.module].load()
    except (ImportError, KeyError) as error:
        fix = f"pip install 'history-curator[{layout.name.lower()}]'"
        raise ConfigurationError(f"Its messages need {layout.name}. Fix: {fix}.") from error
    query = table.select().where(table.c[layout.session] == session)
    query = query.order_by(*(table.c[name] for name in layout.order)).with_for_update()
    rows = []
    for row in connection.execute(query).mappings():
        payload = row[layout.payload]
        text = payload if isinstance(payload, str) else json.dumps(payload)
        try:
            message = adapter.load(parse_json(text))
            entries = find_format([message]).read(message, 0)
        except Exception:  # noqa: BLE001 - a row of somebody else's, which is left alone
            entries = ()
        if len(entries) > 1:  # several results in one message stay, and their calls with them
            entries = tuple(replace(entry, pinned=True) for entry in entries)
        rows.append((row["id"], payload, text, entries))
    given = [entry for *_, entries in rows for entry in entries]
    stored = {id(one.root): one for one in apply_retention(given, config)}
    trimmed = removed = saved = 0
    for key, payload, text, entries in rows:
        left = [stored[id(entry)] for entry in entries if id(entry) in stored]
        if list(map(id, left)) == list(map(id, entries)):
            continue
        change, new = table.delete(), ""
        if left:
            data = parse_json(text) | adapter.dump(find_format([left[0].source]).write(left)[0])
            new = json.dumps(data)
            change = table.update().values({layout.payload: new if payload is text else data})
        trimmed, removed = trimmed + bool(left), removed + (not left)
        saved += len(text) - len(new)
        if apply:
            connection.execute(change.where(table.c.id == key))
    return PrunedConversation(table.name, str(session), len(rows), trimmed, removed, saved)


def _open_store(sa: Any, url: str) -> Any:
    scheme, separator, rest = url.partition("://")
    url = f"{_SYNC_DRIVERS.get(scheme, scheme)}{separator}{rest}"
    try:
        # Errors of a driver quote what was written, unless they are told not to.
        engine = sa.create_engine(url, hide_parameters=True)
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        missing = isinstance(error, ImportError) and error.name
        fix = f"pip install {missing}" if missing else "use a URL such as sqlite:///chat.db"
        raise ConfigurationError(f"The store cannot be opened: {error}. Fix: {fix}.") from error
    path = engine.url.database or ""
    is_file = engine.dialect.name == "sqlite" and path and not path.startswith((":", "file:"))
    if is_file and not Path(path).exists():
        raise ConfigurationError(f"There is no store at {path}. Fix: check the URL.")
    return engine


def _find_layout(table: Any) -> Layout | None:
    names = {column.name for column in table.columns}
    fitting = (one for one in LAYOUTS if names.issuperset({one.session, one.payload, *one.order}))
    return next(fitting, None)
