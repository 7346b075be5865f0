"""Policies decide what is sent at each call: our curator, everything, and other libraries.

Each peer is driven through its own public API with the options its documentation shows, and with
an exact token counter wherever it takes one. A peer that is not installed raises
`PolicyUnavailableError` when it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from history_curator.curator import Curator
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConfigurationError, a_type
from history_curator.formats import parse_object
from history_curator.lab.conversations import ReadConversation, import_extra
from history_curator.tokens import TokenCounter

View = Callable[[int], Sequence[ConversationEntry]]
"""``view(n)`` returns the entries to send when the first n entries have been recorded.

Entries of the record come back as the same objects, edited ones as copies that remember them
(`ConversationEntry.evolve`).
"""


class PolicyUnavailableError(ConfigurationError):
    """A policy needs a package that is not installed; replay skips it with a note."""


@runtime_checkable
class Policy(Protocol):
    """Decides what is sent at each call of a conversation.

    A policy travels to worker processes, so it must be picklable. Memory about one conversation
    belongs in the view it returns.
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
        return lambda upto: entries[:upto]


@dataclass(frozen=True)
class CuratorPolicy:
    """A `Curator`, or a function that builds one in the worker, as a policy."""

    curator: Any
    max_tokens: int | None = None

    def start(self, conversation: ReadConversation, counter: TokenCounter) -> View:
        """Return the view function for one conversation."""
        # A copy shares no memory with the replay of another conversation.
        given = self.curator
        curator = copy(given) if isinstance(given, Curator) else given()
        entries, tools = conversation.entries, conversation.tools
        return lambda upto: curator.curate(entries[:upto], tools=tools).entries


@dataclass(frozen=True, slots=True)
class NewestThatFit:
    """The system message and the newest messages that fit, from a user message on.

    The demo uses it, since LangChain may be absent; ``trim_messages`` returns the same.
    """

    max_tokens: int | None

    def start(self, conversation: ReadConversation, counter: TokenCounter) -> View:
        """Return the view function for one conversation."""
        return lambda upto: self._trim(conversation.entries[:upto], counter)

    def _trim(
        self, entries: Sequence[ConversationEntry], counter: TokenCounter
    ) -> list[ConversationEntry]:
        rest = list(entries)
        while rest and rest[-1].role not in (MessageRole.USER, MessageRole.TOOL):
            rest.pop()
        system = rest[:1] if rest and rest[0].role is MessageRole.SYSTEM else []
        del rest[: len(system)]
        available = self.max_tokens or 0
        if system:  # counted as a list of its own, so the priming is in both
            available = max(0, available - counter.priming - counter.count_entry(system[0]))
        available -= counter.priming
        start = len(rest)
        while start and (available := available - counter.count_entry(rest[start - 1])) >= 0:
            start -= 1
        while start < len(rest) and rest[start].role is not MessageRole.USER:
            start += 1
        return [*system, *rest[start:]]


@dataclass(frozen=True, slots=True)
class PeerPolicy:
    """Another library as a policy: ``trim_messages``, ``ChatMemoryBuffer`` and others by name."""

    name: str
    max_tokens: int | None

    def start(self, conversation: ReadConversation, counter: TokenCounter) -> View:
        """Return the view function for one conversation."""
        return _PEERS[self.name](conversation, counter, self.max_tokens)


def _trim_messages(
    conversation: ReadConversation, counter: TokenCounter, max_tokens: int | None
) -> View:
    """LangChain's ``trim_messages``: the newest messages that fit, from a human message on."""
    core, messages = _as_langchain(conversation)
    options = {
        "max_tokens": max_tokens, "token_counter": _message_counter(messages, conversation, counter),
        "strategy": "last", "start_on": "human", "end_on": ("human", "tool"),
        "include_system": True,
    }  # fmt: skip
    return _entries_of(
        lambda upto: core.trim_messages(messages[:upto], **options), messages, conversation
    )


def _clear_tool_uses(
    conversation: ReadConversation, counter: TokenCounter, max_tokens: int | None
) -> View:
    """LangChain's ``ClearToolUsesEdit``: past the budget, clear all but the three newest results."""
    _, messages = _as_langchain(conversation)
    editing = _import_peer("langchain.agents.middleware.context_editing", "langchain")
    edit = editing.ClearToolUsesEdit(trigger=max_tokens, keep=3)
    count = _message_counter(messages, conversation, counter)

    def send(upto: int) -> list[Any]:
        view = messages[:upto]
        edit.apply(view, count_tokens=count)
        return view

    return _entries_of(send, messages, conversation)


def _chat_memory_buffer(
    conversation: ReadConversation, counter: TokenCounter, max_tokens: int | None
) -> View:
    """LlamaIndex's ``ChatMemoryBuffer``."""
    memory = _import_peer("llama_index.core.memory", "llama-index-core").ChatMemoryBuffer
    messages = _as_llamaindex(conversation)
    sizes = [counter.count(f" {message.content}") for message in messages]
    count = lru_cache(maxsize=4096)(lambda text: range(counter.count(text)))

    def send(upto: int) -> Sequence[Any]:
        # The buffer counts all its text again for every message it leaves out. Messages far beyond
        # the budget are left out beforehand; the newest that fit are the same.
        start, size = upto, 0
        while start and size <= (max_tokens or 0):
            start -= 1
            size += sizes[start]
        buffer = memory.from_defaults(
            chat_history=messages[start:upto], token_limit=max_tokens, tokenizer_fn=count
        )
        return list(buffer.get())

    return _entries_of(send, messages, conversation)


