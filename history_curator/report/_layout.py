"""How counts, tables and pages without a script are laid out for people."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape

_STYLE = """
:root{color-scheme:light dark;--ink:light-dark(#171b22,#e8ecf2);--soft:light-dark(#586172,#9aa5b6);
--line:light-dark(#d9dee6,#2a313c);--bg:light-dark(#fff,#0f1217);--track:light-dark(#eef1f5,#1b212a);
--blue:light-dark(#3a56d4,#8fa5ff);--green:light-dark(#2c8a57,#5fc48e);
--yellow:light-dark(#b7791f,#e0b050);--red:light-dark(#b3324a,#f27d93);
--cyan:light-dark(#1d7f92,#5fc3d6)}
body{margin:0 auto;max-width:60rem;padding:1.5rem 1rem 4rem;background:var(--bg);color:var(--ink);
font:15px/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2.2rem 0 .4rem}p{margin:.4rem 0}
ul{padding-left:1.2rem}.soft{color:var(--soft);overflow-wrap:anywhere}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%}
th,td{padding:.3rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:500}
th:first-child,td:first-child{text-align:left;padding-left:0}
"""


def many(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples:
        >>> many(1, "call"), many(1_200, "call")
        ('1 call', '1,200 calls')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def html_cells(row: Iterable[str], tag: str = "td") -> str:
    """Return the cells of a row; text stays text."""
    return "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)


def html_table(head: str, rows: Iterable[str]) -> str:
    """Return a table of the cells of its head and of each row."""
    body = "".join(rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_page(title: str, body: str, style: str) -> str:
    """Return a complete document. Its content security policy lets nothing run or load.

    Args:
        title: of the document, as text.
        body: HTML in which everything that is not ours is escaped.
        style: what this page has beside the rules that all share.
    """
    rules = _STYLE + style
    digest = base64.b64encode(hashlib.sha256(rules.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} · History Curator</title><style>{rules}</style></head>"
        f"<body>{body}</body></html>\n"
    )
