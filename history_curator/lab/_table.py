"""One policy over all conversations: what is added up, and how it is written in a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from history_curator.lab._measure import Tally


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """One policy over all conversations.

    Attributes:
        name: the policy.
        conversations, calls: what was replayed.
        sampled: share of the calls that was measured; below 1.0 the totals are scaled up.
        tokens_sent: over all calls, messages, tool schemas and priming.
        peak: the largest single request.
        budget_use: mean request over the budget, or None without one.
        over_budget: requests above the budget.
        cached_share: tokens that repeat the start of the request before, over tokens sent.
        cost: by the chosen price sheet.
        costs: by every price sheet that ships, and the chosen one.
        invalid: requests the provider's rules refuse.
        violations: how often each rule was broken, by its code.
        failed: calls for which the policy raised instead of giving a view.
        lost_identifiers, identifiers: argument values that were visible only in what was left
            out, of all that had occurred earlier.
        repeated_calls, repeats: calls made again whose earlier result was left out, of all calls
            made again.
        edits, edits_seen: edit calls whose old lines had been shown, and those of them whose old
            lines were all in the view.
        faulty: requests that are refused, above the budget, or both.
        evidence_recall: labelled questions with all their evidence in the view, or None.
        ms_per_view: mean time to make one view.
        roles: tokens sent by role.
        note: what went wrong, in one line.
    """

    name: str
    conversations: int
    calls: int
    sampled: float
    tokens_sent: int
    peak: int
    budget_use: float | None
    over_budget: int
    cached_share: float
    cost: float
    costs: Mapping[str, float]
    invalid: int
    violations: Mapping[str, int]
    failed: int
    lost_identifiers: int
    identifiers: int
    repeated_calls: int
    repeats: int
    evidence_recall: float | None
    questions: int
    ms_per_view: float
    roles: Mapping[str, int]
    note: str = ""
    edits: int = 0
    edits_seen: int = 0
    faulty: int = 0

    @property
    def missed(self) -> float:
        """Share of what later calls needed that the view no longer had."""
        needed = self.identifiers + self.repeats
        return (self.lost_identifiers + self.repeated_calls) / needed if needed else 0.0

    @property
    def edits_share(self) -> float | None:
        """Share of edit calls whose old lines were all in the view, or None without any."""
        return self.edits_seen / self.edits if self.edits else None

    @property
    def faults(self) -> int:
        """Calls that went wrong: refused by the rules, over the budget, or without a view."""
        return self.faulty + self.failed

    @property
    def measured(self) -> bool:
        """Whether there is anything to compare."""
        return self.sampled > 0

    @property
    def sound(self) -> bool:
        """Whether every request fits its budget and none is refused by the provider's rules."""
        return self.measured and not (self.over_budget or self.invalid or self.failed)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        row = {name: getattr(self, name) for name in self.__slots__}
        return {**row, "missed": self.missed, "edits_share": self.edits_share, "costs": dict(self.costs),
                "violations": dict(self.violations), "roles": dict(self.roles)}  # fmt: skip


