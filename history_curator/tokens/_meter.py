"""What a provider will count for the next view of a conversation, from what it counted before.

What was reported for the last request is the anchor: the next prompt is that number plus a ratio
times what the view grew by. Whatever we cannot see (a system prompt that a service adds, the framing
of tools) is in the anchor and cancels out. The ratio is learned from growth alone, so that it is a
ratio of tokenizers and nothing else.

Everything here is arithmetic on numbers: the same reports in the same order give the same answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

__all__ = ["Learned", "Meter"]

LEAST, MOST = 0.5, 2.5
"""The ratio stays within these multiples of where it started."""
WEIGHT = 1_500.0
"""Counted tokens that the start is worth."""
_MEMORY = 32_000
"""Counted tokens after which half of what was learned is forgotten."""
_STEP = 0.6
"""How far one call may differ from the ratio, as it is learned."""
_SPREAD, _EARLY_SPREAD, _EARLY = 0.25, 0.4, 5
"""How far what is new may be from the ratio; wider for the first calls."""
_SHARE = 0.0125
"""What else may come on top, as a share of the prompt, until enough was seen."""
_ENOUGH, _RANK, _KEPT, _FORGET = 100, 128, 8, 512
"""Calls after which what came on top is known; one in `_RANK` may exceed it."""
_SURPRISE = 0.1
"""A prompt that is off by more than this share was counted by another tokenizer."""
_OTHER = 0.8
"""Less than this share of what a view takes was reported for something else."""


@dataclass(slots=True)
class Learned:
    """What is known about how one model counts, in tokens: reported over counted, and what else.

    Attributes:
        start: the ratio before anything was reported.
        reported, counted: growth as reported and as counted; their quotient is the ratio.
        calls: reports it was learned from.
        hidden: what a first prompt held that was not counted.
        worst: the largest surpluses over the expected spread, largest first.
        seen: of how many they are the largest.
        doubt: how far the first prompt may be from the ratio.
    """

    start: float
    reported: float
    counted: float
    calls: int = 0
    hidden: float = 0.0
    worst: list[int] = field(default_factory=list)
    seen: int = 0
    doubt: float = 0.5

    @classmethod
    def at(cls, start: float, doubt: float = 0.5) -> Learned:
        """Return what is known of a model of which only the family is."""
        return cls(start, start * WEIGHT, WEIGHT, doubt=doubt)

    @property
    def ratio(self) -> float:
        """The provider's tokens over ours."""
        return min(max(self.reported / self.counted, self.start * LEAST), self.start * MOST)

    @property
    def spread(self) -> float:
        """How far what is new may be from the ratio."""
        if not self.calls:
            return self.doubt
        return _SPREAD if self.calls >= _EARLY else _EARLY_SPREAD

    def usual(self) -> int:
        """What came on top of the spread in all but one of a hundred calls."""
        rank = max(0, self.seen // _RANK - 1)
        return self.worst[min(rank, len(self.worst) - 1)] if self.worst else 0

    def allowance(self, prompt: float) -> float:
        """What may come on top of the spread; until enough was seen, a share of the prompt."""
        usual = float(self.usual())
        return usual if self.seen >= _ENOUGH else max(usual, prompt * _SHARE)

    def copy(self) -> Learned:
        """Return what is known, to be learned further apart."""
        return replace(self, worst=list(self.worst))

    def learn(self, before: tuple[float, float], now: tuple[int, int], slack: float = 0.0) -> None:
        """Take the growth between two reports of one conversation, each (counted, reported).

        Args:
            before: the last report.
            now: the new one.
            slack: what the last one may be off by, where it is an estimate since a jump.
        """
        ratio, grown = self.ratio, now[0] - before[0]
        expected = before[1] + ratio * grown
        within = slack + self.spread * ratio * abs(grown)
        otherwise = abs(now[1] - expected) > _SURPRISE * expected + within
        if not otherwise:
            self._note(max(0, math.ceil(now[1] - expected - within)))
        self.calls += 1
        if grown > 0:
            # A reminder slipped in, or a cache that was cleared, says nothing about the ratio.
            least, most = ratio * grown * (1 - _STEP), ratio * grown * (1 + _STEP)
            gained = now[1] - before[1]  # give or take the slack
            step = min(max(ratio * grown, gained - slack), gained + slack)
            step = min(max(step, least), most)
            kept = 0.5 ** (grown / _MEMORY)
            self.reported = self.reported * kept + step
            self.counted = self.counted * kept + grown
        # Behind a jump less than expected may be because what left was more than expected.
        if otherwise and (now[1] > expected or not slack):
            self._scale(now[1] / expected)

    def settle(self, counted: int, reported: int, *, first: bool) -> None:
        """Nobody is sent less than the view: a ratio that says so is too high.

        Args:
            counted: the view.
            reported: its prompt.
            first: whether it is the first of its conversation, so that what is hidden shows.
        """
        if self.ratio * counted > reported:
            self.reported = self.counted * reported / counted
        if first:
            hidden = max(0.0, reported - self.ratio * counted)
            self.hidden = max(hidden, self.hidden - (self.hidden - hidden) / 8)

    def _note(self, surplus: int) -> None:
        self.seen += 1
        if surplus or len(self.worst) < _KEPT:
            self.worst = sorted([*self.worst, surplus], reverse=True)[:_KEPT]
        if self.seen >= _FORGET:
            self.seen //= 2
            self.worst = self.worst[1::2]

    def _scale(self, factor: float) -> None:
        """Start over from another ratio: what comes next decides whether it stays."""
        ratio = min(max(self.ratio * factor, self.start * LEAST), self.start * MOST)
        self.reported, self.counted = ratio * WEIGHT, WEIGHT


@dataclass(slots=True)
class Meter:
    """Follows one conversation: each report is the anchor of what comes next.

    Attributes:
        learned: how the model counts; learned further here, so give it a copy.
        counted: the view of the last report as we count it, 0 before any.
        reported: what was reported for it.
        slack: what the estimate of a changed anchor may be off by.

    Examples:
        >>> meter = Meter(Learned.at(1.0))
        >>> meter.observe(1_000, 1_500), meter.observe(1_200, 1_740)
        (True, True)
        >>> round(meter.tokens(1_300))
        1842
        >>> meter.bound(meter.room(8_000)) <= 8_000
        True
    """

    learned: Learned
    counted: float = 0.0
    reported: float = 0.0
    slack: float = 0.0

    def copy(self) -> Meter:
        """Return the meter, to be followed further apart."""
        return Meter(self.learned.copy(), self.counted, self.reported, self.slack)

    @property
    def anchored(self) -> bool:
        """Whether anything was reported."""
        return self.reported > 0

    def tokens(self, counted: float) -> float:
        """Return the most likely count of the provider for a view that we count so."""
        if not self.anchored:
            return self.learned.ratio * counted + self.learned.hidden
        return max(0.0, self.reported + self.learned.ratio * (counted - self.counted))

    def error(self, counted: float) -> float:
        """Return by how much the real count exceeds `tokens` at most, in 99 of 100 calls."""
        known = self.learned
        tokens = self.tokens(counted)
        moved = abs(counted - self.counted) if self.anchored else counted
        return self.slack + known.allowance(tokens) + known.spread * known.ratio * moved

    def bound(self, counted: float) -> int:
        """Return what is not exceeded in 99 of 100 calls."""
        return math.ceil(self.tokens(counted) + self.error(counted))

    def room(self, limit: float) -> int:
        """Return a count of ours whose bound is within a limit: the largest, but for a token or two."""
        known = self.learned
        ratio, spread = known.ratio, known.spread
        held = self.reported if self.reported > 0 else known.hidden
        free = limit - held - self.slack
        usual, share = known.usual(), _SHARE if known.seen < _ENOUGH else 0.0
        some = free - max(usual, held * share)
        # What leaves is as uncertain as what comes, so it is worth less than it takes.
        spread = spread if some >= 0 else -spread
        more = min((free - usual) / (1 + spread), (free - held * share) / (1 + spread + share))
        return max(0, int(self.counted + more / ratio) - 2)

    def likely(self, limit: float) -> int:
        """Return a count of ours that may well be within a limit, with nothing to spare.

        By the last report, or by the first one and the ratio, whichever leaves more.
        """
        known = self.learned
        anew = (limit - known.hidden) / known.ratio
        last = self.counted + (limit - self.reported) / known.ratio if self.anchored else anew
        return max(0, int(max(last, anew)))

    def needed(self, counted: int) -> int:
        """Return the least limit within which a view that we count so may well be."""
        anew = self.learned.ratio * counted + self.learned.hidden
        limit = math.ceil(min(self.tokens(counted), anew))
        while self.likely(limit) < counted:
            limit += 1
        return limit

    def observe(self, counted: int, reported: int, *, sure: bool = True) -> bool:
        """Take what was reported for a view; return whether it was believed.

        Args:
            counted: the view as we count it.
            reported: the whole prompt, cached parts included.
            sure: whether it was reported for exactly this view. What is found in a history may
                be about something else, such as what another agent was sent: then a report of
                less than the view can take is passed over.
        """
        known = self.learned
        least = known.start * LEAST
        if not sure and known.calls >= _EARLY:
            least = max(least, min(known.ratio, known.start) * _OTHER)
        if counted <= 0 or reported < least * counted:
            return False
        if self.anchored:
            known.learn((self.counted, self.reported), (counted, reported), self.slack)
        known.settle(counted, reported, first=not self.anchored)
        self.counted, self.reported, self.slack = float(counted), float(reported), 0.0
        return True

    def place(self, counted: float) -> None:
        """Go on from a view that we count so, for which nothing was reported."""
        known = self.learned
        moved = known.ratio * (counted - self.counted)
        self.counted = float(counted)
        self.reported = max(1.0, self.reported + moved)
        self.slack = min(self.slack + known.spread * abs(moved), known.spread * self.reported)
