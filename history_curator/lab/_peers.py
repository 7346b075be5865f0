"""What other libraries offer, as policies, so that they stand in the same table.

Each peer is driven through its own public API with the options its documentation shows, and with
an exact, memoised token counter wherever it takes one, so that it is shown at its best. A peer
that is not installed raises `PolicyUnavailableError` when it starts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.lab._conversation import ReadConversation
from history_curator.lab._extra import need
from history_curator.lab._policies import (
    CuratorPolicy,
    NoCuration,
    Policy,
    PolicyUnavailableError,
    View,
)
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.tokens import TokenCounter


def _need(module: str, package: str) -> Any:
    return need(module, package=package, missing=PolicyUnavailableError)


def mapped(
    send: Callable[[int], Sequence[Any]], messages: Sequence[Any], conversation: ReadConversation
) -> View:
    """Turn a peer's messages back into entries: the recorded one, or a copy with its new text."""
    index_of = {id(message): index for index, message in enumerate(messages)}
    edited: dict[tuple[int, str], ConversationEntry] = {}

    def entry_for(message: Any) -> ConversationEntry:
        index = index_of.get(id(message))
        if index is not None:
            return conversation.entries[index]
        text = message.content if isinstance(message.content, str) else json.dumps(message.content)
        if not (isinstance(message.id, str) and message.id.isdigit()):
            return ConversationEntry(MessageRole.ASSISTANT, text, origin="note")
        origin = int(message.id)
        key = (origin, text)
        if key not in edited:
            edited[key] = conversation.entries[origin].evolve(content=text, action="cleared")
        return edited[key]

    def view(upto: int, question: ConversationEntry | None) -> list[ConversationEntry]:
        entries = [entry_for(message) for message in send(upto)]
        return [*entries, question] if question else entries

    return view


def message_counter(
    messages: Sequence[Any], conversation: ReadConversation, counter: TokenCounter
) -> Callable[[Iterable[Any]], int]:
    """Return an exact list counter, priming included, that counts no recorded message twice."""
    index_of = {id(message): index for index, message in enumerate(messages)}
    known: dict[int, int] = {}

    def count_one(message: Any) -> int:
        index = index_of.get(id(message))
        if index is None:
            return 3 + counter.count(str(message.content))
        if index not in known:
            known[index] = counter.count_entry(conversation.entries[index])
        return known[index]

    def count(batch: Iterable[Any]) -> int:
        return counter.priming + sum(map(count_one, batch))

    return count


class JoinedCounter:
    """Counts a suffix of the history joined by spaces, as ChatMemoryBuffer asks, from parts.

    The buffer tokenises the whole joined text again for every message it leaves out. A space
    starts a token of its own kind, so the parts add up and each is counted once.
    """

    def __init__(self, contents: Sequence[str], counter: TokenCounter) -> None:
        self._contents = contents
        self._counter = counter
        self._sizes: dict[int, int] = {}
        self.upto = len(contents)

    def __call__(self, text: str) -> range:
        left = len(text)
        total = 0
        index = self.upto
        while left > 0 and index > 0:
            index -= 1
            content = self._contents[index]
            left -= len(content)
            first = left <= 0
            if first and left < 0:
                return range(self._counter.count(text))
            total += self._size(index, spaced=not first)
            left -= not first
        return range(total)

    def _size(self, index: int, *, spaced: bool) -> int:
        key = index * 2 + spaced
        if key not in self._sizes:
            text = (" " if spaced else "") + self._contents[index]
            self._sizes[key] = self._counter.count(text)
        return self._sizes[key]


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def to_langchain(conversation: ReadConversation) -> tuple[Any, list[Any]]:
    """Return LangChain's messages module, and each entry as one whose id is its index."""
    core = _need("langchain_core.messages", "langchain-core")
    return core, [_to_langchain(entry, i, core) for i, entry in enumerate(conversation.entries)]


def _to_langchain(entry: ConversationEntry, index: int, core: Any) -> Any:
    mark = str(index)
    text = entry.content or ""
    if entry.role is MessageRole.SYSTEM:
        return core.SystemMessage(text, id=mark)
    if entry.role is MessageRole.TOOL:
        return core.ToolMessage(
            text, tool_call_id=entry.tool_call_id or "", name=entry.tool_name, id=mark
        )
    if entry.role is MessageRole.ASSISTANT:
        calls = [
            {"id": call.id, "name": call.name, "args": _arguments(call.arguments)}
            for call in entry.tool_calls or ()
        ]
        return core.AIMessage(text, tool_calls=calls, id=mark)
    return core.HumanMessage(text, id=mark)


def to_llamaindex(conversation: ReadConversation) -> list[Any]:
    """Return each entry as a LlamaIndex message."""
    llms = _need("llama_index.core.base.llms.types", "llama-index-core")
    messages = []
    for entry in conversation.entries:
        extra: dict[str, Any] = {}
        if entry.role is MessageRole.TOOL:
            extra = {"tool_call_id": entry.tool_call_id or "", "name": entry.tool_name}
        blocks: list[Any] = [llms.TextBlock(text=entry.content or "")]
        blocks += [
            llms.ToolCallBlock(
                tool_call_id=call.id, tool_name=call.name, tool_kwargs=_arguments(call.arguments)
            )
            for call in entry.tool_calls or ()
        ]
        messages.append(
            llms.ChatMessage(role=entry.role.value, blocks=blocks, additional_kwargs=extra)
        )
    return messages


