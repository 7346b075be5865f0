"""The diagnosis as one self-contained page.

Names of tools and sessions come from logs and are not trusted: everything is escaped, the page has
no script, and its content security policy lets nothing run or load.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from history_curator.doctor._tables import Bar, Shown, accuracy, headline, in_short, money, tables
from history_curator.report_page import html_cells, html_page, html_table

if TYPE_CHECKING:
    from history_curator.doctor._diagnosis import Diagnosis

_ROWS = 20


def render_page(found: Diagnosis) -> str:
    """Return a complete HTML document; the same string for the same diagnosis."""
    models = ", ".join(f"{model} {calls:,}" for model, calls in found.models.items())
    sentences = "".join(f"<li>{escape(each)}</li>" for each in in_short(found))
    notes = [f"Calls by model: {models}.", accuracy(found), *found.problems]
    body = (
        f"<h1>{money(found.cost['total'])} {escape(found.cost['unit'])}</h1>"
        f'<p class="soft">{escape(headline(found))}</p>'
        + (f"<ul>{sentences}</ul>" if sentences else "")
        + "".join(map(_section, tables(found, _ROWS)))
        + "".join(f'<p class="soft">{escape(note)}</p>' for note in notes if note)
    )
    return html_page("Doctor", body)


def _section(table: Shown) -> str:
    head = "".join(
        f'<th class="bar">{escape(head)}</th>'
        if isinstance(cell, Bar)
        else html_cells([head], "th")
        for head, cell in zip(table.heads, table.rows[0], strict=True)
    )
    rows = (f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    kind = "scroll text" if table.text else "scroll"
    return f'<h2>{escape(table.title)}</h2><div class="{kind}">{html_table(head, rows)}</div>'


def _cell(cell: str | Bar) -> str:
    if isinstance(cell, str):
        return html_cells([cell])
    width = max(0.0, min(1.0, cell.share)) * 100
    return (
        '<td class="bar"><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{cell.colour}" width="{width:.1f}" height="10"/></svg></td>'
    )
