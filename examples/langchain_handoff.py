"""Two agents: the first hands a task to the second, and gets back an answer and one handle.

Run: python examples/langchain_handoff.py (needs history-curator[agents], no key and no network).
"""

from typing import Any

from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from langchain_history_curator import (
    HistoryCuratorMiddleware,
    fold_back,
    handoff_view,
    recall_tool,
)


class Scripted(BaseChatModel):
    """Stands in for a real model: makes its calls one after the other, then answers."""

    calls: list[dict[str, Any]]
    answer: str

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        done = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
        left = [call for call in self.calls if call["id"] not in done]
        said = AIMessage("", tool_calls=left[:1]) if left else AIMessage(self.answer)
        return ChatResult(generations=[ChatGeneration(message=said)])


@tool
def harbour(name: str) -> str:
    """List the boats of a harbour."""
    return f"{name}: " + ", ".join(f"boat {n} of {name}" for n in range(200)) + ", the Albatross"


HARBOURS = ("Oslo", "Lima", "Cork")
researcher = create_agent(
    Scripted(
        calls=[{"name": "harbour", "args": {"name": n}, "id": f"harbour_{n}"} for n in HARBOURS],
        answer="The Albatross, in Cork.",
    ),
    [harbour],
    middleware=[HistoryCuratorMiddleware(max_tokens=4_000)],
)


@tool
def research(task: str, runtime: ToolRuntime) -> ToolMessage:
    """Hand a task to the researcher."""
    view = handoff_view(runtime.state, task, max_tokens=1_000)
    state = researcher.invoke({"messages": view})
    transcript = state["messages"][len(view) - 1 :]  # from its task on
    return fold_back(transcript, runtime.tool_call_id or "", name="research")


def main() -> None:
    call = {"name": "research", "args": {"task": "Find a boat that sails."}, "id": "handoff_1"}
    lead = create_agent(
        Scripted(calls=[call], answer="Take the Albatross."),
        [research],
        middleware=[HistoryCuratorMiddleware(max_tokens=4_000, recall_tool=True)],
    )
    said = [HumanMessage("Which boat should I take?")]
    messages = lead.invoke({"messages": said})["messages"]
    result = next(message for message in messages if isinstance(message, ToolMessage))
    print(f"What came back: {result.text}")
    handle = result.text.split('handle="')[1].split('"')[0]
    whole = recall_tool(messages, max_tokens=500).invoke({"handle": handle})
    print(f"Recalled by its handle: {len(whole)} characters, from {whole.splitlines()[0]}")
    print(messages[-1].text)


if __name__ == "__main__":
    main()
