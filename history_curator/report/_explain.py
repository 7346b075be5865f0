"""The report as a table for a terminal, without any dependency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from history_curator.report._report import CurationReport

_HEADER = ("#", "role", "action", "tokens", "why", "by")


def explain(report: CurationReport, *, limit: int | None = None) -> str:
    """Return the summary and one line per decision; the newest `limit` of them, if given."""
    decisions = report.decisions if limit is None else report.decisions[-limit:]
    rows = [_HEADER]
    for decision in decisions:
        number = "+" if decision.index is None else str(decision.index)
        same = decision.tokens_before == decision.tokens_after
        tokens = (
            str(decision.tokens_before)
            if same
            else f"{decision.tokens_before}→{decision.tokens_after}"
        )
        rows.append(
            (number, decision.role, decision.action, tokens, decision.reason, decision.manager)
        )
    hidden = len(report.decisions) - len(decisions)
    lines = [_summary(report), *_table(rows)]
    if hidden:
        lines.insert(2, f"({hidden} earlier decisions not shown)")
    lines.extend(f"warning: {warning}" for warning in report.warnings)
    return "\n".join(lines)


def _summary(report: CurationReport) -> str:
    budget = "" if report.max_tokens is None else f" of {report.max_tokens}"
    actions = ", ".join(f"{count} {action}" for action, count in sorted(report.actions.items()))
    return (
        f"{report.curated_count} of {report.original_count} entries, "
        f"{report.tokens}{budget} tokens ({report.counter}, {report.provider}); "
        f"stable prefix {report.prefix_entries} entries, {report.prefix_tokens} tokens; "
        f"{actions or 'nothing to decide'}"
    )


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
