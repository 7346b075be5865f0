"""The commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.table import Table

from history_curator.cli._files import (
    StoredConversation,
    naming,
    read_conversations,
    read_file,
    write_text,
)
from history_curator.cli._show import (
    console,
    decision_table,
    many,
    results_table,
    summary_panel,
    violation_table,
)
from history_curator.errors import HistoryCuratorError

__all__ = ["app"]

app = typer.Typer(
    name="history-curator",
    help="Keep the whole conversation; send the model a view that fits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Command = TypeVar("Command", bound=Callable[..., Any])
File = Annotated[str, typer.Argument(help="JSON, JSON lines or gzip; - is standard input.")]
Files = Annotated[list[str], typer.Argument(help="JSON, JSON lines or gzip; - is standard input.")]
Budget = Annotated[int | None, typer.Option("--max-tokens", "-n", min=1, help="The budget.")]
Provider = Annotated[str, typer.Option("--provider", "-p", help="Whose rules hold.")]
Counter = Annotated[str, typer.Option("--counter", help="An encoding or a model name.")]
OwnProvider = Annotated[
    str | None,
    typer.Option("--provider", "-p", help="Whose rules hold.", show_default="core, or --config"),
]
OwnCounter = Annotated[
    str | None,
    typer.Option(
        "--counter", help="An encoding or a model name.", show_default="o200k_base, or --config"
    ),
]
Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML or TOML of a whole curator.")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write.")]
Which = Annotated[int, typer.Option("--which", "-w", min=0, help="Which conversation of the file.")]


def _friendly(command: Command) -> Command:
    """Turn the library's errors and missing files into one line and exit code 2."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (HistoryCuratorError, OSError, ImportError) as error:
            console(stderr=True).print(f"[red]error:[/red] {_plain(error)}", soft_wrap=True)
            raise typer.Exit(2) from error

    return run  # type: ignore[return-value]


def _plain(error: Exception) -> str:
    from rich.markup import escape

    return escape(str(error))


def _curator(
    max_tokens: int | None, provider: str | None, counter: str | None, config: Path | None
) -> Any:
    """Return the curator; a provider or counter that was asked for wins over the file's."""
    from history_curator.curator import Curator

    asked = {"provider": provider, "counter": counter}
    options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if config is not None:
        return Curator.from_config(config, **options)
    return Curator(max_tokens=max_tokens, **options)


def _about(
    stored: StoredConversation, among: Sequence[StoredConversation]
) -> AbstractContextManager[None]:
    """Name the conversation in errors when there are several."""
    return naming(stored.id) if len(among) > 1 else nullcontext()


def _pick(conversations: Sequence[StoredConversation], which: int) -> StoredConversation:
    if which >= len(conversations):
        raise typer.BadParameter(f"the file holds {many(len(conversations), 'conversation')}.")
    return conversations[which]


@app.command()
@_friendly
def curate(
    file: File,
    *,
    max_tokens: Budget = None,
    provider: OwnProvider = None,
    counter: OwnCounter = None,
    config: Config = None,
    output: Output = None,
    history: Annotated[
        bool, typer.Option("--history", help="The view may end on an answer; you append to it.")
    ] = False,
) -> None:
    """Write the view of every conversation in FILE, in the dialect it came in."""
    source = read_file(file)
    curator = _curator(max_tokens, provider, counter, config)
    tail = "history" if history else "request"
    views = []
    for each in source.conversations:
        with _about(each, source.conversations):
            curation = curator.curate(
                each.messages, tools=each.tools, tail=tail, max_tokens=max_tokens
            )
        views.append(curation.messages)
        if len(source.conversations) == 1:
            console(stderr=True).print(summary_panel(curation.report, each.id))
    write_text(source.dumps(views), output)


@app.command()
@_friendly
def check(
    files: Files,
    *,
    provider: Provider = "core",
    history: Annotated[
        bool, typer.Option("--history", help="The conversation may end on an answer.")
    ] = False,
) -> None:
    """List what PROVIDER would refuse; exit code 1 when there is anything."""
    from history_curator.conformance import check_conversation

    conversations = read_conversations(files)
    tail = "history" if history else "request"
    found: list[tuple[str, Any]] = []
    for each in conversations:
        with _about(each, conversations):
            violations = check_conversation(each.messages, provider, tail=tail)  # type: ignore[arg-type]
        found.extend((each.id, violation) for violation in violations)
    screen = console()
    if not found:
        total = many(len(conversations), "conversation")
        screen.print(f"[green]{total}, nothing {provider} refuses.")
        return
    screen.print(violation_table(found, provider))
    bad = len({name for name, _ in found})
    total = many(len(conversations), "conversation")
    screen.print(f"{many(len(found), 'violation')} in {bad} of {total}.")
    raise typer.Exit(1)


@app.command()
@_friendly
def explain(
    file: File,
    *,
    max_tokens: Budget = None,
    provider: OwnProvider = None,
    counter: OwnCounter = None,
    config: Config = None,
    which: Which = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
) -> None:
    """Say what happens to each message of a conversation and why."""
    stored = _pick(read_file(file).conversations, which)
    curator = _curator(max_tokens, provider, counter, config)
    report = curator.curate(stored.messages, tools=stored.tools, max_tokens=max_tokens).report
    if as_json:
        sys.stdout.write(report.to_json(indent=2) + "\n")
        return
    console().print(summary_panel(report, stored.id))
    console().print(decision_table(report))


