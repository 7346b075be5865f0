"""The doctor as a gate: whether logs cost or miss more than those of a baseline, and which calls do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from history_curator.doctor.costs import MISSED, CostlyCall
from history_curator.doctor.diagnose import Diagnosis
from history_curator.errors import ConfigurationError
from history_curator.formats import parse_json
from history_curator.lab.files import read_text
from history_curator.lab.results import Findings, Table, percent

_MOST_CALLS = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether logs stay within what a baseline allows, in sentences, and the calls that explain it."""

    passed: bool
    sentences: Sequence[str]
    calls: Sequence[CostlyCall] = ()

    def describe(self) -> Findings:
        """Return the verdict in words and a table of the calls."""
        heading = "Within the baseline" if self.passed else "Worse than the baseline"
        rows = []
        for each in self.calls:
            cost = "–" if each.reason == MISSED else f"{each.amount:.4f}"
            rows.append((each.session[:36], str(each.call), each.reason, cost, each.detail))
        heads = ("session", "call", "because", "cost", "")
        tables = [Table("The calls that explain it", heads, rows, text_last=True)] if rows else []
        return Findings("Doctor", heading, self.sentences, tables)


def judge(
    found: Diagnosis, baseline: str | Path, *, max_cost: float = 0.05, max_missed: float = 0.01
) -> Verdict:
    """Compare a diagnosis with a baseline that ``doctor -o`` wrote.

    Logs differ in size, so the cost of a call is compared, which may rise by the share ``max_cost``.
    Missed is a share already, of what calls used that the host's own views left out; it may rise by
    ``max_missed``, 0.01 for a percentage point. It is known where policies were replayed.

    Raises:
        ConfigurationError: when the baseline cannot be compared with this diagnosis.
    """
    before = _read_baseline(str(baseline), found.cost["unit"])
    old, new = before["cost"]["total"] / before["calls"], found.cost["total"] / found.calls
    rise = new / old - 1 if old else float(new > 0)
    compared = f"A call costs {new:.5f} {found.cost['unit']}, in the baseline {old:.5f}"
    sentences = [f"{compared}: {rise:+.1%}, and {max_cost:+.1%} is allowed."]
    is_costly = rise > max_cost
    calls = _explain_rise(found, before) if is_costly else []
    if not (before["what_if"] and found.what_if):
        sentences.append("Missed is not compared: that needs what if in both.")
        return Verdict(not is_costly, sentences, calls)
    was, now = before["what_if"][0]["missed"], found.what_if[0].missed
    sentences.append(
        f"Calls missed {percent(now, 1)} of what they used, in the baseline {percent(was, 1)}; "
        f"{max_missed * 100:+g} percentage points are allowed."
    )
    is_lossy = now - was > max_missed
    if is_lossy and not is_costly:
        calls = [each for each in found.costly_calls if each.reason == MISSED]
    return Verdict(not (is_costly or is_lossy), sentences, calls)


def _explain_rise(found: Diagnosis, before: Mapping[str, Any]) -> list[CostlyCall]:
    """Return the most expensive calls of the reasons whose cost for each call rose most."""
    rises = {
        reason: cost / found.calls - before["spent"].get(reason, 0.0) / before["calls"]
        for reason, cost in found.spent.items()
    }
    ordered = sorted(rises, key=lambda reason: -rises[reason])
    by_reason = (each for reason in ordered for each in found.costly_calls if each.reason == reason)
    return list(by_reason)[:_MOST_CALLS]


def _read_baseline(path: str, unit: str) -> dict[str, Any]:
    """Return a diagnosis that was written as JSON."""
    fix = f"write one with: history-curator doctor LOGS -o {path}"
    try:
        data = parse_json(read_text(path))
        is_usable = data["calls"] > 0 and {"total", "unit"} <= data["cost"].keys()
        is_usable = is_usable and isinstance(data["what_if"], list) and bool(data["spent"])
    except (ValueError, KeyError, TypeError, AttributeError):
        is_usable = False
    if not is_usable:
        raise ConfigurationError(f"{path} is no baseline. Fix: {fix}.")
    if data["cost"]["unit"] != unit:
        known = f"{path} is in {data['cost']['unit']}, these logs are in {unit}"
        raise ConfigurationError(f"{known}. Fix: {fix}, with the same models and packages.")
    return dict(data)
