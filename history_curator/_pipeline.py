"""What happens to one request on its way from messages to view."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, Literal, NamedTuple

from history_curator.dialect import Dialect
from history_curator.errors import ConfigurationError
from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry, MessageRole
from history_curator.report import Step
from history_curator.seal import Sealed
from history_curator.structure import Timeline, pair

Tail = Literal["request", "history"]
_VOLATILE = {"recollection", "placeholder", "user"}


class Options(NamedTuple):
    """What `curate` was called with, beside the messages."""

    tools: Sequence[Mapping[str, Any]] | None
    reserve: int
    tail: Tail
    session: Any
    max_tokens: int | None
    dialect: Dialect | None


@dataclass(frozen=True, slots=True)
class Request:
    """One call of `curate`, after reading."""

    dialect: Dialect
    messages: list[Any]
    timeline: Timeline
    record: list[ConversationEntry]
    count: int
    overhead: int
    priced: int
    max_tokens: int | None
    tail: Tail
    context: CurationContext

    @property
    def room(self) -> int | None:
        return None if self.max_tokens is None else self.max_tokens - self.overhead


class Run:
    """The managers at work on one request, whoever waits for them."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.context = request.context
        self.entries: Sequence[ConversationEntry] = request.record
        self.steps: list[Step] = []

    def take(self, manager: Any, returned: Any) -> None:
        """Go on with what a manager returned."""
        name = type(manager).__name__
        if not isinstance(returned, Sequence) or not all(
            isinstance(entry, ConversationEntry) for entry in returned
        ):
            raise ConfigurationError(
                f"{name} returned something other than a list of entries. "
                "Fix: return the entries to keep, edited ones made with entry.evolve(…)."
            )
        once = list({id(entry.root): entry for entry in returned}.values())
        self.entries = returned if len(once) == len(returned) else once
        self.steps.append(Step(name, self.entries, dict(self.context.reasons)))


def restore_required(
    record: Sequence[ConversationEntry],
    entries: Sequence[ConversationEntry],
    preserve_last_n: int | None = None,
) -> list[ConversationEntry]:
    """Put back what no manager may leave out: system, latest user, pins, the last n.

    A pinned entry brings its whole exchange.
    """
    present = {id(entry.root) for entry in entries}
    required = [entry for entry in record if entry.role is MessageRole.SYSTEM]
    if any(entry.pinned for entry in record):
        for unit in pair(record):
            members = [unit.head, *(result for result in unit.results if result is not None)]
            if any(entry.pinned for entry in members):
                required.extend(members)
    latest = next((entry for entry in reversed(record) if entry.is_real_user), None)
    if latest is not None:
        required.append(latest)
    if preserve_last_n:
        required.extend(record[-preserve_last_n:])
    missing = {id(entry.root) for entry in required} - present
    if not missing:
        return list(entries)
    rank = {id(entry.root): index for index, entry in enumerate(record)}
    result = list(entries)
    for entry in record:
        key = id(entry.root)
        if key not in missing:
            continue
        missing.discard(key)
        after = rank[key]
        place = next(
            (
                position
                for position, other in enumerate(result)
                if rank.get(id(other.root), -1) > after
            ),
            len(result),
        )
        result.insert(place, entry)
    return result


class ConstantReason(dict[int, str]):
    """One reason for whatever is asked."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self._reason = reason

    def get(self, key: int, default: Any = None) -> Any:
        return self._reason


def left_out(timeline: Timeline) -> dict[int, str]:
    pairing = timeline.pairing
    if not pairing.orphans and not pairing.replaced:
        return {}
    left = dict(pairing.orphans)
    replaced = {id(entry.root) for entry in pairing.replaced}
    if replaced:
        for index, entry in enumerate(timeline.entries):
            if id(entry.root) in replaced:
                left[index] = "a later result for the same call took its place"
    return left


def stable_prefix(sealed: Sealed, *, scan: bool) -> int:
    """How many leading entries the next call repeats: all but what is bound to change."""
    entries, fit = sealed.entries, sealed.fit
    count = len(entries)
    if fit is not None and fit.steady is not None:
        count -= len(fit.entries) - fit.steady
    while count and entries[count - 1].origin in _VOLATILE:
        count -= 1
    if scan:
        for position, entry in enumerate(entries[:count]):
            if entry.origin == "recollection":
                return position
    return count


def sync_curate(manager: Any) -> Callable[..., Any]:
    curate: Callable[..., Any] | None = getattr(manager, "curate", None)
    if curate is None or iscoroutinefunction(curate):
        raise ConfigurationError(
            f"{type(manager).__name__} is async only. Fix: use `await curator.acurate(…)`."
        )
    return curate
