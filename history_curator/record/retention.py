"""What a store keeps of a conversation, and what is loaded of it for the model.

Turns and exchanges are those of the curator: messages are read by their format and paired by
`history_curator.timeline`. A tool result inside a user message is a result, not a turn, and a
result that comes after queued user messages still belongs to its call.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from history_curator.managers import is_answered, start_of_turns
from history_curator.entries import ConversationEntry, MessageRole, ToolCall
from history_curator.timeline import pair

if TYPE_CHECKING:
    from history_curator.config import RetentionConfig


__all__ = [
    "aged_by",
    "apply_retention",
    "build_context",
    "latest_turns",
    "preserved_from",
    "retention_due",
    "starts_turn",
]

T = TypeVar("T")

logger = logging.getLogger("history_curator.retention")


def apply_retention(
    entries: Sequence[ConversationEntry], config: RetentionConfig, *, whole: bool = True
) -> list[ConversationEntry]:
    """Return what a store should hold of these entries.

    Preserved turns are returned as they are, and so are pinned entries, exchanges that wait for a
    result and exchanges that reach into a preserved turn. In older turns ``full`` changes nothing,
    ``trimmed`` reduces every result to ``{name, status}`` and every call to its id and name, and
    ``none`` leaves what was said in words: words beside a call join the words that follow them,
    and a turn in which the assistant said none keeps its last exchange trimmed, so that user and
    assistant still take turns. What satisfies a provider's rules satisfies them afterwards.
    Applying it again changes nothing.

    Args:
        entries: a conversation, oldest first.
        config: what to keep.
        whole: False when these are only the latest entries of a longer conversation; results whose
            call is not among them are then left alone.

    Examples:
        >>> from history_curator.entries import ToolCall
        >>> from history_curator.config import RetentionConfig
        >>> said = [
        ...     ConversationEntry(MessageRole.USER, "weather?"),
        ...     ConversationEntry(
        ...         MessageRole.ASSISTANT, tool_calls=(ToolCall("c1", "weather", '{"in": "Oslo"}'),)
        ...     ),
        ...     ConversationEntry(MessageRole.TOOL, "rain " * 99, tool_call_id="c1"),
        ...     ConversationEntry(MessageRole.ASSISTANT, "Rain."),
        ...     ConversationEntry(MessageRole.USER, "thanks"),
        ... ]
        >>> kept = apply_retention(
        ...     said, RetentionConfig(preserve_turns=1, persist_tool_invocations="trimmed")
        ... )
        >>> kept[2].content
        '{"name": "weather", "status": "success"}'
    """
    start = preserved_from(entries, config)
    mode = config.persist_tool_invocations
    kept = list(entries)
    if mode == "trimmed":
        kept = _Older(entries, start, whole=whole).trimmed()
    elif mode == "none":
        kept = _Older(entries, start, whole=whole).in_words()
    _log("persist", mode, entries, kept, len(entries) - start)
    return kept


def build_context(
    entries: Sequence[ConversationEntry], config: RetentionConfig
) -> list[ConversationEntry]:
    """Return the latest `max_loaded_messages` entries, older turns without their tool details.

    System and pinned entries are always kept. No result is left without its call, however late it
    came. With `prune_tools_for_llm` off only the limit applies.
    """
    loaded = _latest(entries, config.max_loaded_messages)
    start = preserved_from(loaded, config)
    kept, shown = loaded, "full"
    if config.prune_tools_for_llm:
        kept, shown = _Older(loaded, start, whole=True).in_words(), "text only"
    _log("load", shown, entries, kept, len(loaded) - start)
    return kept


def retention_due(entries: Sequence[ConversationEntry], config: RetentionConfig) -> bool:
    """Whether `apply_retention` would change anything."""
    if config.persist_tool_invocations == "full":
        return False
    kept = apply_retention(entries, config)
    return len(kept) != len(entries) or any(
        new is not old for new, old in zip(kept, entries, strict=True)
    )


def preserved_from(entries: Sequence[ConversationEntry], config: RetentionConfig) -> int:
    """Return the position of the first entry whose tool details are kept.

    Without `preserve_tools_for_latest_turns` that is where the turn still being answered starts,
    because a model cannot continue an exchange whose calls were taken away.
    """
    return start_of_turns(entries, _preserved_turns(config))


def aged_by(entries: Sequence[ConversationEntry], config: RetentionConfig) -> int:
    """Return how many turns grow old when these entries are added to a conversation."""
    turns = sum(map(starts_turn, entries))
    if turns == 0 and _preserved_turns(config) == 0 and entries and is_answered(entries):
        return 1
    return turns


def latest_turns(
    newest_first: Iterable[T],
    read: Callable[[T], Sequence[ConversationEntry]],
    config: RetentionConfig,
    *,
    aged: int = 1,
) -> list[tuple[T, Sequence[ConversationEntry]]]:
    """Return the end of a conversation: the preserved turns and those that just grew old.

    However long the conversation is, nothing before them is looked at.

    Args:
        newest_first: messages or rows, from the end.
        read: returns the entries of one.
        config: what is preserved.
        aged: how many turns grew old.

    Returns:
        What was read, oldest first, each with its entries.
    """
    wanted = max(1, _preserved_turns(config)) + aged
    found: list[tuple[T, Sequence[ConversationEntry]]] = []
    for item in newest_first:
        entries = read(item)
        found.append((item, entries))
        wanted -= sum(map(starts_turn, entries))
        if wanted <= 0:
            break
    return found[::-1]


def starts_turn(entry: ConversationEntry) -> bool:
    """Whether an entry begins a turn: the user says something."""
    return entry.is_real_user


def _preserved_turns(config: RetentionConfig) -> int:
    return config.preserve_turns if config.preserve_tools_for_latest_turns else 0


def _latest(entries: Sequence[ConversationEntry], limit: int | None) -> list[ConversationEntry]:
    if limit is None or len(entries) <= limit:
        return list(entries)
    start = len(entries) - limit
    kept: set[int] = set()
    gone: set[int] = set()
    for unit in pair(entries):
        members = [unit.head.root, *(one for one in unit.results if one is not None)]
        if unit.start >= start or any(one.pinned for one in members):
            kept.update(map(id, members))
        else:
            gone.update(map(id, members))
    return [
        entry
        for place, entry in enumerate(entries)
        if entry.role is MessageRole.SYSTEM
        or id(entry) in kept
        or (place >= start and id(entry) not in gone and entry.role is not MessageRole.TOOL)
    ]


def _log(
    what: str,
    mode: str,
    before: Sequence[ConversationEntry],
    after: Sequence[ConversationEntry],
    preserved: int,
) -> None:
    if not logger.isEnabledFor(logging.INFO):
        return
    known = {id(entry) for entry in before}
    logger.info(
        "retention (%s, %s): %d entries, %d preserved, %d trimmed, %d left out",
        what,
        mode,
        len(before),
        preserved,
        sum(1 for entry in after if id(entry) not in known),
        len(before) - len(after),
    )


class _Older:
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
