"""`Recall`: the original of what the view left out, by handle, by lines, or by query."""

from __future__ import annotations

import re
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from history_curator.formats import read_entries
from history_curator.errors import ConfigurationError
from history_curator.entries import (
    RECALL_TOOL_NAME,
    ConversationEntry,
    MessageRole,
    find_handle,
    handle_of,
)
from history_curator.record.recall._excerpt import excerpt, label_of, passage, quoted_lines
from history_curator.tokens import shorten, shorten_tokens

if TYPE_CHECKING:
    from history_curator.managers.relevance import Search
    from history_curator.tokens import TokenCounter


RECALL_DESCRIPTION = (
    "Get back earlier parts of this conversation that were shortened, cleared or left out. "
    'Give `handle` (as written in a placeholder, such as "r1a2b3c4d5e6f7081"), optionally with `lines` '
    '("40-80"), or give `query` (a few words) to search everything said and every tool result so '
    "far. Works for this conversation only."
)


class RecallRequest(BaseModel):
    """Arguments of the recall tool: a handle (with optional lines), or a query.

    Examples:
        >>> RecallRequest(handle="r1a2b3c4d5e6f7081", lines="40-80").lines
        '40-80'
    """

    handle: str | None = Field(
        default=None, description="The handle written in a placeholder, copied exactly."
    )
    lines: str | None = Field(
        default=None, description='Which lines of the original, from 1: "40-80", "40-" or "40".'
    )
    query: str | None = Field(
        default=None, description="Words to look for when no handle is known."
    )


Record = Sequence[Any] | Callable[[], Sequence[Any]]

_HITS = 32
"""Parts of an answer at most: short ones fill the default limit of a tool with about so many."""


