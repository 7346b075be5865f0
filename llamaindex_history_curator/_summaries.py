"""Summaries that ride on the cache of the request before, where an LLM sums up its own chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llama_index.core.base.llms.types import ChatMessage

from history_curator.managers.summaries import Live, Sent

if TYPE_CHECKING:
    from llama_index.core.llms import LLM

    from history_curator.curator import Curation
    from history_curator.rules import ProviderProfile


class Rides:
    """What an LLM was sent last, to be sent again with one instruction behind it.

    Args:
        llm: the LLM that gets the views.
        profile: whose rules they follow.
    """

    def __init__(self, llm: LLM, profile: ProviderProfile) -> None:
        self._llm = llm
        self._profile = profile
        self._sent = Sent()

    def note(
        self, key: Any, curation: Curation, messages: Sequence[ChatMessage], tools: Any
    ) -> None:
        """Remember what is about to be sent."""
        self._sent.note(key, curation.entries, (list(messages), list(tools or ())))

    def live(self, key: Any, tools: Any) -> Live | None:
        """Return the last request, where the next one has the same tools."""
        sent = self._sent.last(key, self._profile)
        if sent is None:
            return None
        entries, (messages, bound) = sent
        if list(tools or ()) != bound or any(isinstance(tool, dict) for tool in bound):
            return None
        llm: Any = self._llm

        def behind(instruction: str) -> list[ChatMessage]:
            return [*messages, ChatMessage(role="user", content=instruction)]

        def ask(instruction: str) -> Any:
            if bound:
                return llm.chat_with_tools(bound, chat_history=behind(instruction)).message
            return llm.chat(behind(instruction)).message

        async def aask(instruction: str) -> Any:
            if bound:
                answer = await llm.achat_with_tools(bound, chat_history=behind(instruction))
            else:
                answer = await llm.achat(behind(instruction))
            return answer.message

        return Live(entries, self._serves, ask, aask)

    def _serves(self, summarizer: Any) -> bool:
        if summarizer is self._llm:
            return True
        named = getattr(getattr(summarizer, "metadata", None), "model_name", None)
        known = self._llm.metadata.model_name
        return type(summarizer) is type(self._llm) and named == known not in (None, "", "unknown")
