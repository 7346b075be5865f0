"""What other libraries offer, as policies, so that they stand in the same table.

Each peer is driven through its own public API with the options its documentation shows, and with
an exact, memoised token counter wherever it takes one, so that it is shown at its best. A peer
that is not installed raises `PolicyUnavailableError` when it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.lab._conversation import ReadConversation
from history_curator.lab._peer_messages import (
    JoinedCounter,
    mapped,
    message_counter,
    need,
    to_langchain,
    to_llamaindex,
)
from history_curator.lab._policies import CuratorPolicy, NoCuration, Policy, View
from history_curator.model import ConversationEntry
from history_curator.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class TrimMessagesPolicy:
    """LangChain's ``trim_messages``: the newest messages that fit, from a human message on."""

    max_tokens: int | None
    approximate: bool = False

    def start(self, conversation: ReadConversation, counter: TokenCounter) -> View:
        """Return the view function for one conversation."""
        core = need("langchain_core.messages", "langchain-core")
        messages = [to_langchain(entry, i, core) for i, entry in enumerate(conversation.entries)]
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
        core = need("langchain_core.messages", "langchain-core")
        editing = need("langchain.agents.middleware.context_editing", "langchain")
        edit = editing.ClearToolUsesEdit(trigger=self.max_tokens, keep=self.keep)
        messages = [to_langchain(entry, i, core) for i, entry in enumerate(conversation.entries)]
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
        llms = need("llama_index.core.base.llms.types", "llama-index-core")
        memory_module = need("llama_index.core.memory", "llama-index-core")
        messages = [to_llamaindex(entry, llms) for entry in conversation.entries]
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
        llms = need("llama_index.core.base.llms.types", "llama-index-core")
        memory_module = need("llama_index.core.memory", "llama-index-core")
        messages = [to_llamaindex(entry, llms) for entry in conversation.entries]
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

    return CuratorPolicy(Curator(max_tokens=max_tokens, **options), max_tokens)


_NAMED: dict[str, Callable[[int | None], Policy]] = {
    "curator": _curator_policy,
    "sliding": lambda budget: _curator_policy(budget, low_water=1.0),
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
