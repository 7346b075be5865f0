"""Summaries that ride on the cache of the request before, where an LLM sums up its own chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llama_index.core.base.llms.types import ChatMessage

from history_curator.managers.summaries import Live, Sent
from history_curator.model import ConversationEntry, MessageRole

if TYPE_CHECKING:
    from llama_index.core.llms import LLM

    from history_curator.curator import Curation


class Rides:
    """What an LLM was sent last, to be sent again with one instruction behind it.

    Args:
        llm: the LLM that gets the views.
    """

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self._sent = Sent()

    def note(
        self, key: Any, curation: Curation, messages: Sequence[ChatMessage], tools: Any
    ) -> None:
        """Remember what is about to be sent."""
        profile = curation.report.provider
        self._sent.note(key, (curation.entries, list(messages), list(tools or ()), profile))

    def live(self, key: Any, tools: Any) -> Live | None:
        """Return the last request, where the next one has the same tools."""
        from history_curator.rules import get_profile

        sent = self._sent.last(key)
        if (
            sent is None
            or list(tools or ()) != sent[2]
            or any(isinstance(t, dict) for t in sent[2])
        ):
            return None
        entries, messages, bound, profile = sent
        said = ConversationEntry(MessageRole.USER, "")
        if not entries or get_profile(profile).bridge(entries[-1], said) is not None:
            return None  # a provider that takes no word of the user behind a result
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
