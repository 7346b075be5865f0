"""A chat history that keeps everything and shows the model what fits.

Run: python examples/langchain_chat_history.py (needs history-curator[langchain]).
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_history_curator import CuratedChatMessageHistory, recall_tool


class ListHistory(BaseChatMessageHistory):
    """Stands in for SQLChatMessageHistory, PostgresChatMessageHistory, RedisChatMessageHistory."""

    def __init__(self) -> None:
        self.messages: list[BaseMessage] = []

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self.messages.extend(messages)

    def clear(self) -> None:
        self.messages = []


def main() -> None:
    history = CuratedChatMessageHistory(ListHistory(), max_tokens=500)
    history.add_messages([HumanMessage("Remember: the code is 4711."), AIMessage("Noted.")])
    for turn in range(100):
        history.add_messages(
            [HumanMessage(f"Tell me something, number {turn}."), AIMessage("Something. " * 10)]
        )
    print(f"record: {len(history.record)} messages, view: {len(history.messages)} messages")
    print(recall_tool(history, max_tokens=100).invoke({"query": "code"}))


if __name__ == "__main__":
    main()
