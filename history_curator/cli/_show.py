"""What people see in the terminal: tables, bars, and errors in one line."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from history_curator.errors import HistoryCuratorError
from history_curator.report_page import many

if TYPE_CHECKING:
    from history_curator.doctor import Diagnosis
    from history_curator.doctor._tables import Bar, Shown
    from history_curator.lab import ReplayResults
    from history_curator.report import CurationReport


NARROW = 60  # below this many columns a table leaves some out
_WIDTH = 24  # characters of a full bar

COLOURS = {
    "kept": "green", "truncated": "yellow", "cleared": "dark_orange", "dropped": "red",
    "merged": "cyan", "moved": "blue", "inserted": "magenta", "summarised": "magenta",
    "repaired": "cyan",
}  # fmt: skip


def summary_panel(report: CurationReport, title: str) -> Panel:
    """Return the numbers of a curation and its budget bar."""
    body = Text()
    body.append(
        f"{many(report.original_count, 'message')}, {report.tokens_before:,} tokens on record\n"
    )
    body.append(
        f"{many(report.curated_count, 'message')}, {report.tokens:,} tokens in the view", "bold"
    )
    if report.max_tokens:
        body.append(f" of {report.max_tokens:,}\n")
        body.append_text(budget_bar(report))
    body.append(
        f"\nstable prefix: {many(report.prefix_entries, 'message')}, "
        f"{report.prefix_tokens:,} tokens\n"
    )
    for action, count in sorted(report.actions.items(), key=lambda item: -item[1]):
        body.append(f"{count} {action}  ", COLOURS.get(action, "white"))
    for warning in report.warnings:
        body.append(f"\nwarning: {warning}", "yellow")
    return Panel(body, title=escape(title), title_align="left", border_style="blue", expand=False)


def budget_bar(report: CurationReport, width: int = 56) -> Text:
    """Return how full the view is: the stable prefix darker, the rest lighter."""
    whole = max(report.max_tokens or 0, report.tokens, 1)
    used = round(width * report.tokens / whole)
    stable = min(used, round(width * report.prefix_tokens / whole))
    bar = Text()
    bar.append("█" * stable, "blue")
    bar.append("█" * (used - stable), "cyan")
    bar.append("░" * (width - used), "bright_black")
    bar.append(f" {report.tokens / whole:.0%}")
    return bar


def decision_table(report: CurationReport, *, narrow: bool = False) -> Table:
    """Return one row per decision; a narrow one says neither why nor what."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right", no_wrap=True, min_width=3)
    table.add_column("role", no_wrap=True, min_width=9)
    table.add_column("decision", no_wrap=True, min_width=10)
    table.add_column("tokens", justify="right", no_wrap=True, min_width=12)
    if not narrow:
        table.add_column("why", no_wrap=True, overflow="ellipsis", max_width=36)
        table.add_column("text")  # the only column that gives way
    for row in report.to_dict()["decisions"]:
        action = row["action"]
        cells = (
            "+" if row["index"] is None else str(row["index"]),
            row["role"],
            Text(action, COLOURS.get(action, "white")),
            _tokens(row["tokens_before"], row["tokens_after"]),
            Text("" if action == "kept" else row["reason"]),
            Text(
                _preview(row),
                "bright_black" if action == "dropped" else "",
                no_wrap=True,
                overflow="ellipsis",
            ),
        )
        table.add_row(*cells[: len(table.columns)])
    return table


def _tokens(before: int, after: int) -> str:
    return f"{after:,}" if before == after else f"{before:,} → {after:,}"


def _preview(row: Mapping[str, Any]) -> str:
    text = " ".join(str(row.get("before") or row.get("after") or "")[:200].split())
    calls = ", ".join(f"{call['name']}({call['arguments']})" for call in row["tool_calls"])
    return (text or calls)[:120]


def numbers(heads: Sequence[str], *, no_wrap: bool = False, **style: Any) -> Table:
    """Return an empty table; the first column is read, the others are numbers."""
    table = Table(**{"box": None, "pad_edge": False, "header_style": "bold", **style})
    for at, head in enumerate(heads):
        wraps = not (at or no_wrap)
        table.add_column(head, justify="right" if at else "left", no_wrap=not wraps,
                         overflow="fold" if wraps else "ellipsis",
                         min_width=8 if wraps else None)  # fmt: skip
    return table


