"""The commands."""

from __future__ import annotations

import json
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from history_curator import __version__
from history_curator.cli.terminal import (
    NARROW,
    Apply,
    AsJson,
    Budget,
    Budgets,
    Config,
    Counter,
    File,
    Files,
    Finished,
    Full,
    History,
    Html,
    InPlace,
    Limit,
    Logs,
    Output,
    Peers,
    Policies,
    Policy,
    Pricing,
    Provider,
    ReplayBudget,
    Replayed,
    ResultFile,
    SessionId,
    Sources,
    Store,
    TableName,
    Tail,
    Which,
    build_curator,
    build_policies,
    check_folders,
    console,
    curate_one,
    decision_table,
    friendly,
    name_errors,
    read_all,
    read_one,
    run_demo,
    say_written,
    summary_panel,
)
from history_curator.config import RetentionConfig
from history_curator.doctor import BUDGETS, PEERS, Diagnosis, diagnose
from history_curator.formats import find_format, read_entries
from history_curator.lab import (
    ReplayResults,
    SessionPage,
    load_conversations,
    peer_names,
    replay,
)
from history_curator.lab.files import read_file, write_text
from history_curator.lab.replay import progress_bar
from history_curator.lab.tables import Table, count_of
from history_curator.rules import check_conversation
from history_curator.tokens import count_tokens, get_counter

