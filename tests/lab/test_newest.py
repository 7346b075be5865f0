"""The demo's stand-in for ``trim_messages`` is held to the original."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from history_curator.lab import LabConversation, sample_conversation
from history_curator.lab import PeerPolicy
from history_curator.lab.policies import NewestThatFit
from history_curator.testing.strategies import conversations
from history_curator.tokens import get_counter

pytest.importorskip("langchain_core", reason="langchain-core is absent")


def same(messages: list[object], budget: int) -> None:
    record = LabConversation("t", messages).read()
    counter = get_counter("o200k_base")
    ours = NewestThatFit(budget).start(record, counter)
    theirs = PeerPolicy("trim_messages", budget).start(record, counter)
    for upto in range(1, len(record.entries) + 1):
        sent, expected = ours(upto), theirs(upto)
        assert [id(entry) for entry in sent] == [id(entry) for entry in expected], (budget, upto)


@pytest.mark.parametrize("budget", [500, 4_000, 12_000, 30_000])
def test_the_demo_s_conversation(budget: int) -> None:
    same(sample_conversation(), budget)


@given(messages=conversations(), budget=st.integers(5, 400))
@settings(max_examples=60, deadline=None)
def test_generated_conversations(messages: list[object], budget: int) -> None:
    same(messages, budget)
