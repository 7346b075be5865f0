"""One more step in a chain: prompt | HistoryCurator | model.

Run: python examples/langchain_chain.py (needs history-curator[langchain], no key and no network).
"""

from __future__ import annotations

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

from langchain_history_curator import HistoryCurator


def main() -> None:
    history: list[BaseMessage] = []
    for turn in range(200):
        history += [HumanMessage(f"Question {turn}: " + "why? " * 30), AIMessage(f"Answer {turn}.")]

    prompt = ChatPromptTemplate.from_messages(
        [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{question}")]
    )
    curator = HistoryCurator(max_tokens=2_000)
    chain = prompt | curator | FakeListChatModel(responses=["Because."])
    asked = {"history": history, "question": "So, why?"}
    print(chain.invoke(asked).text)

    curation = curator.curate(prompt.invoke(asked))
    report = curation.report
    print(f"{report.original_count} messages -> {report.curated_count}, {curation.tokens} tokens")


if __name__ == "__main__":
    main()
