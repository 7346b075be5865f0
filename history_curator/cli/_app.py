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

from history_curator import __version__
from history_curator.cli._doctor import doctor
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
    summary_panel,
    violation_table,
)
from history_curator.errors import HistoryCuratorError

__all__ = ["app"]

app = typer.Typer(
    name="history-curator",
    help="Keep the whole conversation; send the model a view that fits.",
    epilog="Exit codes: 0 done, 1 violations found (check), 2 input or settings cannot be used.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _providers(incomplete: str) -> list[str]:
    from history_curator.rules._providers import PROVIDERS

    return [name for name in PROVIDERS if name.startswith(incomplete)]


def _sheets(incomplete: str) -> list[str]:
    from history_curator.lab import price_sheets

    return [name for name in price_sheets() if name.startswith(incomplete)]


def _policies(incomplete: str) -> list[str]:
    from history_curator.lab import peer_names

    return [name for name in peer_names() if name.startswith(incomplete)]


Command = TypeVar("Command", bound=Callable[..., Any])
File = Annotated[str, typer.Argument(help="JSON, JSON lines or gzip; - is standard input.")]
Files = Annotated[list[str], typer.Argument(help="JSON, JSON lines or gzip; - is standard input.")]
Budget = Annotated[int | None, typer.Option("--max-tokens", "-n", min=1, help="The budget.")]
Provider = Annotated[
    str,
    typer.Option("--provider", "-p", help="Whose rules hold.", autocompletion=_providers),
]
Counter = Annotated[str, typer.Option("--counter", help="An encoding or a model name.")]
OwnProvider = Annotated[
    str | None,
    typer.Option(
        "--provider",
        "-p",
        help="Whose rules hold.",
        show_default="core, or --config",
        autocompletion=_providers,
    ),
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


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"history-curator {__version__}\n")
        raise typer.Exit


@app.callback()
def _about_all(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say it and exit."),
    ] = False,
) -> None:
    pass


def _friendly(command: Command) -> Command:
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
    from rich.markup import escape

    if isinstance(error, OSError) and error.strerror:
        named = f"{error.filename}: " if error.filename is not None else ""
        return escape(f"{named}{error.strerror}.")
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply. Fix: pass messages, not what they were wrapped in."
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


@app.command(epilog="Example: history-curator curate talk.json -n 16000 -o view.json")
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


@app.command(epilog="Example: history-curator check logs/*.jsonl --provider anthropic")
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
    from history_curator.rules import check_conversation

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


@app.command(epilog="Example: history-curator explain talk.json -n 16000")
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


@app.command(epilog="Example: history-curator report talk.json -n 16000 -o page.html")
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


@app.command(epilog="Example: history-curator session talk.json -n 16000 --policy trim_messages")
@_friendly
def session(
    file: File,
    *,
    output: Output = Path("session.html"),
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "-n", min=1, help="The budget.")
    ] = 32_000,
    policy: Annotated[
        str | None,
        typer.Option(
            help="A known policy, or NAME=config.yaml, to show beside the curator.",
            autocompletion=_policies,
        ),
    ] = None,
    provider: OwnProvider = None,
    counter: OwnCounter = None,
    config: Config = None,
    pricing: Annotated[
        str, typer.Option(help="Price sheet behind the cost.", autocompletion=_sheets)
    ] = "anthropic",
    which: Which = 0,
) -> None:
    """Write one page with every call of a conversation: a slider, jumps, cached tokens, cost."""
    from history_curator.lab import SessionPage

    stored = _pick(read_file(file).conversations, which)
    policies: dict[str, Any] = {"curator": _curator(max_tokens, provider, counter, config)}
    if policy:
        label, _, path = policy.partition("=")
        policies[label] = _curator(max_tokens, provider, counter, Path(path)) if path else label
    page = SessionPage(
        stored.messages, policies, max_tokens=max_tokens, tools=stored.tools, pricing=pricing,
        provider=provider or "core", counter=counter or "o200k_base",
    )  # fmt: skip
    target = page.to_html(output or Path("session.html"))
    console().print(f"Page written: {target}", soft_wrap=True)


@app.command(epilog="Example: history-curator count talk.json --counter gpt-4o")
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


@app.command(epilog="Example: history-curator compare logs/ -n 32000 --html page.html")
@_friendly
def compare(
    sources: Annotated[
        list[str], typer.Argument(help="Files, folders, patterns or URLs of conversations.")
    ],
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="A known policy, or NAME=config.yaml; repeat for several.",
            autocompletion=_policies,
        ),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "-n", min=1, help="The budget.")
    ] = 32_000,
    provider: OwnProvider = None,
    pricing: Annotated[
        str, typer.Option(help="Price sheet behind the cost column.", autocompletion=_sheets)
    ] = "anthropic",
    counter: OwnCounter = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first conversations.")] = None,
    finished: Annotated[
        Path | None, typer.Option(help="A folder; a run that was stopped goes on where it was.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Every column.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with the frontier.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write .json, .md or .parquet.")
    ] = None,
) -> None:
    """Replay recorded conversations under several policies and compare them."""
    from history_curator.cli._compare import print_results
    from history_curator.lab import load_conversations, peer_names, replay

    policies: dict[str, Any] = {}
    for name in policy or peer_names():
        label, _, path = name.partition("=")
        if path and not label:
            raise typer.BadParameter(f"{name!r} has no name. Write NAME={path}.")
        policies[label] = _curator(max_tokens, provider, counter, Path(path)) if path else label
    results = replay(
        load_conversations(*sources)[:limit], policies, pricing=pricing,
        provider=provider or "core", max_tokens=max_tokens, counter=counter or "o200k_base",
        finished=finished,
    )  # fmt: skip
    print_results(results, full=full)
    if output is not None:
        if output.suffix == ".parquet":
            results.to_parquet(output)
        elif output.suffix == ".md":
            results.to_markdown(output)
        else:
            results.to_json(output)
    if html is not None:
        results.to_html(html)
    for target in (output, html):
        if target is not None:
            console().print(f"Written: {_plain(Exception(target))}", soft_wrap=True)


@app.command(epilog="Example: history-curator demo --full")
@_friendly
def demo(
    output: Output = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "-n", min=1, help="The budget.")
    ] = 12_000,
    full: Annotated[bool, typer.Option("--full", help="Print every decision.")] = False,
) -> None:
    """Curate an agent's session in front of you and write its page."""
    from history_curator.cli._demo import run_demo

    run_demo(max_tokens, output, full=full)


@app.command(epilog="Example: history-curator prune sqlite:///chat.db --apply")
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
    apply: Annotated[
        bool, typer.Option("--apply", help="Do it; otherwise only say what would change.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Of a database: as JSON.")] = False,
    in_place: Annotated[bool, typer.Option("--in-place", help="Of a file: overwrite it.")] = False,
) -> None:
    """Say what the retention rules would remove from what is stored; with --apply, do it.

    Tool details of older turns go. A database is cleaned where it is. What is left of a file goes
    to standard output or --output; the file itself is overwritten only with --in-place.
    """
    from history_curator.cli._prune import prune_database, prune_file

    if "://" in store:
        prune_database(store, config, table=table, session=session, apply=apply, as_json=as_json)
    else:
        if in_place and (output is not None or store == "-"):
            raise typer.BadParameter("--in-place needs a file, and no --output beside it.")
        prune_file(store, config, Path(store) if in_place else output, apply=apply)


app.command()(_friendly(doctor))
