"""What is promised of a view on the wire, as one function that any test can hold it against."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from history_curator import BudgetUnsatisfiableError, Curator, check_conversation
from history_curator.formats import RESPONSE_ITEMS, detect, reread
from history_curator.errors import ConversionError
from history_curator.tokens import get_counter
from tests.wire.counting import count

PROVIDERS = {
    "chat": ("openai", "core", "portable", "mistral"),
    "anthropic": ("anthropic", "core", "portable"),
    "responses": ("openai-responses", "core"),
    "gemini": ("gemini", "core", "portable"),
    "bedrock": ("bedrock", "core", "portable"),
}
"""Whose rules make sense for a format."""
BUDGETS = (None, 2_000, 500)
_COUNTER = get_counter("o200k_base")
_WALKERS = {"dicts": "chat"}


def hold(
    messages: Sequence[Any], provider: str, budget: int | None, label: str
) -> ConversionError | BudgetUnsatisfiableError | None:
    """Curate, and assert every promise; return the error where there is no view."""
    before = copy.deepcopy(messages)
    curator = Curator(provider=provider, max_tokens=budget)
    try:
        format = detect(messages, provider)
        curation = curator.curate(messages, format=format, tail="request")
    except (ConversionError, BudgetUnsatisfiableError) as error:
        return error
    view = curation.messages
    assert repr(messages) == repr(before), f"{label}: the input was changed"  # NaN is not NaN
    if messages:  # of nothing there may be no view
        assert check_conversation(view, provider) == [], label
    json.dumps(view, allow_nan=False, default=str)
    if view:
        spoken = detect(view, provider).name
        assert curation.tokens == count(_WALKERS.get(spoken, spoken), view), label
    ids = [
        message["id"]
        for message in view
        if message.get("type") in (*RESPONSE_ITEMS, "message")
        and isinstance(message.get("id"), str)
    ]
    assert len(set(ids)) == len(ids), f"{label}: an item is in the list twice"
    assert repr(curation.report.rebuild(messages)) == repr(view), f"{label}: rebuilt differently"
    again = reread(format, curation.entries, _COUNTER.count_entry)
    assert again is curation.entries, f"{label}: reads differently once it is written"
    repeated = Curator(provider=provider, max_tokens=budget).curate(
        view, format=detect(view, provider), tail="request"
    )
    assert repr(repeated.messages) == repr(view), f"{label}: not idempotent"
    return None
