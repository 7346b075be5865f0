"""Missed and edits: what a later call shows it still needed, and whether the view still had it.

The record says what the agent did next. When it asks again for something it had already been
given, or names an identifier it can only have read earlier, the view it would have been sent had
better hold that. Replay cannot know what a model would have done instead; missed counts the
moments where it would have had less than it used.

An edit is the hardest of these: to replace lines of a file, the model has to quote them. The view
should hold every line that the call replaced and that had been shown before. `Jumps` tells at which
jump what was needed left.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from history_curator.lab._conversation import ReadConversation, leaf_values, searchable
from history_curator.entries import ConversationEntry
from history_curator.tokens import TokenCounter

_SHORTEST, _LONGEST = 5, 400
_SHORTEST_LINE = 12
_REPLACED = ("old_string", "old_str", "oldText")  # what editing tools call the text they replace


@dataclass(frozen=True, slots=True)
class Need:
    """Something the entry at ``at`` used that an earlier entry held.

    Attributes:
        at: the entry whose call used it.
        kind: ``identifier`` (an argument value) or ``repeat`` (a call made before).
        value: the identifier, or the tool's name.
        sources: earlier entries that hold it; one of them in the view is enough.
    """

    at: int
    kind: str
    value: str
    sources: tuple[int, ...]


def find_needs(conversation: ReadConversation) -> dict[int, tuple[Need, ...]]:
    """Return the needs of every call, by the index of the entry that made it."""
    needs: dict[int, tuple[Need, ...]] = {}
    seen: dict[tuple[str, str], list[int]] = {}
    holders: dict[str, tuple[int, list[int]]] = {}
    for at in conversation.calls:
        entry = conversation.entries[at]
        if not entry.tool_calls:
            continue
        found = [*_identifiers(conversation, at, entry, holders), *_repeats(at, entry, seen)]
        if found:
            needs[at] = tuple(found)
        for call, result in _results(conversation, at, entry):
            seen.setdefault(call, []).append(result)
    return needs


def find_edits(conversation: ReadConversation) -> dict[int, tuple[tuple[str, ...], ...]]:
    """Return, by the index of the entry that made them, the lines each edit call replaced.

    Only lines of some length that had been shown before count; an edit without any is left out.
    """
    edits: dict[int, tuple[tuple[str, ...], ...]] = {}
    for at in conversation.calls:
        found = []
        for call in conversation.entries[at].tool_calls or ():
            replaced = _replaced(call.arguments)
            lines = dict.fromkeys(line.strip() for line in replaced.split("\n"))
            known = tuple(
                line
                for line in lines
                if len(line) >= _SHORTEST_LINE
                and any(line in text for text in reversed(conversation.texts[:at]))
            )
            if known:
                found.append(known)
        if found:
            edits[at] = tuple(found)
    return edits


def edits_in_view(
    edits: Sequence[Sequence[str]], sent: Sequence[ConversationEntry], record: ReadConversation
) -> int:
    """Return how many edits find all their lines in what was sent."""
    if not edits:
        return 0
    text = "\n".join(
        searchable(entry) if (at := record.index_of.get(id(entry))) is None else record.texts[at]
        for entry in sent
    )
    return sum(all(line in text for line in lines) for lines in edits)


def _replaced(arguments: str) -> str:
    """Return the text an edit call replaces, or nothing for any other call."""
    if not any(name in arguments for name in _REPLACED):
        return ""
    try:
        values = json.loads(arguments)
    except ValueError:
        return ""
    found = (values.get(name) for name in _REPLACED) if isinstance(values, dict) else ()
    return next((value for value in found if isinstance(value, str)), "")


def shown_in(
    sent: Sequence[ConversationEntry], record: ReadConversation
) -> dict[int, ConversationEntry]:
    """Return the recorded entries a view shows, by index."""
    places = ((record.index_of.get(id(entry.root)), entry) for entry in sent)
    return {index: entry for index, entry in places if index is not None}


def unmet(
    needs: Sequence[Need], sent: Sequence[ConversationEntry], record: ReadConversation
) -> list[Need]:
    """Return the needs that what was sent does not hold."""
    if not needs:
        return []
    shown = shown_in(sent, record)
    inserted = "\n".join(searchable(e) for e in sent if id(e.root) not in record.index_of)
    return [need for need in needs if not is_met(need, shown, record, inserted)]


def is_met(
    need: Need,
    view: Mapping[int, ConversationEntry],
    record: ReadConversation,
    inserted: str = "",
) -> bool:
    """Return whether a view, given as recorded index -> entry sent, still holds a need.

    ``inserted`` is the text of what the policy put in itself: an identifier listed there is held.
    """
    if need.kind == "identifier" and need.value in inserted:
        return True
    for source in need.sources:
        sent = view.get(source)
        if sent is None:
            continue
        recorded = record.entries[source]
        if sent is recorded or sent.content == recorded.content:
            return True
        if need.kind == "repeat":
            if still_shows(recorded, sent):
                return True
        elif need.value in searchable(sent):
            return True
    return False


def still_shows(recorded: ConversationEntry, sent: ConversationEntry) -> bool:
    """Return whether an edited entry keeps at least half of its text."""
    return 2 * len(sent.content or "") >= len(recorded.content or "")


def _identifiers(
    conversation: ReadConversation,
    at: int,
    entry: ConversationEntry,
    holders: dict[str, tuple[int, list[int]]],
) -> Iterable[Need]:
    values = {
        value.strip()
        for call in entry.tool_calls or ()
        for value in leaf_values(call.arguments)
        if _SHORTEST <= len(value.strip()) <= _LONGEST
    }
    for value in sorted(values):
        start, known = holders.get(value, (0, []))
        known.extend(i for i in range(start, at) if value in conversation.texts[i])
        holders[value] = (at, known)
        if known:
            yield Need(at, "identifier", value, tuple(known))


def _signature(name: str, arguments: str) -> tuple[str, str]:
    return name, "\n".join(sorted(leaf_values(arguments)))


def _repeats(
    at: int, entry: ConversationEntry, seen: Mapping[tuple[str, str], list[int]]
) -> Iterable[Need]:
    for call in entry.tool_calls or ():
        earlier = seen.get(_signature(call.name, call.arguments))
        if earlier:
            yield Need(at, "repeat", call.name, tuple(earlier))


def _results(
    conversation: ReadConversation, at: int, entry: ConversationEntry
) -> Iterable[tuple[tuple[str, str], int]]:
    """Pair calls with the results that follow, up to the next assistant entry with calls."""
    waiting = {call.id: _signature(call.name, call.arguments) for call in entry.tool_calls or ()}
    for index in range(at + 1, len(conversation.entries)):
        later = conversation.entries[index]
        if later.tool_calls or not waiting:
            return
        if later.tool_call_id in waiting:
            yield waiting.pop(later.tool_call_id), index


class Jump(TypedDict):
    """One view that no longer shows what the one before did; plain data.

    Attributes:
        at: the entry that answers it.
        left: what left, by who spoke or what was called, most first.
        entries: how many entries left.
        tokens: how large they were in the view before.
        needed: identifiers that later calls used and nothing in their view showed, and calls that
            were made again, in the order of their use. Each is told at the last jump at which
            something that holds it left.
    """

    at: int
    left: str
    entries: int
    tokens: int
    needed: list[str]


class Jumps:
    """Follows the views of one conversation under one policy, and puts its compactions into a list."""

    def __init__(self, found: list[Jump], record: ReadConversation, counter: TokenCounter) -> None:
        self._found = found
        self._index_of = record.index_of
        self._counter = counter
        self._left: dict[int, Jump] = {}

    def note(
        self, at: int, before: Sequence[ConversationEntry], now: Sequence[ConversationEntry]
    ) -> None:
        """Take the view at an entry that does not begin with the one before it."""
        still = {id(entry.root) for entry in now}
        gone = [e for e in before if id(e.root) in self._index_of and id(e.root) not in still]
        if not gone:
            return
        kinds = Counter(name for entry in gone for name in _kinds(entry))
        jump: Jump = {
            "at": at,
            "left": ", ".join(f"{count} {name}" for name, count in kinds.most_common()),
            "entries": len(gone),
            "tokens": sum(map(self._counter.count_entry, gone)),
            "needed": [],
        }
        self._found.append(jump)
        self._left.update((self._index_of[id(entry.root)], jump) for entry in gone)

    def miss(self, need: Need) -> None:
        """Take a need that a view did not meet."""
        left = [self._left[source] for source in need.sources if source in self._left]
        if left:
            name = need.value if need.kind == "identifier" else f"the same {need.value} call"
            needed = max(left, key=lambda jump: jump["at"])["needed"]
            if name not in needed:
                needed.append(name)


def _kinds(entry: ConversationEntry) -> list[str]:
    """What an entry is, for a count of what left; a result goes with its call."""
    if entry.tool_calls:
        return [call.name for call in entry.tool_calls]
    return [] if entry.tool_call_id else [f"{entry.role.value} text"]
