"""What can be left out of finding, and what was tried and is not used, each as a variant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

from history_curator import RelevanceManager
from history_curator.managers import _relevance
from history_curator.managers.relevance import (
    Finder,
    LexicalIndex,
    LexicalScorer,
    Signals,
    _dates,
    _query,
    _scorers,
    _soft,
    _speakers,
    entry_text,
    fuse,
    rank,
    speaker,
    spread,
    take,
    terms,
)
from history_curator.managers.relevance import _finder as finder
from history_curator.managers.relevance import _text as text
from history_curator.managers.relevance._text import numpy
from history_curator.entries import ConversationEntry
from history_curator.tokens import TokenCounter


class Variant(NamedTuple):
    """One way to find evidence: how to make the manager, and what is different meanwhile."""

    make: Callable[[], RelevanceManager]
    meanwhile: Callable[[], Any] | None = None


def _with(
    *, share: float | None = None, scorer: Any = None, **settings: Any
) -> Callable[[], RelevanceManager]:
    return lambda: RelevanceManager(
        share, scorer=scorer or LexicalScorer(), signals=Signals(**settings)
    )


@contextmanager
def _rough_prices() -> Iterator[None]:
    """Quotes priced by an upper bound, each with a label of its own."""

    def cost(entries: Sequence[ConversationEntry], counter: TokenCounter) -> int:
        count = counter.count
        return sum(count(entry_text(e)) + count(speaker(e)) + 7 for e in entries)

    with (
        patch.object(_relevance, "quote_cost", cost),
        patch.object(_relevance, "label", lambda _start: ""),
    ):
        yield


_LIST = re.compile(
    r"\b(?:which|what|how many)\s+(?:\w+\s+){0,3}?\w+[^su\W]s\b|\border in which|\bsummar|\ball\b"
    r"|\bthroughout\b|\beach\b|\bdifferent\b",
    re.IGNORECASE,
)
"""Questions whose answer is a list."""
_PART = re.compile(r"[,;:]|\b(?:and|or|while)\b", re.IGNORECASE)


def _asking(change: Callable[[Any, Any, int, Any], Any]) -> Callable[[], Any]:
    """Every question asked of a conversation's texts, with something done to their scores."""
    scores = Finder.scores

    def changed(self: Any, query: Any, limit: int) -> Any:
        texts, made = self._texts, self._texts.scores
        question = max(query, key=query.__getitem__, default="")
        with patch.object(texts, "scores", lambda q, n: change(made, q, n, question)):
            return scores(self, query, limit)

    return lambda: patch.object(Finder, "scores", changed)


def _by_parts(made: Any, query: Any, limit: int, question: str) -> Any:
    """The best match of any part of a question counts beside the match of the whole."""
    parts = [part for part in _PART.split(question) if terms(part)]
    found = made(query, limit)
    for part in parts if len(parts) > 1 else ():
        found = fuse(found, made({part: 1.0}, limit), 0.3)
    return found


@contextmanager
def _fewer_neighbours_in_lists() -> Iterator[None]:
    asked = [""]

    def spread_less(scores: Any, backward: Any, forward: Any, *rest: Any) -> Any:
        few = 2 if _LIST.search(asked[0]) else 5
        return spread(scores, backward[:few], forward[:few], *rest)

    def note(made: Any, query: Any, limit: int, question: str) -> Any:
        asked[0] = question
        return made(query, limit)

    with _asking(note)(), patch.object(finder, "spread", spread_less):
        yield


def _each_covered(made: Any, query: Any, limit: int, question: str) -> Any:
    """The best message that has a word counts almost as the best of all, for each word asked."""
    found = made(query, limit).copy()
    top = found.max(initial=0.0)
    for word in _soft.asked_words(question).values():
        at = made({word: 1.0}, limit).nonzero()[0]
        if len(at):
            best = at[found[at].argmax()]
            found[best] = max(found[best], 0.8 * top)
    return found


def _near_rare_words(most: float) -> Callable[[], Any]:
    """Near words only for words that few messages have."""
    scores = LexicalIndex.scores

    def rare_only(self: Any, query: Any, limit: Any = None, near: Any = None) -> Any:
        wanted = numpy().array(text.numbered(near or ()), dtype="u4")
        if len(wanted):
            which = self._hits(wanted, limit)[0]
            often = numpy().bincount(which, minlength=len(wanted))
            near = {
                term: others
                for (term, others), count in zip(near.items(), often, strict=True)
                if count <= most * limit
            }
        return scores(self, query, limit, near)

    return lambda: patch.object(LexicalIndex, "scores", rare_only)


