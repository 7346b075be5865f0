"""Retention for the messages that a SQL store of LangChain or LlamaIndex already holds.

Rows are edited or removed one by one, so messages that others add meanwhile stay.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
    and all message text stay, and so do messages added meanwhile. Running it again changes nothing.

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
        fix = "Fix: pip install sqlalchemy."
        raise ConfigurationError(f"Pruning needs SQLAlchemy. {fix}") from error
    engine, tables = _open_store(sa, url)
    decisions: list[PruneDecision] = []
    sizes: list[int] = []
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
            sizes += read
            decisions += changes
    finally:
        engine.dispose()
    report = PruneReport(
        store=engine.url.render_as_string(hide_password=True),
        table=found.name,
        layout=layout.name,
        dry_run=not apply,
        sessions=len(sessions),
        rows=len(sizes),
        characters=sum(sizes),
        decisions=tuple(decisions),
    )
    logger.info("%s", report.explain().splitlines()[0])
    return report


def prune_connection(
    connection: Any, table: Any, session_id: Any, retention: RetentionConfig
) -> bool:
    """Apply retention to one conversation in an open transaction; return whether it changed."""
    return bool(_prune(connection, table, session_id, retention, apply=True)[1])


def _prune(
    connection: Any, table: Any, session: Any, config: RetentionConfig, *, apply: bool
) -> tuple[list[int], list[PruneDecision]]:
    """Return the size of every row of a conversation, and the decisions about some of them."""
    layout = _layout_of(table) or LAYOUTS[0]
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
    decisions = []
    for key, payload, text, entries in rows:
        left = [stored[id(entry)] for entry in entries if id(entry) in stored]
        if list(map(id, left)) == list(map(id, entries)):
            continue
        action, new, change = "removed", "", table.delete()
        if left:
            message = find_format([left[0].source]).write(left)[0]
            data = {**parse_json(text), **adapter.dump(message)}
            action, new = "trimmed", json.dumps(data)
            change = table.update().values(
                {layout.payload: new if isinstance(payload, str) else data}
            )
        if apply:
            connection.execute(change.where(table.c.id == key))
        role = str(entries[0].role)
        decisions.append(PruneDecision(str(session), key, role, action, len(text), len(new)))
    return [len(text) for _, _, text, _ in rows], decisions


def _open_store(sa: Any, url: str) -> tuple[Any, Mapping[str, Any]]:
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
        fix = "Fix: use a URL such as sqlite:///chat.db."
        raise ConfigurationError(f"The store cannot be opened: {error}. {fix}") from error
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
        fix = f"Fix: use one of {known}."
        raise ConfigurationError(f"There is no conversation {session_id!r}. {fix}")
    return chosen
