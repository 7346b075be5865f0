"""Alternatives that the lab does not know by name, as policies: a memory and a summariser."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from history_curator import ConversationEntry, MessageRole
from history_curator.lab import LabConversation
from history_curator.lab.policies import View, as_messages, message_counter
from history_curator.tokens import TokenCounter

SUMMARY = "The summary that a model would write stands here. " * 40
"""About 400 tokens, which name nothing: no model is asked."""


@dataclass(frozen=True, slots=True)
class LlamaIndexMemory:
    """LlamaIndex's ``Memory``, fed message by message, without memory blocks."""

    max_tokens: int

    def start(self, conversation: LabConversation, counter: TokenCounter) -> View:
        """Return the view function for one conversation."""
        from llama_index.core.memory import Memory

        logging.getLogger("llama_index").setLevel(logging.ERROR)
        messages = as_messages(conversation, "llama_index")
        for index, message in enumerate(messages):
            message.additional_kwargs["entry"] = index
        count = lru_cache(maxsize=None)(lambda text: range(counter.count(text)))
        memory = Memory.from_defaults(token_limit=self.max_tokens, tokenizer_fn=count)
        loop, stored = asyncio.new_event_loop(), 0

        async def advance(upto: int) -> list[Any]:
            nonlocal stored
            for message in messages[stored:upto]:
                await memory.aput(message)
            stored = upto
            return list(await memory.aget())

        def view(upto: int) -> list[ConversationEntry]:
            sent = loop.run_until_complete(advance(upto))
            return [conversation.entries[each.additional_kwargs["entry"]] for each in sent]

        return view


@dataclass(frozen=True, slots=True)
class Summarization:
    """LangChain's ``SummarizationMiddleware`` with its defaults; the state keeps what it returns."""

    max_tokens: int

    def start(self, conversation: LabConversation, counter: TokenCounter) -> View:
        """Return the view function for one conversation."""
        from langchain.agents.middleware import SummarizationMiddleware
        from langchain_core.language_models import FakeListChatModel

        messages = as_messages(conversation, "langchain_core")
        entries, own = conversation.entries, dict[str, ConversationEntry]()
        middleware = SummarizationMiddleware(
            FakeListChatModel(responses=[SUMMARY]),
            trigger=("tokens", self.max_tokens),
            token_counter=message_counter(messages, conversation, counter),
        )
        system = entries[:1] if entries and entries[0].role is MessageRole.SYSTEM else []
        state: list[Any] = []
        seen = len(system)  # in an agent the system prompt is no part of the state

        def entry_of(message: Any) -> ConversationEntry:
            if message.id.isdigit():
                return entries[int(message.id)]
            text = str(message.content)
            return own.setdefault(
                message.id, ConversationEntry(MessageRole.USER, text, origin="summary")
            )

        def view(upto: int) -> Sequence[ConversationEntry]:
            nonlocal seen
            state.extend(messages[seen:upto])
            seen = upto
            update: Any = middleware.before_model({"messages": state}, None)  # type: ignore[arg-type, typeddict-item]
            if update:
                state[:] = update["messages"][1:]
                for message in state:
                    message.id = message.id or f"summary {len(own)}"
            return [*system, *map(entry_of, state)]

        return view
