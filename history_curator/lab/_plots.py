"""Pictures of a replay, with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from history_curator.errors import ConfigurationError
from history_curator.lab._extra import need
from history_curator.lab._results import frontier

if TYPE_CHECKING:
    from history_curator.lab._results import ReplayResults

_COLOURS = ("#3a56d4", "#c2542d", "#2b8a6f", "#a03f8d", "#a86a00", "#4b5563", "#b3324a", "#14797a")
_ROLES = {"system": "#6b7280", "user": "#3a56d4", "assistant": "#2b8a6f", "tool": "#d08a2d"}


def plot_tokens(results: ReplayResults, conversation: str | None = None, ax: Any = None) -> Any:
    """Draw the size of every request over one conversation, one line per policy.

    Args:
        results: what `replay` returned.
        conversation: the id of the conversation; by default the one with most calls.
        ax: matplotlib axes to draw on; by default new ones.

    Returns:
        The axes.
    """
    axes = _axes(ax)
    if conversation is None:
        some = max(results.tallies.values(), key=lambda each: sum(t.measured for t in each))
        conversation = max(some, key=lambda tally: tally.measured).conversation
    drawn = False
    for colour, (name, tallies) in zip(_cycle(len(results.tallies)), results.tallies.items(),
                                       strict=True):  # fmt: skip
        for tally in tallies:
            if tally.conversation == conversation and tally.tokens:
                axes.plot(tally.at, tally.tokens, label=name, color=colour, linewidth=1.6)
                drawn = True
    if not drawn:
        raise ConfigurationError(
            f"no policy was measured on conversation {conversation!r}. "
            "Fix: pass the id of a conversation that was replayed."
        )
    axes.set(xlabel="messages said", ylabel="tokens sent", title=f"Request size · {conversation}")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return axes


def plot_frontier(results: ReplayResults, ax: Any = None) -> Any:
    """Draw cost against missed; the line joins the policies nothing else beats on both.

    A policy that broke its budget or the provider's rules is drawn hollow.
    """
    axes = _axes(ax)
    measured = [each for each in results.policies.values() if each.measured]
    line = frontier(measured)
    axes.plot([each.cost for each in line], [100 * each.missed for each in line],
              color="#9aa3b2", linewidth=1, zorder=1)  # fmt: skip
    for colour, each in zip(_cycle(len(measured)), measured, strict=True):
        face = colour if each.sound else "none"
        axes.scatter(each.cost, 100 * each.missed, s=70, facecolor=face, edgecolor=colour,
                     linewidth=1.6, zorder=2)  # fmt: skip
    axes.margins(0.15)
    _label(axes, [(each.name, each.cost, 100 * each.missed) for each in measured])
    axes.set(xlabel=f"cost ({results.pricing})", ylabel="missed, % of what was needed later",
             title="Cost and missed (lower left is better)")  # fmt: skip
    return axes


def plot_composition(results: ReplayResults, ax: Any = None) -> Any:
    """Draw what each policy sent, by role."""
    axes = _axes(ax)
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


def _label(axes: Any, points: list[tuple[str, float, float]]) -> None:
    """Name the points, each at the first of six places where it covers no other name."""
    taken: list[tuple[float, float, float]] = []
    for name, x, y in points:
        at_x, at_y = axes.transData.transform((x, y))
        width = 6.5 * len(name)
        for up in (5, -14, 18, -27, 31, -40):
            left, low = at_x + 10, at_y + 1.4 * up
            if all(
                left > right or left + width < start or abs(low - height) > 14
                for start, right, height in taken
            ):
                break
        taken.append((left, left + width, low))
        axes.annotate(name, (x, y), xytext=(7, up), textcoords="offset points", fontsize=9)


def _cycle(count: int) -> list[str]:
    return [_COLOURS[index % len(_COLOURS)] for index in range(count)]


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    _, axes = need("matplotlib.pyplot").subplots(figsize=(8, 4.5), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return axes
