"""Real conversations: LangChain messages are curated exactly like the dicts they came from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import convert_to_messages

from history_curator import Curator
from history_curator.entries import ConversationEntry
from history_curator.errors import ConversionError
from history_curator.formats import format_of
from langchain_history_curator import HistoryCurator
from tests.langchain.scripted import refusals
from tests.support.data import load

pytestmark = pytest.mark.data

BUDGETS = (800, 2_000, 6_000)


def said(entries: Any) -> list[tuple[Any, ...]]:
    """A view as plain values, whatever it was read from."""
    return [
        (entry.role, entry.content or "", entry.tool_calls, entry.tool_call_id, entry.action)
        for entry in entries
    ]


def respelled(message: dict[str, Any]) -> dict[str, Any]:
    """The message with its arguments spelled the way LangChain sends them."""
    if not message.get("tool_calls"):
        return message
    calls = [
        {
            **call,
            "function": {
                **call["function"],
                "arguments": json.dumps(
                    json.loads(call["function"]["arguments"]), ensure_ascii=False
                ),
            },
        }
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


@pytest.mark.parametrize("name", ["tau_bench", "tau2_bench"])
class TestSameViewAsTheCore:
    def test_of_converted_messages(self, name: str) -> None:
        # convert_to_messages parses the arguments, so their spelling is LangChain's.
        for conversation in load(name):
            dicts = [respelled(message) for message in conversation["messages"]]
            messages = convert_to_messages(dicts)
            for budget in BUDGETS:
                self.compare(dicts, messages, budget)

    def compare(self, dicts: list[Any], messages: list[Any], budget: int) -> None:
        def outcome(curate: Any) -> Any:
            try:
                curation = curate()
            except Exception as error:  # noqa: BLE001 - both must fail alike
                return type(error), str(error)
            if curation.messages and not isinstance(
                curation.messages[0], (dict, ConversationEntry)
            ):
                assert refusals(curation.messages) == []
            return curation.tokens, said(curation.entries)

        core = outcome(lambda: CORE.curate(dicts, max_tokens=budget, tail="request"))
        ours = outcome(lambda: OURS.model_copy(update={"max_tokens": budget}).curate(messages))
        assert ours == core


@pytest.mark.parametrize("name", ["edge_openai", "edge_anthropic"])
def test_broken_conversations_become_acceptable_messages(name: str) -> None:
    for conversation in load(name):
        given = conversation["messages"]
        try:
            core = CORE.curate(given, tail="request")
        except ConversionError:
            continue
        ours = OURS.curate(given)
        # Items of the Responses API are no messages of a chain: here each is read by its role.
        if format_of(given) != "responses":
            assert said(ours.entries) == said(core.entries)
        assert refusals(ours.messages) == [], conversation["id"]
        again = OURS.curate(ours.messages)
        assert [entry.content or "" for entry in again.entries] == [
            entry.content or "" for entry in ours.entries
        ]
        assert again.messages == ours.messages


CORE = Curator()
OURS = HistoryCurator(tail="request")
