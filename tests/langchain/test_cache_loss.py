"""The middleware notices that another one behind it loses the provider's prompt cache."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from pydantic import PrivateAttr

from history_curator import CacheLost, EventBus
from history_curator.tokens import count_tokens
from langchain_history_curator import HistoryCuratorMiddleware

agents = pytest.importorskip("langchain.agents")
middleware = pytest.importorskip("langchain.agents.middleware")


@tool
def look(place: int) -> str:
    """Look somewhere."""
    return f"{place} " + "found nothing here " * 150


class CachingModel(BaseChatModel):
    """Calls a tool ten times; reads what a request shares with the start of the last one."""

    _held: list[str] = PrivateAttr(default_factory=list)
    _calls: int = PrivateAttr(default=0)

    @property
    def _llm_type(self) -> str:
        return "caching"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=tools)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        prompt = [f"{each.type} {each.content}" for each in messages]
        pairs = enumerate(zip(self._held, prompt, strict=False))
        same = next((at for at, (old, new) in pairs if old != new), len(self._held))
        sizes = [count_tokens([each]) for each in messages]
        read, self._held, self._calls = sum(sizes[:same]), prompt, self._calls + 1
        details = {"cache_read": read, "cache_creation": sum(sizes) - read}
        usage = {"input_tokens": sum(sizes), "output_tokens": 9, "total_tokens": sum(sizes) + 9}
        call = {"name": "look", "args": {"place": self._calls}, "id": f"c{self._calls}"}
        answer = AIMessage(
            "" if self._calls < 10 else "done",
            tool_calls=[call] if self._calls < 10 else [],
            usage_metadata={**usage, "input_token_details": details},
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])


def run(*behind: Any) -> list[CacheLost]:
    bus, losses = EventBus(), list[CacheLost]()
    bus.subscribe(CacheLost, losses.append)
    ours = HistoryCuratorMiddleware(max_tokens=30_000, provider="anthropic", bus=bus)
    agent = agents.create_agent(
        CachingModel(), [look], middleware=[ours, *behind], system_prompt="Be brief."
    )
    agent.invoke({"messages": [{"role": "user", "content": "Where is it?"}]})
    return losses


def test_a_run_that_keeps_its_prefix_loses_nothing() -> None:
    assert run() == []


def test_a_middleware_behind_that_adds_a_counter_to_the_system_prompt() -> None:
    number = iter(range(99))

    @middleware.wrap_model_call
    def add_counter(request: Any, handler: Any) -> Any:
        prompt = f"Be brief. Call {next(number)}."
        return handler(request.override(system_prompt=prompt))

    (loss,) = run(add_counter)
    assert (loss.reason, loss.is_ours, loss.read_tokens) == ("prefix changed", False, 0)
    assert loss.prompt_name == "HistoryCuratorMiddleware"
