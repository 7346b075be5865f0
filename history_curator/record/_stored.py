"""Messages as the frameworks' SQL stores keep them: which tables, and how a row is read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.entries import ConversationEntry, MessageRole

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """How one framework lays out its table.

    Attributes:
        name: the framework.
        session: the column that names the conversation.
        payload: the column that holds the message.
        order: the columns that sort a conversation.
        adapter: the root module of the framework's message classes; see `adapters`.
    """

    name: str
    session: str
    payload: str
    order: tuple[str, ...]
    adapter: str

    @property
    def columns(self) -> frozenset[str]:
        """What a table must have to be of this layout."""
        return frozenset({self.session, self.payload, *self.order})

    @property
    def rows(self) -> Any:
        """The module that reads and writes rows: its ``DIALECT``, ``load`` and ``dump``.

        Raises:
            ConfigurationError: when the framework is not installed.
        """
        from history_curator.formats import adapters

        try:
            return adapters()[self.adapter].load()
        except (ImportError, KeyError) as error:
            extra = self.name.lower()
            raise ConfigurationError(
                f"Reading the messages of a {self.name} table needs {self.name}. "
                f"Fix: pip install 'history-curator[{extra}]'."
            ) from error


LAYOUTS = (
    Layout("LangChain", "session_id", "message", ("id",), "langchain_core"),
    Layout("LlamaIndex", "key", "data", ("timestamp", "id"), "llama_index"),
)


class StoredRow:
    """One row: its entries, and what it becomes when some of them change.

    Attributes:
        entries: what the framework's format reads in it; empty when it is not a message.
    """

    __slots__ = ("_data", "_rows", "_was_text", "entries")

    def __init__(self, payload: Any, rows: Any, index: int = 0) -> None:
        self._rows = rows
        self._was_text = isinstance(payload, str)
        self.entries: tuple[ConversationEntry, ...] = ()
        self._data: Any = payload
        try:
            self._data = json.loads(payload) if self._was_text else payload
            self.entries = tuple(rows.DIALECT.read(rows.load(self._data), index))
        except Exception:  # noqa: BLE001 - whatever a row of somebody else's raises
            self.entries = ()

    def written(self, kept: Sequence[ConversationEntry]) -> Any:
        """Return the payload that holds these entries instead, in the form it was stored in."""
        if len(self.entries) == 1:
            messages = self._rows.DIALECT.write(kept)
            data = {**self._data, **self._rows.dump(messages[0])}
        else:
            data = self._edited(kept)
        return json.dumps(data) if self._was_text else data

    def _edited(self, kept: Sequence[ConversationEntry]) -> Any:
        """Several results in one message: each is edited where it is."""
        texts: dict[str, str | None] = {}
        new = {id(entry.root): entry for entry in kept}
        for entry in self.entries:
            after = new.get(id(entry))
            if after is not entry and entry.role is MessageRole.TOOL and entry.tool_call_id:
                texts[entry.tool_call_id] = None if after is None else after.content
        return _edit_results(self._data, texts)


def _edit_results(data: Any, texts: Mapping[str, str | None]) -> Any:
    if isinstance(data, Mapping):
        return {key: _edit_results(value, texts) for key, value in data.items()}
    if not isinstance(data, list):
        return data
    out = []
    for item in data:
        wanted = str(item.get("tool_use_id")) if isinstance(item, Mapping) else ""
        if wanted not in texts:
            out.append(_edit_results(item, texts))
        elif texts[wanted] is not None:
            out.append({**item, "content": texts[wanted]})
    return out
