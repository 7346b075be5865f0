"""The diagnosis as one self-contained page.

Names of tools and sessions come from logs and are not trusted: everything is escaped, the page has
no script, and its content security policy lets nothing run or load.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from history_curator.doctor._tables import Bar, Shown, accuracy, headline, in_short, money, tables
from history_curator.report._layout import html_cells, html_page, html_table

if TYPE_CHECKING:
    from history_curator.doctor._diagnosis import Diagnosis

_ROWS = 20
_STYLE = """
.text th:last-child,.text td:last-child{text-align:left}
.text td:last-child{white-space:normal;overflow-wrap:anywhere;min-width:12rem;width:55%}
td.bar{width:30%}svg{display:block;width:100%;min-width:4rem;height:.7rem;
background:var(--track)}
.blue{fill:var(--blue)}.green{fill:var(--green)}.yellow{fill:var(--yellow)}.red{fill:var(--red)}
.cyan{fill:var(--cyan)}
@media(max-width:40rem){body{font-size:13px}th,td{padding:.3rem .2rem}td.bar,th.bar{display:none}
th:first-child,td:first-child{white-space:normal;overflow-wrap:anywhere;min-width:6rem}
.text tr{display:flex;flex-wrap:wrap;border-bottom:1px solid var(--line);padding:.2rem 0}
.text th,.text td{flex:1;border:0;padding-block:.1rem;white-space:normal}
.text th:last-child,.text td:last-child{flex:0 0 100%;padding-left:0}.text td:empty{display:none}}
"""


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
    return html_page("Doctor", body, _STYLE)


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
