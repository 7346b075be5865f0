"""Rows, and how they are written: a table for the documentation and JSON for machines."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_COMPARE = {">=": operator.ge, "<=": operator.le}
_SIGN = {">=": "≥", "<=": "≤"}


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure has to reach."""

    sign: str
    bound: float

    def met(self, value: float) -> bool:
        """Whether a value reaches it."""
        return bool(_COMPARE[self.sign](value, self.bound))


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison.

    Attributes:
        work: what was done.
        against: the peer's call, or what the figure is measured against.
        value: the figure, through the core.
        unit: ``×``, ``%`` or nothing.
        adapter: the same figure through the adapter of the peer's framework.
        target: what the figure has to reach, if anything.
        sampled: how the peer was sampled, if it was.
        n: messages of the conversation.
        part: the section of the table.
    """

    work: str
    against: str
    value: float
    unit: str = "×"
    adapter: float | None = None
    target: Target | None = None
    sampled: str = ""
    n: int | None = None
    part: str = "peers"

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        return None if self.target is None else self.target.met(self.value)


@dataclass(slots=True)
class Results:
    """Everything one run found."""

    mode: str
    rows: list[Row] = field(default_factory=list)
    shares: list[tuple[str, float]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def add(self, *rows: Row) -> None:
        """Take up rows."""
        self.rows.extend(rows)

    def part(self, name: str) -> list[Row]:
        """The rows of a section."""
        return [row for row in self.rows if row.part == name]

    @property
    def targets(self) -> list[Row]:
        """The rows that have something to reach."""
        return [row for row in self.rows if row.target is not None]

    def to_json(self) -> str:
        """Everything, for machines."""
        rows = [{**asdict(row), "met": row.met} for row in self.rows]
        data = {
            "mode": self.mode,
            "versions": self.versions,
            "rows": rows,
            "shares": dict(self.shares),
        }
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        """The tables, each a section the documentation can include by name."""
        sections = {
            "targets": target_table(self.targets),
            "peers": peer_table(self.part("peers")),
            "floor": figure_table(self.part("floor")),
            "shares": share_table(self.shares),
            "how": self._how(),
        }
        return "\n".join(
            f"<!-- --8<-- [start:{name}] -->\n{text}\n<!-- --8<-- [end:{name}] -->\n"
            for name, text in sections.items()
        )

    def write(self, folder: Path) -> None:
        """Write both files."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "benchmarks.md").write_text(self.to_markdown(), encoding="utf-8")
        (folder / "benchmarks.json").write_text(self.to_json(), encoding="utf-8")

    def _how(self) -> str:
        listed = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"Measured with `{self.mode}`: {listed}."


def target_table(rows: Sequence[Row]) -> str:
    """What was to be reached, and whether it was."""
    return _table(
        ("work", "against", "to reach", "measured", ""),
        (
            (
                row.work,
                row.against,
                f"{_SIGN[row.target.sign]} {_number(row.target.bound, row.unit)}",
                _number(row.value, row.unit),
                "reached" if row.met else "**missed**",
            )
            for row in rows
            if row.target is not None
        ),
    )


def peer_table(rows: Sequence[Row]) -> str:
    """Every comparison with a peer: through the core / through its framework's adapter.

    One table per work, one column per length of the conversation.
    """
    tables = []
    for work in dict.fromkeys(row.work for row in rows):
        mine = [row for row in rows if row.work == work]
        lengths = sorted({row.n for row in mine if row.n})
        columns = [f"n = {n:,}" for n in lengths] or ["measured"]
        lines = []
        for against in dict.fromkeys(row.against for row in mine):
            cells = {row.n: row for row in mine if row.against == against}
            sampled = "; ".join(dict.fromkeys(r.sampled for r in cells.values() if r.sampled))
            shown = [_cell(cells.get(n)) for n in lengths or [None]]
            lines.append((against, *shown, sampled))
        head = (f"{work}, against", *columns, "sampled")
        tables.append(_table(head, lines))
    return "\n\n".join(tables)


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    through = [row.value] if row.adapter is None else [row.value, row.adapter]
    return " / ".join(_number(value, row.unit) for value in through)


def figure_table(rows: Sequence[Row]) -> str:
    """Figures of our own."""
    return _table(
        ("figure", "relative to", "measured"),
        ((row.work, row.against, _number(row.value, row.unit)) for row in rows),
    )


def share_table(shares: Sequence[tuple[str, float]]) -> str:
    """Where the time goes."""
    return _table(("step", "share"), ((name, f"{share:.0%}") for name, share in shares))


def _number(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value:.1%}"
    if value >= 100:
        digits = 10 ** (len(str(int(value))) - 3)
        return f"{round(value / digits) * digits:,}{unit}"
    return f"{value:.3g}{unit}"


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join(lines)