def summarise(name: str, tallies: Sequence[Tally], pricing: str) -> PolicyResult:
    """Add up one policy's tallies."""
    measured = sum(each.measured for each in tallies)
    tried = measured + sum(each.failed for each in tallies)
    calls = sum(each.calls for each in tallies)
    tokens = sum(sum(each.tokens) for each in tallies)
    scales = [(each, each.calls / (each.measured + each.failed))
              for each in tallies if each.measured + each.failed]  # fmt: skip
    costs: dict[str, float] = {}
    for each, scale in scales:
        for sheet, cost in each.costs.items():
            costs[sheet] = costs.get(sheet, 0.0) + cost * scale
    use = sum(each.budget_use for each in tallies)
    questions = sum(each.questions for each in tallies)
    notes = [each.note for each in tallies if each.note]
    return PolicyResult(
        name=name,
        conversations=len(tallies),
        calls=calls,
        sampled=tried / calls if calls else 0.0,
        tokens_sent=round(sum(sum(each.tokens) * scale for each, scale in scales)),
        peak=max((max(each.tokens, default=0) for each in tallies), default=0),
        budget_use=use / measured if use and measured else None,
        over_budget=sum(each.over_budget for each in tallies),
        cached_share=sum(each.cached for each in tallies) / tokens if tokens else 0.0,
        cost=costs.get(pricing, 0.0),
        costs=costs,
        invalid=sum(each.invalid for each in tallies),
        violations=_added(each.violations for each in tallies),
        failed=sum(each.failed for each in tallies),
        lost_identifiers=sum(each.lost for each in tallies),
        identifiers=sum(each.needs for each in tallies),
        repeated_calls=sum(each.repeated for each in tallies),
        repeats=sum(each.repeats for each in tallies),
        edits=sum(each.edits for each in tallies),
        edits_seen=sum(each.edits_seen for each in tallies),
        faulty=sum(each.faulty for each in tallies),
        evidence_recall=(sum(each.answered for each in tallies) / questions if questions else None),
        questions=questions,
        ms_per_view=1000 * sum(each.seconds for each in tallies) / measured if measured else 0.0,
        roles=_added(each.roles for each in tallies),
        note=notes[-1] if notes else "",
    )


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(sorted(total.items()))


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        head: the heading.
        means: what it says and in which unit, for the legend.
        cell: the text of one policy's cell.
        decides: whether it belongs to the few that fit 80 columns.
        used: whether it says anything about these policies; by default it does.
    """

    head: str
    means: str
    cell: Callable[[PolicyResult], str]
    decides: bool = False
    used: Callable[[PolicyResult], bool] = lambda _each: True


def short_number(number: float) -> str:
    """Return a number of tokens as people say it, ``1.25M`` or ``980k``."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.2f}{unit}"
    return str(round(number))


def _share(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:.{digits}%}"


COLUMNS = (
    Column("sent", "tokens over all calls", lambda p: short_number(p.tokens_sent), True),
    Column("peak", "the largest request, tokens", lambda p: f"{p.peak:,}"),
    Column("budget", "the mean request, of the budget", lambda p: _share(p.budget_use)),
    Column(
        "cached", "sent tokens that repeat the request before", lambda p: _share(p.cached_share),
        True,
    ),
    Column("cost", "millions of input tokens at full price", lambda p: f"{p.cost:.3f}", True),
    Column(
        "missed", "of what later calls used, not in view any more", lambda p: _share(p.missed, 1),
        True,
    ),
    Column(
        "edits", "edit calls whose old lines are all in view", lambda p: _share(p.edits_share),
        True, lambda p: bool(p.edits),
    ),
    Column(
        "evidence", "labelled questions with all their evidence in view",
        lambda p: _share(p.evidence_recall), True, lambda p: bool(p.questions),
    ),
    Column(
        "faults", "calls refused by the rules, over budget or without a view",
        lambda p: f"{p.faults:,}", True,
    ),
    Column("refused", "requests the provider's rules refuse", lambda p: f"{p.invalid:,}"),
    Column("over", "requests above the budget", lambda p: f"{p.over_budget:,}"),
    Column("failed", "calls for which the policy raised", lambda p: f"{p.failed:,}"),
    Column("lost ids", "identifiers used later, not in view", lambda p: f"{p.lost_identifiers:,}"),
    Column("re-calls", "calls made again, first result not in view",
           lambda p: f"{p.repeated_calls:,}"),
    Column("ms/view", "mean time to make one view", lambda p: f"{p.ms_per_view:.2f}"),
)  # fmt: skip


def columns_of(policies: Sequence[PolicyResult], *, full: bool) -> list[Column]:
    """Return the columns that say something about these policies."""
    return [
        column
        for column in COLUMNS
        if (full or column.decides) and any(map(column.used, policies or ()))
    ]


def as_text(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as lines, the first column to the left, the others to the right."""
    table = [list(heads), *map(list, rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    lines = [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines
