"""A policy decides what is sent at each call; a curator is one, and so is any peer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from inspect import signature
from typing import Any, Protocol, runtime_checkable

from history_curator.errors import ConfigurationError, a_type
from history_curator.lab._conversation import ReadConversation
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.tokens import TokenCounter

View = Callable[[int, "ConversationEntry | None"], Sequence[ConversationEntry]]
"""``view(n, question)``: what is sent when the first n entries have been said.

Entries of the record come back as the same objects, edited ones as copies that remember them
(`ConversationEntry.evolve`). A ``question`` is said after them, when one is given.
"""


class PolicyUnavailableError(ConfigurationError):
    """A policy needs a package that is not installed; replay skips it with a note."""


@runtime_checkable
class Policy(Protocol):
    """What replay asks of a policy.

    A policy travels to worker processes, so it must be picklable; whatever it remembers about one
    conversation belongs in the view it returns.
    """

    @property
    def max_tokens(self) -> int | None:
        """The budget it was given; views above it are counted."""

    def start(self, conversation: ReadConversation, counter: TokenCounter) -> View:
        """Return the view function for one conversation."""


@dataclass(frozen=True, slots=True)
class NoCuration:
    """Send everything, every time."""

    max_tokens: int | None = None

    def start(self, conversation: ReadConversation, counter: TokenCounter) -> View:
        """Return the view function for one conversation."""
        entries = list(conversation.entries)

        def view(upto: int, question: ConversationEntry | None) -> list[ConversationEntry]:
            return [*entries[:upto], question] if question else entries[:upto]

        return view


@dataclass(frozen=True)
class CuratorPolicy:
    """A `Curator` as a policy.

    Attributes:
        curator: a curator, or a function without arguments that builds one in the worker.
        max_tokens: its budget.
    """

    curator: Any
    max_tokens: int | None = None

    def start(self, conversation: ReadConversation, counter: TokenCounter) -> View:
        """Return the view function for one conversation."""
        # A copy knows no other conversation: an equal entry of one would be taken for this one's.
        curator = copy(self.curator) if hasattr(self.curator, "curate") else self.curator()
        entries, tools = conversation.entries, conversation.tools

        def view(upto: int, question: ConversationEntry | None) -> Sequence[ConversationEntry]:
            said = [*entries[:upto], question] if question else entries[:upto]
            sent: Sequence[ConversationEntry] = curator.curate(said, tools=tools).entries
            return sent

        return view


def as_policies(
    policies: Mapping[str, Any] | Sequence[str], max_tokens: int | None
) -> dict[str, Policy]:
    """Return policies by name from curators, policies, builders and names of known ones.

    Raises:
        ConfigurationError: naming the entry that is none of these.
    """
    from history_curator.lab._peers import named_policy

    if not isinstance(policies, Mapping):
        policies = {name: name for name in policies}
    chosen: dict[str, Policy] = {}
    for name, given in policies.items():
        if isinstance(given, str):
            chosen[name] = named_policy(given, max_tokens)
        elif hasattr(given, "start"):
            chosen[name] = given
        elif hasattr(given, "curate"):
            _refuse_manager(name, given)
            chosen[name] = CuratorPolicy(given, getattr(given, "max_tokens", max_tokens))
        elif callable(given):
            chosen[name] = CuratorPolicy(given, max_tokens)
        else:
            raise ConfigurationError(
                f"policy {name!r} is {a_type(given)}. Fix: pass a Curator, an object "
                "with start(conversation, counter), a function that builds a Curator, or the "
                "name of a known policy."
            )
    if not chosen:
        raise ConfigurationError("there is no policy to replay. Fix: pass at least one.")
    return chosen


def _refuse_manager(name: str, given: Any) -> None:
    """Raise for a manager: its ``curate`` takes a context, not the tools of a request."""
    accepted = signature(given.curate).parameters.values()
    if any(each.name == "tools" or each.kind is each.VAR_KEYWORD for each in accepted):
        return
    kind = type(given).__name__
    raise ConfigurationError(
        f"policy {name!r} is {a_type(given)}, a manager and not a Curator. Fix: put it into one: "
        f"Curator({kind}(...), max_tokens=...)."
    )


@dataclass(frozen=True, slots=True)
class NewestThatFit:
    """The system message and the newest messages that fit, from a user message on.

    This is what LangChain's ``trim_messages`` returns with the options its documentation shows
    (``strategy="last"``, ``start_on="human"``, ``end_on=("human", "tool")``,
    ``include_system=True``). It is written again here so that the demo can show it where LangChain
    is not installed; the tests hold it to the original. `TrimMessagesPolicy` runs the original.
    """

    max_tokens: int | None

    def start(self, conversation: ReadConversation, counter: TokenCounter) -> View:
        """Return the view function for one conversation."""
        entries = conversation.entries

        def view(upto: int, question: ConversationEntry | None) -> list[ConversationEntry]:
            sent = self._trim(entries[:upto], counter)
            return [*sent, question] if question else sent

        return view

    def _trim(
        self, said: tuple[ConversationEntry, ...], counter: TokenCounter
    ) -> list[ConversationEntry]:
        rest = list(said)
        while rest and rest[-1].role not in (MessageRole.USER, MessageRole.TOOL):
            rest.pop()
        system = rest[:1] if rest and rest[0].role is MessageRole.SYSTEM else []
        del rest[: len(system)]
        room = self.max_tokens or 0
        if system:  # counted as a list of its own, so the priming is in both
            room = max(0, room - counter.priming - counter.count_entry(system[0]))
        room -= counter.priming
        start = len(rest)
        while start and (room := room - counter.count_entry(rest[start - 1])) >= 0:
            start -= 1
        kept = rest[start:]
        while kept and kept[0].role is not MessageRole.USER:
            kept.pop(0)
        return [*system, *kept]
