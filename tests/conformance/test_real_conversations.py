"""Real conversations, cut anywhere, under every profile and budget: nothing to refuse."""

from __future__ import annotations

from collections import Counter

import pytest

from history_curator.curator import Curator
from history_curator.errors import BudgetUnsatisfiableError, ConversionError
from history_curator.formats import find_format, read_entries
from history_curator.rules import PROVIDERS, check_conversation
from tests.support import data

pytestmark = pytest.mark.data

BUDGETS = (None, 1_000, 8_000)
STEP = 5


def said(messages):
    """Every line of text the user said."""
    format = find_format(messages)
    return Counter(
        line
        for index, message in enumerate(messages)
        for entry in format.read(message, index)
        if entry.role.value == "user" and entry.content
        for line in entry.content.splitlines()
        if line.strip()
    )


def sweep(name, *, conversations, prefixes, providers=PROVIDERS):
    """Curate prefixes of conversations; return how many views were checked."""
    views = 0
    for conversation in data.load(name)[::conversations]:
        messages = conversation["messages"]
        try:
            said(messages)
        except ConversionError:
            continue  # not a message at all; tests/read has these
        for provider in providers:
            curators = [Curator(max_tokens=budget, provider=provider) for budget in BUDGETS]
            for end in range(STEP, len(messages) + STEP, STEP * prefixes):
                prefix = messages[:end]
                for curator, budget in zip(curators, BUDGETS, strict=True):
                    views += check(curator, prefix, provider, budget, conversation["id"])
    assert views
    return views


def check(curator, prefix, provider, budget, label):
    view, needed = None, None
    try:
        view = curator.curate(prefix, tail="request").messages
    except BudgetUnsatisfiableError as error:
        needed = error.needed
    if view is None:
        assert budget is not None, label
        assert needed > budget, label
        return 0
    found = check_conversation(view, provider)
    assert found == [], (label, len(prefix), provider, budget, found[:3])
    if budget is None and not any(entry.barrier for entry in read_entries(prefix)):
        assert not said(prefix) - said(view), (label, len(prefix), provider)
    return 1


SAMPLES = {
    "coding_sessions": (33, 20),
    "tau_bench": (30, 2),
    "tau2_bench": (17, 2),
    "misc_agents": (8, 2),
    "locomo": (5, 40),
    "beam100k": (8, 40),
    "edge_openai": (1, 1),
    "edge_anthropic": (1, 1),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample(name):
    conversations, prefixes = SAMPLES[name]
    sweep(name, conversations=conversations, prefixes=prefixes)


@pytest.mark.nightly
@pytest.mark.timeout(0)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", SAMPLES)
def test_every_fifth_prefix_of_every_conversation(name, provider):
    sweep(name, conversations=1, prefixes=1, providers=[provider])
