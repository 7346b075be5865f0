"""What a replay found: one row per policy, as text, table, DataFrame or JSON, and which to use."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.lab._extra import need
from history_curator.lab._measure import Tally, tally_to_dict
from history_curator.lab._table import PolicyResult, as_text, columns_of
from history_curator.entries import write_private
from history_curator.report_page import html_cells, html_table, many, written


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
        tallies: per policy, one tally per conversation, for plots and your own questions.
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
        return written(json.dumps(self.to_dict(), indent=2), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the table as Markdown, and write it to ``path`` when one is given."""
        heads = self.columns(full=True)
        rules = ["---", *["---:"] * (len(heads) - 1)]
        lines = ["| " + " | ".join(row) + " |" for row in (heads, rules, *self.rows(full=True))]
        lines += ["", *(f"- {note}" for note in self.notes())]
        return written("\n".join(lines), path)

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained page with the frontier, the table and its legend."""
        from history_curator.lab._page import render_comparison

        return write_private(path, render_comparison(self))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per policy.

        Raises:
            ImportError: with the command that installs pandas.
        """
        pandas = need("pandas")
        rows = [_flat(result.to_dict()) for result in self.policies.values()]
        return pandas.DataFrame(rows).set_index("name")

    def to_parquet(self, path: str | Path) -> None:
        """Write one row per policy and conversation as Parquet, to a file or an object store.

        Dict-valued fields become columns such as ``costs.anthropic``; ``tokens`` and ``at`` are
        lists with one number a call.

        Raises:
            ImportError: with the command that installs pyarrow.
        """
        arrow, parquet = need("pyarrow", "scale"), need("pyarrow.parquet", "scale")
        rows = [
            {"policy": name, **_flat(tally_to_dict(tally))}
            for name, tallies in self.tallies.items()
            for tally in tallies
        ]
        columns = dict.fromkeys(key for row in rows for key in row)
        table = arrow.table({key: [row.get(key) for row in rows] for key in columns})
        if "://" in str(path):
            with need("fsspec", "scale").open(str(path), "wb") as target:
                parquet.write_table(table, target)
        else:
            whole = arrow.BufferOutputStream()
            parquet.write_table(table, whole)
            write_private(path, whole.getvalue().to_pybytes())

    def frontier(self) -> list[str]:
        """Return the sound policies no other beats on both cost and missed, cheapest first."""
        return [e.name for e in frontier([e for e in self.policies.values() if e.measured])]

    def recommend(self, max_missed: float | None = None) -> Recommendation:
        """Name the policy to use and say why; see `recommend`."""
        return recommend(self, max_missed=max_missed)

    def columns(self, *, full: bool = False) -> list[str]:
        """Return the headings of `rows`: those that decide, or with ``full`` all of them."""
        chosen = columns_of(list(self.policies.values()), full=full)
        return ["policy", *(column.head for column in chosen)]

    def rows(self, *, full: bool = False) -> list[list[str]]:
        """Return the table as text cells."""
        chosen = columns_of(list(self.policies.values()), full=full)
        return [
            [_name(each), *(column.cell(each) if each.measured else "–" for column in chosen)]
            for each in self.policies.values()
        ]

    def legend(self, *, full: bool = False) -> dict[str, str]:
        """Return what each heading means, units included."""
        chosen = columns_of(list(self.policies.values()), full=full)
        return {column.head: column.means for column in chosen}

    def about(self) -> str:
        """Return what was replayed and how, in one line."""
        return (
            f"{self.pricing} prices, {self.provider} rules, "
            f"{many(len(next(iter(self.tallies.values()), ())), 'conversation')} "
            f"in {self.seconds:.1f} s"
        )

    def notes(self) -> list[str]:
        """Return what the table does not say: what was needed, and what went wrong."""
        talks = next(iter(self.tallies.values()), ())  # what is added up is the same for each
        needed = (
            f"{many(sum(each.calls for each in talks), 'call')} in "
            f"{many(len(talks), 'conversation')}; later calls used "
            f"{many(sum(each.said_before for each in talks), 'identifier')} said before, "
            f"repeated {many(sum(each.made_again for each in talks), 'call')} and edited "
            f"{many(sum(each.edited for each in talks), 'time')}"
        )
        wrong = [f"{each.name}: {each.note}" for each in self.policies.values() if each.note]
        return [needed, *wrong]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "\n".join([*as_text(self.columns(), self.rows()), *self.notes()])

    def _repr_html_(self) -> str:
        rows = (f"<tr>{html_cells(row)}</tr>" for row in self.rows())
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes())
        return html_table(html_cells(self.columns(), "th"), rows) + notes


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row in which what is inside ``costs`` is ``costs.anthropic`` and so on."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        inside = value.items() if isinstance(value, Mapping) else None
        flat.update({key: value} if inside is None else {f"{key}.{k}": v for k, v in inside})
    return flat


