"""The curated LLM notices a lost prompt cache from the usage of its answers."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms import MockLLM

from history_curator import CacheLost, EventBus
from llamaindex_history_curator import CuratedLLM


class CachingLLM(MockLLM):
    """Reports Anthropic's usage: everything of the last request is read, but where it is told."""

    loses: bool = False

    def chat(self, messages: Any, **kwargs: Any) -> ChatResponse:
        size = sum(len(message.content or "") // 4 for message in messages)
        read = 0 if self.loses else size - 1_500
        usage = {"input_tokens": 1, "cache_read_input_tokens": max(0, read)}
        usage["cache_creation_input_tokens"] = size - max(0, read)
        return ChatResponse(message=ChatMessage("fine", role="assistant"), raw={"usage": usage})


def test_a_lost_cache_is_an_event_once() -> None:
    bus, losses = EventBus(), list[CacheLost]()
    bus.subscribe(CacheLost, losses.append)
    inner = CachingLLM()
    llm = CuratedLLM(llm=inner, token_limit=60_000, provider="anthropic", bus=bus)
    talk: list[ChatMessage] = []
    for number in range(12):
        inner.loses = number in (6, 9)
        talk.append(ChatMessage(f"{number} " + "words again " * 500, role="user"))
        talk.append(llm.chat(talk).message)
    (loss,) = losses
    assert (loss.reason, loss.read_tokens, loss.is_ours) == ("prefix changed", 0, False)