@contextmanager
def _words_first() -> Iterator[None]:
    """What the words alone find takes most of the room before near words fill the rest."""
    search, order = finder.Search.scores, _relevance._order
    words: list[Any] = []

    def both(self: Any, entries: Any, query: Any, limit: int) -> Any:
        found = search(self, entries, query, limit)
        with patch.object(self._finder._texts, "_vocabulary", None):
            words[:] = [self._finder.scores(query, limit)]
        return found

    def ordered(memory: Any, window: Any, scores: Any) -> Iterator[int]:
        words[:] = order(memory, window, words[0])
        return order(memory, window, scores)

    def twice(positions: Any, cost: Any, room: int) -> list[int]:
        first, spent = take(words, cost, room * 7 // 10), 0
        for place, position in enumerate(first):
            spent += cost(position, set(first[:place]))
        others = (position for position in positions if position not in first)
        return first + take(others, lambda p, taken: cost(p, {*taken, *first}), room - spent)

    with (
        patch.object(finder.Search, "scores", both),
        patch.multiple(_relevance, _order=ordered, take=twice),
    ):
        yield


def _steeper(made: Any, query: Any, limit: int, question: str) -> Any:
    return made(query, limit) ** 1.2


def _set(module: Any, **values: Any) -> Variant:
    """Everything, with other values for constants of a module."""
    return Variant(_with(), lambda: patch.multiple(module, **values))


NARROW = (0.5, 0.3, 0.2)


def ideas() -> dict[str, Variant]:
    """Everything, and everything without one idea; then what was tried and is not used."""
    return {
        "everything": Variant(_with()),
        "without exact prices": Variant(_with(), _rough_prices),
        "without the wider spread": Variant(_with(backward=NARROW, forward=NARROW)),
        "without replies": Variant(_with(reply=None)),
        "without any neighbours": Variant(_with(backward=(), forward=(), reply=None)),
        "without speaker and role": Variant(_with(speakers=False)),
        "without short names": _set(_speakers, _is_short_for=lambda *_: False),
        "without dates": Variant(_with(dates=False)),
        "without the days after": _set(_dates, SOON=1.0),
        "without relative dates": _set(_dates, days_ago=lambda *_: None),
        "without irregular forms": _set(text, IRREGULAR={}),
        "without fainter talk words": _set(_scorers, FAINT=1.0),
        "without the turn before": _set(_query, leans=lambda _: False),
        "without soft words": Variant(_with(scorer=LexicalScorer(soft=False))),
        "soft in long questions too": _set(_soft, ENOUGH=1_000),
        "with share 0.6": Variant(_with(share=0.6)),
        "with share 0.8": Variant(_with(share=0.8)),
        **{f"tried: b {b}": Variant(_with(scorer=LexicalScorer(b=b))) for b in (0.4, 0.6, 0.9)},
        "tried: k1 1.8": Variant(_with(scorer=LexicalScorer(k1=1.8))),
        "tried: speakers 2.5": _set(_speakers, NAMED=2.5, MEANT=2.2),
        "tried: speakers 1.3": _set(_speakers, NAMED=1.3, MEANT=1.3),
        "tried: soft words 0.35 to 0.5": _set(_soft, NEAR_ENOUGH=0.5),
        "tried: soft words as strong": _set(_soft, STRENGTH=1.0),
        "tried: near words of rare ones": Variant(_with(), _near_rare_words(0.01)),
        "tried: near words of unsaid": Variant(_with(), _near_rare_words(0.0)),
        "tried: words first, 0.7 of it": Variant(_with(), _words_first),
        "tried: length counts less": _set(_relevance, rank=partial(rank, density=0.3)),
        "tried: length counts more": _set(_relevance, rank=partial(rank, density=0.6)),
        "tried: powers of scores": Variant(_with(), _asking(_steeper)),
        "tried: parts of a question": Variant(_with(), _asking(_by_parts)),
        "tried: the best for each word": Variant(_with(), _asking(_each_covered)),
        "tried: lists, fewer neighbours": Variant(_with(), _fewer_neighbours_in_lists),
    }
