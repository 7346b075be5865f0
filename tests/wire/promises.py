"""What is promised of a view on the wire, as one function that any test can hold it against."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from history_curator import BudgetUnsatisfiableError, Curator, check_conversation
from history_curator.errors import ConversionError
from history_curator.formats import RESPONSE_ITEMS, find_format
from tests.wire.roundtrip import assert_reads_as_written, count_sent

PROVIDERS = {
    "chat": ("openai", "core", "portable", "mistral"),
    "anthropic": ("anthropic", "core", "portable"),
    "responses": ("openai-responses", "core"),
    "gemini": ("gemini", "core", "portable"),
    "bedrock": ("bedrock", "core", "portable"),
}
"""Whose rules make sense for a format."""
BUDGETS = (None, 2_000, 500)


def hold(
    messages: Sequence[Any], provider: str, budget: int | None, label: str
) -> ConversionError | BudgetUnsatisfiableError | None:
    """Curate, and assert every promise; return the error where there is no view."""
    before = copy.deepcopy(messages)
    curator = Curator(provider=provider, max_tokens=budget)
    try:
        format = find_format(messages, provider)
        curation = curator.curate(messages, format=format, tail="request")
    except (ConversionError, BudgetUnsatisfiableError) as error:
        return error
    view = curation.messages
    assert repr(messages) == repr(before), f"{label}: the input was changed"  # NaN is not NaN
    if messages:  # of nothing there may be no view
        assert check_conversation(view, provider) == [], label
    json.dumps(view, allow_nan=False, default=str)
    if view:
        assert curation.tokens == count_sent(view, provider), label
    ids = [
        message["id"]
        for message in view
        if message.get("type") in (*RESPONSE_ITEMS, "message")
        and isinstance(message.get("id"), str)
    ]
    assert len(set(ids)) == len(ids), f"{label}: an item is in the list twice"
    assert_reads_as_written(format, curation.entries, label)
    repeated = Curator(provider=provider, max_tokens=budget).curate(
        view, format=find_format(view, provider), tail="request"
    )
    assert repr(repeated.messages) == repr(view), f"{label}: not idempotent"
    return None
