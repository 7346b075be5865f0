"""The memo: facts about single messages, found by their content; a curator's only memory of them.

Equal messages are one to the memo, in any conversation, process or copy. A message that was edited
in place is another one. Forgetting costs time and never changes a view. No conversation is
remembered, but for the last few lists that were read, which saves time only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConversionError
from history_curator.formats import MessageFormat, freeze
from history_curator.tokens import TokenCounter, Usage, entry_time, read_usage
from history_curator.units import Pairing

MEMO_BYTES = 64 * 2**20
"""How much a memo holds, about, where nothing else is said."""
_BYTES_PER_ENTRY = 2_000
_LARGEST = 16_384
"""Characters that one entry counts for at most in the cheap size of a record."""
_LISTS = 4
"""How many lists of messages are recognised as a whole."""


class EntryFacts:
    """The facts about one entry that do not depend on its place.

    Attributes:
        entry: the entry, read from a private copy of its message.
        key: the content of its message.
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
        bound: the entry as it last stood in a conversation.
    """

    __slots__ = (
        "bound", "entry", "is_plain", "key", "line", "names", "recaps", "renderings",
        "size_bytes", "time", "tokens", "usage", "weight",
    )  # fmt: skip

    def __init__(self, entry: ConversationEntry, key: Hashable, size_bytes: int) -> None:
        self.entry = entry
        self.key = key
        self.weight = 0 if entry.role is MessageRole.SYSTEM else _weigh(entry)
        self.size_bytes = _BYTES_PER_ENTRY + 4 * size_bytes  # renderings and identifiers included
        is_dict = entry.source.__class__ is dict
        self.is_plain = is_dict and _is_plain(entry.source)
        # A dict that says when it was written has metadata.
        has_time = not is_dict or entry.metadata or entry.created_at is not None
        self.time = entry_time(entry) if has_time else None
        self.usage: Usage | None = None
        self.tokens = -1
        self.renderings: dict[Hashable, Any] = {}
        self.recaps: dict[Hashable, Any] = {}
        self.line: Any = None
        self.names: Any = None
        self.bound: ConversationEntry | None = None


class Record:
    """The entries of one call: the facts about each, and each as it stands in the conversation.

    Attributes:
        facts: what is known of each entry.
        pairing: its units.
        offsets: cheap size, in characters, of everything recorded before each unit.
    """

    def __init__(
        self,
        facts: list[EntryFacts],
        *,
        messages: Sequence[Any] = (),
        places: Sequence[int] = (),
        entries: Sequence[ConversationEntry] | None = None,
        earlier: Record | None = None,
    ) -> None:
        self.facts = facts
        self.places = places
        self._messages = messages
        self._entries = entries
        self._bound: dict[int, ConversationEntry] = {}
        self._named_by: Record | None = None
        self._earlier_names: Sequence[int] = () if earlier is None else earlier.known_names
        past = None if earlier is None else earlier.pairing
        self.pairing = Pairing([each.entry for each in facts], past)
        self.offsets = [] if earlier is None else earlier.offsets.copy()
        self._extend_offsets()

    def __len__(self) -> int:
        return len(self.facts)

    def _extend_offsets(self) -> None:
        offsets, units = self.offsets, self.pairing.units
        total = offsets[-1] if offsets else 0
        start = units[len(offsets) - 1].start if offsets else 0
        for unit in units[len(offsets) :]:
            for facts in self.facts[start : unit.start]:
                total += facts.weight
            start = unit.start
            offsets.append(total)

    @cached_property
    def names(self) -> list[int]:
        """A number for the first entries up to each one, from what their messages say."""
        if self._named_by is not None:
            return self._named_by.names
        names = list(self._earlier_names)
        name = names[-1] if names else 0
        for facts in self.facts[len(names) :]:
            name = hash((name, facts.key))
            names.append(name)
        return names

    @property
    def known_names(self) -> Sequence[int]:
        """The names, as far as they are worked out already."""
        known: Sequence[int] = self.__dict__.get("names", self._earlier_names)
        return known

    def entry_at(self, index: int) -> ConversationEntry:
        """Return the entry at a position, bound to the message it was read from."""
        if self._entries is not None:
            return self._entries[index]
        entry = self._bound.get(index)
        if entry is None:
            facts, place = self.facts[index], self.places[index]
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
        """Return the record as it was when it had so many entries."""
        entries = None if self._entries is None else self._entries[:count]
        facts, places = self.facts[:count], self.places[:count]
        return Record(facts, messages=self._messages, places=places, entries=entries)

    def derive(self, facts: list[EntryFacts], entries: Sequence[ConversationEntry]) -> Record:
        """Return what managers left of this record; its requests go by the names of this one."""
        derived = Record(facts, places=range(len(facts)), entries=entries)
        derived._named_by = self
        return derived


class KnownList(NamedTuple):
    """A list of messages read lately: private copies of its plain beginning, and its record."""

    format: MessageFormat
    copies: list[Any]
    record: Record


class Memo:
    """Remembers facts about messages, as many as fit a number of bytes.

    Facts that were not used lately are forgotten first. The counter still knows their tokens.

    Args:
        counter: counts the tokens.
        max_bytes: how much to hold, about.
    """

    def __init__(self, counter: TokenCounter, max_bytes: int = MEMO_BYTES) -> None:
        self.counter = counter
        self.max_bytes = max_bytes
        self._recent: dict[str, dict[Hashable, Any]] = defaultdict(dict)
        self._older: dict[str, dict[Hashable, Any]] = defaultdict(dict)
        self._recent_bytes = 0
        self._lists: list[KnownList] = []
        self._numbers: dict[Hashable, int] = {}

    def read(self, messages: Sequence[Any], format: MessageFormat) -> Record:
        """Return the record of a conversation.

        Raises:
            ConversionError: naming the message, the field and the fix.
        """
        if format.name == "entries":
            for place, message in enumerate(messages):
                format.read(message, place)
            return self.read_entries(messages)
        known = self._find_list(messages, format)
        copies = [] if known is None else known.copies.copy()
        places: list[int] = []
        facts: list[EntryFacts] = []
        earlier: Record | None = None
        if known is not None:
            places, facts, earlier = [*known.record.places], known.record.facts.copy(), known.record
            if places and places[-1] >= len(copies):  # only its beginning was plain
                end = places.index(len(copies))
                places, facts, earlier = places[:end], facts[:end], None
        for place in range(len(copies), len(messages)):
            found = self._read_message(messages[place], format, place)
            facts += found
            places += [place] * len(found)
            if len(copies) == place and found and found[0].is_plain:
                copies.append(found[0].entry.source)
        record = Record(facts, messages=messages, places=places, earlier=earlier)
        if copies:
            kept = [each for each in self._lists if each is not known][1 - _LISTS :]
            self._lists = [*kept, KnownList(format, copies, record)]
        return record

    def read_entries(
        self, entries: Sequence[ConversationEntry], known: Record | None = None
    ) -> Record:
        """Return the record of entries as they are, such as a manager returned them.

        Args:
            entries: the entries.
            known: the record that most of them come from.
        """
        pairs = () if known is None else zip(map(id, known.entries()), known.facts, strict=True)
        facts_of, facts = dict(pairs), []
        for entry in entries:
            found = facts_of.get(id(entry))
            if found is None:
                root = facts_of.get(id(entry.original))
                source = entry.source if root is None else root.entry.source
                found = self._facts_of_entry(entry, source)
            facts.append(found)
        if known is not None:
            return known.derive(facts, entries)
        return Record(facts, places=range(len(facts)), entries=entries)

    def count_entry(self, entry: ConversationEntry) -> int:
        """Return the tokens of an entry, counted once for all entries with the same content."""
        return self.count(self._facts_of_entry(entry, entry.source))

    def number(self, key: Hashable) -> int:
        """Return a number that stands for a long key."""
        return self._numbers.setdefault(key, len(self._numbers))

    def count(self, facts: EntryFacts) -> int:
        """Return the tokens of an entry, counted once."""
        if facts.tokens < 0:
            facts.tokens = self.counter.count_entry(facts.entry)
        return facts.tokens

    def _find_list(self, messages: Sequence[Any], format: MessageFormat) -> KnownList | None:
        """Return what is known of a list that begins with these messages.

        Only a shortcut: the messages are compared with private copies, by content.
        """
        for known in reversed(self._lists) if type(messages) is list else ():
            count = len(known.copies)
            if known.format is not format or not 0 < count <= len(messages):
                continue
            last = messages[count - 1]
            if last.__class__ is dict and last == known.copies[-1]:
                beginning = messages[:count]
                if beginning == known.copies and set(map(type, beginning)) == {dict}:
                    return known
        return None

    def _read_message(
        self, message: Any, format: MessageFormat, place: int
    ) -> tuple[EntryFacts, ...]:
        try:
            key = format.key_of(message)
            found: tuple[EntryFacts, ...] | None = self._find(format.name, key)
            private = format.snapshot(message) if found is None else None
        except (ConversionError, TypeError, ValueError, RecursionError):
            format.read(message, place)  # where it cannot be read, this says so better
            raise
        if found is None:
            entries = format.read(private, place)
            found = self._remember(entries, key, format.name)
            if any(entry.role is MessageRole.ASSISTANT for entry in entries):
                found[0].usage = read_usage(message)
        return found

    def _facts_of_entry(self, entry: ConversationEntry, source: Any) -> EntryFacts:
        key = _key_of_entry(entry)
        found: tuple[EntryFacts, ...] | None = self._find("entries", key)
        if found is None:
            plain = replace(
                entry, original=None, source=source, action=None, reason=None, sequence=0
            )
            found = self._remember((plain,), key, "entries")
        return found[0]

    def _find(self, table: str, key: Hashable) -> Any:
        """Return what is known of a key, which makes it recent."""
        found = self._recent[table].get(key)
        if found is None:
            found = self._older[table].get(key)
            if found is not None:
                self._keep(table, key, found)
        return found

    def _remember(
        self, entries: Sequence[ConversationEntry], key: Hashable, table: str
    ) -> tuple[EntryFacts, ...]:
        size = _size_of(key) // max(1, len(entries))
        found = tuple([EntryFacts(entry, key, size) for entry in entries])
        self._keep(table, key, found)
        return found

    def _keep(self, table: str, key: Hashable, found: tuple[EntryFacts, ...]) -> None:
        self._recent_bytes += sum([each.size_bytes for each in found])
        if self._recent_bytes > self.max_bytes:
            self._older, self._recent = self._recent, defaultdict(dict)
            self._recent_bytes = 0
        self._recent[table][key] = found


_get_fields = attrgetter(
    "role", "content", "tool_call_id", "tool_name", "name", "status", "pinned", "origin",
    "role_name", "barrier", "truncated", "handle", "created_at", "span",
)  # fmt: skip


def _key_of_entry(entry: ConversationEntry) -> Hashable:
    """Return what an entry says and carries, exactly."""
    calls = entry.tool_calls
    time = entry.metadata and repr(entry.metadata.get("timestamp"))
    rare = None
    if entry.parts is not None or entry.reasoning is not None or entry.repairs is not None:
        rare = (freeze(entry.parts), freeze(entry.reasoning), entry.repairs)
    called = calls and tuple([(c.id, c.name, c.arguments, freeze(c.extra)) for c in calls])
    return (*_get_fields(entry), called, rare, time)


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
