"""The model that is asked decides where rules differ from model to model."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from history_curator.rules import get_profile
from langchain_history_curator import HistoryCurator, HistoryCuratorMiddleware

anthropic = pytest.importorskip("langchain_anthropic")

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
OLD = AIMessage(
    [THOUGHT, {"type": "text", "text": "42"}],
    response_metadata={"model_name": "claude-opus-4-5-20251101", "model_provider": "anthropic"},
)
GIVEN = [HumanMessage("hi"), OLD, HumanMessage("and?")]
LATE = [SystemMessage("be brief"), HumanMessage("hi"), SystemMessage("it is Monday")]


def claude(name: str) -> Any:
    return anthropic.ChatAnthropic(model=name, api_key="none", max_tokens=100)


def view_of(socket: str, model: Any, messages: list[Any]) -> list[Any]:
    if socket == "middleware":
        middleware = HistoryCuratorMiddleware(max_tokens=10_000)
        return list(middleware.curator_for(model).curate(messages, tail="request").messages)
    if socket == "for_model":
        return HistoryCurator.for_model(model, 10_000, tail="request").invoke(messages)
    step = (HistoryCurator(max_tokens=10_000, provider="auto") | model).steps[0]
    return list(step.invoke(messages))


@pytest.mark.parametrize("socket", ["middleware", "for_model", "chain"])
class TestEverySocket:
    def test_takes_off_thinking_that_another_model_signed(self, socket: str) -> None:
        kept = view_of(socket, claude("claude-opus-4-5"), GIVEN)
        assert kept[1] is OLD
        for other in ("claude-sonnet-4-5", "claude-opus-4-8"):
            assert "signature" not in str(view_of(socket, claude(other), GIVEN)[1].content)

    def test_keeps_thinking_where_a_fallback_may_have_signed_it(self, socket: str) -> None:
        either = claude("claude-sonnet-4-5").with_fallbacks([claude("claude-opus-4-5")])
        assert view_of(socket, either, GIVEN)[1] is OLD

    def test_leaves_later_system_messages_where_the_client_sends_them(self, socket: str) -> None:
        model = claude("claude-opus-4-8")
        if not (model.profile or {}).get("mid_conversation_system_messages"):
            pytest.skip("this version of langchain-anthropic moves them to the front")
        view = view_of(socket, model, LATE)
        assert [id(message) for message in view] == [id(message) for message in LATE]
        sent = model._get_request_payload(view)
        assert [message["role"] for message in sent["messages"]] == ["user", "system"]

    def test_moves_them_to_the_front_elsewhere(self, socket: str) -> None:
        view = view_of(socket, claude("claude-opus-4-5"), LATE)
        assert [message.type for message in view] == ["system", "system", "human"]


def test_a_step_in_front_of_two_models_follows_each() -> None:
    step = HistoryCurator(max_tokens=10_000, provider="anthropic", tail="request")
    first, second = step | claude("claude-opus-4-5"), step | claude("claude-sonnet-4-5")
    assert first.steps[0].invoke(GIVEN)[1] is OLD
    assert "signature" not in str(second.steps[0].invoke(GIVEN)[1].content)
    assert step.invoke(GIVEN)[1] is OLD
    assert step.curator.profile is get_profile("anthropic")
