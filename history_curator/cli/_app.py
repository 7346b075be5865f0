"""The commands."""

from __future__ import annotations

import json
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from history_curator import __version__
from history_curator.cli._files import read_conversations, read_file, write_text
from history_curator.cli._options import (
    Budget,
    Config,
    Counter,
    File,
    Files,
    Output,
    OwnCounter,
    OwnProvider,
    Pricing,
    Provider,
    ReplayBudget,
    Which,
    about,
    curator_of,
    pick,
    policies_of,
    policy_names,
)
from history_curator.cli._show import (
    NARROW,
    console,
    decision_table,
    friendly,
    numbers,
    print_diagnosis,
    print_results,
    summary_panel,
    violation_table,
)
from history_curator.entries import check_folder
from history_curator.report_page import many

app = typer.Typer(
    name="history-curator",
    help="Keep the whole conversation; send the model a view that fits.",
    epilog="Exit codes: 0 done, 1 violations found (check), 2 input or settings cannot be used.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    # Half a character in a record is printed as its escape in JSON; UTF-8 cannot carry it.
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.encoding.lower() == "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")


@app.command(epilog="Example: history-curator curate talk.json -n 16000 -o view.json")
@friendly
def curate(
    file: File,
    *,
    max_tokens: Budget = None,
    provider: OwnProvider = None,
    counter: OwnCounter = None,
    config: Config = None,
    output: Output = None,
    history: Annotated[
        bool | None,
        typer.Option(
            "--history/--request",
            help="Whether you append to the view, so that it may end on an answer, or send it.",
            show_default="as the conversation ends",
        ),
    ] = None,
) -> None:
    """Write the view of every conversation in FILE, in the format it came in."""
    source = read_file(file)
    curator = curator_of(max_tokens, provider, counter, config)
    tail = {None: None, True: "history", False: "request"}[history]
    views = []
    for each in source.conversations:
        with about(each, source.conversations):
            curation = curator.curate(
                each.messages, tools=each.tools, tail=tail, max_tokens=max_tokens
            )
        views.append(curation.messages)
        if len(source.conversations) == 1:
            console(stderr=True).print(summary_panel(curation.report, each.id))
    write_text(source.dumps(views), output)


@app.command(epilog="Example: history-curator check logs/*.jsonl --provider anthropic")
@friendly
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
        with about(each, conversations):
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
@friendly
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
    name, report = _report(
        file, which, max_tokens, curator_of(max_tokens, provider, counter, config)
    )
    if as_json:
        sys.stdout.write(report.to_json(indent=2) + "\n")
        return
    console().print(summary_panel(report, name))
    console().print(decision_table(report, narrow=console().width < NARROW))


def _report(file: str, which: int, max_tokens: int | None, curator: Any) -> tuple[str, Any]:
    stored = pick(read_file(file).conversations, which)
    curation = curator.curate(stored.messages, tools=stored.tools, max_tokens=max_tokens)
    return stored.id, curation.report


def _check_folders(*paths: Path | None) -> None:
    """Refuse a path that cannot be written before the work, not after it."""
    for path in paths:
        if path is not None:
            check_folder(path)


@app.command(epilog="Example: history-curator report talk.json -n 16000 -o page.html")
@friendly
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
    _, found = _report(file, which, max_tokens, curator_of(max_tokens, provider, counter, config))
    path = found.to_html(output or Path("curation.html"))
    console().print(f"Page written: {path}", soft_wrap=True)


@app.command(epilog="Example: history-curator session talk.json -n 16000 --policy trim_messages")
@friendly
def session(
    file: File,
    *,
    output: Output = Path("session.html"),
    max_tokens: ReplayBudget = 32_000,
    policy: Annotated[
        str | None,
        typer.Option(
            help="A known policy, or NAME=config.yaml, to show beside the curator.",
            autocompletion=policy_names,
        ),
    ] = None,
    provider: OwnProvider = None,
    counter: OwnCounter = None,
    config: Config = None,
    pricing: Pricing = "anthropic",
    which: Which = 0,
) -> None:
    """Write one page with every call of a conversation: a slider, compactions, cached tokens, cost."""
    from history_curator.lab import SessionPage

    _check_folders(output)
    stored = pick(read_file(file).conversations, which)
    policies: dict[str, Any] = {"curator": curator_of(max_tokens, provider, counter, config)}
    if policy:
        policies.update(policies_of([policy], max_tokens, provider, counter))
    page = SessionPage(
        stored.messages, policies, max_tokens=max_tokens, tools=stored.tools, pricing=pricing,
        provider=provider or "core", counter=counter or "o200k_base",
    )  # fmt: skip
    target = page.to_html(output or Path("session.html"))
    console().print(f"Page written: {target}", soft_wrap=True)


