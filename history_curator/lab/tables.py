"""One table for the terminal, for text and for pages."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from history_curator.lab.files import import_extra

if TYPE_CHECKING:
    from rich.table import Table as RichTable

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