@app.command()
@_friendly
def report(
    file: File,
    *,
    output: Output = Path("curation.html"),
    max_tokens: Budget = None,
    provider: OwnProvider = None,
    counter: OwnCounter = None,
    config: Config = None,
    which: Which = 0,
) -> None:
    """Write one self-contained page that shows the conversation as a timeline."""
    stored = _pick(read_file(file).conversations, which)
    curator = _curator(max_tokens, provider, counter, config)
    curation = curator.curate(stored.messages, tools=stored.tools, max_tokens=max_tokens)
    path = curation.report.to_html(output or Path("curation.html"))
    console().print(f"Page written: {path}", soft_wrap=True)


@app.command()
@_friendly
def count(
    files: Files,
    *,
    counter: Counter = "o200k_base",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Count tokens exactly as the budget does."""
    from history_curator.tokens import count_tokens

    rows = []
    conversations = read_conversations(files)
    for each in conversations:
        with _about(each, conversations):
            tokens = count_tokens(each.messages, counter, tools=each.tools)
        rows.append((each.id, len(each.messages), tokens))
    if as_json:
        for name, messages, tokens in rows:
            row = {"id": name, "messages": messages, "tokens": tokens}
            sys.stdout.write(json.dumps(row) + "\n")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("conversation", overflow="fold")
    table.add_column("messages", justify="right")
    table.add_column(f"tokens ({counter})", justify="right")
    for name, messages, tokens in rows:
        table.add_row(name, f"{messages:,}", f"{tokens:,}")
    if len(rows) > 1:
        table.add_section()
        table.add_row("total", f"{sum(row[1] for row in rows):,}",
                      f"{sum(row[2] for row in rows):,}")  # fmt: skip
    console().print(table)


@app.command()
@_friendly
def compare(
    files: Files,
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="A known policy, or NAME=config.yaml; repeat for several."),
    ] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", "-n", min=1)] = 32_000,
    provider: OwnProvider = None,
    pricing: Annotated[str, typer.Option(help="Price sheet behind the cost column.")] = "anthropic",
    counter: OwnCounter = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first conversations.")] = None,
    output: Output = None,
) -> None:
    """Replay recorded conversations under several policies and compare them."""
    from history_curator.lab import peer_names, replay

    conversations = [
        {"id": each.id, "messages": each.messages, "tools": each.tools,
         "questions": (each.holder or {}).get("questions")}
        for each in read_conversations(files)[:limit]
    ]  # fmt: skip
    policies: dict[str, Any] = {}
    for name in policy or peer_names():
        label, _, path = name.partition("=")
        policies[label] = _curator(max_tokens, provider, counter, Path(path)) if path else label
    results = replay(
        conversations, policies, pricing=pricing, provider=provider or "core",
        max_tokens=max_tokens, counter=counter or "o200k_base",
    )  # fmt: skip
    screen = console()
    screen.print(results_table(results))
    screen.print("[bright_black]grey: over budget, refused or failed at least once[/]")
    for note in results.notes():
        screen.print(_plain(Exception(note)), style="bright_black", soft_wrap=True)
    advice = results.recommend()
    screen.print(f"\nOn the cost/regret frontier: {', '.join(results.frontier())}")
    screen.print(_plain(Exception(advice.why)), soft_wrap=True)
    if output is not None:
        write = results.to_markdown if output.suffix == ".md" else results.to_json
        write(output)


@app.command()
@_friendly
def demo(
    output: Output = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", "-n", min=1)] = 12_000,
) -> None:
    """Curate an agent's conversation in front of you and write its page."""
    from history_curator.cli._demo import run_demo

    run_demo(max_tokens, output)


@app.command()
@_friendly
def prune(
    store: Annotated[
        str, typer.Argument(help="A database URL such as sqlite:///chat.db, or a file.")
    ],
    *,
    config: Config = None,
    output: Output = None,
    table: Annotated[str | None, typer.Option(help="Of a database: the table.")] = None,
    session: Annotated[str | None, typer.Option(help="Of a database: one conversation.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change, change nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Of a database: as JSON.")] = False,
    in_place: Annotated[bool, typer.Option("--in-place", help="Of a file: overwrite it.")] = False,
) -> None:
    """Apply the retention rules to what is stored: tool details of older turns go.

    A database is cleaned where it is. What is left of a file goes to standard output or --output;
    the file itself is overwritten only with --in-place.
    """
    from history_curator.cli._prune import prune_database, prune_file

    if "://" in store:
        prune_database(
            store, config, table=table, session=session, dry_run=dry_run, as_json=as_json
        )
    else:
        if in_place and (output is not None or store == "-"):
            raise typer.BadParameter("--in-place needs a file, and no --output beside it.")
        prune_file(store, config, Path(store) if in_place else output, dry_run=dry_run)