app = typer.Typer(
    name="history-curator",
    help="Keep the whole conversation; send the model a view that fits.",
    epilog="Exit codes: 0 done, 1 violations found (check), 2 input or settings cannot be used.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"history-curator {__version__}\n")
        raise typer.Exit


@app.callback()
def _prepare(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say it and exit."),
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
    provider: Provider = None,
    counter: Counter = None,
    config: Config = None,
    output: Output = None,
    history: Tail = None,
) -> None:
    """Write the view of every conversation in FILE, in the format it came in."""
    source = read_file(file)
    curator = build_curator(max_tokens, provider, counter, config)
    tails: dict[bool | None, Literal["history", "request"] | None]
    tails = {None: None, True: "history", False: "request"}
    views = []
    for each in source.conversations:
        with name_errors(each, source.conversations):
            curation = curator.curate(
                each.messages, tools=each.tools, tail=tails[history], max_tokens=max_tokens
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
    provider: Provider = None,
    history: History = False,
) -> None:
    """List what PROVIDER would refuse; exit code 1 when there is anything."""
    conversations, name = read_all(files), provider or "core"
    table = RichTable(title=f"Refused by {name}", title_justify="left", header_style="bold")
    for head in ("conversation", "message", "rule", "what is wrong"):
        table.add_column(head, overflow="fold")
    refused = set()
    for each in conversations:
        with name_errors(each, conversations):
            violations = check_conversation(
                each.messages, name, tail="history" if history else "request"
            )
        for violation in violations:
            index = "–" if violation.index is None else str(violation.index)
            cells = (each.id, index, str(violation.rule), str(violation.message))
            table.add_row(*map(escape, cells))
            refused.add(each.id)
    total = count_of(len(conversations), "conversation")
    if not refused:
        valid_for = "every supported provider" if name == "core" else name
        console().print(f"[green]{total}, valid for {valid_for}.")
        return
    console().print(table)
    found = count_of(table.row_count, "violation")
    console().print(f"{found} in {len(refused)} of {total}.")
    raise typer.Exit(1)


@app.command(epilog="Example: history-curator explain talk.json -n 16000")
@friendly
def explain(
    file: File,
    *,
    max_tokens: Budget = None,
    provider: Provider = None,
    counter: Counter = None,
    config: Config = None,
    which: Which = 0,
    as_json: AsJson = False,
) -> None:
    """Say what happens to each message of a conversation and why."""
    curator = build_curator(max_tokens, provider, counter, config)
    name, found = curate_one(file, which, curator, max_tokens)
    if as_json:
        sys.stdout.write(found.to_json(indent=2) + "\n")
        return
    console().print(summary_panel(found, name))
    console().print(decision_table(found, narrow=console().width < NARROW))


@app.command(epilog="Example: history-curator report talk.json -n 16000 -o page.html")
@friendly
def report(
    file: File,
    *,
    output: Output = Path("curation.html"),
    max_tokens: Budget = None,
    provider: Provider = None,
    counter: Counter = None,
    config: Config = None,
    which: Which = 0,
) -> None:
    """Write one self-contained page that shows the conversation as a timeline."""
    curator = build_curator(max_tokens, provider, counter, config)
    _, found = curate_one(file, which, curator, max_tokens)
    say_written(found.to_html(output or Path("curation.html")))


@app.command(epilog="Example: history-curator session talk.json -n 16000 --policy trim_messages")
@friendly
def session(
    file: File,
    *,
    output: Output = Path("session.html"),
    max_tokens: ReplayBudget = 32_000,
    policy: Policy = None,
    provider: Provider = None,
    counter: Counter = None,
    config: Config = None,
    pricing: Pricing = "anthropic",
    which: Which = 0,
) -> None:
    """Write one page with every call of a conversation: a slider, compactions, cached tokens, cost."""
    check_folders(output)
    stored = read_one(file, which)
    policies: dict[str, Any] = {"curator": build_curator(max_tokens, provider, counter, config)}
    policies |= build_policies([policy] if policy else [], max_tokens, provider, counter)
    page = SessionPage(
        stored.messages, policies, max_tokens=max_tokens, tools=stored.tools, pricing=pricing,
        provider=provider or "core", counter=counter or "o200k_base",
    )  # fmt: skip
    say_written(page.to_html(output or Path("session.html")))


@app.command(epilog="Example: history-curator count talk.json --counter gpt-4o")
@friendly
def count(files: Files, *, counter: Counter = None, as_json: AsJson = False) -> None:
    """Count tokens exactly as the budget does."""
    rows, name = [], counter or "o200k_base"
    conversations = read_all(files)
    for each in conversations:
        with name_errors(each, conversations):
            rows.append(
                (each.id, len(each.messages), count_tokens(each.messages, name, tools=each.tools))
            )
    if as_json:
        for talk, messages, tokens in rows:
            row = {"id": talk, "messages": messages, "tokens": tokens}
            sys.stdout.write(json.dumps(row) + "\n")
        return
    if len(rows) > 1:
        rows.append(("total", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    cells = [(talk, f"{messages:,}", f"{tokens:,}") for talk, messages, tokens in rows]
    console().print(Table("", ("conversation", "messages", f"tokens ({name})"), cells).to_rich())


@app.command(epilog="Example: history-curator compare logs/ -n 32000 --html page.html")
@friendly
def compare(
    sources: Sources,
    *,
    policy: Policies = None,
    max_tokens: ReplayBudget = 32_000,
    provider: Provider = None,
    pricing: Pricing = "anthropic",
    counter: Counter = None,
    limit: Limit = None,
    finished: Finished = None,
    full: Full = False,
    html: Html = None,
    output: ResultFile = None,
) -> None:
    """Replay recorded conversations under several policies and compare them."""
    check_folders(output, html)
    results = replay(
        load_conversations(*sources)[:limit],
        build_policies(policy or peer_names(), max_tokens, provider, counter), pricing=pricing,
        provider=provider or "core", max_tokens=max_tokens, counter=counter or "o200k_base",
        finished=finished,
    )  # fmt: skip
    _print_results(results, full=full)
    if output is not None:
        writers: dict[str, Any] = {".parquet": results.to_parquet, ".md": results.to_markdown}
        writers.get(output.suffix, results.to_json)(output)
    if html is not None:
        results.to_html(html)
    say_written(output, html)


def _print_results(results: ReplayResults, *, full: bool) -> None:
    screen = console()
    advice = results.recommend()  # where there is nothing to compare, it says why
    table = results.table(full=full).to_rich(
        title=results.about(), box=SIMPLE_HEAD, pad_edge=True, padding=(0, 1, 0, 0)
    )
    if screen.width < NARROW and not full:
        table.columns = [each for each in table.columns if each.header not in ("sent", "cached")]
    screen.print(table)
    legend = RichTable.grid(padding=(0, 1))
    shown = {column.header for column in table.columns}
    for head, meaning in results.legend(full=full).items():
        if head in shown:
            legend.add_row("", head, meaning, style="bright_black")
    screen.print(legend)
    screen.print(Text(" grey rows are not sound, and not on the frontier", "bright_black"))
    for note in results.notes():
        screen.print(Padding(Text(note, "bright_black"), (0, 0, 0, 1)))
    screen.print(f"\nOn the cost/missed frontier: {escape(', '.join(results.frontier()))}.")
    screen.print(escape(advice.why))


@app.command(epilog="Example: history-curator demo --full")
@friendly
def demo(
    output: Output = None,
    max_tokens: ReplayBudget = 12_000,
    full: Full = False,
) -> None:
    """Curate an agent's session in front of you and write its page."""
    check_folders(output)
    run_demo(max_tokens, output, full=full)


@app.command(epilog="Example: history-curator prune sqlite:///chat.db --apply")
@friendly
def prune(
    store: Store,
    *,
    config: Config = None,
    output: Output = None,
    table: TableName = None,
    session: SessionId = None,
    apply: Apply = False,
    as_json: AsJson = False,
    in_place: InPlace = False,
) -> None:
    """Say what the retention rules would remove from what is stored; with --apply, do it.

    Tool details of older turns go. Without --apply nothing is written. With it, a database is
    cleaned where it is, and what is left of a file goes to standard output or --output; the file
    itself is overwritten only with --in-place.
    """
    from history_curator.record.prune import prune_store

    is_database = "://" in store
    if in_place and not is_database and (output is not None or store == "-"):
        raise typer.BadParameter("--in-place needs a file, and no --output beside it.")
    if config is None:
        rules = RetentionConfig(persist_tool_invocations="trimmed")
        console(stderr=True).print(
            f"No --config: the last {rules.preserve_turns} turns stay whole, tool results of older "
            "ones are trimmed to name and status."
        )
    else:
        rules = RetentionConfig.from_file(config)
    if is_database:
        found = prune_store(store, table=table, session_id=session, config=rules, apply=apply)
        text = json.dumps(found.to_dict(), default=str) if as_json else found.explain()
        sys.stdout.write(text + "\n")
    else:
        _prune_file(store, rules, Path(store) if in_place else output, apply=apply)
    if not apply:
        console(stderr=True).print("Dry run: nothing was written. Add --apply to do it.")


def _prune_file(path: str, rules: RetentionConfig, output: Path | None, *, apply: bool) -> None:
    from history_curator.record.retention import apply_retention

    source, counter = read_file(path), get_counter(None)
    rows, pruned = [], []
    for each in source.conversations:
        with name_errors(each, source.conversations):
            reader = find_format(each.messages)
            entries = read_entries(each.messages, reader)
            left = apply_retention(entries, rules)
            pruned.append(reader.write(left))
        before, after = (sum(map(counter.count_entry, some)) for some in (entries, left))
        messages = f"{len(each.messages):,} → {len(pruned[-1]):,}"
        rows.append((each.id, messages, f"{before:,} → {after:,}"))
    heads = ("conversation", "messages", "tokens")
    console(stderr=True).print(Table("", heads, rows).to_rich())
    if apply:
        write_text(source.dumps(pruned), output)


@app.command(epilog="Example: history-curator doctor ~/.claude/projects --html cost.html")
@friendly
def doctor(
    paths: Logs,
    *,
    budget: Budgets = None,
    peer: Peers = None,
    what_if: Replayed = True,
    html: Html = None,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Say what recorded sessions cost and on what, where the cache was lost, and what if."""
    check_folders(html, output)
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
    _print_diagnosis(found)
    say_written(html)


def _print_diagnosis(found: Diagnosis) -> None:
    screen = console()
    total = f"{found.cost['total']:,.2f} {found.cost['unit']}"
    screen.print(f"[bold]{found.headline()}: {total}")
    for sentence in found.sentences():
        screen.print(escape(sentence))
    for table in found.tables():
        screen.print(f"\n[bold]{table.title}")
        screen.print(table.to_rich(header_style="bright_black"))
    screen.print(f"\n{found.accuracy()}", style="bright_black")
    for problem in found.problems:
        screen.print(escape(problem), style="yellow", soft_wrap=True)
