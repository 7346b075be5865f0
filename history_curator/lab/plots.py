"""Pictures of a replay, with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from history_curator.errors import ConfigurationError
from history_curator.lab.files import import_extra

if TYPE_CHECKING:
    from history_curator.lab.results import ReplayResults


def plot_tokens(results: ReplayResults, conversation: str | None = None, ax: Any = None) -> Any:
    """Draw the size of every request over one conversation, one line for each policy.

    The conversation is named by its id; by default it is the one with most calls.
    """
    axes = _new_axes() if ax is None else ax
    tallies = [(name, tally) for name, some in results.tallies.items() for tally in some]
    if conversation is None:
        conversation = max((tally for _, tally in tallies), key=lambda t: t.measured).conversation
    for name, tally in tallies:
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
    line = [results[name] for name in results.frontier()]
    axes.plot([p.cost for p in line], [100 * p.missed for p in line], color="#9aa3b2", linewidth=1)
    for number, each in enumerate(each for each in results.policies.values() if each.measured):
        colour, place = f"C{number}", (each.cost, 100 * each.missed)
        face = colour if each.sound else "none"
        axes.scatter(*place, s=70, facecolor=face, edgecolor=colour, linewidth=1.6, zorder=2)
        offset = (7, 5 - 12 * (number % 2))
        axes.annotate(each.name, place, xytext=offset, textcoords="offset points", fontsize=9)
    axes.margins(0.15)
    axes.set(xlabel=f"cost ({results.pricing})", ylabel="missed, % of what was needed later")
    axes.set_title("Cost and missed (lower left is better)")
    return axes


def _new_axes() -> Any:
    _, axes = import_extra("matplotlib.pyplot").subplots(figsize=(8, 4.5), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return axes
