"""What most people do instead: keep the newest messages that fit."""

from __future__ import annotations

from dataclasses import dataclass

from history_curator.lab._conversation import ReadConversation
from history_curator.lab._policies import View
from history_curator.model import ConversationEntry, MessageRole
from history_curator.tokens import TokenCounter


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
