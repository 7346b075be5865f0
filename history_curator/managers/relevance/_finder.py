"""From messages to a selection: which of one conversation matter for a question, within a budget."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.managers.relevance._compose import searched_text
from history_curator.managers.relevance._dates import Calendar
from history_curator.managers.relevance._scorers import LexicalScorer, Query, ScoredTexts, Scorer
from history_curator.managers.relevance._speakers import Speakers
from history_curator.managers.relevance._text import numpy
from history_curator.entries import ConversationEntry

BACKWARD = (0.5, 0.3, 0.2, 0.15, 0.1)
"""How much a hit lends to the texts one, two … places before it."""

FORWARD = (0.5, 0.3, 0.2, 0.15, 0.1)
"""How much a hit lends to the texts one, two … places after it."""

REPLY = 0.7
"""How much a hit that ends in a question lends to the next text, which likely is the answer."""

DENSITY = 0.4
"""How much length weighs against a text: 0 not at all, 1 takes relevance per token."""

_LABEL_CHARS = 32
_END = 200

logger = logging.getLogger("history_curator")


def spread(
    scores: Any,
    backward: Sequence[float] = BACKWARD,
    forward: Sequence[float] = FORWARD,
    reply: float | None = None,
    asks: Any = None,
) -> Any:
    """Return scores in which every text also has a share of its neighbours' scores.

    An answer often does not repeat the words of its question. `backward` and `forward` are the
    shares of the texts before and after a hit, the nearest first; `reply` is that of the next text
    where the hit is one of those that ask something.

    Examples:
        >>> import numpy as np
        >>> spread(np.array([0.0, 4.0, 0.0, 0.0]), (0.5,), (0.5, 0.25)).tolist()
        [2.0, 4.0, 2.0, 1.0]
    """
    np = numpy()
    out = scores.copy()
    for distance, weight in enumerate(backward[: len(scores) - 1], 1):
        out[:-distance] += weight * scores[distance:]
    for distance, weight in enumerate(forward[: len(scores) - 1], 1):
        lent: Any = weight
        if distance == 1 and reply is not None and asks is not None:
            lent = np.where(asks[:-1], reply, weight)
        out[distance:] += lent * scores[:-distance]
    return out


def rank(scores: Any, sizes: Any, density: float = DENSITY) -> Any:
    """Return positions, best first: relevance against length in characters, see `DENSITY`."""
    np = numpy()
    return np.argsort(-scores / (sizes + _LABEL_CHARS) ** density, kind="stable")


def take(
    order: Iterable[int], cost: Callable[[int, set[int]], int], room: int, *, misses: int = 40
) -> list[int]:
    """Return the positions, best first, that fit `room` together.

    `cost` says what one more position adds to those taken. Stops after `misses` positions in a row
    that do not fit, so that a huge record is not tokenised to fill the last gap.
    """
    taken: list[int] = []
    chosen: set[int] = set()
    missed = 0
    for position in order:
        price = cost(position, chosen)
        if price <= room:
            taken.append(position)
            chosen.add(position)
            room -= price
            missed = 0
        else:
            missed += 1
            if missed >= misses:
                break
    return taken


@dataclass(frozen=True, slots=True)
class Signals:
    """What counts beside the text of a message, and how strongly.

    Attributes:
        backward: what a hit lends to the messages one, two … places before it.
        forward: the same for those after it.
        reply: what a hit that ends in a question lends to the next message; None as any other.
        speakers: whether who said it counts.
        dates: whether when it was said counts.
    """

    backward: Sequence[float] = BACKWARD
    forward: Sequence[float] = FORWARD
    reply: float | None = REPLY
    speakers: bool = True
    dates: bool = True


class Finder:
    """The messages of one conversation, ready to be asked about. It only grows.

    Four signals count, in this order: the scorer's match of the text; what a match lends to the
    messages around it; who said it; when it was said.

    Args:
        scorer: matches texts; None for words alone.
        signals: what counts beside the text.

    Examples:
        >>> from history_curator.entries import ConversationEntry as E, MessageRole as R
        >>> finder = Finder(LexicalScorer(soft=False))
        >>> finder.add([E(R.USER, "what is your dog called?"), E(R.ASSISTANT, "Rex")])
        >>> [round(float(score), 2) for score in finder.scores({"dog": 1.0}, 2)]
        [0.28, 0.19]
    """

    def __init__(self, scorer: Scorer | None = None, signals: Signals | None = None) -> None:
        self.signals = signals or Signals()
        self._texts: ScoredTexts = (scorer or LexicalScorer()).open()
        self._asks = array("b")
        self._speakers = Speakers()
        self._calendar = Calendar()

    def __len__(self) -> int:
        return len(self._asks)

    def add(self, entries: Sequence[ConversationEntry]) -> None:
        """Append messages in order. When the scorer fails, nothing is appended."""
        self._texts.add([searched_text(entry) for entry in entries])
        for entry in entries:
            self._asks.append("?" in (entry.content or "")[-_END:])
            self._speakers.add(entry)
            self._calendar.add(entry)

    def scores(self, query: Query, limit: int) -> Any:
        """Return one score for each of the first `limit` messages; 0 for no match at all."""
        np, signals = numpy(), self.signals
        raw = self._texts.scores(query, limit)
        if len(raw) != limit:
            raise ValueError(f"the scorer returned {len(raw)} scores for {limit} texts")
        asks = np.array(self._asks[:limit], dtype=bool)
        scores = spread(raw, signals.backward, signals.forward, signals.reply, asks)
        question = max(query, key=query.__getitem__, default="")
        if signals.speakers:
            factors = self._speakers.factors(question, limit)
            scores = scores if factors is None else scores * factors
        if signals.dates:
            factors = self._calendar.factors(question, limit)
            scores = scores if factors is None else scores * factors
        return scores


class Search:
    """One growing conversation, asked through a scorer, and by its words alone where that fails."""

    def __init__(self, scorer: Scorer | None = None, signals: Signals | None = None) -> None:
        self._scorer = scorer
        self._signals = signals
        self._finder = Finder(scorer, signals)
        self._words: Finder | None = None

    def __len__(self) -> int:
        """How many messages have been indexed."""
        return max(len(self._finder), len(self._words or ()))

    def scores(
        self, entries: Sequence[ConversationEntry], query: Query, limit: int
    ) -> tuple[Any, str]:
        """Return one score for each of the first `limit` entries, and what failed, if anything.

        The entries are the conversation so far; it begins with what was given before.

        Raises:
            ConfigurationError: when something has to be installed or set.
        """
        try:
            return _scored(self._finder, entries, query, limit), ""
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever an embedding model raises
            failure = (
                f"{type(self._scorer).__name__} failed ({type(error).__name__}); earlier parts "
                "were found by their words instead."
            )
            logger.warning("%s", failure)
            if self._words is None:
                self._words = Finder(signals=self._signals)
            return _scored(self._words, entries, query, limit), failure


def _scored(finder: Finder, entries: Sequence[ConversationEntry], query: Query, limit: int) -> Any:
    finder.add(entries[len(finder) : limit])
    return finder.scores(query, limit)
