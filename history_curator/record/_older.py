"""The older part of a conversation, and what retention leaves of its tool exchanges."""

from __future__ import annotations

import json
from collections.abc import Sequence

from history_curator.model import ConversationEntry, MessageRole, ToolCall
from history_curator.timeline import pair


class Older:
    """The turns before a place in a conversation, and what is left of them."""

    def __init__(self, entries: Sequence[ConversationEntry], start: int, *, whole: bool) -> None:
        self._entries = entries
        self._start = start
        places = {id(entry): place for place, entry in enumerate(entries)}
        # Finished exchanges of older turns: where the call stands, and where its results do.
        self._exchanges: dict[int, list[int]] = {}
        belongs: set[int] = set()
        self._names: dict[int, str] = {}
        for unit in pair(entries):
            if unit.kind != "exchange":
                continue
            head = unit.start
            results = [places[id(one)] for one in unit.results if id(one) in places]
            belongs.update(results)
            calls = unit.head.tool_calls or ()
            for call, one in zip(calls, unit.results, strict=True):
                if id(one) in places:
                    self._names[places[id(one)]] = call.name
            members = [head, *results]
            if None not in unit.results and not any(
                place >= start or entries[place].pinned for place in members
            ):
                self._exchanges[head] = results
        self._results = {at for results in self._exchanges.values() for at in results}
        if whole:
            # A result that no call waits for, or that another one replaced.
            self._results.update(
                place
                for place, entry in enumerate(entries[:start])
                if entry.role is MessageRole.TOOL and place not in belongs and not entry.pinned
            )

    def trimmed(self) -> list[ConversationEntry]:
        """Return everything, finished exchanges reduced to names and outcomes."""
        return [self._trim(place, entry) for place, entry in enumerate(self._entries)]

    def in_words(self) -> list[ConversationEntry]:
        """Return everything but the finished exchanges, of which only words stay."""
        left: dict[int, ConversationEntry] = {}
        waiting: list[int] = []
        before: ConversationEntry | None = None
        for place, entry in enumerate(self._entries):
            if place in self._exchanges:
                waiting.append(place)
            elif place not in self._results:
                left[place] = entry
                if entry.role is not MessageRole.SYSTEM:
                    self._leave_words(waiting, before, place, left)
                    waiting, before = [], entry
        self._leave_words(waiting, before, None, left)
        return [left[place] for place in sorted(left)]

    def _leave_words(
        self,
        gone: list[int],
        before: ConversationEntry | None,
        place: int | None,
        left: dict[int, ConversationEntry],
    ) -> None:
        """Say what is left of the exchanges between an entry and the one at `place`."""
        heads = [self._entries[at] for at in gone]
        if not heads:
            return
        after = None if place is None else self._entries[place]
        answered = after is not None and after.role is MessageRole.ASSISTANT
        asked = before is not None and before.role is MessageRole.USER
        said = [entry.content for entry in heads if _speaks(entry) and entry.content]
        if not any(map(_speaks, heads)):
            if asked and not answered:  # or two users would stand side by side
                self._keep_trimmed(gone[-1:], left)
        elif answered and place is not None and after is not None and self._may_take(place, heads):
            left[place] = _joined(after, [*said, after.content or ""])
        elif answered or any(entry.has_media for entry in heads) or _is_answer(before):
            self._keep_trimmed([at for at in gone if _speaks(self._entries[at])], left)
        else:
            left[gone[-1]] = _without_calls(heads[-1], said)

    def _keep_trimmed(self, exchanges: Sequence[int], left: dict[int, ConversationEntry]) -> None:
        for head in exchanges:
            for place in (head, *self._exchanges[head]):
                left[place] = self._trim(place, self._entries[place])

    def _may_take(self, place: int, heads: Sequence[ConversationEntry]) -> bool:
        """Whether the words of calls can be joined to those of an entry."""
        entry = self._entries[place]
        return (
            place < self._start
            and not (entry.tool_calls or entry.pinned)
            and not any(one.has_media for one in (entry, *heads))
        )

    def _trim(self, place: int, entry: ConversationEntry) -> ConversationEntry:
        if place in self._exchanges:
            return _trim_calls(entry)
        if place in self._results:
            return _trim_result(entry, self._names.get(place))
        return entry


def _is_answer(entry: ConversationEntry | None) -> bool:
    return entry is not None and entry.role is MessageRole.ASSISTANT


def _speaks(entry: ConversationEntry) -> bool:
    return entry.has_media or bool(entry.content and not entry.content.isspace())


def _joined(entry: ConversationEntry, texts: Sequence[str]) -> ConversationEntry:
    words = [text for text in texts if text and not text.isspace()]
    if words == [entry.content]:
        return entry
    return entry.evolve(
        content="\n\n".join(words),
        parts=None,
        action="merged",
        reason="joined with words beside calls of an older turn, which are not kept",
    )


def _without_calls(entry: ConversationEntry, texts: Sequence[str]) -> ConversationEntry:
    # Thinking is bound to the calls that follow it, so it goes with them.
    return entry.evolve(
        content="\n\n".join(texts),
        parts=None if len(texts) > 1 else entry.parts,
        tool_calls=None,
        reasoning=None,
        action="cleared",
        reason="tool calls of an older turn are not kept",
    )


def _trim_calls(entry: ConversationEntry) -> ConversationEntry:
    calls = tuple(
        call if call.arguments == "{}" else ToolCall(call.id, call.name, "{}", call.extra)
        for call in entry.tool_calls or ()
    )
    if calls == entry.tool_calls:
        return entry
    return entry.evolve(
        tool_calls=calls,
        action="cleared",
        reason="arguments of an older turn's calls are not kept",
    )


def _trim_result(entry: ConversationEntry, called: str | None) -> ConversationEntry:
    name = entry.tool_name or called or "tool"
    if _is_trimmed(entry.content):
        return entry
    text = json.dumps({"name": name, "status": entry.status or "success"}, ensure_ascii=False)
    return entry.evolve(
        content=text,
        parts=None,
        truncated=True,
        original_length=len(entry.content or ""),
        action="cleared",
        reason="results of older turns are kept as name and status",
    )


def _is_trimmed(content: str | None) -> bool:
    """Whether a result is already ``{name, status}``, also after the store lost the status."""
    if not content or not content.startswith('{"name": '):
        return False
    try:
        data = json.loads(content)
    except ValueError:
        return False
    return isinstance(data, dict) and data.keys() == {"name", "status"}
