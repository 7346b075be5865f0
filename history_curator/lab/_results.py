"""What a replay found: one row per policy, as text, table, DataFrame or JSON."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from history_curator.lab._measure import Tally, tally_to_dict
from history_curator.lab._table import as_text, columns_of
from history_curator.model import write_private

if TYPE_CHECKING:
    from history_curator.lab._recommend import Recommendation


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
    def regret(self) -> float:
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
        return {**row, "regret": self.regret, "edits_share": self.edits_share, "costs": dict(self.costs),
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
    total: dict[str, int] = {}
    for each in counts:
        for key, value in each.items():
            total[key] = total.get(key, 0) + value
    return dict(sorted(total.items()))


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
        text = json.dumps(self.to_dict(), indent=2)
        if path is not None:
            write_private(path, text + "\n")
        return text

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the table as Markdown, and write it to ``path`` when one is given."""
        heads = self.columns(full=True)
        rules = ["---", *["---:"] * (len(heads) - 1)]
        lines = ["| " + " | ".join(row) + " |" for row in (heads, rules, *self.rows(full=True))]
        lines += ["", *(f"- {note}" for note in self.notes())]
        text = "\n".join(lines)
        if path is not None:
            write_private(path, text + "\n")
        return text

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained page with the frontier, the table and its legend."""
        from history_curator.lab._page import render_comparison

        return write_private(path, render_comparison(self))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per policy.

        Raises:
            ImportError: with the command that installs pandas.
        """
        from history_curator.lab._extra import need

        pandas = need("pandas")
        rows = [result.to_dict() for result in self.policies.values()]
        for row in rows:
            for nested in ("costs", "violations", "roles"):
                for key, value in row.pop(nested).items():
                    row[f"{nested}.{key}"] = value
        return pandas.DataFrame(rows).set_index("name")

    def to_parquet(self, path: str | Path) -> None:
        """Write one row per policy and conversation as Parquet, to a file or an object store.

        Dict-valued fields become columns such as ``costs.anthropic``; ``tokens`` and ``at`` are
        lists with one number a call.

        Raises:
            ImportError: with the command that installs pyarrow.
        """
        from history_curator.lab._extra import need

        arrow, parquet = need("pyarrow", "scale"), need("pyarrow.parquet", "scale")
        rows = []
        for name, tallies in self.tallies.items():
            for tally in tallies:
                row: dict[str, Any] = {"policy": name}
                for key, value in tally_to_dict(tally).items():
                    if isinstance(value, Mapping):
                        row.update({f"{key}.{inner}": one for inner, one in value.items()})
                    else:
                        row[key] = value
                rows.append(row)
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
        """Return the sound policies no other beats on both cost and regret, cheapest first."""
        from history_curator.lab._recommend import frontier

        return [e.name for e in frontier([e for e in self.policies.values() if e.measured])]

    def recommend(self, max_regret: float | None = None) -> Recommendation:
        """Name the policy to use and say why; see `recommend`."""
        from history_curator.lab._recommend import recommend

        return recommend(self, max_regret=max_regret)

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
            f"{_many(len(next(iter(self.tallies.values()), ())), 'conversation')} "
            f"in {self.seconds:.1f} s"
        )

    def notes(self) -> list[str]:
        """Return what the table does not say: what was needed, and what went wrong."""
        talks = next(iter(self.tallies.values()), ())  # what is added up is the same for each
        needed = (
            f"{_many(sum(each.calls for each in talks), 'call')} in "
            f"{_many(len(talks), 'conversation')}; later calls used "
            f"{_many(sum(each.said_before for each in talks), 'identifier')} said before, "
            f"repeated {_many(sum(each.made_again for each in talks), 'call')} and edited "
            f"{_many(sum(each.edited for each in talks), 'time')}"
        )
        wrong = [f"{each.name}: {each.note}" for each in self.policies.values() if each.note]
        return [needed, *wrong]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "\n".join([*as_text(self.columns(), self.rows()), *self.notes()])

    def _repr_html_(self) -> str:
        def row(cells: Sequence[str], tag: str) -> str:
            return (
                "<tr>" + "".join(f"<{tag}>{html.escape(each)}</{tag}>" for each in cells) + "</tr>"
            )

        body = "".join(row(cells, "td") for cells in self.rows())
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes())
        return (
            f"<table><thead>{row(self.columns(), 'th')}</thead><tbody>{body}</tbody></table>{notes}"
        )


def _name(each: PolicyResult) -> str:
    if not each.measured:
        return f"{each.name} (skipped)"
    return each.name + (f" ({each.sampled:.0%} of calls)" if each.sampled < 1 else "")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
