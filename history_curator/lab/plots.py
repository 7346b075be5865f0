"""Pictures of a replay: with matplotlib for a notebook, and as numbers for the page."""

from __future__ import annotations

from math import floor, log10
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.lab.files import import_extra
from history_curator.lab.results import ReplayResults, frontier

_ROLES = {"system": "#6b7280", "user": "#3a56d4", "assistant": "#2b8a6f", "tool": "#d08a2d"}


def plot_tokens(results: ReplayResults, conversation: str | None = None, ax: Any = None) -> Any:
    """Draw the size of every request over one conversation, one line for each policy.

    Args:
        results: the results of `replay`.
        conversation: the id of the conversation; by default the one with most calls.
        ax: matplotlib axes to draw on; by default new ones.

    Returns:
        The axes.
    """
    axes = _new_axes() if ax is None else ax
    if conversation is None:
        tallies = (tally for some in results.tallies.values() for tally in some)
        conversation = max(tallies, key=lambda tally: tally.measured).conversation
    for name, some in results.tallies.items():
        for tally in some:
            if tally.conversation == conversation and tally.tokens:
                axes.plot(tally.at, tally.tokens, label=name, linewidth=1.6)
    if not axes.get_lines():
        raise ConfigurationError(
            f"no policy was measured on conversation {conversation!r}. "
            "Fix: pass the id of a conversation that was replayed."
        )
    axes.set(xlabel="messages said", ylabel="tokens sent", title=f"Request size · {conversation}")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return axes


def plot_frontier(results: ReplayResults, ax: Any = None) -> Any:
    """Draw cost against missed; the line joins the policies that no other beats on both.

    A policy that broke its budget or the provider's rules is drawn hollow.
    """
    axes = _new_axes() if ax is None else ax
    measured = [each for each in results.policies.values() if each.measured]
    line = frontier(measured)
    axes.plot([each.cost for each in line], [100 * each.missed for each in line],
              color="#9aa3b2", linewidth=1, zorder=1)  # fmt: skip
    for number, each in enumerate(measured):
        colour, place = f"C{number}", (each.cost, 100 * each.missed)
        face = colour if each.sound else "none"
        axes.scatter(*place, s=70, facecolor=face, edgecolor=colour, linewidth=1.6, zorder=2)
        axes.annotate(each.name, place, xytext=(7, 5 - 12 * (number % 2)),
                      textcoords="offset points", fontsize=9)  # fmt: skip
    axes.margins(0.15)
    axes.set(xlabel=f"cost ({results.pricing})", ylabel="missed, % of what was needed later",
             title="Cost and missed (lower left is better)")  # fmt: skip
    return axes


def plot_composition(results: ReplayResults, ax: Any = None) -> Any:
    """Draw the tokens that each policy sent, by role."""
    axes = _new_axes() if ax is None else ax
    measured = [each for each in results.policies.values() if each.measured]
    left = [0.0] * len(measured)
    for role, colour in _ROLES.items():
        widths = [each.roles.get(role, 0) / 1e6 for each in measured]
        if any(widths):
            axes.barh([each.name for each in measured], widths, left=left, color=colour, label=role)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set(xlabel="million tokens sent", title="Composition by role")
    axes.legend(frameon=False)
    return axes


def _new_axes() -> Any:
    _, axes = import_extra("matplotlib.pyplot").subplots(figsize=(8, 4.5), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def round_top(most: float) -> float:
    """Return a round number a little above, so that an axis ends on it."""
    size = 10.0 ** floor(log10(most))
    steps = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)
    return next(size * step for step in steps if size * step >= most)


def frontier_chart(results: ReplayResults) -> dict[str, Any]:
    """Return cost against missed as the page draws it, 672 by 334 pixels from (64, 352) up."""
    shown = [each for each in results.policies.values() if each.measured]
    top_cost = round_top(max((each.cost for each in shown), default=0) * 1.05 or 1.0)
    top_missed = round_top(max((each.missed for each in shown), default=0) * 1.05 or 0.01)
    points: dict[str, dict[str, Any]] = {}
    free_y = 0.0
    for each in sorted(shown, key=lambda each: -each.missed):  # from the top of the picture down
        x = round(64 + 672 * each.cost / top_cost, 1)
        y = round(352 - 334 * each.missed / top_missed, 1)
        free_y = max(y - 4, free_y + 14)
        points[each.name] = {
            "name": each.name, "x": x, "y": y, "label_y": free_y, "is_sound": each.sound,
        }  # fmt: skip
    line = (points[each.name] for each in frontier(shown))
    ticks = [
        {"x": 64 + 168 * step, "y": 352 - 83.5 * step, "across": f"{top_cost * step / 4:.3g}",
         "up": f"{top_missed * step / 4:.1%}"}
        for step in range(5)
    ]  # fmt: skip
    return {
        "label": "Cost and missed of each policy; lower left is better",
        "points": list(points.values()),
        "line": " ".join(f"{point['x']},{point['y']}" for point in line),
        "ticks": ticks,
        "across": f"cost ({results.pricing} prices)",
        "up": "missed",
    }
