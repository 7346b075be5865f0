"""``history-curator doctor``: what recorded sessions cost, and what else could have been done."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from history_curator.cli._show import console

if TYPE_CHECKING:
    from history_curator.doctor import Diagnosis
    from history_curator.doctor._tables import Bar, Shown

_WIDTH = 24
"""Characters of a full bar."""


def doctor(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Claude Code logs, JSON lines of requests with usage, LangSmith runs or "
            "OpenTelemetry spans; files or folders."
        ),
    ],
    *,
    budget: Annotated[
        list[int] | None,
        typer.Option("--budget", "-b", min=1, help="For what-if; repeat for several."),
    ] = None,
    peer: Annotated[
        list[str] | None, typer.Option(help="Another policy for what-if; repeat for several.")
    ] = None,
    what_if: Annotated[
        bool, typer.Option("--what-if/--no-what-if", help="Replay the sessions under policies.")
    ] = True,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, to standard output.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="JSON to a file.")] = None,
) -> None:
    """Say what recorded sessions cost and on what, where the cache was lost, and what if."""
    from history_curator.doctor import diagnose
    from history_curator.doctor._diagnosis import BUDGETS, PEERS
    from history_curator.lab._extra import progress_bar

    found = diagnose(
        paths,
        budgets=(budget or BUDGETS) if what_if else (),
        peers=peer if peer is not None else PEERS,
        progress=progress_bar,
    )
    if html is not None:
        found.to_html(html)
    if output is not None:
        found.to_json(output)
    if as_json:
        sys.stdout.write(found.to_json() + "\n")
        return
    _show(found)
    if html is not None:
        console().print(f"\nPage written: {escape(str(html))}", soft_wrap=True)


def _show(found: Diagnosis) -> None:
    from history_curator.doctor._tables import accuracy, headline, in_short, money, tables

    screen = console()
    screen.print(f"[bold]{headline(found)}: {money(found.cost['total'])}[/] {found.cost['unit']}")
    for sentence in in_short(found):
        screen.print(escape(sentence))
    for each in tables(found):
        screen.print(f"\n[bold]{each.title}[/]")
        screen.print(_drawn(each))
    if said := accuracy(found):
        screen.print(f"\n{said}", style="bright_black")
    for problem in found.problems:
        screen.print(escape(problem), style="yellow", soft_wrap=True)


def _drawn(shown: Shown) -> Table:
    from history_curator.doctor._tables import Bar

    table = Table(box=None, pad_edge=False, header_style="bright_black")
    for at, head in enumerate(shown.heads):
        text = shown.text and at == len(shown.heads) - 1
        table.add_column(
            head,
            justify="left" if text or not at else "right",
            no_wrap=not text,
        )
    for row in shown.rows:
        table.add_row(*(_bar(cell) if isinstance(cell, Bar) else Text(cell) for cell in row))
    return table


def _bar(bar: Bar) -> Text:
    full = round(max(0.0, min(1.0, bar.share)) * _WIDTH)
    return Text("█" * full, bar.colour) + Text("░" * (_WIDTH - full), "bright_black")
