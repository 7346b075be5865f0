"""The results of a replay: one row for each policy as text, page, DataFrame or JSON, and plots."""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from math import hypot
from pathlib import Path
from typing import Any

from history_curator.entries import write_private
from history_curator.errors import ConfigurationError
from history_curator.lab.files import import_extra
from history_curator.lab.tables import Table, count_of, render_page, short_number


@dataclass(slots=True)
class Tally:
    """The sums of one policy on one conversation, by the names of `PolicyResult`.

    ``used_before``, ``made_again`` and ``edited`` describe the conversation, whatever the policy
    did: identifiers that an earlier message held, calls made again, edits of lines shown before.
    ``tokens`` and ``at`` (the index of the answer) have one number for each measured call.
    """

    conversation: str
    calls: int = 0
    used_before: int = 0
    made_again: int = 0
    edited: int = 0
    measured: int = 0
    failed: int = 0
    tokens: list[int] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    cached: int = 0
    costs: dict[str, float] = field(default_factory=dict)
    over_budget: int = 0
    budget_use: float = 0.0
    invalid: int = 0
    violations: dict[str, int] = field(default_factory=dict)
    identifiers: int = 0
    lost_identifiers: int = 0
    repeats: int = 0
    repeated_calls: int = 0
    edits: int = 0
    edits_seen: int = 0
    seconds: float = 0.0
    roles: dict[str, int] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """One policy over all conversations.

    Attributes:
        budget_use: mean request over the budget, or None without one.
        cached_share: tokens that repeat the start of the request before, over tokens sent.
        cost, costs: by the chosen price sheet, and by every sheet.
        invalid, over_budget, failed: requests that the provider's rules refuse, requests above
            the budget, and calls for which the policy gave no view.
        lost_identifiers, identifiers: argument values that were visible only in messages left
            out, of all that an earlier message held.
        repeated_calls, repeats: calls made again whose earlier result was left out, of all.
        edits_seen, edits: edit calls whose old lines were all in the view, of all whose old lines
            had been shown.
    """

    name: str
    conversations: int = 1
    calls: int = 0
    measured: bool = True
    tokens_sent: int = 0
    peak: int = 0
    budget_use: float | None = None
    cached_share: float = 0.0
    cost: float = 0.0
    costs: Mapping[str, float] = field(default_factory=dict)
    invalid: int = 0
    over_budget: int = 0
    failed: int = 0
    violations: Mapping[str, int] = field(default_factory=dict)
    lost_identifiers: int = 0
    identifiers: int = 0
    repeated_calls: int = 0
    repeats: int = 0
    edits: int = 0
    edits_seen: int = 0
    ms_per_view: float = 0.0
    roles: Mapping[str, int] = field(default_factory=dict)
    note: str = ""

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
    def sound(self) -> bool:
        """Whether every request fits its budget and is accepted by the provider's rules."""
        return self.measured and not (self.over_budget or self.invalid or self.failed)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {**asdict(self), "missed": self.missed, "edits_share": self.edits_share}


_SUMMED = ("calls", "over_budget", "invalid", "failed", "lost_identifiers", "identifiers",
           "repeated_calls", "repeats", "edits", "edits_seen")  # fmt: skip


def sum_tallies(name: str, tallies: Sequence[Tally], pricing: str) -> PolicyResult:
    """Return the result of one policy from its tallies."""
    sums = {key: sum(getattr(tally, key) for tally in tallies) for key in _SUMMED}
    measured = sum(tally.measured for tally in tallies)
    tokens = sum(sum(tally.tokens) for tally in tallies)
    budget_use = sum(tally.budget_use for tally in tallies)
    costs: Counter[str] = Counter()
    violations: Counter[str] = Counter()
    roles: Counter[str] = Counter()
    for tally in tallies:
        costs.update(tally.costs)
        violations.update(tally.violations)
        roles.update(tally.roles)
    return PolicyResult(
        name=name,
        conversations=len(tallies),
        measured=measured + sums["failed"] > 0,
        tokens_sent=tokens,
        peak=max((max(tally.tokens, default=0) for tally in tallies), default=0),
        budget_use=budget_use / measured if budget_use and measured else None,
        cached_share=sum(tally.cached for tally in tallies) / tokens if tokens else 0.0,
        cost=costs.get(pricing, 0.0),
        costs=dict(costs),
        violations=dict(sorted(violations.items())),
        ms_per_view=1000 * sum(t.seconds for t in tallies) / measured if measured else 0.0,
        roles=dict(sorted(roles.items())),
        note=next((tally.note for tally in reversed(tallies) if tally.note), ""),
        **sums,
    )


