"""The view of LlamaIndex messages is the core's view of the same conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage

from history_curator import (
    BudgetUnsatisfiableError,
    Curation,
    Curator,
    ToolResultClearer,
    ToolResultTruncator,
)
from history_curator.entries import ConversationEntry
from llamaindex_history_curator import CuratedLLM, CuratedMemory, LlamaIndexFormat
from tests.llamaindex.factories import from_dict
from tests.llamaindex.models import RecordingLLM
from tests.support.data import load

BUDGETS = (2_500, 6_000)


def both(conversation: dict[str, Any]) -> tuple[list[dict[str, Any]], list[ChatMessage]]:
    """The messages of a conversation as dicts, and as LlamaIndex has them."""
    plain = list(conversation["messages"])
    return plain, list(map(from_dict, plain))


def said(entries: Sequence[ConversationEntry]) -> list[tuple[Any, ...]]:
    """Everything two formats can agree on."""
    fields = ("role", "content", "tool_calls", "tool_call_id", "tool_name", "action", "origin")
    return [tuple(getattr(entry, field) for field in fields) for entry in entries]


def read(messages: Sequence[ChatMessage]) -> list[tuple[Any, ...]]:
    """What messages say, and what was written of an entry."""
    format = LlamaIndexFormat()
    found = [entry for n, message in enumerate(messages) for entry in format.read(message, n)]
    return [row[:4] for row in said(found)]


@pytest.mark.parametrize("name", ["tau_bench", "tau2_bench"])
def test_every_conversation_is_curated_as_the_core_does(name: str) -> None:
    curators = [Curator(max_tokens=budget) for budget in BUDGETS]
    compared = refused = 0
    for conversation in load(name)[:60]:
        plain, native = both(conversation)
        for curator in curators:
            core = attempt(curator, plain)
            ours = attempt(curator, native)
            if core is None or ours is None:
                assert core is ours
                refused += 1
                continue
            assert said(ours.entries) == said(core.entries)
            assert ours.tokens == core.tokens
            assert ours.report.prefix_entries == core.report.prefix_entries
            # What is written says what was decided.
            assert read(ours.messages) == [row[:4] for row in said(core.entries)]
            compared += 1
    assert compared > refused


def attempt(curator: Curator, messages: Sequence[Any]) -> Curation | None:
    """The curation, or None where what must stay does not fit."""
    try:
        return curator.curate(messages)
    except BudgetUnsatisfiableError:
        return None


@pytest.mark.parametrize("provider", ["portable", "openai", "anthropic", "mistral"])
def test_providers_and_managers_agree(provider: str) -> None:
    managers = ToolResultTruncator(max_tokens=200), ToolResultClearer(keep=3)
    curator = Curator(*managers, max_tokens=6_000, provider=provider)
    for conversation in load("tau_bench")[:20]:
        plain, native = both(conversation)
        assert said(curator.curate(native).entries) == said(curator.curate(plain).entries)


def test_memory_and_llm_give_the_same_view() -> None:
    curator = Curator(max_tokens=BUDGETS[1])
    for conversation in load("tau_bench")[:20]:
        plain, native = both(conversation)
        memory = CuratedMemory.from_defaults(native, token_limit=BUDGETS[1])
        expected = said(curator.curate(plain, tail="history").entries)
        assert read(memory.get()) == [row[:4] for row in expected]
        llm = RecordingLLM()
        CuratedLLM(llm=llm, token_limit=BUDGETS[1]).chat(native)
        expected = said(curator.curate(plain).entries)
        assert read(llm.sent[0]) == [row[:4] for row in expected]