@app.command(epilog="Example: history-curator count talk.json --counter gpt-4o")
@friendly
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
        with about(each, conversations):
            tokens = count_tokens(each.messages, counter, tools=each.tools)
        rows.append((each.id, len(each.messages), tokens))
    if as_json:
        for name, messages, tokens in rows:
            row = {"id": name, "messages": messages, "tokens": tokens}
            sys.stdout.write(json.dumps(row) + "\n")
        return
    table = numbers(("conversation", "messages", f"tokens ({counter})"))
    for name, messages, tokens in rows:
        table.add_row(name, f"{messages:,}", f"{tokens:,}")
    if len(rows) > 1:
        table.add_section()
        table.add_row("total", f"{sum(row[1] for row in rows):,}",
                      f"{sum(row[2] for row in rows):,}")  # fmt: skip
    console().print(table)


@app.command(epilog="Example: history-curator compare logs/ -n 32000 --html page.html")
@friendly
def compare(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE", help="Files, folders, patterns or URLs of conversations."),
    ],
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="A known policy, or NAME=config.yaml; repeat for several.",
            autocompletion=policy_names,
        ),
    ] = None,
    max_tokens: ReplayBudget = 32_000,
    provider: OwnProvider = None,
    pricing: Pricing = "anthropic",
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
    from history_curator.lab import load_conversations, peer_names, replay

    _check_folders(output, html)
    policies = policies_of(policy or peer_names(), max_tokens, provider, counter)
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
            console().print(f"Written: {escape(str(target))}", soft_wrap=True)


@app.command(epilog="Example: history-curator demo --full")
@friendly
def demo(
    output: Output = None,
    max_tokens: ReplayBudget = 12_000,
    full: Annotated[bool, typer.Option("--full", help="Print every decision.")] = False,
) -> None:
    """Curate an agent's session in front of you and write its page."""
    from history_curator.cli._demo import run_demo

    _check_folders(output)
    run_demo(max_tokens, output, full=full)


@app.command(epilog="Example: history-curator prune sqlite:///chat.db --apply")
@friendly
def prune(
    store: Annotated[
        str,
        typer.Argument(
            metavar="STORE", help="A database URL such as sqlite:///chat.db, or a file."
        ),
    ],
    *,
    config: Config = None,
    output: Output = None,
    table: Annotated[str | None, typer.Option(help="Of a database: the table.")] = None,
    session: Annotated[str | None, typer.Option(help="Of a database: one conversation.")] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Write it; otherwise only say what would change.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Of a database: as JSON.")] = False,
    in_place: Annotated[bool, typer.Option("--in-place", help="Of a file: overwrite it.")] = False,
) -> None:
    """Say what the retention rules would remove from what is stored; with --apply, do it.

    Tool details of older turns go. Without --apply nothing is written. With it, a database is
    cleaned where it is, and what is left of a file goes to standard output or --output; the file
    itself is overwritten only with --in-place.
    """
    from history_curator.cli._prune import prune_database, prune_file

    if "://" in store:
        prune_database(store, config, table=table, session=session, apply=apply, as_json=as_json)
    else:
        if in_place and (output is not None or store == "-"):
            raise typer.BadParameter("--in-place needs a file, and no --output beside it.")
        prune_file(store, config, Path(store) if in_place else output, apply=apply)


@app.command(epilog="Example: history-curator doctor ~/.claude/projects --html cost.html")
@friendly
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

    _check_folders(html, output)
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
    print_diagnosis(found)
    if html is not None:
        console().print(f"\nPage written: {escape(str(html))}", soft_wrap=True)