def _percent(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:.{digits}%}"


_COLUMNS: dict[str, tuple[str, Callable[[PolicyResult], str]]] = {
    "sent": ("tokens over all calls", lambda p: short_number(p.tokens_sent)),
    "peak": ("the largest request, tokens", lambda p: f"{p.peak:,}"),
    "budget": ("the mean request, of the budget", lambda p: _percent(p.budget_use)),
    "cached": ("sent tokens that repeat the request before", lambda p: _percent(p.cached_share)),
    "cost": ("millions of input tokens at full price", lambda p: f"{p.cost:.3f}"),
    "missed": ("of what later calls used, not in view any more", lambda p: _percent(p.missed, 1)),
    "edits": ("edit calls whose old lines are all in view", lambda p: _percent(p.edits_share)),
    "invalid": ("requests the provider's rules refuse", lambda p: f"{p.invalid:,}"),
    "over": ("requests above the budget", lambda p: f"{p.over_budget:,}"),
    "refused": ("calls for which the policy gave no view", lambda p: f"{p.failed:,}"),
    "lost ids": ("identifiers used later, not in view", lambda p: f"{p.lost_identifiers:,}"),
    "re-calls": ("calls made again, first result not in view", lambda p: f"{p.repeated_calls:,}"),
    "ms/view": ("mean time to make one view", lambda p: f"{p.ms_per_view:.2f}"),
}
"""The meaning and the text of each column, by its heading."""
_DECIDING = ("sent", "cached", "cost", "missed", "edits", "invalid", "over", "refused")


