"""Bring back earlier messages that matter to the question, quoted in one block right before it.

Everything before the block is as it would be without, so it is repeated byte for byte on the next
call. The selection depends on the history alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import BudgetUnsatisfiableError, ConfigurationError
from history_curator.managers.base import BuiltInManager, CurationContext, Entries
from history_curator.managers.search import (
    Bm25Scorer,
    Scorer,
    find_passage,
    rank_positions,
    score_entries,
    split_words,
)
from history_curator.managers.select import fit_window, is_answered
from history_curator.quoting import list_lines, write_lines
from history_curator.tokens import TokenCounter
from history_curator.units import Unit
from history_curator.window import Block, View, ViewBuilder

HEAD = "[Earlier messages of this conversation that may matter now, quoted]"
TAIL = "[End of earlier messages]"


@dataclass(frozen=True)
class Retriever:
    """Finds the earlier messages that match a question, for the window to put before it.

    The block gets a `share` of the budget (None: a small one within bounds), or all that is free if
    it `fills`; `only_chats` means none where tools are in use. `warn` is told of a failed scorer.
    """

    share: float | None = None
    scorer: Scorer = field(default_factory=Bm25Scorer)
    only_chats: bool = True
    fills: bool = False
    warn: Callable[[str], None] | None = None

    def find(self, builder: ViewBuilder, view: View, limit: int, tokens: int) -> Block | None:
        """Return the block for the question of a view that left something out.

        All messages may have `limit` tokens; so many `tokens` are set aside for the block.
        """
        entries = [facts.entry for facts in builder.record.facts]
        question = _find_question(entries, builder, view)
        available = min(limit - view.tokens, tokens)
        if self.fills and question is not None and question >= len(entries) - 1:
            available = limit - view.tokens - 24  # every call asks something new
        if question is None or available < 64:  # not worth the block's marks
            return None
        query = build_query(entries, question, builder.query)
        # Messages after the question do not change its matches.
        earlier = entries[: max(question, view.cutoff_index)]
        scores, warning = score_entries(earlier, query, self.scorer)
        if warning and self.warn is not None:
            self.warn(warning)
        pairing = builder.pairing
        since = pairing.units[pairing.barrier_before(len(pairing.units)) :]
        gone = [unit for unit in since if unit.start < view.cutoff_index]
        starts = [*(unit.start for unit in gone), view.cutoff_index]
        best = [max(scores[start:end], default=0.0) for start, end in pairwise(starts)]
        sizes = [sum(len(entry.content or "") for entry in unit.entries) for unit in gone]
        ranked = [gone[at] for at in rank_positions(best, sizes)]
        ranked = [unit for unit in ranked if unit.start not in view.kept_entries]
        text, count = _write_block(ranked, "\n".join(query), available, builder.memo.counter)
        reason = f"{count} earlier messages that match the latest question"
        return Block(text, question, reason) if count else None


def _find_question(
    entries: Sequence[ConversationEntry], builder: ViewBuilder, view: View
) -> int | None:
    """Return the position of the question, which is behind the entries where it is none yet."""
    newest = range(len(entries) - 1, -1, -1)
    question = next((at for at in newest if entries[at].is_real_user), None)
    asked = builder.query.strip()
    is_last = question is not None and question == len(entries) - 1
    if asked and not (is_last and (entries[-1].content or "").strip() == asked):
        return len(entries)
    if question is None or (builder.tail == "history" and is_answered(entries[-1:])):
        return None
    return question if question >= view.cutoff_index or question in view.kept_entries else None


def _write_block(
    ranked: Sequence[Unit], query: str, available: int, counter: TokenCounter
) -> tuple[str, int]:
    """Return units quoted in one text, best first while they fit, and how many messages it quotes."""
    quotes: dict[int, tuple[str, int]] = {}
    left = available - counter.count_entry(_as_entry(HEAD, TAIL))
    longest, missed = available // 2, 0  # of one message that is too long for the block
    for unit in ranked:
        numbered = zip(unit.entries, unit.indexes, strict=True)
        lines = [line for entry, index in numbered for line in list_lines(entry, index + 1)]
        text = write_lines(lines)
        tokens = counter.count(text) + 1 if len(text) < left * 12 else left + 1
        if tokens > longest and tokens > left:
            text = _shorten_quotes(lines, query, min(left, longest), counter)
            tokens = counter.count(text) + 1
        if tokens <= left:
            quotes[unit.start] = text, len(unit.entries)
            left, missed = left - tokens, 0
        elif (missed := missed + 1) >= 40:
            break  # a huge record is not tokenised to fill the last gap
    while quotes:
        entry = _as_entry(HEAD, *(quotes[start][0] for start in sorted(quotes)), TAIL)
        if counter.count_entry(entry) <= available:
            return entry.content or "", sum(count for _, count in quotes.values())
        quotes.popitem()
    return "", 0


def _as_entry(*lines: str) -> ConversationEntry:
    return ConversationEntry(MessageRole.USER, "\n".join(lines))


def _shorten_quotes(
    lines: list[tuple[str, str]], query: str, max_tokens: int, counter: TokenCounter
) -> str:
    """Return a quoted unit's first line and the lines that match best, each under its own label."""
    head, *others = lines
    if not others:
        return write_lines(lines)
    left = max_tokens - counter.count(write_lines([head])) - 4
    first, last = find_passage([f"> {text}" for _, text in others], query, left, counter)
    before = [(head[0], "…")] if first else []
    after = [(label, "…") for label, _ in others[last : last + 1]]
    return write_lines([head, *before, *others[first:last], *after])


