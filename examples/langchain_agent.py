"""A `create_agent` agent whose tool results would never fit, and a view that always does.

Run: python examples/langchain_agent.py (needs history-curator[agents], no key and no network).
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from langchain_history_curator import HistoryCuratorMiddleware

PAGES = 30


@tool
def read_page(number: int) -> str:
    """Read one page of the handbook."""
    return f"Page {number}\n" + f"Rule {number}: keep the record, curate the view.\n" * 200


class Reader(BaseChatModel):
    """Stands in for a real model: reads every page, then answers."""

    @property
    def _llm_type(self) -> str:
        return "reader"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        last = messages[-1]
        page = int(last.text.split()[1]) + 1 if isinstance(last, ToolMessage) else 1
        if page > PAGES:
            said = AIMessage(f"I have read all {PAGES} pages.")
        else:
            call = {"name": "read_page", "args": {"number": page}, "id": f"call_{page}"}
            said = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=said)])


def main() -> None:
    agent = create_agent(
        Reader(),
        [read_page],
        system_prompt="You read handbooks.",
        # Place it last. `recall_tool=True` gives the agent a tool to get cleared results back.
        middleware=[HistoryCuratorMiddleware(max_tokens=8_000, recall_tool=True)],
    )
    question = {"messages": [{"role": "user", "content": "Read the handbook."}]}
    state: dict[str, Any] = {}
    for mode, chunk in agent.stream(
        question, {"recursion_limit": 200}, stream_mode=["custom", "values"]
    ):
        if mode == "values":
            state = chunk
        elif chunk["original_count"] % 10 == 0:
            print(
                f"record {chunk['original_count']:>3} messages -> "
                f"view {chunk['curated_count']:>3} messages, {chunk['tokens']:>5} tokens"
            )
    print(state["messages"][-1].text)
    print(f"The state still holds all {len(state['messages'])} messages.")


if __name__ == "__main__":
    main()
