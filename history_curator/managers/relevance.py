"""`RelevanceManager`: the budget holds earlier parts that matter, not only recent ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import BudgetUnsatisfiableError, ConfigurationError
from history_curator.managers.base import CurationContext, Entries, insert_note
from history_curator.managers.search import (
    Bm25Scorer,
    Scorer,
    match_openings,
    name_speaker,
    quote_entry,
    rank_positions,
    score_entries,
    split_words,
)
from history_curator.managers.select import fit_window, is_answered, measure_fit
from history_curator.units import Unit, pair
from history_curator.window import View

SHARE = 0.7
"""Share of the budget that earlier parts may take."""
AGENT = 0.1
"""Share of entries with calls from which a conversation is an agent's work and not a chat."""
SMALLEST = 64
"""Tokens below which a recollection is not worth its marks."""
MISSES = 40
"""Parts in a row that do not fit, after which no more are tried."""
_SLACK = 24

RECOLLECTION_HEAD = "[Recollection: earlier parts of this conversation that may matter now]"
RECOLLECTION_TAIL = "[End of recollection]"


class RelevanceManager:
    """Keeps a recent window and gives the rest of the budget to earlier parts that matter.

    The entries stay as they are while the history fits; the window compacts as seldom as the
    budget's own; earlier units come back whole and word for word, as one marked user entry right
    before the latest user entry, so that everything before it is repeated byte for byte on the
    next call; the selection depends on the history alone.

    A question that is not among the entries yet (``Curator.curate(…, query=…)``) finds its parts
    too: they end the view. With ``tail="history"`` and no such question, an answered
    question brings no parts back. When a scorer fails, BM25 takes its place, with a warning.

    Where tools are in use (a call in every tenth entry or more) the recap serves better, and the
    entries are handed on as they are, unless `share` is given.

    Args:
        share: of the budget, for earlier parts; None for 0.7 in a chat and nothing in an agent's
            work.
        scorer: a `Scorer` of yours, with an embedding model for instance; None for BM25.
        compact_to: how full a compaction leaves the window, as for `Curator`.

    Examples:
        >>> from history_curator.entries import ConversationEntry as E, MessageRole as R
        >>> said = [E(R.USER, "my dog is called Rex"), E(R.ASSISTANT, "a fine name")]
        >>> said += [E(R.USER, "and now the weather " * 20), E(R.ASSISTANT, "rain " * 30)] * 5
        >>> said += [E(R.USER, "what is my dog called?")]
        >>> view = RelevanceManager().curate(said, context=CurationContext(max_tokens=400))
        >>> any("Rex" in entry.content for entry in view)
        True
    """

    def __init__(
        self,
        share: float | None = None,
        *,
        scorer: Scorer | None = None,
        compact_to: float | None = None,
    ) -> None:
        if share is not None and not 0.0 <= share <= 0.9:
            raise ConfigurationError(f"share must be between 0 and 0.9, got {share}.")
        if not isinstance(scorer, Scorer | None):
            raise ConfigurationError(
                f"scorer is {scorer!r}. Fix: an object with score(question, texts), or None for BM25."
            )
        self.share = share
        self.scorer = scorer or Bm25Scorer()
        self.compact_to = compact_to

    def curate(self, entries: Entries, *, context: CurationContext) -> Entries:
        max_tokens = context.max_tokens
        fits, did_fit = measure_fit(entries, context)
        if max_tokens is None or fits:
            return entries
        is_work, was_work = self._is_work(entries)
        if is_work != was_work:
            context.note_compaction(self)
        plan = None if is_work else self._plan(entries, context, max_tokens)
        if plan is None:
            return entries
        if plan.window.compacted or did_fit:
            context.note_compaction(self)
        view = list(plan.window.entries)
        if plan.question is None or plan.available < SMALLEST:
            return view
        units = pair(entries)
        text, chosen = self._recollect(entries, units, plan, context)
        if text is not None:
            before = entries[plan.question] if plan.question < len(entries) else None
            count = sum(len(units[index].entries) for index in chosen)
            reason = f"{count} earlier parts that match the latest question"
            insert_note(view, text, before, origin="recollection", reason=reason)
            for index in chosen:
                for entry in units[index].entries:
                    context.explain(entry, "before the cutoff; quoted in the recollection")
        return view

    def _is_work(self, entries: Entries) -> tuple[bool, bool]:
        """Whether this is an agent's work and not a chat, and whether the request before was."""
        if self.share is not None:
            return False, False
        calls = [bool(entry.tool_calls) for entry in entries]
        is_work = sum(calls) >= AGENT * len(calls)
        newest = range(len(entries) - 1, 0, -1)
        answer = next((at for at in newest if entries[at].role is MessageRole.ASSISTANT), 0)
        return is_work, sum(calls[:answer]) >= AGENT * answer if answer else is_work

    def _plan(self, entries: Entries, context: CurationContext, max_tokens: int) -> _Plan | None:
        """Return the window beside the parts, with less space for them where it has to be."""
        for divisor in (1, 2, 4):
            aside = int(max_tokens * (SHARE if self.share is None else self.share)) // divisor
            available = max_tokens - aside - _SLACK
            with suppress(BudgetUnsatisfiableError):
                window = fit_window(entries, context, available, self.compact_to)
                break
        else:
            return None
        said = (context.query or "").strip()
        if said and entries[-1].is_real_user and (entries[-1].content or "").strip() == said:
            said = ""
        question: int | None = len(entries)
        if not said:
            newest = range(len(entries) - 1, -1, -1)
            question = next((index for index in newest if entries[index].is_real_user), None)
            if (
                question is not None
                and question < window.cutoff
                and question not in window.kept_entries
            ):
                question = None
            if context.tail == "history" and is_answered(entries[-1:]):
                question = None
        if question is not None and question >= len(entries) - 1:
            # Every call asks something new, so everything that the window leaves is free.
            aside = max_tokens - sum(map(context.count_entry, window.entries)) - _SLACK
        return _Plan(window, question, said, aside)

    def _recollect(
        self, entries: Entries, units: Sequence[Unit], plan: _Plan, context: CurationContext
    ) -> tuple[str | None, list[int]]:
        """Return the text that quotes the units that matter most, and which units those are."""
        assert plan.question is not None
        cutoff = plan.window.cutoff
        query = build_query(entries, plan.question, plan.said)
        # Messages after the question do not change its matches.
        scores, warning = score_entries(entries[: max(plan.question, cutoff)], query, self.scorer)
        if warning:
            context.warn(warning)
        gone = [unit for unit in units if unit.start < cutoff]
        starts = [*(unit.start for unit in gone), cutoff]
        best = [max(scores[start:end]) for start, end in pairwise(starts)]
        sizes = [sum(len(entry.content or "") for entry in unit.entries) for unit in gone]
        ranked = rank_positions(best, sizes)
        order = [index for index in ranked if gone[index].start not in plan.window.kept_entries]
        count = context.counter.count
        frame = ConversationEntry(MessageRole.USER, _write_recollection(units, []))
        available = plan.available - context.counter.count_entry(frame)
        chosen: list[int] = []
        missed = 0
        for index in order:
            cost = sum(count(quote_entry(entry) + "\n") for entry in gone[index].entries)
            # A label stands only where the unit before is not quoted as well.
            cost += 0 if index - 1 in chosen else count(f"[{gone[index].start}]")
            cost -= count(f"[{gone[index + 1].start}]") if index + 1 in chosen else 0
            if cost <= available:
                chosen.append(index)
                available -= cost
                missed = 0
            elif (missed := missed + 1) >= MISSES:
                break  # a huge record is not tokenised to fill the last gap
        while chosen:
            text = _write_recollection(units, sorted(chosen))
            entry = ConversationEntry(MessageRole.USER, text)
            if context.counter.count_entry(entry) <= plan.available:
                return text, sorted(chosen)
            chosen.pop()
        return None, []