_PEERS: dict[str, Callable[[ReadConversation, TokenCounter, int | None], View]] = {
    "trim_messages": _trim_messages,
    "clear-tool-uses": _clear_tool_uses,
    "ChatMemoryBuffer": _chat_memory_buffer,
}


def _import_peer(module: str, package: str) -> Any:
    try:
        return import_extra(module, package=package)
    except ImportError as error:
        raise PolicyUnavailableError(str(error)) from error


def _entries_of(
    send: Callable[[int], Sequence[Any]], messages: Sequence[Any], conversation: ReadConversation
) -> View:
    """Turn a peer's messages back into entries: the recorded one, or a copy with its new text."""
    index_of = {id(message): index for index, message in enumerate(messages)}
    edited: dict[tuple[int, str], ConversationEntry] = {}

    def entry_for(message: Any) -> ConversationEntry:
        index = index_of.get(id(message))
        if index is not None:
            return conversation.entries[index]
        origin, text = int(message.id), str(message.content)
        if (origin, text) not in edited:
            copied = conversation.entries[origin].evolve(content=text, action="cleared")
            edited[origin, text] = copied
        return edited[origin, text]

    return lambda upto: [entry_for(message) for message in send(upto)]


def _message_counter(
    messages: Sequence[Any], conversation: ReadConversation, counter: TokenCounter
) -> Callable[[Iterable[Any]], int]:
    """Return an exact counter of message lists, priming included."""
    sizes = {
        id(message): counter.count_entry(entry)
        for message, entry in zip(messages, conversation.entries, strict=True)
    }

    def count(batch: Iterable[Any]) -> int:
        known = ((sizes.get(id(message)), message) for message in batch)
        return counter.priming + sum(
            3 + counter.count(str(message.content)) if size is None else size
            for size, message in known
        )

    return count


def _as_langchain(conversation: ReadConversation) -> tuple[Any, list[Any]]:
    """Return LangChain's messages module, and each entry as a message whose id is its index."""
    core = _import_peer("langchain_core.messages", "langchain-core")
    messages: list[Any] = []
    for index, entry in enumerate(conversation.entries):
        given: dict[str, Any] = {"content": entry.content or "", "id": str(index)}
        if entry.role is MessageRole.TOOL:
            given |= {"tool_call_id": entry.tool_call_id or "", "name": entry.tool_name}
        elif entry.role is MessageRole.ASSISTANT:
            given["tool_calls"] = [
                {"id": call.id, "name": call.name, "args": parse_object(call.arguments) or {}}
                for call in entry.tool_calls or ()
            ]
        kinds = {MessageRole.SYSTEM: core.SystemMessage, MessageRole.TOOL: core.ToolMessage,
                 MessageRole.ASSISTANT: core.AIMessage}  # fmt: skip
        messages.append(kinds.get(entry.role, core.HumanMessage)(**given))
    return core, messages


def _as_llamaindex(conversation: ReadConversation) -> list[Any]:
    """Return each entry as a LlamaIndex message."""
    llms = _import_peer("llama_index.core.base.llms.types", "llama-index-core")
    messages = []
    for entry in conversation.entries:
        extra: dict[str, Any] = {}
        if entry.role is MessageRole.TOOL:
            extra = {"tool_call_id": entry.tool_call_id or "", "name": entry.tool_name}
        blocks: list[Any] = [llms.TextBlock(text=entry.content or "")]
        for call in entry.tool_calls or ():
            kwargs = parse_object(call.arguments) or {}
            blocks.append(
                llms.ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=kwargs)
            )
        messages.append(
            llms.ChatMessage(role=entry.role.value, blocks=blocks, additional_kwargs=extra)
        )
    return messages


def peer_names() -> tuple[str, ...]:
    """Return the names `replay` and ``history-curator compare --policy`` know."""
    return ("curator", "sliding", "no curation", *_PEERS)


def named_policy(name: str, max_tokens: int | None) -> Policy:
    """Return a known policy by name."""
    if name not in peer_names():
        known = ", ".join(peer_names())
        raise ConfigurationError(f"there is no policy named {name!r}. Fix: one of {known}.")
    if name == "no curation":
        return NoCuration(max_tokens)
    if max_tokens is None:
        raise ConfigurationError(f"policy {name!r} needs a budget. Fix: pass max_tokens.")
    if name in _PEERS:
        return PeerPolicy(name, max_tokens)
    # Usage in a log is about the request of that time, not about these views.
    options: dict[str, Any] = {"compact_to": 1.0} if name == "sliding" else {}
    return CuratorPolicy(Curator(max_tokens=max_tokens, calibration=False, **options), max_tokens)


def as_policies(
    policies: Mapping[str, Any] | Sequence[str], max_tokens: int | None
) -> dict[str, Policy]:
    """Return policies by name from curators, policies, builders and names of known ones."""
    if not isinstance(policies, Mapping):
        policies = {name: name for name in policies}
    chosen: dict[str, Policy] = {}
    for name, given in policies.items():
        if isinstance(given, str):
            chosen[name] = named_policy(given, max_tokens)
        elif hasattr(given, "start"):
            chosen[name] = given
        elif isinstance(given, Curator):
            chosen[name] = CuratorPolicy(given, given.max_tokens)
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
