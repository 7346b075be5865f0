"""``history-curator doctor``: what recorded sessions cost, and what else could have been done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from history_curator.cli._show import console, many

if TYPE_CHECKING:
    from history_curator.doctor import Diagnosis

__all__ = ["doctor"]

_COLOURS = {"cache_read": "green", "cache_write": "yellow", "input": "red", "output": "cyan"}
_NAMES = {
    "cache_read": "read from the cache",
    "cache_write": "written to the cache",
    "input": "input at the plain price",
    "output": "answers",
}


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

    found = diagnose(
        paths,
        budgets=(budget or BUDGETS) if what_if else (),
        peers=peer if peer is not None else PEERS,
        progress=_progress,
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


@contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)


def _show(found: Diagnosis) -> None:
    screen = console()
    side = f" ({many(found.side_sessions, 'side chain')})" if found.side_sessions else ""
    screen.print(
        f"[bold]{many(found.calls, 'call')}[/] in {many(found.sessions, 'session')}{side}: "
        f"[bold]{_money(found.cost['total'])}[/] {found.cost['unit']}"
    )
    for title, table in (
        ("What was spent", _spent(found)),
        ("What the prompts were made of", _kinds(found)),
        ("By tool: calls and results", _tools(found)),
        ("Why the cache was lost", _busts(found)),
        ("Where the host summarised", _losses(found)),
        ("What if", _policies(found)),
    ):
        if table.row_count:
            screen.print(f"\n[bold]{title}[/]")
            screen.print(table)
    _accuracy(found)
    for problem in found.problems:
        screen.print(escape(problem), style="yellow", soft_wrap=True)


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bright_black")
    for position, head in enumerate(heads):
        table.add_column(head, justify="right" if position else "left", overflow="fold")
    return table


def _money(cost: float) -> str:
    return f"{cost:,.2f}" if cost >= 1 or not cost else f"{cost:.4f}"


def _bar(share: float, colour: str = "blue", width: int = 24) -> Text:
    full = round(max(0.0, min(1.0, share)) * width)
    return Text("█" * full, colour) + Text("░" * (width - full), "bright_black")


def _spent(found: Diagnosis) -> Table:
    table = _table("", "tokens", "cost", "", "")
    total = found.cost["total"] or 1.0
    for key, name in _NAMES.items():
        cost = found.cost[key]
        share = cost / total
        table.add_row(
            name,
            f"{found.usage[key]:,}",
            _money(cost),
            f"{share:.0%}",
            _bar(share, _COLOURS[key]),
        )
    return table


def _kinds(found: Diagnosis) -> Table:
    table = _table("", "tokens", "", "")
    total = sum(found.kinds.values()) or 1
    for name, tokens in found.kinds.items():
        if tokens:
            table.add_row(name, f"{tokens:,}", f"{tokens / total:.1%}", _bar(tokens / total))
    return table


def _tools(found: Diagnosis) -> Table:
    table = _table("", "tokens", "", "", "no longer used")
    for each in found.tools[:10]:
        unused = f"{each.unused / each.tokens:.0%}" if each.tokens else ""
        table.add_row(
            Text(each.name), f"{each.tokens:,}", f"{each.share:.1%}", _bar(each.share), unused
        )
    return table


def _busts(found: Diagnosis) -> Table:
    from history_curator.doctor._page import reasons

    table = _table("", "calls", "tokens", "cost", "of all", "")
    total = found.cost["total"] or 1.0
    for reason, (calls, tokens, cost) in reasons(found).items():
        share = cost / total
        table.add_row(
            reason, f"{calls:,}", f"{tokens:,}", _money(cost), f"{share:.1%}", _bar(share, "red")
        )
    return table


def _losses(found: Diagnosis) -> Table:
    table = _table("session", "call", "messages left", "tokens", "needed later")
    worst = sorted(found.losses, key=lambda each: -len(each.needed))[:5]
    for each in worst:
        named = ", ".join(" ".join(value.split())[:40] for value in each.needed[:2])
        said = f"{len(each.needed)}: {named}" if each.needed else "nothing"
        table.add_row(
            Text(each.session[:20]), str(each.call), f"{each.messages:,}", f"{each.tokens:,}",
            Text(said, overflow="ellipsis", no_wrap=True),
        )  # fmt: skip
    return table


def _policies(found: Diagnosis) -> Table:
    table = _table("policy", "budget", "cost", "of as it was", "regret", "")
    was = found.cost["total"] or 1.0
    for each in found.policies:
        budget = f"{each.budget:,}" if each.budget else "–"
        table.add_row(
            each.policy, budget, _money(each.cost), f"{each.cost / was:.0%}",
            f"{each.regret:.1%}", Text(each.note[:60], "yellow"),
        )  # fmt: skip
    return table


def _accuracy(found: Diagnosis) -> None:
    from history_curator.doctor._diagnosis import percentile

    said = []
    if found.usage["cache_read"]:
        share = found.simulated_read / found.usage["cache_read"]
        said.append(f"simulated reads are {share:.1%} of the reported ones")
    if found.prediction_errors:
        half, most = (percentile(found.prediction_errors, each) for each in (0.5, 0.95))
        said.append(f"the next prompt is predicted within {half:.2%} (p50), {most:.2%} (p95)")
    if said:
        text = "; ".join(said)
        console().print(f"\n{text[0].upper()}{text[1:]}.", style="bright_black")
