"""The diagnosis as one self-contained page.

Names of tools and sessions come from logs and are not trusted: everything is escaped, the page has
no script, and its content security policy lets nothing run or load.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import TYPE_CHECKING

from history_curator.doctor._tables import (
    Bar,
    Shown,
    accuracy,
    headline,
    in_short,
    money,
    tables,
)

if TYPE_CHECKING:
    from history_curator.doctor._diagnosis import Diagnosis

_ROWS = 20
_STYLE = """
:root{color-scheme:light dark;--ink:light-dark(#171b22,#e8ecf2);--soft:light-dark(#586172,#9aa5b6);
--line:light-dark(#d9dee6,#2a313c);--bg:light-dark(#fff,#0f1217);--track:light-dark(#eef1f5,#1b212a);
--blue:light-dark(#3a56d4,#8fa5ff);--green:light-dark(#2c8a57,#5fc48e);
--yellow:light-dark(#b7791f,#e0b050);--red:light-dark(#b3324a,#f27d93);
--cyan:light-dark(#1d7f92,#5fc3d6)}
body{margin:0 auto;max-width:60rem;padding:1.5rem 1rem 4rem;background:var(--bg);color:var(--ink);
font:15px/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2.2rem 0 .4rem}
ul{padding-left:1.2rem}.soft{color:var(--soft);overflow-wrap:anywhere}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%}
th,td{padding:.3rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:500}
th:first-child,td:first-child,.text th:last-child,.text td:last-child{text-align:left}
th:first-child,td:first-child{padding-left:0}
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
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    models = ", ".join(f"{model} {calls:,}" for model, calls in found.models.items())
    sentences = "".join(f"<li>{escape(each)}</li>" for each in in_short(found))
    notes = [f"Calls by model: {models}.", accuracy(found), *found.problems]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Doctor · History Curator</title><style>{_STYLE}</style></head><body>"
        f"<h1>{money(found.cost['total'])} {escape(found.cost['unit'])}</h1>"
        f'<p class="soft">{escape(headline(found))}</p>'
        + (f"<ul>{sentences}</ul>" if sentences else "")
        + "".join(map(_section, tables(found, _ROWS)))
        + "".join(f'<p class="soft">{escape(note)}</p>' for note in notes if note)
        + "</body></html>\n"
    )


def _section(table: Shown) -> str:
    bars = {at for at, cell in enumerate(table.rows[0]) if isinstance(cell, Bar)}
    head = "".join(
        f'<th class="bar">{escape(each)}</th>' if at in bars else f"<th>{escape(each)}</th>"
        for at, each in enumerate(table.heads)
    )
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    kind = "scroll text" if table.text else "scroll"
    return (
        f'<h2>{escape(table.title)}</h2><div class="{kind}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _cell(cell: str | Bar) -> str:
    if isinstance(cell, str):
        return f"<td>{escape(cell)}</td>"
    width = max(0.0, min(1.0, cell.share)) * 100
    return (
        '<td class="bar"><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{cell.colour}" width="{width:.1f}" height="10"/></svg></td>'
    )
