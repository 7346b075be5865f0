"""`Recall`: read the original of an entry that left the view, by handle, lines, or query.

Messages are quoted line by line (see `history_curator.quoting`).
"""

from __future__ import annotations

import re
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import BaseModel, Field

from history_curator.entries import (
    RECALL_TOOL_NAME,
    ConversationEntry,
    MessageRole,
    find_handle,
    handle_of,
)
from history_curator.errors import ConfigurationError
from history_curator.formats import read_entries
from history_curator.managers.search import (
    Bm25Scorer,
    Scorer,
    find_passage,
    rank_positions,
    score_entries,
)
from history_curator.quoting import list_lines, write_lines
from history_curator.tokens import TokenCounter, get_counter, shorten_tokens

__all__ = ["RECALL_DESCRIPTION", "RECALL_TOOL_NAME", "Recall", "RecallRequest", "handle_of"]

RECALL_DESCRIPTION = (
    "Get back earlier parts of this conversation that were shortened, cleared or left out. "
    'Give `handle` (as written in a placeholder, such as "r1a2b3c4d5e6f7081"), optionally with `lines` '
    '("40-80"), or give `query` (a few words) to search everything said and every tool result so '
    "far. Works for this conversation only."
)

_AROUND = 40
"""Tokens set aside for the words around an excerpt."""
_RANGE = re.compile(r"(\d{1,9})(?:(-|–|\.\.|:|,|to)(\d{1,9})?)?")


class RecallRequest(BaseModel):
    """Arguments of the recall tool: a handle (with optional lines), or a query."""

    handle: str | None = Field(
        default=None, description="The handle written in a placeholder, copied exactly."
    )
    lines: str | None = Field(
        default=None, description='Which lines of the original, from 1: "40-80", "40-" or "40".'
    )
    query: str | None = Field(None, description="Words to look for when no handle is known.")


