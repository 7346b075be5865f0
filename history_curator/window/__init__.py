"""The window: which part of a conversation is shown, and how it fits and conforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from history_curator.entries import ConversationEntry
from history_curator.memo import Memo
from history_curator.rules import ProviderProfile
from history_curator.tokens import TokenCounter
from history_curator.window.build_view import STEP, Tail, View, ViewBuilder, WindowOptions
from history_curator.window.cutoff import COMPACT_TO
from history_curator.window.fallback import shrink_newest

__all__ = [
    "COMPACT_TO",
    "STEP",
    "FittedView",
    "Tail",
    "View",
    "ViewBuilder",
    "WindowOptions",
    "fit_entries",
    "fit_view",
]

NO_RULES = ProviderProfile("none", ())


class FittedView(NamedTuple):
    """The entries that fit a budget.

    Attributes:
        entries: the entries that are left, in order.
        cutoff: position in the given entries of the first one behind the cutoff; 0 when all is shown.
        kept_entries: positions of those before it that stay.
        compacted: whether it does not simply go on from that of the request before.
    """

    entries: list[ConversationEntry]
    cutoff: int
    kept_entries: tuple[int, ...]
    compacted: bool


def fit_view(builder: ViewBuilder, usual: int, limit: int, likely_limit: int = 0) -> View:
    """Return the view that fits.

    Args:
        builder: what builds views of the record.
        usual: tokens for all messages by the settings.
        limit: tokens for all messages this time.
        likely_limit: tokens that most likely fit, where only a prediction says what does.

    Raises:
        BudgetUnsatisfiableError: when what must stay does not fit. Its numbers are those of the
            messages alone.
    """
    if not len(builder.record) and not builder.edited:  # an empty history stays empty
        return View([], 0, 0)
    return builder.build(usual, limit) or shrink_newest(builder, likely_limit)


def fit_entries(
    entries: Sequence[ConversationEntry],
    *,
    counter: TokenCounter,
    max_tokens: int,
    tail: Tail = "request",
    compact_to: float | None = None,
    recap: bool = False,
    recall_tool: bool | str = False,
    preserve_last_n: int | None = None,
    memo: Memo | None = None,
) -> FittedView:
    """Return what a budget leaves of entries, before any provider's rules.

    Args:
        entries: a conversation.
        counter: counts the tokens.
        max_tokens: the budget of the entries.
        tail: whether the view is about to be sent.
        compact_to: how full a compaction leaves the view; None is `COMPACT_TO`.
        recap: whether a note tells what left.
        recall_tool: whether placeholders and the recap name handles; a text is the tool's name.
        preserve_last_n: the last n entries are never left out.
        memo: remembers what is known of each entry.

    Raises:
        BudgetUnsatisfiableError: when what must stay is larger.
    """
    memo = Memo(counter) if memo is None else memo
    options = WindowOptions(
        NO_RULES,
        max_tokens,
        COMPACT_TO if compact_to is None else compact_to,
        recap,
        recall_tool,
        preserve_last_n or 0,
    )
    builder = ViewBuilder(memo.read_entries(entries), memo, options, tail)
    view = fit_view(builder, max_tokens, max_tokens)
    return FittedView(view.entries, view.cutoff, view.kept_entries, view.compacted)
