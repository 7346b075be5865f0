"""`Recall`: the original of what the view left out, by handle, by lines, or by query."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from history_curator.errors import ConfigurationError
from history_curator.handles import RECALL_TOOL_NAME, handle_of, is_handle
from history_curator.model import ConversationEntry, MessageRole
from history_curator.read import read_entries
from history_curator.relevance._entry_text import entry_text, searched_text, speaker
from history_curator.shorten import shorten

if TYPE_CHECKING:
    from history_curator.relevance import LexicalIndex
    from history_curator.tokens import TokenCounter

__all__ = ["Recall"]

Record = Sequence[ConversationEntry] | Callable[[], Sequence[ConversationEntry]]

_LINES = re.compile(r"\s*(\d{1,9})\s*(?:(-|–|\.\.|:|,|to)\s*(\d{1,9})?)?\s*")
_HITS = 8
_LONG_LINE = 2_000


class Recall:
    r"""Answers the recall tool from one conversation's record, and from nothing else.

    Guaranteed: an answer never holds more than ``max_tokens`` tokens, never a text from outside
    the record given here, and never an exception for what a model may write: a handle that
    belongs to no entry of this record gets a plain refusal.

    Args:
        record: the recorded entries, or a callable that returns them (asked at every call, so
            that a growing conversation stays searchable).
        counter: an encoding, a model name or a `TokenCounter`.
        max_tokens: the most one answer may cost.

    Example:
        >>> from history_curator.model import ConversationEntry as E, MessageRole as R
        >>> said = [E(R.USER, "one\ntwo\nthree"), E(R.ASSISTANT, "noted")]
        >>> recall = Recall(said, counter="heuristic")
        >>> print(recall(handle=handle_of(said[0]), lines="2-3"))
        [user, message 1, lines 2-3 of 3]
        two
        three
        >>> recall(handle="r00000000").startswith("Refused")
        True
    """

    def __init__(
        self,
        record: Record,
        *,
        counter: str | TokenCounter | None = "o200k_base",
        max_tokens: int = 2_000,
    ) -> None:
        from history_curator.tokens import get_counter

        if max_tokens < 50:
            raise ConfigurationError(f"max_tokens must be at least 50, got {max_tokens}.")
        self._record = record
        self._counter = get_counter(counter)
        self.max_tokens = max_tokens
        self._known: list[ConversationEntry] = []
        self._handles: list[str] = []
        self._index: LexicalIndex | None = None
        self._indexed = 0

    def __call__(
        self, handle: str | None = None, lines: Any = None, query: str | None = None
    ) -> str:
        """Answer one request of the recall tool, in words the agent can act on."""
        if handle and str(handle).strip():
            return self._fit(self.by_handle(str(handle), lines), self.max_tokens)
        if query and str(query).strip():
            return self._fit(self.by_query(str(query)), self.max_tokens)
        return "Give a handle from a placeholder, or a query."

    def by_handle(self, handle: str, lines: Any = None) -> str:
        """Return the original behind a handle, or a refusal when this record has no such handle.

        Args:
            handle: as written in a placeholder.
            lines: which lines, from 1: ``"40-80"``, ``"40-"``, ``"40"`` or ``(40, 80)``.
        """
        self._refresh()
        found = self._find(handle.strip("\"'` "))
        if found is None:
            shown = re.sub(r"[^\w.:-]", "?", shorten(handle, 40))
            return (
                f'Refused: no entry of this conversation has the handle "{shown}". '
                "Copy a handle exactly from a placeholder, or search with query=…"
            )
        first, last = found
        entries = self._known[first:last]
        if len(entries) == 1:
            label, text = f"{speaker(entries[0])}, message {first + 1}", entry_text(entries[0])
        else:
            label = f"messages {first + 1}-{last}"
            text = "\n".join(
                f"[{speaker(entry)}, message {first + number}]\n{entry_text(entry)}"
                for number, entry in enumerate(entries, 1)
            )
        return self._excerpt(label, text.splitlines() or [""], lines)

    def by_query(self, query: str) -> str:
        """Return the parts of the record that match a query best, in order, with their handles."""
        self._refresh()
        best = self._search(query)
        if not best:
            return f"Nothing in this conversation matches {shorten(query, 80)!r}."
        share = max(40, self.max_tokens // min(len(best), 3))
        pieces: list[tuple[int, str]] = []
        left = self.max_tokens - 8
        for position in best:
            entry = self._known[position]
            head = f"[{speaker(entry)}, message {position + 1}, handle {self._handles[position]}]"
            piece = self._passage(head, entry_text(entry), query, min(left, share))
            cost = self._counter.count(piece) + 1
            if cost > left:
                continue
            left -= cost
            pieces.append((position, piece))
        if not pieces:
            return f"Nothing that matches {shorten(query, 80)!r} fits {self.max_tokens} tokens."
        return "\n".join(piece for _, piece in sorted(pieces))

    def _refresh(self) -> None:
        record = self._record() if callable(self._record) else self._record
        entries = [entry.root for entry in read_entries(record)]
        known = self._known
        if entries[: len(known)] != known:
            known.clear()
            self._handles.clear()
            self._index, self._indexed = None, 0
        fresh = entries[len(known) :]
        known.extend(fresh)
        self._handles.extend(handle_of(entry) for entry in fresh)

    def _find(self, handle: str) -> tuple[int, int] | None:
        if not is_handle(handle):
            return None
        first, _, rest = handle.partition("-")
        count, _, final = rest.partition("-")
        size = int(count) if count else 1
        handles = self._handles
        for position, candidate in enumerate(handles):
            end = position + size
            if candidate != first or end > len(handles):
                continue
            if not final or handles[end - 1] == final:
                return position, end
        return None

    def _search(self, query: str) -> list[int]:
        from history_curator.relevance import LexicalIndex, terms

        if self._index is None:
            self._index = LexicalIndex()
        for entry in self._known[self._indexed :]:
            self._index.add("" if _is_recall(entry) else searched_text(entry))
        self._indexed = len(self._known)
        scores = self._index.scores(dict.fromkeys(terms(query), 1.0))
        ranked = scores.argsort(kind="stable")[::-1][:_HITS]
        return [int(position) for position in ranked if scores[position] > 0]

    def _excerpt(self, label: str, lines: list[str], wanted: Any) -> str:
        total = len(lines)
        first, last = _line_range(wanted, total)
        if first > total:
            return f"[{label}] has {total} lines; line {first} does not exist."
        room = self.max_tokens - self._counter.count(label) - 60
        taken: list[str] = []
        for line in lines[first - 1 : last]:
            cost = self._counter.count(line) + 1
            if cost > room:
                break
            room -= cost
            taken.append(line)
        if not taken:
            taken = [self._fit(lines[first - 1], room)]
        end = first + len(taken) - 1
        shown = f"lines {first}-{end} of {total}" if (first, end) != (1, total) else "whole"
        more = f'\n[More: lines="{end + 1}-{last}"]' if end < last else ""
        return f"[{label}, {shown}]\n" + "\n".join(taken) + more

    def _passage(self, head: str, text: str, query: str, limit: int) -> str:
        """Return the stretch of lines of a text that matches a query best, within a limit."""
        whole = f"{head}\n{text}"
        if len(text) <= limit * 8 and self._counter.count(whole) <= limit:
            return whole
        from history_curator.relevance import terms

        wanted = set(terms(query))
        lines = [line[:_LONG_LINE] for line in text.splitlines()]
        hits = [len(wanted.intersection(terms(line))) for line in lines]
        best = max(range(len(lines)), key=lambda number: (hits[number], -number))
        room = limit - self._counter.count(head) - 20
        first, last = best, best + 1
        room -= self._counter.count(lines[best]) + 1
        while room > 0 and (first > 0 or last < len(lines)):
            upward = first > 0 and (last >= len(lines) or best - first < last - best)
            line = lines[first - 1] if upward else lines[last]
            room -= self._counter.count(line) + 1
            if room < 0:
                break
            first, last = (first - 1, last) if upward else (first, last + 1)
        body = self._fit("\n".join(lines[first:last]), limit - self._counter.count(head) - 20)
        return f"{head[:-1]}, lines {first + 1}-{last} of {len(lines)}]\n{body}"

    def _fit(self, text: str, limit: int) -> str:
        from history_curator.shorten import shorten_tokens

        return shorten_tokens(text, max(limit, 1), self._counter, keep="head")


def _is_recall(entry: ConversationEntry) -> bool:
    if entry.role is MessageRole.TOOL:
        return entry.tool_name == RECALL_TOOL_NAME
    calls = entry.tool_calls or ()
    return bool(calls) and all(call.name == RECALL_TOOL_NAME for call in calls)


def _line_range(wanted: Any, total: int) -> tuple[int, int]:
    """Read a line range as models write it; anything unreadable means everything."""
    if isinstance(wanted, (list, tuple)) and wanted:
        wanted = "-".join(str(number) for number in wanted[:2])
    match = _LINES.fullmatch(str(wanted)) if wanted is not None else None
    if match is None:
        return 1, total
    first = max(1, int(match[1]))
    if match[2] is None:
        return first, min(first, total)
    last = int(match[3]) if match[3] else total
    return first, min(max(first, last), total)