class Recall:
    r"""Answers the recall tool from one conversation's record, and from nothing else.

    Guaranteed: an answer never holds more than ``max_tokens`` tokens, never a text from outside
    the record given here, never the system prompt, and never an exception for what a model may
    write: a handle that belongs to no entry of this record gets a plain refusal. Every line of
    what was said starts with ``> ``, so nothing in it can pose as another message or as an answer
    of ours. Any number of threads may ask; each is answered from the record as it was returned to
    that thread.

    A query is answered with the ranking of `RelevanceManager`, over the whole record; when an
    embedding model fails, by words alone.

    Args:
        record: the recorded messages or entries, or a callable that returns them, from a store
            for instance (asked at every call, so that a growing conversation stays searchable).
        arecord: the same for `acall`, to be awaited; None reads `record` in a thread.
        counter: an encoding, a model name or a `TokenCounter`.
        max_tokens: the most one answer may cost.
        scorer: how texts are matched with a query, as for `RelevanceManager`.
        folder: where the index of a long record is kept; None keeps it in memory.
        name: what the tool is called; what it answered before is not found again.

    Examples:
        >>> from history_curator.entries import ConversationEntry as E, MessageRole as R
        >>> said = [E(R.USER, "one\ntwo\nthree"), E(R.ASSISTANT, "noted")]
        >>> recall = Recall(said, counter="heuristic")
        >>> print(recall(handle=handle_of(said[0]), lines="2-3"))
        [user, message 1, lines 2-3 of 3]
        > two
        > three
        >>> recall(handle="r0000000000000000").startswith("Refused")
        True
    """

    def __init__(
        self,
        record: Record,
        *,
        arecord: Callable[[], Awaitable[Sequence[Any]]] | None = None,
        counter: str | TokenCounter | None = "o200k_base",
        max_tokens: int = 2_000,
        scorer: Any = None,
        folder: Any = None,
        name: str = RECALL_TOOL_NAME,
    ) -> None:
        from history_curator.tokens import get_counter

        if max_tokens < 50:
            raise ConfigurationError(f"max_tokens must be at least 50, got {max_tokens}.")
        self._record = record
        self._arecord = arecord
        self._counter = get_counter(counter)
        self.max_tokens = max_tokens
        self._scorer = scorer
        self._folder = folder
        self._name = name
        self._known: list[ConversationEntry] = []
        self._handles: list[str] = []
        self._index: Search | None = None
        self._lock = Lock()

    def __call__(
        self, handle: str | None = None, lines: Any = None, query: str | None = None
    ) -> str:
        """Answer one request of the recall tool, in words the agent can act on."""
        return self._answer(self._read(), handle, lines, query)

    async def acall(
        self, handle: str | None = None, lines: Any = None, query: str | None = None
    ) -> str:
        """Answer one request; the record is awaited, and looked through in a thread."""
        if self._arecord is None:
            return await to_thread(self, handle, lines, query)
        return await to_thread(self._answer, _read(await self._arecord()), handle, lines, query)

    def _answer(self, entries: list[ConversationEntry], handle: Any, lines: Any, query: Any) -> str:
        if handle and str(handle).strip():
            return self._fit(self._by_handle(entries, str(handle), lines))
        if query and str(query).strip():
            return self._fit(self._by_query(entries, str(query)))
        return "Give a handle from a placeholder, or a query."

    def by_handle(self, handle: str, lines: Any = None) -> str:
        """Return the original behind a handle, or a refusal when this record has no such handle.

        Args:
            handle: as written in a placeholder.
            lines: which lines, from 1: ``"40-80"``, ``"40-"``, ``"40"`` or ``(40, 80)``.
        """
        return self._by_handle(self._read(), handle, lines)

    def by_query(self, query: str) -> str:
        """Return the parts of the record that match a query best, in order, with their handles."""
        return self._by_query(self._read(), query)

    def _by_handle(self, entries: list[ConversationEntry], handle: str, lines: Any) -> str:
        with self._lock:
            self._follow(entries)
            found = find_handle(handle.strip("\"'` "), self._handles)
        shown = [at for at in range(*found or (0, 0)) if not _is_system(entries[at])]
        if not shown:
            name = re.sub(r"[^\w.:-]", "?", shorten(handle, 40))
            return (
                f'Refused: no entry of this conversation has the handle "{name}". '
                "Copy a handle exactly from a placeholder, or search with query=…"
            )
        if len(shown) == 1:
            label, text = label_of(entries[shown[0]], shown[0]), quoted_lines(entries[shown[0]])
        else:
            label, text = f"messages {shown[0] + 1}-{shown[-1] + 1}", []
            for position in shown:
                text.append(f"[{label_of(entries[position], position)}]")
                text.extend(quoted_lines(entries[position]))
        return excerpt(label, text, lines, self.max_tokens, self._counter)

    def _by_query(self, entries: list[ConversationEntry], query: str) -> str:
        with self._lock:
            self._follow(entries)
            best = [(at, self._handles[at]) for at in self._search(query)]
        asked = re.sub(r"[^\w .,:'?-]", "?", shorten(query, 80))
        if not best:
            return f'Nothing in this conversation matches "{asked}".'
        share = max(40, self.max_tokens // min(len(best), 3))
        pieces: list[tuple[int, str]] = []
        left = self.max_tokens - 8
        for position, handle in best:
            label = f"{label_of(entries[position], position)}, handle {handle}"
            lines = quoted_lines(entries[position])
            piece = passage(label, lines, query, min(left, share), self._counter)
            cost = self._counter.count(piece) + 1
            if cost <= left:
                left -= cost
                pieces.append((position, piece))
        if not pieces:
            return f'Nothing that matches "{asked}" fits {self.max_tokens} tokens.'
        return "\n".join(piece for _, piece in sorted(pieces))

    def _read(self) -> list[ConversationEntry]:
        return _read(self._record() if callable(self._record) else self._record)

    def _follow(self, entries: list[ConversationEntry]) -> None:
        """Make what is known equal to these entries."""
        known = len(self._known)
        if entries[:known] != self._known:
            known, self._index = 0, None
        self._known = entries
        self._handles[known:] = [handle_of(entry) for entry in entries[known:]]

    def _search(self, query: str) -> list[int]:
        """Return where the best matches are, the best first."""
        from history_curator.managers.relevance import Search, rank, resolve_scorer
        from history_curator.managers.relevance._text import numpy

        if self._index is None:
            self._index = Search(resolve_scorer(self._scorer, folder=self._folder))
        entries = self._known
        searched = [self._searched(entry) for entry in entries]
        scores, _ = self._index.scores(searched, {query: 1.0}, len(entries))
        hits = [at for at in scores.nonzero()[0].tolist() if not self._is_hidden(entries[at])]
        sizes = numpy().array([len(entries[at].content or "") for at in hits])
        return [hits[place] for place in rank(scores[hits], sizes)[:_HITS]] if hits else []

    def _fit(self, text: str) -> str:
        return shorten_tokens(text, self.max_tokens, self._counter, keep="head")

    def _searched(self, entry: ConversationEntry) -> ConversationEntry:
        """An entry as it is indexed: what may not be found has no words."""
        return ConversationEntry(entry.role) if self._is_hidden(entry) else entry

    def _is_hidden(self, entry: ConversationEntry) -> bool:
        """Whether no query finds an entry: the system prompt, and what was recalled before."""
        if entry.role is MessageRole.TOOL:
            return entry.tool_name == self._name
        calls = entry.tool_calls or ()
        recalled = bool(calls) and all(call.name == self._name for call in calls)
        return recalled or _is_system(entry)


def _read(record: Sequence[Any]) -> list[ConversationEntry]:
    return [entry.root for entry in read_entries(record)]


def _is_system(entry: ConversationEntry) -> bool:
    return entry.role is MessageRole.SYSTEM
