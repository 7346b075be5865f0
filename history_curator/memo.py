"""The memo: facts about single messages, found by their content; a curator's only memory of them.

Equal messages are one to the memo, in any conversation, process or copy. A message that was edited
in place is another one. Forgetting costs time and never changes a view. No conversation is
remembered, but for the last few lists that were read, which saves time only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConversionError
from history_curator.formats import MessageFormat, freeze
from history_curator.tokens import TokenCounter, Usage, entry_time, read_usage
from history_curator.units import Pairing

MEMO_BYTES = 256 * 2**20
"""How much a memo holds at most, about, where nothing else is said."""
_BYTES_PER_ENTRY = 2_000
_LARGEST = 16_384
"""Characters that one entry counts as at most in rough sizes, so that no giant outweighs the rest."""
_LISTS, _STATES = 4, 8
"""How many lists of messages are recognised as a whole, and how many states of the window in each."""


class EntryFacts:
    """The facts about one entry, read from a private copy of its message, whatever its place."""

    __slots__ = (
        "bound", "entry", "is_plain", "key", "line", "mentions", "recaps", "renderings",
        "size_bytes", "time", "tokens", "usage", "weight",
    )  # fmt: skip

    def __init__(self, entry: ConversationEntry, key: Hashable, size_bytes: int) -> None:
        self.entry = entry
        self.key = (
            key  # the content of its message; of a later entry of the same message, its number
        )
        self.weight = 0 if entry.role is MessageRole.SYSTEM else _weigh(entry)
        self.size_bytes = _BYTES_PER_ENTRY + 2 * size_bytes  # renderings and identifiers included
        is_dict = entry.source.__class__ is dict  # texts equal only themselves; 1 == True
        self.is_plain = is_dict and not (entry.span and entry.span[0]) and _is_plain(entry.source)
        # A dict that says when it was written has metadata.
        has_time = not is_dict or entry.metadata or entry.created_at is not None
        self.time = entry_time(entry) if has_time else None
        self.usage: Usage | None = None
        self.tokens = -1  # until somebody asks
        self.renderings: dict[Hashable, Any] = {}  # of the unit that it opens, by its results
        self.recaps: dict[Hashable, Any] = {}  # written when the unit that it opens arrived
        self.line: Any = None  # the recap's, about the unit that it opens
        self.mentions: Any = None  # identifiers it holds
        self.bound: ConversationEntry | None = None  # as it last stood in a conversation


class Record:
    """The conversation of one call: its entries, the facts about each, and their grouping in units.

    `offsets` are the cheap sizes of everything recorded before each unit, `checkpoints` the states of
    the window after some of the units, by its options.
    """

    def __init__(
        self,
        facts: list[EntryFacts],
        *,
        messages: Sequence[Any] = (),
        places: Sequence[int] = (),
        entries: Sequence[ConversationEntry] = (),
        earlier: Record | None = None,
    ) -> None:
        self.facts = facts
        self.places = places
        self._messages = messages
        self._bound = dict(enumerate(entries))
        recorded = [each.entry for each in facts]
        self.pairing: Pairing = Pairing(recorded, None if earlier is None else earlier.pairing)
        self.offsets: list[int] = [] if earlier is None else earlier.offsets.copy()
        self._fingerprints: list[int] = (
            [] if earlier is None else earlier._fingerprints[: len(earlier)]
        )
        known = [] if earlier is None else list(earlier.checkpoints.items())[-_STATES:]
        same = self.pairing.first_changed
        self.checkpoints: dict[Hashable, Any] = {
            key: state for key, state in known if state.end <= same
        }
        units, total = self.pairing.units, self.offsets[-1] if self.offsets else 0
        start = units[len(self.offsets) - 1].start if self.offsets else 0
        for unit in units[len(self.offsets) :]:
            for each in facts[start : unit.start]:
                total += each.weight
            start = unit.start
            self.offsets.append(total)

    def __len__(self) -> int:
        return len(self.facts)

    @property
    def fingerprints(self) -> list[int]:
        """For each entry, a hash of the messages up to it: equal beginnings have equal hashes."""
        known = len(self._fingerprints)
        name, names = self._fingerprints[-1] if known else 0, []
        for facts in self.facts[known:]:
            name = hash((name, facts.key))
            names.append(name)
        self._fingerprints[known:] = names
        return self._fingerprints

    def entry_at(self, index: int) -> ConversationEntry:
        """Return the entry at a position, bound to the message it was read from."""
        entry = self._bound.get(index)
        if entry is None:
            facts, place = self.facts[index], self.places[index]
            message, entry = self._messages[place], facts.bound
            if entry is None or entry.source is not message or entry.sequence != place:
                entry = facts.bound = replace(facts.entry, source=message, sequence=place)
            self._bound[index] = entry
        return entry

    def entries(self) -> list[ConversationEntry]:
        """Return all entries, in order."""
        return [self.entry_at(index) for index in range(len(self.facts))]

    def first(self, count: int) -> Record:
        """Return the record of the first `count` entries alone."""
        record = Record(self.facts[:count], messages=self._messages, places=self.places)
        record._bound = self._bound
        return record

    def without_messages(self) -> Record:
        """Return the record without the messages that were given, to be remembered."""
        record = copy(self)
        record._messages, record._bound = (), {}
        return record


class KnownList(NamedTuple):
    """A list of messages read lately: private copies of its plain beginning, and the facts."""

    format: MessageFormat
    copies: list[Any]
    rows: list[tuple[EntryFacts, ...]]
    record: Record
    size_bytes: int


class Memo:
    """Remembers facts about messages, as many as fit a number of bytes.

    The oldest facts are forgotten first. The counter still knows their tokens.
    """

    def __init__(self, counter: TokenCounter, max_bytes: int = MEMO_BYTES) -> None:
        self.counter = counter
        self.max_bytes = max_bytes
        self._known: OrderedDict[Hashable, tuple[EntryFacts, ...]] = OrderedDict()
        self._bytes = 0
        self._lists: list[KnownList] = []
        self._numbers: dict[Hashable, int] = {}

    def read(self, messages: Sequence[Any], format: MessageFormat) -> Record:
        """Return the record of a conversation."""
        if format.name == "entries":
            for place, message in enumerate(messages):
                format.read(message, place)
            return self.read_entries(messages)
        known = self._find_list(messages, format)
        copies = [] if known is None else known.copies.copy()
        rows = [] if known is None else known.rows[: len(copies)]
        for place in range(len(rows), len(messages)):
            row = self._read_message(messages[place], format, place)
            if len(copies) == place and row and row[0].is_plain:
                copies.append(row[0].entry.source)
            rows.append(row)
        lists = [each for each in self._lists if each.rows == rows[: len(each.rows)]]
        past = max(lists, key=lambda each: len(each.rows), default=None)
        start, earlier = (0, None) if past is None else (len(past.rows), past.record)
        facts = [] if earlier is None else earlier.facts.copy()
        places = [] if earlier is None else list(earlier.places)
        for place, row in enumerate(rows[start:], start):
            facts += row
            places += [place] * len(row)
        record = Record(facts, messages=messages, places=places, earlier=earlier)
        size_bytes = 0 if past is None else past.size_bytes
        size_bytes += sum([facts.size_bytes for row in rows[start:] for facts in row])
        newest = KnownList(format, copies, rows, record.without_messages(), size_bytes)
        self._keep_list(newest, past)
        return record

    def read_entries(
        self, entries: Sequence[ConversationEntry], known: Record | None = None
    ) -> Record:
        """Return the record of entries as they are, such as managers left them of a known record."""
        pairs = () if known is None else zip(map(id, known.entries()), known.facts, strict=True)
        facts_of, facts = dict(pairs), []
        for entry in entries:
            found = facts_of.get(id(entry))
            if found is None:
                root = facts_of.get(id(entry.original))
                source = entry.source if root is None else root.entry.source
                found = self._facts_of_entry(entry, source)
            facts.append(found)
        return Record(facts, entries=entries)

    def count_entry(self, entry: ConversationEntry) -> int:
        """Return the tokens of an entry, counted once for all entries with the same content."""
        return self.count(self._facts_of_entry(entry, entry.source))

    def number(self, key: Hashable) -> int:
        """Return a small number for a key, the same each time, where hashing it again would be slow."""
        return self._numbers.setdefault(key, len(self._numbers))

    def count(self, facts: EntryFacts) -> int:
        """Return the tokens of an entry, counted once."""
        if facts.tokens < 0:
            facts.tokens = self.counter.count_entry(facts.entry)
        return facts.tokens

    def _find_list(self, messages: Sequence[Any], format: MessageFormat) -> KnownList | None:
        """Return the known list that these messages begin with.

        Only a shortcut: the messages are compared with private copies, by content.
        """
        for known in self._lists if type(messages) is list else ():
            count = len(known.copies)
            if known.format is not format or not 0 < count <= len(messages):
                continue
            last = messages[count - 1]
            if last.__class__ is dict and last == known.copies[-1]:
                beginning = messages[:count]
                if beginning == known.copies and set(map(type, beginning)) == {dict}:
                    return known
        return None

    def _keep_list(self, newest: KnownList, past: KnownList | None) -> None:
        """Remember a list instead of its beginning, and other lists while they fit."""
        kept, free = [newest], self.max_bytes - newest.size_bytes
        for known in [each for each in self._lists if each is not past]:
            free -= known.size_bytes
            if free >= 0 and len(kept) < _LISTS:
                kept.append(known)
        self._lists = kept

    def _read_message(
        self, message: Any, format: MessageFormat, place: int
    ) -> tuple[EntryFacts, ...]:
        try:
            key = (format.name, format.key_of(message))
            found = self._known.get(key)
            private = format.snapshot(message) if found is None else None
        except (ConversionError, TypeError, ValueError, RecursionError):
            format.read(message, place)  # where it cannot be read, this says so better
            raise
        if found is None:
            entries = format.read(private, place)
            found = self._remember(entries, key)
            if any(entry.role is MessageRole.ASSISTANT for entry in entries):
                found[0].usage = read_usage(message)
        return found

    def _facts_of_entry(self, entry: ConversationEntry, source: Any) -> EntryFacts:
        key = key_of_entry(entry)
        found = self._known.get(key)
        if found is None:
            plain = replace(
                entry, original=None, source=source, action=None, reason=None, sequence=0
            )
            found = self._remember((plain,), key)
        return found[0]

    def _remember(
        self, entries: Sequence[ConversationEntry], key: Hashable
    ) -> tuple[EntryFacts, ...]:
        size = _size_of(key) // max(1, len(entries))
        found = tuple([EntryFacts(each, at or key, size) for at, each in enumerate(entries)])
        self._known[key] = found
        self._bytes += sum([each.size_bytes for each in found])
        while self._bytes > self.max_bytes and len(self._known) > 1:
            _, oldest = self._known.popitem(last=False)
            self._bytes -= sum([each.size_bytes for each in oldest])
        return found


_get_fields = attrgetter(
    "role", "content", "tool_call_id", "tool_name", "name", "status", "pinned", "origin",
    "role_name", "barrier", "truncated", "handle", "created_at", "span",
)  # fmt: skip


def key_of_entry(entry: ConversationEntry) -> Hashable:
    """Return what an entry says and carries, exactly."""
    calls = entry.tool_calls
    time = entry.metadata and repr(entry.metadata.get("timestamp"))
    rare = None
    if entry.parts is not None or entry.reasoning is not None or entry.repairs is not None:
        rare = (freeze(entry.parts), freeze(entry.reasoning), entry.repairs)
    called = tuple([(c.id, c.name, c.arguments, freeze(c.extra)) for c in calls or ()])
    return (*_get_fields(entry), called, rare, time)


def _is_plain(value: Any, depth: int = 6) -> bool:
    """Whether a value is made of dicts, lists, texts and None alone."""
    kind = value.__class__
    if kind is not dict and kind is not list:
        return kind is str or value is None
    for each in value.values() if kind is dict else value:
        if each.__class__ is not str and not _is_plain(each, depth - 1):
            return False
    return depth > 0


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