class _Plan(NamedTuple):
    """The window, the position of the question, its words if it is no entry yet, free tokens."""

    window: View
    question: int | None
    said: str
    available: int


def _write_recollection(units: Sequence[Unit], chosen: Sequence[int]) -> str:
    """Return quotes of units as one text; a run of neighbours has one label, its place."""
    quoted = [entry for index in chosen for entry in units[index].entries]
    openings = match_openings([name_speaker(entry) for entry in quoted])
    lines = [RECOLLECTION_HEAD]
    before = None
    for index in chosen:
        quotes = [quote_entry(entry, openings) for entry in units[index].entries]
        if before is None or index != before + 1:
            quotes[0] = f"[{units[index].start}] {quotes[0]}"
        lines.extend(quotes)
        before = index
    return "\n".join((*lines, RECOLLECTION_TAIL))


_GOES_ON = re.compile(
    r"\s*(?:and|but|or|so|also|then|(?:what|how) about|what else|anything else|why(?: not)?\?)\b",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(?:(?:it|its|they|them|their|he|him|his|she|her|there|then|ones?)\b"
    r"|(?:that|this|those|these)(?!\s+\w))",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[\w,] )[A-Z]\w+")
_MAX_CHARS = 4_000


def leans_on_last_turn(said: str) -> bool:
    """Whether a message means little without the messages before it."""
    count = len(split_words(said))
    if count > 5 or _GOES_ON.match(said):
        return count <= 5
    is_whole = count > 0 and "?" in said and len(said.split()) > 2
    return not is_whole or bool(_POINTS_BACK.search(said) and not _NAME.search(said))


def build_query(entries: Entries, position: int, said: str = "") -> dict[str, float]:
    """Return the query of the user entry at a position, or of `said`, which is about to stand there.

    A message that leans on the last turn ("yes, the second one", "and when was that?") is read
    with it: the user's message before, and the assistant's last question, count half.
    """
    said = (said or entries[position].content or "")[-_MAX_CHARS:]
    query: dict[str, float] = {}
    is_answer_seen = not leans_on_last_turn(said)
    for entry in () if is_answer_seen else reversed(entries[:position]):
        if entry.is_real_user:
            query[(entry.content or "")[-400:].strip()] = 0.5
            break
        if entry.role is MessageRole.ASSISTANT and entry.content and not is_answer_seen:
            is_answer_seen = True
            query[_find_last_question(entry.content[-_MAX_CHARS:])] = 0.5
    query[said] = 1.0
    return {text: weight for text, weight in query.items() if text}


def _find_last_question(text: str) -> str:
    """Return the last sentence that ends in a question mark, or an empty text."""
    asked = text[: text.rfind("?") + 1]
    start = max(asked[:-1].rfind(mark) for mark in ".!?\n") + 1
    return asked[start:].strip()
