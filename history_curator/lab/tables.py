"""One table for the terminal, for text and for pages: its cells, and how they are drawn."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Table:
    """One table: the first column is text, the others are numbers.

    Attributes:
        title: a heading, or nothing.
        heads: the headings of the columns.
        rows: the cells of each row.
        text_last: whether the last column is text, too.
        faded: numbers of the rows that are drawn in grey.
    """

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
        last = len(self.heads) - 1
        for number, head in enumerate(self.heads):
            is_text = not number or (self.text_last and number == last)
            drawn.add_column(
                head,
                justify="left" if is_text else "right",
                no_wrap=not is_text,
                overflow="fold" if is_text else "ellipsis",
                min_width=8 if not number else None,
            )
        for number, row in enumerate(self.rows):
            cells = (_draw_bar(cell) if isinstance(cell, Bar) else Text(cell) for cell in row)
            drawn.add_row(*cells, style="bright_black" if number in self.faded else None)
        return drawn

    def __str__(self) -> str:
        import_extra("rich", "cli")
        from rich.console import Console

        console = Console(width=300, color_system=None, force_terminal=False)
        with console.capture() as captured:
            console.print(self.to_rich())
        return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _draw_bar(bar: Bar) -> Any:
    from rich.text import Text

    full = round(bar.percent / 100 * _BAR_WIDTH)
    return Text("█" * full, bar.colour) + Text("░" * (_BAR_WIDTH - full), "bright_black")


def count_of(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples:
        >>> count_of(1, "call"), count_of(1_200, "call")
        ('1 call', '1,200 calls')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def short_number(number: float) -> str:
    """Return a number of tokens in short, such as ``1.25M`` or ``980k``."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.2f}{unit}"
    return str(round(number))


def render_page(title: str, values: Mapping[str, Any]) -> str:
    """Return one self-contained HTML page; text from logs stays text, and no script runs.

    Args:
        title: the title of the document.
        values: ``heading``, ``subline``, ``sentences``, ``tables``, ``chart``, ``legend`` and
            ``notes``, each of which may be absent.
    """
    jinja2 = import_extra("jinja2", "cli")
    folder = files("history_curator.lab")
    style = (folder / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.ChainableUndefined
    )
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    page: str = template.render(
        title=title, style=style, policy=f"default-src 'none'; style-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'", **values,
    )  # fmt: skip
    return page
