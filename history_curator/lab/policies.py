"""Policies decide what is sent at each call: our curator, everything, and other libraries.

Each peer is driven through its own public API with the options its documentation shows, and with
an exact token counter wherever it takes one. One that is not installed raises `ImportError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any

from history_curator.curator import Curator
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConfigurationError, a_type
from history_curator.formats import adapters
from history_curator.lab.conversations import LabConversation, import_extra
from history_curator.tokens import TokenCounter

View = Callable[[int], Sequence[ConversationEntry]]
"""``view(n)`` returns the entries to send when the first n entries have been recorded.

Entries of the record come back as the same objects, edited ones as copies that remember them
(`ConversationEntry.evolve`).
"""


@dataclass(frozen=True)
class Policy:
    """Decides what is sent at each call: ``start`` returns the view function of one conversation.

    Any object that has both is a policy. Memory about one conversation belongs into its view function.
    """

    start: Callable[[LabConversation, TokenCounter], View]
    max_tokens: int | None = None


def _curate(given: Curator, conversation: LabConversation, _counter: TokenCounter) -> View:
    curator = copy(given)  # it shares no memory with the replay of another conversation
    entries, tools = conversation.entries, conversation.tools
    return lambda upto: curator.curate(entries[:upto], tools=tools).entries


def _curate_by_default(
    max_tokens: int, conversation: LabConversation, counter: TokenCounter, **options: Any
) -> View:
    # Usage in a log is about the request of that time, not about these views.
    curator = Curator(max_tokens=max_tokens, calibration=False, **options)
    return _curate(curator, conversation, counter)


def _send_everything(_max: int, conversation: LabConversation, _counter: TokenCounter) -> View:
    return lambda upto: conversation.entries[:upto]


def _keep_newest(max_tokens: int, conversation: LabConversation, counter: TokenCounter) -> View:
    """The system message and the newest messages that fit, as most people write it themselves."""
    system = [each for each in conversation.entries[:1] if each.role is MessageRole.SYSTEM]
    sizes = [counter.count_entry(entry) for entry in conversation.entries]
    most = max_tokens - counter.priming - sum(sizes[: len(system)])

    def view(upto: int) -> list[ConversationEntry]:
        start, available = upto, most
        while start > len(system) and (available := available - sizes[start - 1]) >= 0:
            start -= 1
        return [*system, *conversation.entries[start:upto]]

    return view


Count = Callable[[Iterable[Any]], int]
Send = Callable[[list[Any]], Sequence[Any]]


def _trim_messages(max_tokens: int, count: Count, _counter: TokenCounter) -> Send:
    """LangChain's ``trim_messages``: the newest messages that fit, from a human message on."""
    core = import_extra("langchain_core.messages", package="langchain-core")
    options = {"strategy": "last", "start_on": "human", "end_on": ("human", "tool"),
               "include_system": True}  # fmt: skip
    return partial(core.trim_messages, max_tokens=max_tokens, token_counter=count, **options)


def _clear_tool_uses(max_tokens: int, count: Count, _counter: TokenCounter) -> Send:
    """LangChain's ``ClearToolUsesEdit``: past the budget, clear all but the three newest results."""
    editing = import_extra("langchain.agents.middleware.context_editing", "agents")
    edit = editing.ClearToolUsesEdit(trigger=max_tokens, keep=3)

    def send(messages: list[Any]) -> list[Any]:
        edit.apply(messages, count_tokens=count)
        return messages

    return send


def _chat_memory_buffer(max_tokens: int, _count: Count, counter: TokenCounter) -> Send:
    """LlamaIndex's ``ChatMemoryBuffer``."""
    buffer = import_extra("llama_index.core.memory", package="llama-index-core").ChatMemoryBuffer
    count = lru_cache(maxsize=4096)(lambda text: range(counter.count(text)))

    def send(messages: list[Any]) -> list[Any]:
        # The buffer counts all its text again for every message it leaves out. Messages far beyond
        # the budget are left out beforehand; the newest that fit are the same.
        start, size = len(messages), 0
        while start and size <= max_tokens:
            start -= 1
            size += len(count(f" {messages[start].content}"))
        options = {"token_limit": max_tokens, "tokenizer_fn": count}
        return list(buffer.from_defaults(chat_history=messages[start:], **options).get())

    return send


