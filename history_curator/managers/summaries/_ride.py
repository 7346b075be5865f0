"""A summary asked for where the conversation is: behind the request that was sent last.

Everything of that request but one instruction is read from the provider's cache, which costs a
tenth of sending the text that left the view in a prompt of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from history_curator.entries import ConversationEntry, MessageRole

if TYPE_CHECKING:
    from history_curator.rules import ProviderProfile

_CONVERSATIONS = 256
_INSTRUCTION = ConversationEntry(MessageRole.USER, "")


@dataclass(frozen=True, slots=True)
class Ride:
    """An instruction to be sent behind the last request; answered with nothing where it fails."""

    instruction: str


@dataclass(frozen=True, slots=True)
class Live:
    """The request that was sent last for a conversation, and how to send it again.

    Attributes:
        entries: the view that was sent.
        serves: whether a summariser is the model that was asked.
        ask: sends the same request with an instruction behind it; returns what the model says.
        aask: the same, awaited.
    """

    entries: Sequence[ConversationEntry]
    serves: Callable[[Any], bool]
    ask: Callable[[str], Any]
    aask: Callable[[str], Any]

    def covers(
        self, left: Iterable[ConversationEntry], record: Sequence[ConversationEntry], earlier: str
    ) -> bool:
        """Whether the model has before it what a summary is to be written of, and nothing else.

        That is what leaves the view and is in no summary yet (`left`) and the summary of what left
        before (`earlier`); whatever is not of the `record` is not ours to summarise.
        """
        sent = {_name(entry) for entry in self.entries if entry.origin is None}
        if earlier and not any(earlier in (entry.content or "") for entry in self.entries):
            return False
        return sent <= set(map(_name, record)) and all(_name(entry) in sent for entry in left)


def _name(entry: ConversationEntry) -> tuple[Any, ...]:
    root = entry.root
    return root.sequence, root.role, root.content, root.tool_calls


_live: ContextVar[Live | None] = ContextVar("live_request", default=None)


@contextmanager
def riding(live: Live | None) -> Iterator[None]:
    """Summaries that are written inside may go behind this request."""
    token = _live.set(live)
    try:
        yield
    finally:
        _live.reset(token)


def riding_now(summarizer: Any) -> Live | None:
    """Return the request that a summariser may go behind; None where there is none."""
    live = _live.get()
    return live if live is not None and live.serves(summarizer) else None


class Sent:
    """What a socket sent last, by conversation. Bounded; safe to share."""

    def __init__(self) -> None:
        self._last: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Sent, ()

    def note(self, key: Hashable, entries: Sequence[ConversationEntry], request: Any) -> None:
        """Remember the view that was sent for a conversation, and the request it was sent in."""
        with self._lock:
            self._last[key] = (entries, request)
            self._last.move_to_end(key)
            while len(self._last) > _CONVERSATIONS:
                self._last.popitem(last=False)

    def last(
        self, key: Hashable, profile: ProviderProfile
    ) -> tuple[Sequence[ConversationEntry], Any] | None:
        """Return the two, or None where nothing may go behind them.

        Some providers take no word of the user behind a result.
        """
        entries, request = self._last.get(key, ((), None))
        if not entries or profile.bridge(entries[-1], _INSTRUCTION) is not None:
            return None
        return entries, request