def _name(each: PolicyResult) -> str:
    if not each.measured:
        return f"{each.name} (skipped)"
    return each.name + (f" ({each.sampled:.0%} of calls)" if each.sampled < 1 else "")


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The policy to use, the frontier it was taken from, and why.

    ``str(recommendation)`` is a paragraph for a person.
    """

    name: str
    why: str
    frontier: tuple[str, ...]
    ruled_out: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.why


def frontier(results: Sequence[PolicyResult]) -> list[PolicyResult]:
    """Return the sound policies no other beats on both cost and missed, cheapest first.

    A policy with a request that is refused, over the budget or missing cannot be used, so it is
    not compared, unless every policy has one; then those that left no call without a view are.
    """
    results = (
        [each for each in results if each.sound]
        or [each for each in results if not each.failed]
        or results
    )
    best: list[PolicyResult] = []
    for each in sorted(results, key=lambda one: (one.cost, one.missed)):
        if not best or each.missed < best[-1].missed:
            best.append(each)
    return best


def recommend(results: ReplayResults, max_missed: float | None = None) -> Recommendation:
    """Return the policy to use.

    Only policies whose every request fits the budget and is accepted by the provider's rules are
    candidates, unless none is. Among those on the cost/missed frontier, the cheapest within
    ``max_missed`` wins, or when none is within it the one that loses least, and ``why`` says so;
    without a limit, the one nearest to the best cost and the best missed at once.

    Raises:
        ConfigurationError: when nothing was measured.

    Examples:
        >>> from history_curator.lab import replay
        >>> talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        >>> recommend(replay([talk], ["no curation"], progress=False, executor="serial")).name
        'no curation'
    """
    measured = [each for each in results.policies.values() if each.measured and each.tokens_sent]
    if not measured:
        raise ConfigurationError(_why_nothing(results))
    sound = [each for each in measured if each.sound]
    ruled_out = tuple((each.name, _fault(each)) for each in measured if not each.sound)
    candidates = sound or measured
    line = frontier(candidates)
    if max_missed is None:
        chosen = min(line, key=lambda each: _distance(each, line))
    else:
        within = [each for each in line if each.missed <= max_missed]
        chosen = within[0] if within else line[-1]
    why = _why(chosen, line, ruled_out, sound=bool(sound), pricing=results.pricing)
    if max_missed is not None and (not sound or chosen.missed > max_missed):
        why = f"{_beyond(chosen, max_missed)} {why}"
    return Recommendation(
        name=chosen.name,
        why=why,
        frontier=tuple(each.name for each in line),
        ruled_out=ruled_out,
    )


def _why_nothing(results: ReplayResults) -> str:
    if not any(each.calls for each in results.policies.values()):
        return (
            "there was no call to replay: no message of the assistant follows another one. "
            "Fix: pass conversations that a model has answered."
        )
    if refused := next((each for each in results.policies.values() if each.failed), None):
        return f"no policy made a single request. {refused.name}: {refused.note}"
    return "no policy was measured. Fix: install the peers, or add a curator of your own."


def _beyond(chosen: PolicyResult, max_missed: float) -> str:
    return (
        f"No sound policy stays within a missed of {max_missed:.2%}; the closest is "
        f"{chosen.name} ({chosen.missed:.2%})."
    )


def _distance(each: PolicyResult, line: Sequence[PolicyResult]) -> float:
    """Return how far a policy is from the best cost and the best missed on the frontier."""
    costs, misses = [one.cost for one in line], [one.missed for one in line]
    span_cost = max(costs) - min(costs) or 1.0
    span_missed = max(misses) - min(misses) or 1.0
    cost = (each.cost - min(costs)) / span_cost
    missed = (each.missed - min(misses)) / span_missed
    return float((cost**2 + missed**2) ** 0.5)


def _fault(each: PolicyResult) -> str:
    faults = [
        f"{count:,} {what}"
        for count, what in (
            (each.invalid, "requests the provider refuses"),
            (each.over_budget, "requests over the budget"),
            (each.failed, "calls without a view"),
        )
        if count
    ]
    return ", ".join(faults)


def _why(
    chosen: PolicyResult,
    line: Sequence[PolicyResult],
    ruled_out: Sequence[tuple[str, str]],
    *,
    sound: bool,
    pricing: str,
) -> str:
    first = (
        f"Use {chosen.name}: cost {chosen.cost:.3f} ({pricing}), missed {chosen.missed:.2%}, "
        f"{chosen.cached_share:.0%} of its tokens repeat the request before."
    )
    said = [first]
    for other in line:
        if other is chosen:
            continue
        if other.cost < chosen.cost:
            said.append(
                f"{other.name} is cheaper ({other.cost:.3f}) but loses more ({other.missed:.2%})."
            )
        else:
            said.append(f"{other.name} loses less ({other.missed:.2%}) but costs {other.cost:.3f}.")
    if not sound:
        said.append(
            "No policy kept every request within budget and valid; this one is the least bad."
        )
    elif ruled_out:
        said.append(
            "Ruled out: " + "; ".join(f"{name} ({fault})" for name, fault in ruled_out) + "."
        )
    return " ".join(said)
