"""The manager protocol, the context a manager gets, and running one manager or several in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from inspect import iscoroutinefunction, signature
from operator import is_, itemgetter
from typing import Any, Literal, NamedTuple, Protocol, cast, runtime_checkable

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConfigurationError, a_type
from history_curator.events import EventBus, HistoryCurated, action_totals
from history_curator.formats import (
    entry_to_provider_message,
    find_format,
    provider_message_to_entry,
    read_entries,
)
from history_curator.memo import Memo
from history_curator.run_steps import Call, Steps, run_async, run_sync
from history_curator.tokens import TokenCounter, get_counter
from history_curator.units import pair

Entries = Sequence[ConversationEntry]


@dataclass(frozen=True, slots=True)
class CurationContext:
    """Everything a manager may need to know beyond the entries.

    `max_tokens` are left for messages: tools, reserve and priming are taken off. `query` is a
    question that is not among the entries yet, and `key` the caller's name for the conversation.
    `count_entry` remembers counts. A provider may want a view that `opens_with_user`. The report
    shows the `warnings`, and names the managers whose views did not go on: the `compactions`.

    Examples:
        >>> CurationContext(max_tokens=1_000).counter.name
        'o200k_base'
    """

    counter: TokenCounter = field(default_factory=get_counter)
    max_tokens: int | None = None
    session: Any = None
    preserve_system: bool = True
    preserve_last_n: int | None = None
    tail: Literal["request", "history"] = "request"
    opens_with_user: bool = False
    recall_tool: bool | str = False
    compact_to: float | None = None
    query: str | None = None
    key: Hashable = None
    count_entry: Callable[[ConversationEntry], int] = field(
        default=cast("Any", None), repr=False, compare=False
    )
    memo: Memo | None = field(default=None, repr=False, compare=False)
    reasons: dict[int, str] = field(default_factory=dict, repr=False, compare=False)
    warnings: list[str] = field(default_factory=list, repr=False, compare=False)
    compactions: list[str] = field(default_factory=list, repr=False, compare=False)

    def __post_init__(self) -> None:
        if cast("Any", self.count_entry) is None:
            object.__setattr__(self, "count_entry", self.counter.count_entry)

    def explain(self, entry: ConversationEntry, reason: str) -> None:
        """Say why an entry is left out; the report shows it."""
        self.reasons[id(entry.root)] = reason


@runtime_checkable
class HistoryManager(Protocol):
    """Anything with ``curate(entries, *, context)``; no base class.

    Return something smaller or the input, and never change an entry in place (use
    `ConversationEntry.evolve`); the curator mends exchanges. With ``curate(messages, *, session)``
    it is given OpenAI-style messages, and returns such. One that calls a model may define ``async
    acurate(entries, *, context)`` as well.
    """

    def curate(self, entries: Entries, *, context: CurationContext) -> Entries:
        """Return the entries to keep, some of them edited copies."""


class Step(NamedTuple):
    """The entries one manager returned, and the reasons it gave for those it left out."""

    name: str
    entries: Entries
    reasons: Mapping[int, str]


def apply_managers(
    managers: Iterable[Any], entries: Entries, context: CurationContext
) -> Steps[tuple[list[ConversationEntry], list[Step]]]:
    """Run managers in order; return the entries they leave, and one step per manager.

    No manager can leave out system entries, the latest user entry, pinned entries with their
    exchanges, and the last n entries.
    """
    record = list(entries)
    current: Entries = record
    positions: dict[int, int] = {}
    pins: dict[int, ConversationEntry] = {}
    steps: list[Step] = []
    for manager in managers:
        returned = yield from run_manager(manager, current, context)
        if not _is_same(returned, current):
            positions = positions or {id(entry.root): at for at, entry in enumerate(record)}
            current = _sort_entries(_link_copies(returned, record), positions)
            pins |= {id(entry.root): entry for entry in current if entry.pinned}
        steps.append(Step(type(manager).__name__, current, dict(context.reasons)))
    if _is_same(current, record):
        return record, steps
    present = {id(entry.root) for entry in current}
    required = {id(entry.root): entry for entry in _list_required(record, pins, context)}
    missing = [entry for name, entry in required.items() if name not in present]
    return _sort_entries([*current, *missing], positions), steps


def _is_same(one: Entries, other: Entries) -> bool:
    return one is other or (len(one) == len(other) and all(map(is_, one, other)))


def _link_copies(returned: Entries, record: Entries) -> Iterable[ConversationEntry]:
    """Yield the entries, those copied by other means than `evolve` as edits of recorded ones."""
    recorded = {(id(each.source), each.span): each.root for each in record if each.source}
    known = {id(each) for each in record}
    for entry in returned:
        root = recorded.get((id(entry.source), entry.span))
        if root is None or entry.original is not None or id(entry) in known:
            yield entry
        else:
            yield entry.evolve(original=root, action=entry.action or "repaired")


def _sort_entries(
    entries: Iterable[ConversationEntry], positions: Mapping[int, int]
) -> list[ConversationEntry]:
    """Return entries in the order of the record, each once; an invented one after its neighbour."""
    latest, placed = -1, []
    for entry in entries:
        latest = positions.get(id(entry.root), latest)
        placed.append((latest, entry))
    placed.sort(key=itemgetter(0))
    return list({id(entry.root): entry for _, entry in placed}.values())


def _list_required(
    record: Entries, pins: Mapping[int, ConversationEntry], context: CurationContext
) -> Iterable[ConversationEntry]:
    """Yield the entries that no manager can leave out, pinned ones as they were pinned."""
    if context.preserve_system:
        yield from (entry for entry in record if entry.role is MessageRole.SYSTEM)
    if pins or any(entry.pinned for entry in record):
        for unit in pair(record):
            members = [unit.head, *(result for result in unit.results if result is not None)]
            if any(entry.pinned or id(entry.root) in pins for entry in members):
                yield from (pins.get(id(entry.root), entry) for entry in members)
    yield from [entry for entry in record if entry.is_real_user][-1:]
    if context.preserve_last_n:
        yield from record[-context.preserve_last_n :]


def run_manager(manager: Any, entries: Entries, context: CurationContext) -> Steps[Entries]:
    """Return the entries a manager keeps; yield its call, in the form it takes."""
    name = type(manager).__name__
    sync = getattr(manager, "curate", None)
    curate: Any = getattr(manager, "acurate", None) or sync
    if sync is None or iscoroutinefunction(sync):
        sync = partial(_refuse_sync, name)
    if _takes_messages(getattr(curate, "__func__", curate)):
        messages = [entry_to_provider_message(entry) for entry in entries]
        returned = yield Call(sync, curate, (list(messages),), {"session": context.session})
        returned = _read_messages(returned, messages, entries)
    else:
        returned = yield Call(sync, curate, (list(entries),), {"context": context})
    if not isinstance(returned, Sequence) or not all(
        isinstance(each, ConversationEntry) for each in returned
    ):
        fix = "Fix: return the entries to keep, edited ones made with entry.evolve(…)."
        raise ConfigurationError(f"{name} returned something other than a list of entries. {fix}")
    return returned


def _refuse_sync(name: str, *_: Any, **__: Any) -> None:
    raise ConfigurationError(f"{name} is async only. Fix: use `await curator.acurate(…)`.")


@lru_cache(maxsize=256)
def _takes_messages(function: Callable[..., Any]) -> bool:
    """Whether a ``curate`` takes messages and a session, not entries and a context."""
    names = signature(function).parameters
    return "session" in names and "context" not in names


def _read_messages(returned: Any, given: Sequence[Any], entries: Entries) -> Any:
    """Return the entries of the messages a manager returned; anything else as it is.

    A message that comes back is the entry it was made of, with the text it has now. A new dict
    stands for the next message of its role and call, if there is one.
    """
    is_list = isinstance(returned, Sequence)
    if not is_list or not all(isinstance(each, Mapping) for each in returned):
        return returned
    positions = {id(message): position for position, message in enumerate(given)}
    kinds = [(each.get("role"), each.get("tool_call_id")) for each in given]
    out: list[ConversationEntry] = []
    start = 0
    for message in returned:
        kind = message.get("role"), message.get("tool_call_id")
        following = (at for at in range(start, len(kinds)) if kinds[at] == kind)
        position = positions.get(id(message), next(following, None))
        if position is None:
            out.append(provider_message_to_entry(message, sequence=len(out)))
            continue
        start, entry, text = position + 1, entries[position], message.get("content")
        is_edited = isinstance(text, str) and text != (entry.content or "")
        out.append(entry.evolve(content=text) if is_edited else entry)
    return out


class BuiltInManager:
    """What curates entries or messages by `select_entries`, or by `steps` if it makes calls."""

    __slots__ = ()

    def select_entries(self, entries: Entries, context: CurationContext) -> Entries:
        """Return the entries to keep, some of them edited copies; here all."""
        return list(entries)

    def steps(self, entries: Entries, context: CurationContext) -> Steps[Entries]:
        """Return the entries to keep; yield the calls to wait for."""
        yield from ()
        return self.select_entries(entries, context)

    def curate(
        self,
        messages: Sequence[Any],
        *,
        context: CurationContext | None = None,
        session: Any = None,
    ) -> list[Any]:
        """Return the messages to keep, of any format, or the entries where entries are given."""
        return run_sync(self._curate(messages, context or CurationContext(session=session)))

    async def acurate(
        self,
        messages: Sequence[Any],
        *,
        context: CurationContext | None = None,
        session: Any = None,
    ) -> list[Any]:
        """Return the messages to keep; see `curate`."""
        return await run_async(self._curate(messages, context or CurationContext(session=session)))

    def _curate(self, messages: Sequence[Any], context: CurationContext) -> Steps[list[Any]]:
        message_format = find_format(messages)
        entries = read_entries(messages, message_format)
        return message_format.write((yield from self.steps(entries, context)))


@dataclass(frozen=True, slots=True)
class ComposedManager(BuiltInManager):
    """Applies managers one after the other, each to the entries the one before returned.

    Examples:
        >>> from history_curator.managers import SlidingWindowManager, ToolResultTruncator
        >>> manager = ComposedManager((ToolResultTruncator(1_000), SlidingWindowManager(50)))
        >>> len(manager.managers)
        2
    """

    managers: tuple[HistoryManager, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "managers", tuple(self.managers))
        check_managers(self.managers, "ComposedManager.managers")

    def steps(self, entries: Entries, context: CurationContext) -> Steps[Entries]:
        for manager in self.managers:
            entries = yield from run_manager(manager, entries, context)
        return list(entries)


@dataclass(frozen=True, slots=True)
class ObservableManager(BuiltInManager):
    """Wraps a manager and publishes `HistoryCurated` on a bus after each curation.

    The event is of this manager alone; a `Curator` with a bus publishes one for all.

    Examples:
        >>> from history_curator import Curator, EventBus, HistoryCurated, SlidingWindowManager
        >>> bus, seen = EventBus(), []
        >>> unsubscribe = bus.subscribe(HistoryCurated, seen.append)
        >>> manager = ObservableManager(SlidingWindowManager(1), bus, "support")
        >>> said = [{"role": "user", "content": text} for text in ("one", "two")]
        >>> _ = Curator(manager).curate(said)
        >>> seen[0].strategy, seen[0].original_count, seen[0].curated_count
        ('sliding_window', 2, 1)
    """

    inner: HistoryManager
    bus: EventBus
    prompt_name: str = "history"

    def steps(self, entries: Entries, context: CurationContext) -> Steps[Entries]:
        after = yield from run_manager(self.inner, entries, context)
        event = HistoryCurated(
            prompt_name=self.prompt_name,
            original_count=len(entries),
            curated_count=len(after),
            strategy=snake_case(type(self.inner).__name__),
            session_id=getattr(context.session, "session_id", None),
            actions=action_totals(entries, after),
            max_tokens=context.max_tokens,
        )
        self.bus.publish(event)
        return list(after)


def snake_case(class_name: str) -> str:
    """Return the name of a manager in configurations: `SlidingWindowManager` is sliding_window."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower()
    return name.removesuffix("_manager")


