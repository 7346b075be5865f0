"""Where a view is marked for the provider's cache, in whichever words a framework has for a mark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from history_curator.caching import Mark, place_marks, plan_of, sheet_for
from history_curator.curator import Curation

M = TypeVar("M")

MOST_MARKS = 4
"""Breakpoints Anthropic takes in one request: messages, system prompt and tools together."""


def mark_prefix(
    messages: Sequence[M],
    end: int,
    others: Sequence[Mark],
    mark: Callable[[M, float], M | None],
    *,
    most: int = MOST_MARKS,
) -> list[M]:
    """Return the messages with a mark on the last of the first `end` that can carry one.

    Nothing is marked when that message carries one already, nor when the request has the most it
    may have. The mark asks for as long as those behind it, so that a longer one never stands
    behind a shorter one.

    Args:
        messages: the view.
        end: how many leading messages are stable.
        others: the marks the request carries already.
        mark: returns a marked copy of a message for so many seconds, None where it cannot carry
            a mark.
        most: how many marks a request may carry.
    """
    out = list(messages)
    if len(others) >= most:
        return out
    for place in range(min(end, len(out)) - 1, -1, -1):
        if any(other.after == place + 1 for other in others):
            return out
        behind = [other.ttl for other in others if other.after > place]
        marked = mark(out[place], max(behind, default=300.0))
        if marked is not None:
            out[place] = marked
            return out
    return out


def mark_view(
    messages: Sequence[M],
    curation: Curation,
    others: Sequence[Mark],
    mark: Callable[[M, float], M | None],
    model: str | None = None,
) -> list[M]:
    """Return the messages of a view with the breakpoints of its cache plan.

    Args:
        messages: the view, as it is sent.
        curation: where it comes from.
        others: the marks the request carries already.
        mark: as for `mark_prefix`.
        model: who is asked, for the least prefix; without it Anthropic's usual one.
    """
    sheet = sheet_for(model)
    pricing = sheet if sheet is not None and sheet.breakpoints else "anthropic"
    plan = plan_of(curation, pricing=pricing, others=others)
    return place_marks(messages, plan, lambda message, point: mark(message, point.ttl))
