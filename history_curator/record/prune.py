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
    characters: int
    saved: int

    def __str__(self) -> str:
        numbers = f"{self.rows} messages, {self.trimmed} trimmed, {self.removed} removed"
        saved = f"{self.saved} of {self.characters} characters saved"
        return f"{self.table}, {self.session_id}: {numbers}, {saved}"


def prune_store(
    url: str,
    *,
    table: str | None = None,
    session_id: str | None = None,
    config: RetentionConfig | None = None,
    apply: bool = False,
) -> list[PrunedConversation]:
    """Apply retention to what a store already holds, or say what that would do.

    The store changes only if `apply` is set, each conversation in one transaction. Preserved turns
    and all message text stay, and so do messages added meanwhile. Running it again changes nothing.

    Args:
        url: an SQLAlchemy URL, such as ``sqlite:///chat.db``; async drivers are accepted.
        table: only this one; by default every table that a framework made for messages.
        session_id: only this conversation (LangChain's session, LlamaIndex's key).
        config: what to keep; by default older turns are trimmed to ``{name, status}``.
        apply: change the store; otherwise the numbers say what would change.
    """
    config = config or RetentionConfig(persist_tool_invocations="trimmed")
    try:
        sa = importlib.import_module("sqlalchemy")
    except ImportError as error:
        fix = "Fix: pip install sqlalchemy."
        raise ConfigurationError(f"Pruning needs SQLAlchemy. {fix}") from error
    engine, schema = _open_store(sa, url), sa.MetaData()
    pruned: list[PrunedConversation] = []
    session: Any = None
    try:
        schema.reflect(engine)
        tables = [found for found in schema.sorted_tables if _find_layout(found)]
        for found in tables:
            column = found.c[(_find_layout(found) or LAYOUTS[0]).session]
            query = sa.select(column).distinct().where(column.is_not(None)).order_by(column)
            with engine.connect() as connection:
                sessions = connection.execute(query).scalars().all()
            for session in sessions:
                if table in (None, found.name) and session_id in (None, str(session)):
                    with engine.begin() as connection:
                        pruned.append(_prune(connection, found, session, config, apply=apply))
    except sa.exc.SQLAlchemyError as error:
        where = "" if session is None else f" at conversation {session!r}, which is as it was"
        fix = "Fix: see that it runs and can be written to, and do it again."
        raise HistoryCuratorError(
            f"The store failed ({type(error).__name__}){where}. {fix}"
        ) from error
    finally:
        engine.dispose()
    if not tables or (not pruned and (table or session_id)):
        fix = f"Fix: check table= and session_id=; found {[one.name for one in tables]}."
        raise ConfigurationError(f"No conversation of LangChain or LlamaIndex is there. {fix}")
    for one in pruned:
        logger.info("prune%s: %s", "" if apply else " (dry run)", one)
    return pruned


def prune_connection(
    connection: Any, table: Any, session_id: Any, retention: RetentionConfig
) -> bool:
    """Apply retention to one conversation in an open transaction; return whether it changed."""
    pruned = _prune(connection, table, session_id, retention, apply=True)
    return bool(pruned.trimmed or pruned.removed)


def _prune(
    connection: Any, table: Any, session: Any, config: RetentionConfig, *, apply: bool
) -> PrunedConversation:
    layout = _find_layout(table) or LAYOUTS[0]
    try:
        adapter = adapters()[layout.module].load()
    except (ImportError, KeyError) as error:
        fix = f"pip install 'history-curator[{layout.name.lower()}]'"
        raise ConfigurationError(f"Its messages need {layout.name}. Fix: {fix}.") from error
    order = [table.c[name] for name in layout.order]
    query = table.select().where(table.c[layout.session] == session).order_by(*order)
    rows = []
    for row in connection.execute(query.with_for_update()).mappings():
        payload = row[layout.payload]
        text = payload if isinstance(payload, str) else json.dumps(payload)
        try:
            entries = find_format([message := adapter.load(parse_json(text))]).read(message, 0)
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
        change = table.delete()
        saved += len(text)
        if left:
            message = find_format([left[0].source]).write(left)[0]
            data = {**parse_json(text), **adapter.dump(message)}
            new = json.dumps(data)
            values = {layout.payload: new if isinstance(payload, str) else data}
            change = table.update().values(values)
            saved -= len(new)
        trimmed, removed = trimmed + bool(left), removed + (not left)
        if apply:
            connection.execute(change.where(table.c.id == key))
    characters = sum(len(text) for _, _, text, _ in rows)
    numbers = (len(rows), trimmed, removed, characters, saved)
    return PrunedConversation(table.name, str(session), *numbers)


def _open_store(sa: Any, url: str) -> Any:
    scheme, separator, rest = url.partition("://")
    try:
        # Errors of a driver quote what was written, unless they are told not to.
        url = f"{_SYNC_DRIVERS.get(scheme, scheme)}{separator}{rest}"
        engine = sa.create_engine(url, hide_parameters=True)
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        fix = "Fix: use a URL such as sqlite:///chat.db."
        raise ConfigurationError(f"The store cannot be opened: {error}. {fix}") from error
    path = engine.url.database or ""
    is_file = engine.dialect.name == "sqlite" and path and not path.startswith((":", "file:"))
    if is_file and not Path(path).exists():
        raise ConfigurationError(f"There is no store at {path}. Fix: check the URL.")
    return engine


def _find_layout(table: Any) -> Layout | None:
    names = {column.name for column in table.columns}
    fitting = (one for one in LAYOUTS if names.issuperset({one.session, one.payload, *one.order}))
    return next(fitting, None)
