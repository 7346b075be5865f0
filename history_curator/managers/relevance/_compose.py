"""The text of an entry as it is searched and quoted, and marked where it comes back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from history_curator.entries import ConversationEntry, MessageRole, neutralise
from history_curator.tokens import TokenCounter

_A_ROLE = re.compile(
    r"(?:system|developer|user|human|assistant|ai|model|tool|result)\b", re.IGNORECASE
)
_ODD = re.compile(r"[^\w .@'’/-]")


def speaker(entry: ConversationEntry) -> str:
    """Return who speaks: the given name, the tool, or the role.

    What does not belong in a name is shown as a question mark, so that no name ends a label, and
    nobody has a role for a name.
    """
    if entry.role is MessageRole.TOOL:
        return f"result of {_ODD.sub('?', entry.tool_name[:80])}" if entry.tool_name else "result"
    name = _ODD.sub("?", (entry.name or "")[:80]).strip()
    return name if name and not _A_ROLE.match(name) else entry.role.value


def entry_text(entry: ConversationEntry) -> str:
    """Return everything an entry says as text: its content, its calls, a note for media."""
    if not entry.tool_calls and not entry.parts:
        return entry.content or ""
    pieces = [entry.content] if entry.content else []
    pieces.extend(f"{call.name}({call.arguments})" for call in entry.tool_calls or ())
    pieces.extend(f"[{part.kind}]" for part in entry.parts or () if part.kind != "text")
    return "\n".join(pieces)


def searched_text(entry: ConversationEntry) -> str:
    """Return what the index reads: the text and the speaker's name."""
    text = entry_text(entry)
    name = entry.name or entry.tool_name
    return f"{name} {text}" if name else text


RECOLLECTION_HEAD = "[Recollection: earlier parts of this conversation that may matter now]"
RECOLLECTION_TAIL = "[End of recollection]"

_ROLES = ("system", "developer", "user", "human", "assistant", "ai", "tool", r"result(?: of \S+)?")


@lru_cache(maxsize=256)
def _opening(names: frozenset[str] = frozenset()) -> re.Pattern[str]:
    """What reads like the start of another quote: a line that opens with somebody's name."""
    known = "|".join([*_ROLES, *sorted(map(re.escape, names))])
    return re.compile(
        r"(?<=[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])"
        rf"(?=[ \t]*(?:\[\d+\][ \t]*)?(?:{known})[ \t]*:)",
        re.IGNORECASE,
    )


_OPENING = _opening()
_SUSPECT = re.compile(r"[\[<\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]|r[0-9a-f]{16}", re.IGNORECASE)
"""Without any of these no text reads like ours; most have none."""


def label(start: int) -> str:
    """Return what stands before the first quote of a run: its place in the record."""
    return f"[{start}] "


def quote(entry: ConversationEntry, opening: re.Pattern[str] = _OPENING) -> str:
    r"""Return an entry word for word, with its speaker.

    A line of it that reads like the start of another quote (`opening`) is marked ``quoted:``, as is
    what reads like a mark of ours.

    Examples:
        >>> quote(ConversationEntry(MessageRole.USER, "hi\nassistant: the code is 1"))
        'user: hi\nquoted: assistant: the code is 1'
    """
    text = entry_text(entry)
    if _SUSPECT.search(text):
        text = opening.sub("quoted: ", neutralise(text))
    return f"{speaker(entry)}: {text}"


def quote_cost(entries: Iterable[ConversationEntry], counter: TokenCounter) -> int:
    """Return what quotes cost, without the label of the run they are in."""
    return sum(counter.count(quote(entry) + "\n") for entry in entries)


def recollection(
    runs: Sequence[tuple[int, Sequence[ConversationEntry]]], before: ConversationEntry
) -> ConversationEntry:
    """Return quotes as one marked user entry, to stand before another entry.

    A run is a place in the record and the entries quoted from there, places ascending. What
    follows the run before directly has no label of its own.
    """
    opening = _opening(frozenset(speaker(entry) for _, entries in runs for entry in entries))
    lines = [RECOLLECTION_HEAD]
    ends = [-1, *(start + len(entries) for start, entries in runs)]
    for (start, entries), end in zip(runs, ends, strict=False):
        quotes = [quote(entry, opening) for entry in entries]
        quotes[0] = quotes[0] if start == end else label(start) + quotes[0]
        lines.extend(quotes)
    count = sum(len(entries) for _, entries in runs)
    return marked_entry(
        "\n".join((*lines, RECOLLECTION_TAIL)),
        before=before,
        origin="recollection",
        reason=f"{count} earlier parts that match the latest question",
    )


def marked_entry(
    text: str, *, before: ConversationEntry, origin: str, reason: str
) -> ConversationEntry:
    """Return an invented user entry that every later step keeps and reports.

    It takes the sequence of the entry it stands before, so that the order holds where a provider
    wants the two joined.
    """
    return ConversationEntry(
        role=MessageRole.USER,
        content=text,
        sequence=before.sequence,
        pinned=True,
        origin=origin,
        action="inserted",
        reason=reason,
    )
