"""One table for the terminal, for text and for pages; and plots of a replay."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from history_curator.lab.files import import_extra

if TYPE_CHECKING:
    from rich.table import Table as RichTable


from typing import TYPE_CHECKING

from history_curator.errors import ConfigurationError

if TYPE_CHECKING:
    from history_curator.lab.results import ReplayResults


_BAR_WIDTH = 24


class Bar(NamedTuple):
    """A share of one, drawn as a bar."""

    share: float
    colour: str = "blue"

    @property
    def percent(self) -> float:
        """The share in per cent, from 0 to 100."""
        return 100 * max(0.0, min(1.0, self.share))


class Table(NamedTuple):
    """A first column of text, columns of numbers, a last one of text where ``text_last`` says so."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | Bar]]
    text_last: bool = False
    faded: frozenset[int] = frozenset()

    def to_rich(self, **style: Any) -> RichTable:
        """Return the table as rich draws it."""
        from rich.table import Table as RichTable
        from rich.text import Text

        options: dict[str, Any] = {"box": None, "pad_edge": False, "header_style": "bold"}
        drawn = RichTable(**{**options, "title_justify": "left", **style})
        texts = {0, len(self.heads) - 1} if self.text_last else {0}
        for number, head in enumerate(self.heads):
            if number in texts:
                drawn.add_column(head, overflow="fold", min_width=None if number else 8)
            else:
                drawn.add_column(head, justify="right", no_wrap=True)
        for number, row in enumerate(self.rows):
            cells = []
            for cell in row:
                full = 0 if isinstance(cell, str) else round(cell.percent / 100 * _BAR_WIDTH)
                cells.append(
                    Text(cell)
                    if isinstance(cell, str)
                    else Text("█" * full, cell.colour).append("░" * (_BAR_WIDTH - full), "grey50")
                )
            drawn.add_row(*cells, style="bright_black" if number in self.faded else None)
        return drawn

    def to_text(self) -> str:
        """Return the table as plain lines."""
        console = import_extra("rich.console", "cli").Console(width=300, color_system=None)
        with console.capture() as captured:
            console.print(self.to_rich())
        return "\n".join(line.rstrip() for line in captured.get().splitlines())


def count_of(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 call`` or ``1,200 calls``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def short_number(number: float) -> str:
    """Return a number of tokens in short, such as ``1.25M`` or ``980.00k``."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.2f}{unit}"
    return str(round(number))


def render_page(title: str, values: Mapping[str, Any]) -> str:
    """Return one HTML page without scripts; text from logs stays text.

    Args:
        title: the title of the document.
        values: any of ``heading subline sentences chart tables legend notes``.
    """
    jinja2, folder = import_extra("jinja2", "cli"), files("history_curator.lab")
    style = (folder / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.ChainableUndefined)
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    page: str = template.render(title=title, style=style, policy=policy, **values)
    return page


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
