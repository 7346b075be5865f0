"""The comparison as one self-contained page: the frontier as a picture, the table, the legend."""

from __future__ import annotations

import html
from collections.abc import Sequence
from math import floor, log10
from typing import TYPE_CHECKING

from history_curator.lab._recommend import frontier

if TYPE_CHECKING:
    from history_curator.lab._results import PolicyResult, ReplayResults

_WIDTH, _HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 18, 48
_STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#171b22, #e8ecf2);
  --soft: light-dark(#586172, #9aa5b6); --line: light-dark(#d9dee6, #2a313c);
  --bg: light-dark(#ffffff, #0f1217); --sound: light-dark(#3a56d4, #8fa5ff);
  --unsound: light-dark(#b3324a, #f27d93); }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: var(--bg); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; } p { margin: .4rem 0; } .soft { color: var(--soft); }
svg { width: 100%; height: auto; font: 13px system-ui, sans-serif; }
.axis { stroke: var(--line); } .tick { fill: var(--soft); font-size: 12px; }
.front { fill: none; stroke: var(--soft); stroke-dasharray: 4 3; }
.sound { fill: var(--sound); } .unsound { fill: none; stroke: var(--unsound); stroke-width: 2; }
.name { fill: var(--ink); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; } th:first-child, td:first-child { text-align: left; }
tr.bad td { color: var(--soft); } dl { display: grid; grid-template-columns: max-content 1fr;
  gap: .1rem 1rem; color: var(--soft); } dt { color: var(--ink); } dd { margin: 0; }
"""


def render_comparison(results: ReplayResults) -> str:
    """Return a complete HTML document; it loads nothing and runs nothing."""
    advice = results.recommend()
    heads, rows = results.columns(full=True), results.rows(full=True)
    body = "".join(
        f'<tr class="{"" if each.sound else "bad"}">' + _cells(row, "td") + "</tr>"
        for row, each in zip(rows, results.policies.values(), strict=True)
    )
    legend = "".join(
        f"<dt>{html.escape(head)}</dt><dd>{html.escape(means)}</dd>"
        for head, means in results.legend(full=True).items()
    )
    notes = "".join(f'<p class="soft">{html.escape(note)}</p>' for note in results.notes())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Policies compared · History Curator</title><style>{_STYLE}</style></head><body>"
        f"<h1>Use {html.escape(advice.name)}</h1><p>{html.escape(advice.why)}</p>"
        f'<p class="soft">{html.escape(results.about())}</p>{frontier_svg(results)}'
        f'<div class="scroll"><table><thead><tr>{_cells(heads, "th")}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
        '<p class="soft">Hollow points and grey rows: at least one request was refused, over the '
        f"budget or missing.</p><dl>{legend}</dl>{notes}</body></html>\n"
    )


def _cells(row: Sequence[str], tag: str) -> str:
    return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)


def frontier_svg(results: ReplayResults) -> str:
    """Return cost against regret as SVG; the line joins the policies on the frontier."""
    shown = [each for each in results.policies.values() if each.measured]
    most_cost = round_top(max((each.cost for each in shown), default=0) * 1.05 or 1.0)
    most_regret = round_top(max((each.regret for each in shown), default=0) * 1.05 or 0.01)

    def place(each: PolicyResult) -> tuple[float, float]:
        across = (_WIDTH - _LEFT - _RIGHT) * each.cost / most_cost
        down = (_HEIGHT - _TOP - _BOTTOM) * (1 - each.regret / most_regret)
        return _LEFT + across, _TOP + down

    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, frontier(shown)))
    parts = [_axes(results.pricing, most_cost, most_regret)]
    parts.append(f'<polyline class="front" points="{line}"/>')
    taken: list[tuple[float, float, float]] = []
    for each in shown:
        x, y = place(each)
        kind = "sound" if each.sound else "unsound"
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        parts.append(_label(each.name, x, y, taken))
    said = "Cost and regret of each policy; lower left is better"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{said}">'
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
    return f'<text class="name" x="{start:.1f}" y="{low + 4:.1f}">{html.escape(name)}</text>'


def round_top(most: float) -> float:
    """Return a round number a little above, so that the axis ends on it."""
    size = 10.0 ** floor(log10(most))
    return next(
        size * step for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if size * step >= most
    )


def _axes(pricing: str, most_cost: float, most_regret: float) -> str:
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
            f"{most_regret * step / 4:.1%}</text>"
        )
    parts.append(
        f'<text class="tick" x="{right}" y="{_HEIGHT - 10}" text-anchor="end">'
        f"cost ({html.escape(pricing)} prices) →</text>"
        f'<text class="tick" x="{_LEFT}" y="{_HEIGHT - 10}">↑ regret</text>'
    )
    return "".join(parts)
