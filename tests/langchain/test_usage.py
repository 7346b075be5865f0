"""A model that counts otherwise than we do: every integration fills its window and never exceeds it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from langchain_history_curator import HistoryCurator, HistoryCuratorMiddleware
from tests.support.providers import Provider, said

LIMIT = 4_000


class Metered(BaseChatModel):
    """Looks something up on every call, and reports what the provider counted."""

    model_name: str
    provider: Any
    stop_at: int = 10**9

    @property
    def _llm_type(self) -> str:
        return "metered"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(one) for one in tools], **kwargs)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        request = [[m.type, m.content, *_calls(m)] for m in messages]
        prompt = self.provider.count(self.model_name, request, kwargs.get("tools") or ())
        number = len(self.provider.counts)
        call = {"name": "look", "args": {"number": number}, "id": f"call_{number}"}
        answer = AIMessage(
            "" if number < self.stop_at else f"done after {number}",
            tool_calls=[call] if number < self.stop_at else [],
            usage_metadata={"input_tokens": prompt, "output_tokens": 9, "total_tokens": prompt + 9},
            response_metadata={"model_name": self.model_name},
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _calls(message: BaseMessage) -> list[Any]:
    return [[call["name"], call["args"]] for call in getattr(message, "tool_calls", ())]


@tool
def look(number: int) -> str:
    """Look something up."""
    return said(number)


def run_agent(model: Metered, last: int) -> None:
    """Run an agent up to a number of requests."""
    model.stop_at = last
    middleware = HistoryCuratorMiddleware(max_tokens=LIMIT)
    agent = create_agent(model, [look], system_prompt="Look.", middleware=[middleware])
    agent.invoke({"messages": [HumanMessage("look it up")]}, {"recursion_limit": 5_000})


def ask_chain(model: Metered, last: int) -> None:
    """Ask a chain up to a number of requests."""
    messages: list[Any] = [HumanMessage("look it up")]
    step = HistoryCurator.for_model(model, max_tokens=LIMIT, tools=[look])
    chain = step | model.bind_tools([look])
    while len(model.provider.counts) < last:
        answer = chain.invoke(messages)
        (call,) = answer.tool_calls
        messages += [answer, ToolMessage(look.invoke(call["args"]), tool_call_id=call["id"])]


@pytest.mark.parametrize(
    ("talk", "name", "encoding", "stretch", "hidden"),
    [
        (run_agent, "mistral-large", "mistral", 0.9, 0),
        (run_agent, "oracle-7", "llama3", 1.6, 500),
        (ask_chain, "mistral-large", "mistral", 1.4, 1_000),
        (ask_chain, "qwen-max", "qwen2", 1.0, 0),
    ],
)
def test_the_window_is_used_and_never_exceeded(talk, name, encoding, stretch, hidden):
    provider = Provider(LIMIT, encoding, hidden=hidden, versions={name: stretch})

    talk(Metered(model_name=name, provider=provider), 110)

    provider.check()


@pytest.mark.parametrize("refusal", ["too long", "{} tokens > 4000 maximum"])
def test_a_refusal_is_remembered(refusal):
    """What the smaller view was counted as tells how much the next one may hold."""
    unsaid = (115, 1.5)
    provider = Provider(LIMIT, "mistral", versions={"mistral-large": 0.9}, unsaid=unsaid)
    refused = []

    class Strict(Metered):
        def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
            made = super()._generate(*args, **kwargs)
            if provider.counts[-1] > LIMIT:
                refused.append(provider.counts.pop())
                raise ContextOverflowError(refusal.format(refused[-1]))
            return made

    run_agent(Strict(model_name="mistral-large", provider=provider), 250)

    assert len(provider.counts) == 250
    assert len(refused) <= 2
    assert provider.counts[-1] <= LIMIT