@dataclass(frozen=True, repr=False)
class ReplayResults:
    """All policies of one replay, in the order they were given.

    `print(results)` is a table; so is the object itself at the end of a notebook cell.

    Examples:
        >>> from history_curator.lab import replay
        >>> talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        >>> results = replay([talk], {"all": "no curation"}, progress=False, executor="serial")
        >>> results["all"].calls
        1

    Attributes:
        policies: results by policy name.
        tallies: for each policy, one `Tally` for each conversation.
        pricing: the price sheet behind ``cost``.
        provider: the rules behind ``invalid``.
        seconds: how long the replay took.
    """

    policies: Mapping[str, PolicyResult]
    tallies: Mapping[str, Sequence[Tally]] = field(repr=False)
    pricing: str
    provider: str
    seconds: float

    def __getitem__(self, name: str) -> PolicyResult:
        return self.policies[name]

    def table(self, *, full: bool = False) -> Table:
        """Return the table of the columns that decide, or with ``full`` of all columns."""
        results = list(self.policies.values())
        heads = [head for head in _COLUMNS if full or head in _DECIDING]
        if not any(each.edits for each in results):
            heads.remove("edits")
        rows = []
        for each in results:
            name = each.name if each.measured else f"{each.name} (skipped)"
            rows.append([name, *(_COLUMNS[h][1](each) if each.measured else "–" for h in heads)])
        faded = frozenset(number for number, each in enumerate(results) if not each.sound)
        return Table("", ["policy", *heads], rows, faded=faded)

    def columns(self, *, full: bool = False) -> list[str]:
        """Return the headings of the table."""
        return list(self.table(full=full).heads)

    def legend(self, *, full: bool = False) -> dict[str, str]:
        """Return the meaning of each heading, units included."""
        return {head: _COLUMNS[head][0] for head in self.columns(full=full)[1:]}

    def about(self) -> str:
        """Return what was replayed and how, in one line."""
        talks = count_of(len(next(iter(self.tallies.values()), ())), "conversation")
        return f"{self.pricing} prices, {self.provider} rules, {talks} in {self.seconds:.1f} s"

    def notes(self) -> list[str]:
        """Return one line about what later calls needed, and one for each policy that failed."""
        talks = next(iter(self.tallies.values()), ())  # these sums are the same for each policy
        calls, used, again, edited = (
            count_of(sum(getattr(each, key) for each in talks), noun)
            for key, noun in (("calls", "call"), ("used_before", "identifier"),
                              ("made_again", "call"), ("edited", "time"))
        )  # fmt: skip
        needed = (
            f"{calls} in {count_of(len(talks), 'conversation')}; later calls used {used} said "
            f"before, repeated {again} and edited {edited}"
        )
        return [needed, *(f"{p.name}: {p.note}" for p in self.policies.values() if p.note)]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "\n".join([self.table().to_text(), *self.notes()])

    def _repr_html_(self) -> str:
        table = self.table()
        frame = import_extra("pandas").DataFrame(table.rows, columns=table.heads)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes())
        return f"{frame.to_html(index=False)}{notes}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "pricing": self.pricing,
            "provider": self.provider,
            "seconds": round(self.seconds, 3),
            "policies": [result.to_dict() for result in self.policies.values()],
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the results as JSON text, and write it to ``path`` when one is given."""
        return write_if_named(json.dumps(self.to_dict(), indent=2), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the table as Markdown, and write it to ``path`` when one is given."""
        table = self.table(full=True)
        rules = ["---", *["---:"] * (len(table.heads) - 1)]
        lines = [f"| {' | '.join(map(str, row))} |" for row in (table.heads, rules, *table.rows)]
        lines += ["", *(f"- {note}" for note in self.notes())]
        return write_if_named("\n".join(lines), path)

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained page with the recommendation, the table and its legend."""
        advice = recommend(self)
        grey = "Grey rows: a request was invalid, over the budget or not made."
        values = {
            "heading": f"Use {advice.name}", "subline": self.about(), "sentences": [advice.why],
            "tables": [self.table(full=True)],
            "legend": self.legend(full=True), "notes": [grey, *self.notes()],
        }  # fmt: skip
        return write_private(path, render_page("Policies compared", values))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row for each policy; ``costs.anthropic`` is a column.

        Raises:
            ImportError: with the command that installs pandas.
        """
        rows = [result.to_dict() for result in self.policies.values()]
        return import_extra("pandas").json_normalize(rows).set_index("name")

    def to_parquet(self, path: str | Path) -> None:
        """Write one row for each policy and conversation as Parquet, to a file or an object store.

        ``tokens`` and ``at`` are lists with one number for each call.

        Raises:
            ImportError: with the command that installs pyarrow.
        """
        import_extra("pyarrow", "scale")
        rows = [{"policy": name, **asdict(t)} for name, some in self.tallies.items() for t in some]
        buffer = BytesIO()
        import_extra("pandas").json_normalize(rows).to_parquet(buffer)
        if "://" in str(path):
            with import_extra("fsspec", "scale").open(str(path), "wb") as target:
                target.write(buffer.getvalue())
        else:
            write_private(path, buffer.getvalue())

    def frontier(self) -> list[str]:
        """Return the sound policies no other beats on both cost and missed, cheapest first."""
        return [each.name for each in frontier([p for p in self.policies.values() if p.measured])]

    def recommend(self, max_missed: float | None = None) -> Recommendation:
        """Name the policy to use and say why; see `recommend`."""
        return recommend(self, max_missed=max_missed)