def violation_table(found: Sequence[tuple[str, Any]], provider: str) -> Table:
    """Return one row per violation: which conversation, where, which rule, what to do."""
    table = Table(title=f"Refused by {provider}", title_justify="left", header_style="bold")
    for name in ("conversation", "message", "rule", "what is wrong"):
        table.add_column(name, overflow="fold")
    for conversation, violation in found:
        index = getattr(violation, "index", None)
        table.add_row(escape(conversation), "–" if index is None else str(index),
                      escape(str(violation.rule)), escape(str(violation.message)))  # fmt: skip
    return table


class Screen(Console):
    """A console that leaves a closed pipe to `history_curator.cli.main`."""

    def on_broken_pipe(self) -> None:
        """Pass the error on instead of ending with exit code 1."""
        raise BrokenPipeError


def console(stderr: bool = False) -> Console:
    """Return a console; messages for people go to standard error when data goes to standard out.

    Where the output is no terminal it is 140 columns wide, unless ``COLUMNS`` says otherwise.
    """
    screen = Screen(stderr=stderr, highlight=False)
    if screen.is_terminal or os.environ.get("COLUMNS"):
        return screen
    return Screen(stderr=stderr, highlight=False, width=140)


_SPARED = ("sent", "cached")  # on a narrow terminal


def print_results(results: ReplayResults, *, full: bool = False) -> None:
    """Print the columns that decide, or all of them, within 80 columns where they fit."""
    screen = console()
    advice = results.recommend()  # where there is nothing to compare, it says why
    left_out = _SPARED if screen.width < NARROW and not full else ()
    screen.print(results_table(results, full=full, left_out=left_out))
    legend = Table.grid(padding=(0, 1))
    for head, means in results.legend(full=full).items():
        if head not in left_out:
            legend.add_row("", head, means, style="bright_black")
    screen.print(legend)
    screen.print(Text(" grey rows have faults and are not on the frontier", "bright_black"))
    for note in results.notes():
        screen.print(Padding(Text(note, "bright_black"), (0, 0, 0, 1)))
    screen.print(f"\nOn the cost/missed frontier: {escape(', '.join(results.frontier()))}.")
    screen.print(escape(advice.why))


def results_table(
    results: ReplayResults, *, full: bool = False, left_out: Collection[str] = ()
) -> Table:
    """Return the table of a replay, without the columns left out."""
    heads = results.columns(full=full)
    table = numbers(
        [head for head in heads if head not in left_out], title=results.about(),
        title_justify="left", box=SIMPLE_HEAD, pad_edge=True, padding=(0, 1, 0, 0),
    )  # fmt: skip
    rows = zip(results.rows(full=full), results.policies.values(), strict=True)
    for row, each in rows:
        cells = (cell for head, cell in zip(heads, row, strict=True) if head not in left_out)
        table.add_row(*map(escape, cells), style=None if each.sound else "bright_black")
    return table


Command = TypeVar("Command", bound=Callable[..., Any])


def friendly(command: Command) -> Command:
    """Turn the library's errors and missing files into one line and exit code 2."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:
            raise
        except (HistoryCuratorError, OSError, ImportError, RecursionError) as error:
            console(stderr=True).print(f"[red]error:[/red] {_plain(error)}", soft_wrap=True)
            raise typer.Exit(2) from error

    return run  # type: ignore[return-value]


def _plain(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        named = f"{error.filename}: " if error.filename is not None else ""
        return escape(f"{named}{error.strerror}.")
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply. Fix: pass messages, not what they were wrapped in."
    return escape(str(error))


def print_diagnosis(found: Diagnosis) -> None:
    """Print the sentences and the tables of a diagnosis."""
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

    table = numbers(shown.heads, header_style="bright_black", no_wrap=True)
    if shown.text:
        table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    for row in shown.rows:
        table.add_row(*(_bar(cell) if isinstance(cell, Bar) else Text(cell) for cell in row))
    return table


def _bar(bar: Bar) -> Text:
    full = round(max(0.0, min(1.0, bar.share)) * _WIDTH)
    return Text("█" * full, bar.colour) + Text("░" * (_WIDTH - full), "bright_black")
