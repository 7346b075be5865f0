"""The memo: facts about single messages, found by their content; a curator's only memory of them.

Equal messages are one to the memo, in any conversation, process or copy. A message that was edited
in place is another one. Forgetting costs time and never changes a
view. No conversation is remembered.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, NamedTuple

from history_curator.entries import ConversationEntry, MessageRole, ToolCall
from history_curator.errors import ConversionError
from history_curator.formats import MessageFormat, freeze
from history_curator.tokens import TokenCounter
from history_curator.tokens.estimate import entry_time
from history_curator.tokens.usage import Usage, read_usage

MEMO_BYTES = 64 * 2**20
"""How much a memo holds, about, where nothing else is said."""
_BYTES_PER_ENTRY = 2_000
_LARGEST = 16_384
"""Characters that one entry counts for at most in the cheap size of a record."""
_LONG_LIST, _LISTS = 500, 4
"""Messages from which on a list is recognised as a whole, and how many lists are."""
_COUNTS = 200_000
"""Token counts that outlive what they were counted for."""


class EntryFacts:
    """The facts about one entry that do not depend on its place.

    Attributes:
        entry: the entry, read from a private copy of its message.
        weight: its cheap size in characters, capped so that no giant outweighs the rest.
        size_bytes: what it takes in memory, about.
        usage: the usage report that the message carries.
        is_plain: whether its message is a dict of texts, which is equal to nothing else.
        time: when the message was written, in seconds since 1970, where it says so.
        tokens: its tokens; -1 until somebody asks.
        renderings: how the unit that it opens is shown, by its results and the cap.
        recaps: recaps written when the unit that it opens arrived.
        line: the recap's line about the unit that it opens.
        names: identifiers the entry holds.
        shown: the newest full rendering of the unit that it opens, with what it was made for.
        bound: the entry as it last stood in a conversation.
    """

    __slots__ = (
        "bound",
        "entry",
        "is_plain",
        "key",
        "line",
        "names",
        "recaps",
        "renderings",
        "shown",
        "size_bytes",
        "time",
        "tokens",
        "usage",
        "weight",
    )

    def __init__(self, entry: ConversationEntry, key: Hashable, size_bytes: int) -> None:
        self.entry = entry
        self.key = key
        self.weight = 0 if entry.role is MessageRole.SYSTEM else _weigh(entry)
        self.size_bytes = _BYTES_PER_ENTRY + 4 * size_bytes  # renderings and identifiers included
        self.usage: Usage | None = None
        self.time = entry_time(entry)
        is_whole = entry.span is None and entry.source.__class__ is dict
        self.is_plain = is_whole and _is_plain(entry.source)
        self.tokens = -1
        self.renderings: dict[Hashable, Any] = {}
        self.shown: tuple[Any, Any, Any] | None = None
        self.recaps: dict[Hashable, Any] = {}
        self.line: Any = None
        self.names: Any = None
        self.bound: ConversationEntry | None = None


class Record:
    """The entries of one call: what is known of each, and each as it stands in the conversation.

    Attributes:
        facts: what is known, one for each entry.
        keys: what each message says.
    """

    def __init__(
        self,
        facts: list[EntryFacts],
        *,
        keys: Sequence[Hashable] = (),
        messages: Sequence[Any] = (),
        places: Sequence[int] = (),
        entries: Sequence[ConversationEntry] | None = None,
    ) -> None:
        self.facts = facts
        self.keys = keys
        self._messages = messages
        self._places = places
        self._entries = entries
        self._bound: dict[int, ConversationEntry] = {}

    def __len__(self) -> int:
        return len(self.facts)

    @cached_property
    def names(self) -> list[int]:
        """A number for the first messages up to each one, from what each message says."""
        return list(accumulate(map(hash, self.keys), lambda name, key: hash((name, key))))

    def entry_at(self, index: int) -> ConversationEntry:
        """Return the entry at a position, bound to the message it was read from."""
        if self._entries is not None:
            return self._entries[index]
        entry = self._bound.get(index)
        if entry is None:
            facts, place = self.facts[index], self._places[index]
            message, known = self._messages[place], facts.bound
            if known is not None and known.source is message and known.sequence == place:
                entry = known
            else:
                entry = facts.bound = replace(facts.entry, source=message, sequence=place)
            self._bound[index] = entry
        return entry

    def entries(self) -> list[ConversationEntry]:
        """Return all entries, in order."""
        if self._entries is not None:
            return list(self._entries)
        return [self.entry_at(index) for index in range(len(self.facts))]

    def first(self, count: int) -> Record:
        """Return the record as it was when it had so many messages."""
        places = self._places
        end = next((at for at, place in enumerate(places) if place >= count), len(places))
        return Record(
            self.facts[:end],
            keys=self.keys[:count],
            messages=self._messages[:count],
            places=places[:end],
            entries=None if self._entries is None else self._entries[:end],
        )

    def place_of(self, index: int) -> int:
        """Return the position of the message that an entry was read from."""
        return self._places[index]

    def end_of(self, count: int) -> int:
        """Return how many entries the first messages were read as."""
        places = self._places
        if places.__class__ is range:
            return min(count, len(places))
        return next((at for at, place in enumerate(places) if place >= count), len(places))


class KnownList(NamedTuple):
    """A list of messages seen lately: private copies of its plain beginning, and what is known."""

    first: Any
    format: MessageFormat
    copies: list[Any]
    keys: list[Hashable]
    rows: list[Any]


class Memo:
    """Remembers facts about messages, as many as fit a number of bytes.

    Facts that were not used lately are forgotten first. Token counts outlive it.

    Args:
        counter: counts the tokens.
        max_bytes: how much to hold, about.
    """

    def __init__(self, counter: TokenCounter, max_bytes: int = MEMO_BYTES) -> None:
        self.counter = counter
        self.max_bytes = max_bytes
        self._recent: dict[str, dict[Hashable, Any]] = {}
        self._older: dict[str, dict[Hashable, Any]] = {}
        self._recent_bytes = 0
        self._counts: dict[tuple[int, int, int], int] = {}
        self._lists: dict[int, KnownList] = {}
        self._interned: dict[Hashable, Hashable] = {}

    def read(self, messages: Sequence[Any], format: MessageFormat) -> Record:
        """Return the record of a conversation.

        Raises:
            ConversionError: naming the message, the field and the fix.
        """
        if format.name == "entries":
            return self.read_entries(_checked_entries(messages, format))
        key_of, recent = format.key_of, self._recent.get(format.name, {})
        known = self._find_list(messages, format)
        start = 0 if known is None else min(len(known.copies), len(messages))
        keys: list[Hashable] = [] if known is None else known.keys[:start]
        rows: list[Any] = [] if known is None else known.rows[:start]
        for place in range(start, len(messages)):
            message = messages[place]
            try:
                key = key_of(message)
                found = recent.get(key)
            except (TypeError, ValueError, RecursionError):
                format.read(message, place)  # where it cannot be read, this says so better
                raise
            if found is None:
                found = self._find(key, message, format, place)
                recent = self._recent[format.name]
            keys.append(key)
            rows.append(found)
        self._keep_list(messages, format, keys, rows, known)
        if tuple not in set(map(type, rows)):
            return Record(rows, keys=keys, messages=messages, places=range(len(rows)))
        facts: list[EntryFacts] = []
        places: list[int] = []
        for place, row in enumerate(rows):
            some = row if row.__class__ is tuple else (row,)
            facts += some
            places += [place] * len(some)
        return Record(facts, keys=keys, messages=messages, places=places)

    def read_entries(
        self, entries: Sequence[ConversationEntry], known: Record | None = None
    ) -> Record:
        """Return the record of entries as they are, such as a manager returned them.

        Args:
            entries: the entries.
            known: the record that most of them come from.
        """
        facts_of = (
            {} if known is None else dict(zip(map(id, known.entries()), known.facts, strict=True))
        )
        facts = []
        for entry in entries:
            found = facts_of.get(id(entry))
            if found is None:
                root = facts_of.get(id(entry.original))
                found = self._facts_of_entry(
                    entry, entry.source if root is None else root.entry.source
                )
            facts.append(found)
        keys = known.keys if known is not None else [each.key for each in facts]
        return Record(facts, keys=keys, places=range(len(facts)), entries=entries)

    def count_entry(self, entry: ConversationEntry) -> int:
        """Return the tokens of an entry, counted once for all entries with the same content."""
        return self.count(self._facts_of_entry(entry, entry.source))

    def intern(self, key: Hashable) -> Hashable:
        """Return the first key that was equal, so that identity tells keys apart."""
        return self._interned.setdefault(key, key)

    def count(self, facts: EntryFacts) -> int:
        """Return the tokens of an entry, counted once."""
        if facts.tokens < 0:
            facts.tokens = self.counter.count_entry(facts.entry)
        return facts.tokens

    def _find_list(self, messages: Sequence[Any], format: MessageFormat) -> KnownList | None:
        """Return what is known of a list that begins with these very messages, unchanged.

        Only a shortcut: the messages are compared with private copies, by content.
        """
        if len(messages) < _LONG_LIST:
            return None
        known = self._lists.get(id(messages[0]))
        if known is None or known.first is not messages[0] or known.format is not format:
            return None
        count = min(len(known.copies), len(messages))
        same = known.copies[:count] == (messages[:count] if type(messages) is list else None)
        return known if same else None

    def _keep_list(
        self,
        messages: Sequence[Any],
        format: MessageFormat,
        keys: list[Hashable],
        rows: list[Any],
        known: KnownList | None,
    ) -> None:
        if len(messages) < _LONG_LIST or (known is not None and len(messages) <= len(known.copies)):
            return
        copies = [] if known is None else list(known.copies)
        for row in rows[len(copies) :]:
            if row.__class__ is tuple or not row.is_plain:
                break
            copies.append(row.entry.source)
        if len(self._lists) >= _LISTS:
            self._lists.pop(next(iter(self._lists)), None)
        first = messages[0]
        self._lists[id(first)] = KnownList(first, format, copies, keys, rows)

    def _facts_of_entry(self, entry: ConversationEntry, source: Any) -> EntryFacts:
        key = _key_of_entry(entry)
        found = self._recent.get("entries", {}).get(key)
        if found is None:
            found = self._promote("entries", key)
        if found is None:
            plain = replace(
                entry, original=None, source=source, action=None, reason=None, sequence=0
            )
            found = self._new_facts((plain,), key, None, "entries")
        facts: EntryFacts = found
        return facts

    def _find(self, key: Hashable, message: Any, format: MessageFormat, place: int) -> Any:
        found = self._promote(format.name, key)
        if found is not None:
            return found
        try:
            private = format.snapshot(message)
        except (ConversionError, TypeError, ValueError, RecursionError):
            format.read(message, place)
            raise
        return self._new_facts(format.read(private, place), key, read_usage(message), format.name)

    def _promote(self, table: str, key: Hashable) -> Any:
        """Return what is known of a key from the older half, which makes it recent."""
        found = self._older.get(table, {}).get(key)
        if found is not None:
            self._keep(table, key, found)
        return found

    def _new_facts(
        self, entries: Sequence[ConversationEntry], key: Hashable, usage: Usage | None, table: str
    ) -> Any:
        size = _size_of(key)
        facts = tuple([EntryFacts(entry, key, size // len(entries)) for entry in entries])
        if facts:
            facts[-1].usage = usage
        if self._counts:
            counts = [self._counts.get(_digest(key, at), -1) for at in range(len(facts))]
            for each, tokens in zip(facts, counts, strict=True):
                each.tokens = tokens
        found = facts[0] if len(facts) == 1 else facts
        self._keep(table, key, found)
        return found

    def _keep(self, table: str, key: Hashable, found: Any) -> None:
        some = found if found.__class__ is tuple else (found,)
        self._recent_bytes += sum([each.size_bytes for each in some])
        if self._recent_bytes > self.max_bytes:
            forgotten, self._older, self._recent = self._older, self._recent, {}
            self._recent_bytes = 0
            self._remember_counts(forgotten)
        self._recent.setdefault(table, {})[key] = found

    def _remember_counts(self, forgotten: dict[str, dict[Hashable, Any]]) -> None:
        if len(self._counts) > _COUNTS:
            self._counts.clear()
        for key, found in chain.from_iterable(table.items() for table in forgotten.values()):
            for at, facts in enumerate(found if found.__class__ is tuple else (found,)):
                if facts.tokens >= 0:
                    self._counts[_digest(key, at)] = facts.tokens


def _checked_entries(messages: Sequence[Any], format: MessageFormat) -> Sequence[ConversationEntry]:
    for place, message in enumerate(messages):
        if message.__class__ is not ConversationEntry:
            format.read(message, place)
    return messages


def _key_of_entry(entry: ConversationEntry) -> Hashable:
    """Return what an entry says and carries, exactly."""
    calls = entry.tool_calls
    rare = (
        None
        if entry.parts is None and entry.reasoning is None and entry.repairs is None
        else (freeze(entry.parts), freeze(entry.reasoning), entry.repairs)
    )
    return (
        entry.role,
        entry.content,
        entry.tool_call_id,
        entry.tool_name,
        entry.name,
        entry.status,
        entry.pinned,
        entry.origin,
        entry.role_name,
        entry.barrier,
        entry.truncated,
        entry.handle,
        entry.created_at,
        entry.span,
        None if calls is None else tuple([_key_of_call(call) for call in calls]),
        rare,
        entry.metadata and repr(entry.metadata.get("timestamp")),
    )


def _key_of_call(call: ToolCall) -> Hashable:
    return call.id, call.name, call.arguments, freeze(call.extra)


def _is_plain(value: Any, depth: int = 6) -> bool:
    """Whether a value is made of dicts, lists, texts and None alone."""
    if value is None or value.__class__ is str:
        return True
    if not depth:
        return False
    if value.__class__ is dict:
        return all(_is_plain(each, depth - 1) for each in value.values())
    return value.__class__ is list and all(_is_plain(each, depth - 1) for each in value)


def _weigh(entry: ConversationEntry) -> int:
    size = len(entry.content) if entry.content else 0
    if entry.tool_calls:
        for call in entry.tool_calls:
            size += len(call.arguments) + len(call.name)
    return size + 16 if size < _LARGEST else _LARGEST + 16


def _size_of(key: Any) -> int:
    """Return the bytes of the texts in a key."""
    if isinstance(key, (str, bytes)):
        return len(key)
    return sum(map(_size_of, key)) if isinstance(key, (tuple, frozenset)) else 0


def _digest(key: Hashable, place: int) -> tuple[int, int, int]:
    """Return what names a key that is gone: its hash and its size."""
    return hash(key), _size_of(key), place