class RelevanceManager(BuiltInManager):
    """Keeps a recent window and gives the rest of the budget to earlier messages that matter.

    A history that fits stays as it is. `Curator(retrieve=…)` brings back a few messages for little;
    this manager brings back as much as fits, at several times the cost, as the block is new in
    every call. A question that is not among the entries yet (``Curator.curate(…, query=…)``) finds
    its parts too: they end the view.

    Args:
        share: of the budget, set aside for earlier messages.
        scorer: a `Scorer` of yours, with an embedding model for instance; None for BM25, which
            also takes the place of one that fails, with a warning.

    Examples:
        >>> from history_curator.entries import ConversationEntry as E, MessageRole as R
        >>> said = [E(R.USER, "my dog is called Rex"), E(R.ASSISTANT, "a fine name")]
        >>> said += [E(R.USER, "and now the weather " * 20), E(R.ASSISTANT, "rain " * 30)] * 5
        >>> said += [E(R.USER, "what is my dog called?")]
        >>> view = RelevanceManager().curate(said, context=CurationContext(max_tokens=400))
        >>> any("Rex" in entry.content for entry in view)
        True
    """

    def __init__(self, share: float = 0.7, *, scorer: Scorer | None = None) -> None:
        if not 0.0 <= share <= 0.9:
            raise ConfigurationError(f"share must be between 0 and 0.9, got {share}.")
        if not isinstance(scorer, Scorer | None):
            raise ConfigurationError(f"scorer is {scorer!r}. Fix: give it score(question, texts).")
        self.share = share
        self.scorer = scorer or Bm25Scorer()

    def select_entries(self, entries: Entries, context: CurationContext) -> Entries:
        if context.max_tokens is None:
            return entries
        fills = Retriever(
            self.share, self.scorer, only_chats=False, fills=True, warn=context.warnings.append
        )
        try:
            window = fit_window(entries, context, context.max_tokens, fills)
        except BudgetUnsatisfiableError:
            return entries
        if window.compacted:
            context.compactions.append(type(self).__name__)
        return window.entries


def build_retriever(retrieve: bool | float | Literal["auto"]) -> Retriever | None:
    """Return the retriever that an option of `Curator` asks for; None for none."""
    if retrieve is False:
        return None
    share = None if retrieve is True or retrieve == "auto" else float(retrieve)
    return Retriever(share, only_chats=retrieve == "auto")


def build_query(
    entries: Sequence[ConversationEntry], position: int, said: str = ""
) -> dict[str, float]:
    """Return the query of the user entry at a position, or of `said`, which is about to stand there.

    A single word ("yes") is read with the ends of the last question and answer, counting half.
    """
    said = entries[position].content or "" if position < len(entries) else said
    said = said[-4_000:]
    query: dict[str, float] = {}
    if len(split_words(said)) <= 1:
        before = [entry for entry in entries[:position] if entry.content]
        asked = [entry for entry in before if entry.is_real_user]
        answers = [entry for entry in before if entry.role is MessageRole.ASSISTANT]
        turn = [*asked[-1:], *answers[-1:]]
        query = {(entry.content or "")[-400:].strip(): 0.5 for entry in turn}
    query[said] = 1.0
    return {text: weight for text, weight in query.items() if text}
