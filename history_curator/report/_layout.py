"""How counts, tables and pages without a script are laid out for people."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

from history_curator.entries import write_private
from history_curator.report._html import asset, policy


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


def html_page(title: str, body: str) -> str:
    """Return a complete document of HTML in which everything that is not ours is escaped.

    Its content security policy lets nothing run or load.
    """
    style = asset("plain.css")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(style)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} · History Curator</title><style>{style}</style></head>"
        f"<body>{body}</body></html>\n"
    )


def written(text: str, path: str | Path | None) -> str:
    """Return a text, and write it where a path is given."""
    if path is not None:
        write_private(path, text + "\n")
    return text
