"""The comparison as one self-contained page: the frontier as a picture, the table, the legend."""

from __future__ import annotations

from html import escape
from math import floor, log10
from typing import TYPE_CHECKING

from history_curator.lab._results import frontier
from history_curator.report_page import html_cells, html_page, html_table

if TYPE_CHECKING:
    from history_curator.lab._results import ReplayResults
from history_curator.lab._table import PolicyResult

_WIDTH, _HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 18, 48


def render_comparison(results: ReplayResults) -> str:
    """Return a complete HTML document; it loads nothing and runs nothing."""
    advice = results.recommend()
    table = html_table(
        html_cells(results.columns(full=True), "th"),
        (
            f'<tr class="{"" if each.sound else "bad"}">{html_cells(row)}</tr>'
            for row, each in zip(results.rows(full=True), results.policies.values(), strict=True)
        ),
    )
    legend = "".join(
        f"<dt>{escape(head)}</dt><dd>{escape(means)}</dd>"
        for head, means in results.legend(full=True).items()
    )
    notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in results.notes())
    body = (
        f"<h1>Use {escape(advice.name)}</h1><p>{escape(advice.why)}</p>"
        f'<p class="soft">{escape(results.about())}</p>{frontier_svg(results)}'
        f'<div class="scroll">{table}</div>'
        '<p class="soft">Hollow points and grey rows: at least one request was refused, over the '
        f"budget or missing.</p><dl>{legend}</dl>{notes}"
    )
    return html_page("Policies compared", body)


def frontier_svg(results: ReplayResults) -> str:
    """Return cost against missed as SVG; the line joins the policies on the frontier."""
    shown = [each for each in results.policies.values() if each.measured]
    most_cost = round_top(max((each.cost for each in shown), default=0) * 1.05 or 1.0)
    most_missed = round_top(max((each.missed for each in shown), default=0) * 1.05 or 0.01)

    def place(each: PolicyResult) -> tuple[float, float]:
        across = (_WIDTH - _LEFT - _RIGHT) * each.cost / most_cost
        down = (_HEIGHT - _TOP - _BOTTOM) * (1 - each.missed / most_missed)
        return _LEFT + across, _TOP + down

    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, frontier(shown)))
    parts = [_axes(results.pricing, most_cost, most_missed)]
    parts.append(f'<polyline class="front" points="{line}"/>')
    taken: list[tuple[float, float, float]] = []
    for each in shown:
        x, y = place(each)
        kind = "sound" if each.sound else "unsound"
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        parts.append(_label(each.name, x, y, taken))
    said = "Cost and missed of each policy; lower left is better"
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{said}">'
        f"<title>{said}</title>{''.join(parts)}</svg>"
    )


def _label(name: str, x: float, y: float, taken: list[tuple[float, float, float]]) -> str:
    """Name a point at the first height where it covers no other name."""
    width = 7.2 * len(name)
    right = x + width + 12 > _WIDTH
    start = x - 10 - width if right else x + 10
    low = y
    for shift in (-8, 8, -23, 23, -38, 38, -53, 53):
        low = min(max(y + shift, _TOP + 8), _HEIGHT - _BOTTOM - 4)
        if all(
            abs(low - other) > 13 or start > end or start + width < begin
            for begin, end, other in taken
        ):
            break
    taken.append((start, start + width, low))
    return f'<text class="name" x="{start:.1f}" y="{low + 4:.1f}">{escape(name)}</text>'


def round_top(most: float) -> float:
    """Return a round number a little above, so that the axis ends on it."""
    size = 10.0 ** floor(log10(most))
    return next(
        size * step for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if size * step >= most
    )


def _axes(pricing: str, most_cost: float, most_missed: float) -> str:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for step in range(5):
        x = _LEFT + (right - _LEFT) * step / 4
        y = bottom - (bottom - _TOP) * step / 4
        parts.append(
            f'<path class="axis" d="M{x:.1f} {_TOP}V{bottom}M{_LEFT} {y:.1f}H{right}"/>'
            f'<text class="tick" x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">'
            f"{most_cost * step / 4:.3g}</text>"
            f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{most_missed * step / 4:.1%}</text>"
        )
    parts.append(
        f'<text class="tick" x="{right}" y="{_HEIGHT - 10}" text-anchor="end">'
        f"cost ({escape(pricing)} prices) →</text>"
        f'<text class="tick" x="{_LEFT}" y="{_HEIGHT - 10}">↑ missed</text>'
    )
    return "".join(parts)
