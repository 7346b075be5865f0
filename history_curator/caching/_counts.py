"""How a provider counts, told from its reports; and which reports are about views of ours.

A report that somebody was handed with an answer of ours is (`Curation.observe`). One that a message
of the history carries need not be: another agent may have answered, or the conversation may have
been sent whole before there was a curator. What is believed is told from the numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from history_curator.tokens import Report
from history_curator.tokens._families import kinship
from history_curator.tokens._meter import Learned, Meter

__all__ = ["Counting", "Counts"]

_SILENT = 1.8
"""How many times more a model may count than before when it begins to count otherwise unsaid."""
_ODD = 1.25
"""A prompt so many times larger than expected is believed when the next one is so, too."""


class Counts(NamedTuple):
    """What is known of how a provider counts a conversation. Never changed.

    Attributes:
        meter: foretells its counts; None until something was reported.
        model: who answered last.
        gone: counted tokens that compactions have left out since the last report that was believed.
        odd: the view as we count it and its prompt, of a report just before that was not believed.
        before: what was known before a report beyond the limit, where one was just believed.
        foreign: whether such a one turned out to be about something else.
    """

    meter: Meter | None = None
    model: str | None = None
    gone: int = 0
    odd: tuple[int, int] | None = None
    before: Counts | None = None
    foreign: bool = False


class Counting:
    """Follows the counts of a conversation from report to report.

    Args:
        known: returns what is known about a model before this history, to be learned further.
        asked: the model that gets the view, where it is known.
        limit: the provider's limit.
    """

    def __init__(
        self, known: Callable[[str | None], Learned], asked: str | None, limit: int
    ) -> None:
        self._known = known
        self._asked = asked
        self._limit = limit

    def start(self) -> Counts:
        """Return what is known before anything was reported."""
        known = self._known(None)
        return Counts(Meter(known)) if known.calls else Counts()

    def restart(
        self, first: Counts, before: Iterable[tuple[int, Report | None]], beside: int
    ) -> Counts:
        """Return what is known at a place, from how the prompts grew in the stretch before it.

        Args:
            first: what the first report of the history said; what is hidden follows from it.
            before: counted tokens of each unit of that stretch, and what was reported for it.
            beside: counted tokens of what is sent beside the units.
        """
        if first.meter is None:
            return Counts(model=first.model)
        learned, last, grown = first.meter.learned.copy(), 0, 0
        for cost, report in before:
            if report is not None and report.usage.input <= self._limit:
                if grown and report.usage.input > last > 0:
                    learned.learn((0, last), (grown, report.usage.input))
                last, grown = report.usage.input, 0
            grown += cost
        bare = learned.ratio * beside + learned.hidden
        return Counts(Meter(learned, beside, bare), first.model)

    def heard(self, counts: Counts, report: Report, shown: int, *, sure: bool) -> Counts:
        """Return what is known after a report.

        Args:
            counts: before it.
            report: what was reported.
            shown: counted tokens of the view, where the report does not say.
            sure: whether it is about a view of ours for certain.
        """
        model = report.model
        if self._asked is not None and model is not None:
            kin = kinship(self._asked, model)
            if kin != "same":
                warned = kin == "version" and counts.meter is None
                return self._warned(counts, report, shown) if warned else counts
        last = counts.meter if model in (None, counts.model) else None
        meter = Meter(self._known(model)) if last is None else last.copy()
        reported = report.usage.input
        counted = shown if report.counted is None else report.counted
        beyond = not sure and reported > self._limit
        if beyond and counts.before is not None and _uncut(counts, meter, reported, counted):
            return counts.before._replace(foreign=True)  # ours was cut: it was not ours
        if not sure and not self._ours(counts, meter, reported, counted):
            return counts._replace(odd=(counted, reported))
        if not meter.observe(counted, reported, sure=sure):
            return counts
        if counted != shown:
            meter = _nearer(last, meter, counted, shown)
        return Counts(meter, model or counts.model, before=counts if beyond else None)

    def compacted(self, counts: Counts, before: int, after: int) -> Counts:
        """Return what is known when ``after`` counted tokens are shown instead of ``before``."""
        counts = counts._replace(gone=counts.gone + before - after)
        if counts.before is not None:
            counts = counts._replace(before=self.compacted(counts.before, before, after))
        if counts.meter is None or not counts.meter.anchored:
            return counts
        meter = counts.meter.copy()
        meter.place(before)
        meter.place(after)
        return counts._replace(meter=meter)

    def _warned(self, counts: Counts, report: Report, shown: int) -> Counts:
        """Another version answered so far: this one may count otherwise until it has answered."""
        learned, other = self._known(self._asked), self._known(report.model)
        learned.hidden = max(learned.hidden, report.usage.input - other.ratio * shown)
        return counts._replace(meter=Meter(learned))

    def _ours(self, counts: Counts, meter: Meter, reported: int, shown: int) -> bool:
        """Whether a report that a message carries is about a view of ours, as far as can be told.

        One beyond the limit says that the model has begun to count otherwise: to doubt it would
        mean to be over the limit again. The view is cut then, so if the next one is beyond it as
        if nothing had been, both were about something else. Otherwise: what was sent whole did not
        get shorter when our view did, and a prompt much larger than expected may be another
        agent's, until a second one goes on from it.
        """
        expected, ratio, error = meter.tokens(shown), meter.learned.ratio, meter.error(shown)
        if reported > self._limit:
            most = _SILENT * expected + error if meter.anchored else _SILENT * self._limit
            if counts.foreign:
                return False
            return reported <= most or _goes_on(counts, ratio, reported, shown)
        if not meter.anchored:
            return True
        if _uncut(counts, meter, reported, shown):
            return False
        if reported <= _ODD * expected + error:
            return True
        return not counts.foreign and _goes_on(counts, ratio, reported, shown)


def _uncut(counts: Counts, meter: Meter, reported: int, shown: int) -> bool:
    """Whether a report is rather about a view from which nothing has left since the last one."""
    expected = meter.tokens(shown)
    whole = expected + meter.learned.ratio * counts.gone
    return abs(reported - whole) < abs(reported - expected)


def _nearer(last: Meter | None, meter: Meter, counted: int, shown: int) -> Meter:
    """The meter at a view that is longer than the one reported last.

    The report before may say more about it, where the last one agrees with it.
    """
    reported = meter.reported
    meter.place(shown)
    if last is None or not last.anchored:
        return meter
    if abs(reported - last.tokens(counted)) > last.error(counted):
        return meter
    kept = Meter(meter.learned, last.counted, last.reported, last.slack)
    kept.place(shown)
    return kept if kept.slack < meter.slack else meter


def _goes_on(counts: Counts, ratio: float, reported: int, shown: int) -> bool:
    """Whether a report goes on from one just before that was not believed."""
    if counts.odd is None:
        return False
    following = counts.odd[1] + ratio * (shown - counts.odd[0])
    return abs(reported - following) <= (_ODD - 1) / 2 * reported