@dataclass(frozen=True, slots=True)
class TrimMessagesPolicy:
    """LangChain's ``trim_messages``: the newest messages that fit, from a human message on."""

    max_tokens: int | None
    approximate: bool = False

    def start(self, conversation: ReadConversation, counter: TokenCounter) -> View:
        """Return the view function for one conversation."""
        core, messages = to_langchain(conversation)
        count = (
            "approximate" if self.approximate else message_counter(messages, conversation, counter)
        )

        def send(upto: int) -> list[Any]:
            trimmed: list[Any] = core.trim_messages(
                messages[:upto],
                max_tokens=self.max_tokens,
                token_counter=count,
                strategy="last",
                start_on="human",
                end_on=("human", "tool"),
                include_system=True,
            )
            return trimmed

        return mapped(send, messages, conversation)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClearToolUsesPolicy:
    """LangChain's ``ClearToolUsesEdit``: past the budget, clear all but the newest results."""

    max_tokens: int | None
    keep: int = 3

    def start(self, conversation: ReadConversation, counter: TokenCounter) -> View:
        """Return the view function for one conversation."""
        _, messages = to_langchain(conversation)
        editing = _need("langchain.agents.middleware.context_editing", "langchain")
        edit = editing.ClearToolUsesEdit(trigger=self.max_tokens, keep=self.keep)
        count = message_counter(messages, conversation, counter)

        def send(upto: int) -> list[Any]:
            view = messages[:upto]
            edit.apply(view, count_tokens=count)
            return view

        return mapped(send, messages, conversation)


@dataclass(frozen=True, slots=True)
class ChatMemoryBufferPolicy:
    """LlamaIndex's ``ChatMemoryBuffer``."""

    max_tokens: int | None

    def start(self, conversation: ReadConversation, counter: TokenCounter) -> View:
        """Return the view function for one conversation."""
        memory_module = _need("llama_index.core.memory", "llama-index-core")
        messages = to_llamaindex(conversation)
        joined = JoinedCounter([str(message.content) for message in messages], counter)

        def send(upto: int) -> list[Any]:
            joined.upto = upto
            memory = memory_module.ChatMemoryBuffer.from_defaults(
                chat_history=messages[:upto], token_limit=self.max_tokens, tokenizer_fn=joined
            )
            view: list[Any] = memory.get()
            return view

        return mapped(send, messages, conversation)


@dataclass(frozen=True, slots=True)
class LlamaIndexMemoryPolicy:
    """LlamaIndex's ``Memory``, fed message by message, without memory blocks."""

    max_tokens: int | None

    def start(self, conversation: ReadConversation, counter: TokenCounter) -> View:
        """Return the view function for one conversation."""
        memory_module = _need("llama_index.core.memory", "llama-index-core")
        messages = to_llamaindex(conversation)
        for index, message in enumerate(messages):
            message.additional_kwargs["replay_index"] = index
        counts: dict[str, range] = {}

        def tokenize(text: str) -> range:
            known = counts.get(text)
            if known is None:
                known = counts[text] = range(counter.count(text))
            return known

        memory = memory_module.Memory.from_defaults(
            token_limit=self.max_tokens, tokenizer_fn=tokenize
        )
        told = 0
        loop = asyncio.new_event_loop()

        async def tell(upto: int) -> list[Any]:
            nonlocal told
            if upto > told:
                for message in messages[told:upto]:
                    await memory.aput(message)
                told = upto
            view: list[Any] = await memory.aget()
            return view

        def view(upto: int, question: ConversationEntry | None) -> list[ConversationEntry]:
            sent = loop.run_until_complete(tell(upto))
            entries = [
                conversation.entries[message.additional_kwargs["replay_index"]] for message in sent
            ]
            return [*entries, question] if question else entries

        return view


def _curator_policy(max_tokens: int | None, **options: Any) -> Policy:
    from history_curator.curator import Curator

    # What a log reports was counted for what was sent then, not for these views.
    curator = Curator(max_tokens=max_tokens, calibration=False, **options)
    return CuratorPolicy(curator, max_tokens)


_NAMED: dict[str, Callable[[int | None], Policy]] = {
    "curator": _curator_policy,
    "sliding": lambda budget: _curator_policy(budget, compact_to=1.0),
    "no curation": NoCuration,
    "trim_messages": TrimMessagesPolicy,
    "trim_messages approximate": lambda budget: TrimMessagesPolicy(budget, approximate=True),
    "clear-tool-uses": ClearToolUsesPolicy,
    "ChatMemoryBuffer": ChatMemoryBufferPolicy,
    "Memory": LlamaIndexMemoryPolicy,
}


def peer_names() -> tuple[str, ...]:
    """Return the names `replay` and ``history-curator compare --policy`` know."""
    return tuple(_NAMED)


def named_policy(name: str, max_tokens: int | None) -> Policy:
    """Return a known policy by name.

    Raises:
        ConfigurationError: naming the policies there are, or the missing budget.
    """
    build = _NAMED.get(name)
    if build is None:
        raise ConfigurationError(
            f"there is no policy named {name!r}. Fix: one of {', '.join(_NAMED)}."
        )
    if max_tokens is None and name != "no curation":
        raise ConfigurationError(f"policy {name!r} needs a budget. Fix: pass max_tokens.")
    return build(max_tokens)