def _run_peer(
    framework: str,
    start: Callable[[int, Count, TokenCounter], Send],
    max_tokens: int,
    conversation: LabConversation,
    counter: TokenCounter,
) -> View:
    """Let a peer choose from messages of its framework, and turn them back into entries."""
    messages = as_messages(conversation, framework)
    send = start(max_tokens, message_counter(messages, conversation, counter), counter)
    index_of = {id(message): index for index, message in enumerate(messages)}

    @cache
    def edited_entry(index: int, text: str) -> ConversationEntry:
        return conversation.entries[index].evolve(content=text, action="cleared")

    def entry_for(message: Any) -> ConversationEntry:
        index = index_of.get(id(message))
        if index is not None:
            return conversation.entries[index]
        return edited_entry(int(message.id), str(message.content))

    return lambda upto: list(map(entry_for, send(messages[:upto])))


_NAMED: dict[str, Callable[[int, LabConversation, TokenCounter], View]] = {
    "curator": _curate_by_default,
    "sliding": partial(_curate_by_default, compact_to=1.0),
    "no curation": _send_everything,
    "newest that fit": _keep_newest,
    "trim_messages": partial(_run_peer, "langchain_core", _trim_messages),
    "clear-tool-uses": partial(_run_peer, "langchain_core", _clear_tool_uses),
    "ChatMemoryBuffer": partial(_run_peer, "llama_index", _chat_memory_buffer),
}


def as_messages(conversation: LabConversation, framework: str) -> list[Any]:
    """Return each entry as a message of the framework with this root module; ids are indexes."""
    import_extra(framework, package={"llama_index": "llama-index-core"}.get(framework))
    plain = [replace(entry, source=None) for entry in conversation.entries]
    messages: list[Any] = adapters()[framework].load().FORMAT.write(plain)
    for index, message in enumerate(messages):
        if hasattr(message, "id"):
            message.id = str(index)
    return messages


def message_counter(
    messages: Sequence[Any], conversation: LabConversation, counter: TokenCounter
) -> Count:
    """Return an exact counter of message lists, priming included."""
    entries = zip(messages, conversation.entries, strict=True)
    sizes = {id(message): counter.count_entry(entry) for message, entry in entries}

    def count(batch: Iterable[Any]) -> int:
        known = (sizes.get(id(each)) or 3 + counter.count(str(each.content)) for each in batch)
        return counter.priming + sum(known)

    return count


def policy_names() -> tuple[str, ...]:
    """Return the names `replay` and ``history-curator compare --policy`` know."""
    return tuple(_NAMED)


def named_policy(name: str, max_tokens: int | None) -> Policy:
    """Return a known policy by name."""
    if name not in _NAMED:
        known = ", ".join(_NAMED)
        raise ConfigurationError(f"there is no policy named {name!r}. Fix: one of {known}.")
    if max_tokens is None and name != "no curation":
        raise ConfigurationError(f"policy {name!r} needs a budget. Fix: pass max_tokens.")
    return Policy(partial(_NAMED[name], max_tokens or 0), max_tokens)


def as_policies(
    policies: Mapping[str, Any] | Sequence[str], max_tokens: int | None
) -> dict[str, Policy]:
    """Return policies by name from curators, policies and names of known ones."""
    if not policies:
        raise ConfigurationError("there is no policy to replay. Fix: pass at least one.")
    chosen: dict[str, Policy] = {}
    given = policies if isinstance(policies, Mapping) else {name: name for name in policies}
    for name, each in given.items():
        if isinstance(each, str):
            chosen[name] = named_policy(each, max_tokens)
        elif isinstance(each, Curator):
            chosen[name] = Policy(partial(_curate, each), each.max_tokens)
        elif hasattr(each, "start"):
            chosen[name] = each
        else:
            raise ConfigurationError(
                f"policy {name!r} is {a_type(each)}. Fix: pass a Curator, an object with "
                "start(conversation, counter), or a known name."
            )
    return chosen