def write_if_named(text: str, path: str | Path | None) -> str:
    """Return a text, and write it where a path is given."""
    if path is not None:
        write_private(path, text + "\n")
    return text


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The policy to use, the frontier it was taken from, and why; ``str`` of it is a paragraph."""

    name: str
    why: str
    frontier: tuple[str, ...]
    ruled_out: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.why


def frontier(results: Sequence[PolicyResult]) -> list[PolicyResult]:
    """Return the sound policies no other beats on both cost and missed, cheapest first.

    A policy with a request that is invalid, over the budget or missing cannot be used, so it is
    not compared, unless every policy has one; then those that gave every view are.
    """
    sound = [each for each in results if each.sound]
    candidates = sound or [each for each in results if not each.failed] or results
    best: list[PolicyResult] = []
    for each in sorted(candidates, key=lambda one: (one.cost, one.missed)):
        if not best or each.missed < best[-1].missed:
            best.append(each)
    return best


def recommend(results: ReplayResults, max_missed: float | None = None) -> Recommendation:
    """Return the policy to use, of those on the cost/missed frontier.

    Without ``max_missed`` it is the one nearest to the best cost and the best missed at once; with
    it the cheapest within, or when none is, the one that loses least.

    Raises:
        ConfigurationError: when there is no measurement to judge by.

    Examples:
        >>> from history_curator.lab import replay
        >>> talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        >>> recommend(replay([talk], ["no curation"], progress=False, executor="serial")).name
        'no curation'
    """
    measured = [each for each in results.policies.values() if each.measured and each.tokens_sent]
    if not measured:
        raise ConfigurationError(_why_nothing(results))
    ruled_out = tuple((each.name, _faults_of(each)) for each in measured if not each.sound)
    line = frontier(measured)
    first, last, reasons = line[0], line[-1], []
    if max_missed is None:
        across, up = last.cost - first.cost or 1.0, first.missed - last.missed or 1.0
        distances = [
            hypot((p.cost - first.cost) / across, (p.missed - last.missed) / up) for p in line
        ]
        chosen = line[distances.index(min(distances))]
    else:
        chosen = next((each for each in line if each.missed <= max_missed), last)
        if not chosen.sound or chosen.missed > max_missed:
            reasons.append(
                f"No sound policy stays within a missed of {max_missed:.2%}; the closest is "
                f"{chosen.name} ({chosen.missed:.2%})."
            )
    reasons.append(
        f"Use {chosen.name}: cost {chosen.cost:.3f} ({results.pricing}), missed "
        f"{chosen.missed:.2%}, {chosen.cached_share:.0%} of its tokens repeat the request before."
    )
    for each in line:
        if each.cost < chosen.cost:
            reasons.append(
                f"{each.name} is cheaper ({each.cost:.3f}) but loses more ({each.missed:.2%})."
            )
        elif each is not chosen:
            reasons.append(f"{each.name} loses less ({each.missed:.2%}) but costs {each.cost:.3f}.")
    if not chosen.sound:
        reasons.append(
            "No policy made only valid requests within budget; this one is the least bad."
        )
    elif ruled_out:
        named = "; ".join(f"{name} ({fault})" for name, fault in ruled_out)
        reasons.append(f"Ruled out: {named}.")
    return Recommendation(chosen.name, " ".join(reasons), tuple(p.name for p in line), ruled_out)


def _why_nothing(results: ReplayResults) -> str:
    if not any(each.calls for each in results.policies.values()):
        return (
            "there was no call to replay: no message of the assistant follows another one. "
            "Fix: pass conversations that a model has answered."
        )
    if refused := next((each for each in results.policies.values() if each.failed), None):
        return f"no policy made a single request. {refused.name}: {refused.note}"
    return "no policy was measured. Fix: install the peers, or add a curator of your own."


def _faults_of(each: PolicyResult) -> str:
    faults = (each.invalid, "refused by the provider"), (each.over_budget, "over the budget")
    counts = [f"{count:,} requests {what}" for count, what in faults if count]
    return ", ".join(counts + [f"{each.failed:,} calls without a view"] * bool(each.failed))