def check_options(manager: object, **wanted: int | tuple[str, ...]) -> None:
    """Require options to be whole numbers of at least so much, or None, or one of some words."""
    for option, allowed in wanted.items():
        value = getattr(manager, option)
        if isinstance(allowed, tuple):
            fits, fix = value in allowed, f"one of {', '.join(map(repr, allowed))}"
        else:
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            fits = value is None or (is_whole and value >= allowed)
            fix = f"a whole number, {allowed} or more"
        if not fits:
            name = f"{type(manager).__name__}.{option}"
            raise ConfigurationError(f"{name} is {value!r}. Fix: {fix}.")


def check_managers(managers: Sequence[Any], where: str = "managers") -> None:
    """Raise `ConfigurationError` where something is no manager, such as a class."""
    for position, manager in enumerate(managers):
        if isinstance(manager, type):
            name = manager.__name__
            raise ConfigurationError(f"{where}[{position}] is the class {name}. Fix: {name}(...).")
        if not (hasattr(manager, "curate") or hasattr(manager, "acurate")):
            fix = "pass objects with curate(entries, *, context)."
            if isinstance(manager, int):
                fix = f"for a budget write max_tokens={manager}."
            elif isinstance(manager, (list, tuple)):
                fix = "pass the managers without the brackets."
            problem = f"{where}[{position}] is {a_type(manager)} without a curate method"
            raise ConfigurationError(f"{problem}. Fix: {fix}")