class Recall:
    r"""Answers the recall tool from one conversation's record alone.

    Guaranteed: an answer never holds more than `max_tokens` tokens, a text from outside this
    record, or the system prompt, and a handle of no entry is refused. Any thread may ask.

    Args:
        record: the messages or entries, or a function that returns them, asked at every call.
        arecord: the same for `acall`, to be awaited; None reads `record` in a thread.
        scorer: matches texts with a query, as for `RelevanceManager`; words alone if it fails.
        name: the name of the tool, whose earlier answers are not found again.

    Examples:
        >>> from history_curator.entries import ConversationEntry as E, MessageRole as R
        >>> said = [E(R.USER, "one\ntwo\nthree"), E(R.ASSISTANT, "noted")]
        >>> recall = Recall(said, counter="heuristic")
        >>> print(recall(handle=handle_of(said[0]), lines="2-3"))
        [Original, lines 2-3 of 3]
        user 1 > two
        > three
        >>> recall(handle="r0000000000000000").startswith("Refused")
        True
    """

    def __init__(
        self,
        record: Sequence[Any] | Callable[[], Sequence[Any]],
        *,
        arecord: Callable[[], Awaitable[Sequence[Any]]] | None = None,
        counter: str | TokenCounter | None = "o200k_base",
        max_tokens: int = 2_000,
        scorer: Scorer | None = None,
        name: str = RECALL_TOOL_NAME,
    ) -> None:
        if max_tokens < 50:
            raise ConfigurationError(f"max_tokens must be at least 50, got {max_tokens}.")
        self.max_tokens = max_tokens
        self._record, self._arecord, self._name = record, arecord, name
        self._counter, self._scorer = get_counter(counter), scorer or Bm25Scorer()

    def __call__(
        self, handle: str | None = None, lines: str | None = None, query: str | None = None
    ) -> str:
        """Answer one request in words the agent can act on; `lines` such as ``"40-80"`` or ``"40-"``."""
        record = self._record() if callable(self._record) else self._record
        return self._answer(record, handle, lines, query)

    async def acall(
        self, handle: str | None = None, lines: str | None = None, query: str | None = None
    ) -> str:
        """Answer one request; the record is awaited, and looked through in a thread."""
        if self._arecord is None:
            return await to_thread(self, handle, lines, query)
        return await to_thread(self._answer, await self._arecord(), handle, lines, query)

    def _answer(self, record: Sequence[Any], handle: Any, lines: Any, query: Any) -> str:
        entries = [entry.root for entry in read_entries(record)]
        if asked := str(handle or "").strip("\"'` \n"):
            answer = self._find_by_handle(entries, asked, lines)
        elif asked := str(query or "").strip():
            answer = self._find_by_query(entries, asked)
        else:
            return "Give a handle from a placeholder, or a query."
        return shorten_tokens(answer, self.max_tokens, self._counter, keep="head")

    def _find_by_handle(self, entries: list[ConversationEntry], handle: str, wanted: Any) -> str:
        span = range(*(find_handle(handle, list(map(handle_of, entries))) or (0, 0)))
        found = [index for index in span if entries[index].role is not MessageRole.SYSTEM]
        if not found:
            fix = "Copy a handle exactly from a placeholder, or search with query=…"
            return f"Refused: no entry of this conversation has that handle. {fix}"
        lines = [line for index in found for line in list_lines(entries[index], index + 1)]
        total = len(lines)
        first, last = _read_range(wanted, total)
        if first > total:
            return f"[There are {total} lines; line {first} does not exist.]"
        left = self.max_tokens - _AROUND
        end = first - 1
        while end < last and (left := left - self._counter.count(lines[end][1]) - 4) >= 0:
            end += 1
        text = write_lines(lines[first - 1 : max(end, first)])
        if end < first:  # one giant line
            end, limit = first, max(self.max_tokens - _AROUND, 1)
            text = shorten_tokens(text, limit, self._counter, keep="head")
        which = f"lines {first}-{end} of {total}" if (first, end) != (1, total) else "whole"
        more = f'\n[More: lines="{end + 1}-{last}"]' if end < last else ""
        return f"[Original, {which}]\n{text}{more}"

    def _find_by_query(self, entries: list[ConversationEntry], query: str) -> str:
        # An entry that may not be found has no words.
        visible = [
            ConversationEntry(entry.role) if self._is_hidden(entry) else entry for entry in entries
        ]
        scores, _ = score_entries(visible, {query: 1.0}, self._scorer)
        ranked = rank_positions(scores, [len(entry.content or "") for entry in entries])
        # Short ones fill the default limit of a tool with about 32.
        best = [index for index in ranked if visible[index] is entries[index]][:32]
        if not best:
            return "Nothing in this conversation matches the query."
        share, left = max(40, self.max_tokens // min(len(best), 3)), self.max_tokens - 8
        passages: dict[int, str] = {}
        for index in best:
            passage = self._write_passage(entries[index], index + 1, query, min(left, share))
            if (tokens := self._counter.count(passage) + 1) <= left:
                passages[index], left = passage, left - tokens
        if not passages:
            return f"Nothing that matches the query fits {self.max_tokens} tokens."
        return "\n".join(passages[index] for index in sorted(passages))

    def _is_hidden(self, entry: ConversationEntry) -> bool:
        """Whether no query finds an entry: the system prompt, and earlier answers of the tool."""
        if entry.role is MessageRole.TOOL:
            return entry.tool_name == self._name
        calls = entry.tool_calls or ()
        is_recall = bool(calls) and all(call.name == self._name for call in calls)
        return is_recall or entry.role is MessageRole.SYSTEM

    def _write_passage(self, entry: ConversationEntry, number: int, query: str, limit: int) -> str:
        """Return the stretch of an entry's lines that matches a query best, under its handle."""
        lines, count = list_lines(entry, number), self._counter.count
        head = f"[handle {handle_of(entry)}"
        text = write_lines(lines)
        if len(text) <= limit * 8 and count(text) + count(head) + 1 <= limit:
            return f"{head}]\n{text}"
        limit -= count(head) + 20
        first, last = find_passage([line for _, line in lines], query, limit, self._counter)
        text = shorten_tokens(write_lines(lines[first:last]), max(limit, 1), self._counter, "head")
        return f"{head}, lines {first + 1}-{last} of {len(lines)}]\n{text}"


def _read_range(wanted: Any, total: int) -> tuple[int, int]:
    """Read a line range as models write it; anything unreadable means everything."""
    match = _RANGE.fullmatch("".join(str(wanted)[:80].split()))
    if match is None:
        return 1, total
    first = max(1, int(match[1]))
    last = first if match[2] is None else int(match[3] or total)
    return first, min(max(first, last), total)
