"""Recorded requests, in their own format and in every other they can be written in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from history_curator.entries import MessageRole
from history_curator.errors import BudgetUnsatisfiableError, ConversionError
from history_curator.formats import (
    BedrockFormat,
    DictFormat,
    GeminiFormat,
    ResponsesFormat,
    find_format,
    read_entries,
    ungroup_items,
)
from history_curator.rules import get_profile
from tests.support import data
from tests.wire.promises import PROVIDERS, hold

pytestmark = pytest.mark.data
WRITERS = {
    "chat": DictFormat(),
    "anthropic": DictFormat(),
    "responses": ResponsesFormat(),
    "gemini": GeminiFormat(),
    "bedrock": BedrockFormat(),
}
EDGES = [(name, wire) for name in data.EDGE_FILES for wire in WRITERS]


def said_anew(entry, wire):
    """An entry as if nobody had written it yet: its text, calls and results."""
    extra = {"anthropic": {}} if wire == "anthropic" else None
    calls = tuple(replace(call, extra=extra) for call in entry.tool_calls or ())
    gone = ("source", "span", "original", "parts", "reasoning", "metadata", "repairs", "role_name")
    bare = replace(entry, **dict.fromkeys(gone), barrier=False)
    return replace(bare, tool_calls=calls or None)


def rewritten(messages, wire):
    """A conversation in another format, with whatever is wrong with its order."""
    entries = [
        said_anew(entry, wire)
        for entry in read_entries(messages, find_format(messages))
        if entry.content or entry.tool_calls or entry.role is MessageRole.TOOL
    ]
    if wire != "chat":  # only there arguments are any text
        rules = get_profile("core").rules
        entries = next(rule for rule in rules if rule.code == "P9").repair(entries)
    return ungroup_items(WRITERS[wire].write(entries))


@pytest.mark.parametrize(("name", "wire"), EDGES)
def test_in_every_format(name, wire):
    sent = 0
    for number, recorded in enumerate(data.load(name)):
        try:
            messages = rewritten(recorded["messages"], wire)
        except ConversionError:
            continue  # no messages at all
        providers = PROVIDERS[wire]
        provider, budget = providers[number % len(providers)], (None, 1_000)[number % 2]
        label = f"{recorded['id']} as {wire} for {provider}"
        refusal = hold(messages, provider, budget, label)
        assert refusal is None or isinstance(refusal, BudgetUnsatisfiableError), (label, refusal)
        sent += refusal is None
    assert sent > 20


@pytest.mark.parametrize("name", data.EDGE_FILES)
def test_as_they_were_recorded(name):
    sent = 0
    wire = "anthropic" if name == "edge_anthropic" else "chat"
    for recorded in data.load(name):
        for provider in PROVIDERS[wire]:
            refusal = hold(recorded["messages"], provider, None, f"{recorded['id']} for {provider}")
            sent += refusal is None
    assert sent > 100
