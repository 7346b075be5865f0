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


def words(entry: ConversationEntry) -> tuple[Any, ...]:
    """An entry without how its arguments are spelled, and which keys it had beside."""
    calls = [(call.id, call.name) for call in entry.tool_calls or ()]
    return entry.role, entry.content or "", calls, entry.tool_call_id


def respelled(message: dict[str, Any]) -> dict[str, Any]:
    """The message with its arguments spelled the way LangChain sends them."""
    calls = []
    for call in message.get("tool_calls") or ():
        arguments = json.dumps(json.loads(call["function"]["arguments"]), ensure_ascii=False)
        calls.append({**call, "function": {**call["function"], "arguments": arguments}})
    return {**message, "tool_calls": calls} if calls else message


def outcome(curate: Any) -> Any:
    try:
        curation = curate()
    except Exception as error:  # noqa: BLE001 - both must fail alike
        return type(error), str(error)
    if curation.messages and not isinstance(curation.messages[0], (dict, ConversationEntry)):
        assert refusals(curation.messages) == []
    return curation.tokens, said(curation.entries)


@pytest.mark.parametrize("name", ["tau_bench", "tau2_bench"])
def test_converted_messages_have_the_view_of_the_core(name: str) -> None:
    # convert_to_messages parses the arguments, so their spelling is LangChain's.
    for conversation in load(name):
        dicts = [respelled(message) for message in conversation["messages"]]
        messages = convert_to_messages(dicts)
        for budget in BUDGETS:
            step = OURS.model_copy(update={"max_tokens": budget})
            core = outcome(lambda: CORE.curate(dicts, max_tokens=budget, tail="request"))  # noqa: B023
            assert outcome(lambda: step.curate(messages)) == core  # noqa: B023


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
        # What the server has summarised leaves the core's view.
        if format_of(given) != "responses" and "compaction" not in str(given):
            assert [words(entry) for entry in ours.entries] == [*map(words, core.entries)]
        assert refusals(ours.messages) == [], conversation["id"]
        again = OURS.curate(ours.messages)
        assert [*map(words, again.entries)] == [*map(words, ours.entries)]
        assert again.messages == ours.messages


CORE = Curator()
OURS = HistoryCurator(tail="request")
