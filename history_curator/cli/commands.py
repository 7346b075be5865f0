"""The commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from history_curator import __version__
from history_curator.cli.terminal import console, friendly, run_demo, say_written
from history_curator.config import RetentionConfig
from history_curator.curator import Curator
from history_curator.doctor import BUDGETS, PEERS, Diagnosis, diagnose
from history_curator.entries import check_folder
from history_curator.formats import find_format, read_entries
from history_curator.lab import (
    LabConversation,
    ReplayResults,
    SessionPage,
    load_conversations,
    peer_names,
    replay,
)
from history_curator.lab.conversations import name_in_errors, read_file, write_text
from history_curator.lab.results import Table, count_of
from history_curator.lab.run_replay import progress_bar
from history_curator.report import CurationReport
from history_curator.rules import check_conversation
from history_curator.tokens import count_tokens, get_counter

# fmt: off
_FILE = typer.Argument(metavar="FILE", help="JSON, JSON lines or gzip; - is standard input.")
_BUDGET = typer.Option("--max-tokens", "-n", min=1, help="The budget.")
File = Annotated[str, _FILE]
Files = Annotated[list[str], _FILE]
Budget = Annotated[int | None, _BUDGET]
ReplayBudget = Annotated[int, _BUDGET]
Provider = Annotated[str | None, typer.Option(
    "--provider", "-p", help="Whose rules hold.", show_default="core, or --config")]
Counter = Annotated[str | None, typer.Option(
    "--counter", help="An encoding or a model name.", show_default="o200k_base, or --config")]
Pricing = Annotated[str, typer.Option(help="Price sheet behind the cost.")]
Policies = Annotated[list[str] | None, typer.Option(
    "--policy", help=f"One of {', '.join(peer_names())}, or NAME=config.yaml; may be repeated.")]
Config = Annotated[Path | None, typer.Option(
    "--config", "-c", help="YAML or TOML of a whole curator.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a page.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON, to standard output.")]
Which = Annotated[int, typer.Option("--which", "-w", min=0, help="Which conversation of the file.")]
Full = Annotated[bool, typer.Option("--full", help="Everything: every column, every decision.")]
# fmt: on

app = typer.Typer(
    name="history-curator",
    help="Keep the full history; send the model a view that fits.",
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


def _build_curator(
    max_tokens: int | None, provider: str | None, counter: str | None, config: Path | None
) -> Curator:
    """Return the curator; a provider or counter that was asked for wins over the file's."""
    asked = (("provider", provider), ("counter", counter))
    options: dict[str, Any] = {name: value for name, value in asked if value is not None}
    if config is None:
        return Curator(max_tokens=max_tokens, **options)
    return Curator.from_config(config, **options)


def _build_policies(
    names: Sequence[str], max_tokens: int, provider: str | None, counter: str | None
) -> dict[str, Any]:
    """Return policies by name; ``NAME=config.yaml`` is a curator of one's own."""
    policies: dict[str, Any] = {}
    for name in names:
        label, _, path = name.partition("=")
        if path and not label:
            raise typer.BadParameter(f"{name!r} has no name. Write NAME={path}.")
        own = _build_curator(max_tokens, provider, counter, Path(path)) if path else label
        policies[label] = own
    return policies


def _name_errors(talk: LabConversation, among: Sequence[Any]) -> AbstractContextManager[None]:
    """Name the conversation in errors when there are several."""
    return name_in_errors(talk.id) if len(among) > 1 else nullcontext()


def _read_one(file: str, which: int) -> LabConversation:
    conversations = read_file(file).conversations
    if which < len(conversations):
        return conversations[which]
    held = count_of(len(conversations), "conversation")
    raise typer.BadParameter(f"there is no number {which} ({held}).", param_hint="--which")


def _check_folders(*paths: Path | None) -> None:
    """Refuse a path that cannot be written before the work, not after it."""
    for path in filter(None, paths):
        check_folder(path)


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
) -> None:
    """Write the view of every conversation in FILE, in the format of FILE."""
    source = read_file(file)
    curator = _build_curator(max_tokens, provider, counter, config)
    views = []
    for each in source.conversations:
        with _name_errors(each, source.conversations):
            curation = curator.curate(each.messages, tools=each.tools, max_tokens=max_tokens)
        views.append(curation.messages)
        first_line = curation.report.explain().partition("\n")[0]
        console(stderr=True).print(escape(f"{each.id}: {first_line}"), soft_wrap=True)
    write_text(source.dumps(views), output)


@app.command(epilog="Example: history-curator check logs/*.jsonl --provider anthropic")
@friendly
def check(
    files: Files,
    *,
    provider: Provider = None,
    history: Annotated[bool, typer.Option(help="It may end on an answer.")] = False,
) -> None:
    """List the messages that PROVIDER would refuse; exit code 1 when there are any."""
    conversations, name = load_conversations(*files), provider or "core"
    table = RichTable(title=f"Refused by {name}", title_justify="left", header_style="bold")
    for head in ("conversation", "message", "rule", "what is wrong"):
        table.add_column(head, overflow="fold")
    refused = set()
    for each in conversations:
        with _name_errors(each, conversations):
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
    """Print the decision for each message of a conversation, with the reason."""
    found = _curate_one(file, which, max_tokens, provider, counter, config)
    sys.stdout.write((found.to_json(indent=2) if as_json else found.explain()) + "\n")


def _curate_one(file: str, which: int, max_tokens: int | None, *options: Any) -> CurationReport:
    talk, curator = _read_one(file, which), _build_curator(max_tokens, *options)
    return curator.curate(talk.messages, tools=talk.tools, max_tokens=max_tokens).report


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
    found = _curate_one(file, which, max_tokens, provider, counter, config)
    say_written(found.to_html(output or Path("curation.html")))


@app.command(epilog="Example: history-curator session talk.json -n 16000 --policy trim_messages")
@friendly
def session(
    file: File,
    *,
    output: Output = Path("session.html"),
    max_tokens: ReplayBudget = 32_000,
    policy: Policies = None,
    provider: Provider = None,
    counter: Counter = None,
    config: Config = None,
    pricing: Pricing = "anthropic",
    which: Which = 0,
) -> None:
    """Write one page with every call of a conversation: a slider, compactions, cached tokens, cost."""
    _check_folders(output)
    stored = _read_one(file, which)
    policies: dict[str, Any] = {"curator": _build_curator(max_tokens, provider, counter, config)}
    policies |= _build_policies(policy or (), max_tokens, provider, counter)
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
    conversations = load_conversations(*files)
    for each in conversations:
        with _name_errors(each, conversations):
            tokens = count_tokens(each.messages, name, tools=each.tools)
        rows.append((each.id, len(each.messages), tokens))
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
    sources: Annotated[list[str], typer.Argument(help="Files, folders or patterns.")],
    *,
    policy: Policies = None,
    max_tokens: ReplayBudget = 32_000,
    provider: Provider = None,
    pricing: Pricing = "anthropic",
    counter: Counter = None,
    full: Full = False,
    html: Html = None,
    output: Output = None,
) -> None:
    """Replay recorded conversations under several policies and compare them.

    --output writes .json, .md or .parquet.
    """
    _check_folders(output, html)
    results = replay(
        load_conversations(*sources),
        _build_policies(policy or peer_names(), max_tokens, provider, counter), pricing=pricing,
        provider=provider or "core", max_tokens=max_tokens, counter=counter or "o200k_base",
    )  # fmt: skip
    _print_results(results, full=full)
    if output is not None:
        writers: dict[str, Any] = {".parquet": results.to_parquet, ".md": results.to_markdown}
        writers.get(output.suffix, results.to_json)(output)
    if html is not None:
        results.to_html(html)
    say_written(output, html)


def _print_results(results: ReplayResults, *, full: bool) -> None:
    screen, advice = console(), results.recommend()
    table = results.table(full=full).to_rich(
        title=results.describe_run(), box=SIMPLE_HEAD, pad_edge=True, padding=(0, 1, 0, 0)
    )
    screen.print(table)
    legend = RichTable.grid(padding=(0, 1))
    for head, meaning in results.legend(full=full).items():
        legend.add_row("", head, meaning, style="bright_black")
    screen.print(legend)
    screen.print(Text(" grey rows are not sound, and not on the frontier", "bright_black"))
    for note in results.notes():
        screen.print(Padding(Text(note, "bright_black"), (0, 0, 0, 1)))
    screen.print(f"\nOn the cost/missed frontier: {escape(', '.join(results.frontier()))}.")
    screen.print(f"Use {escape(advice)}.")


@app.command(epilog="Example: history-curator demo --full")
@friendly
def demo(
    output: Output = None,
    max_tokens: ReplayBudget = 12_000,
    full: Full = False,
) -> None:
    """Curate an agent's session in front of you and write its page."""
    _check_folders(output)
    run_demo(max_tokens, output, full=full)


@app.command(epilog="Example: history-curator prune sqlite:///chat.db --apply")
@friendly
def prune(
    store: Annotated[str, typer.Argument(help="A URL such as sqlite:///chat.db, or a file.")],
    *,
    config: Config = None,
    output: Output = None,
    table: Annotated[str | None, typer.Option(help="Of a database: the table.")] = None,
    session: Annotated[str | None, typer.Option(help="Of a database: one conversation.")] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Write it.")] = False,
    as_json: AsJson = False,
    in_place: Annotated[bool, typer.Option("--in-place", help="Overwrite the file.")] = False,
) -> None:
    """Say what the retention rules would remove from a store; with --apply, remove it.

    Tool details of older turns go. Without --apply it is a dry run. With it, a database is
    cleaned where it is. The rest of a pruned file goes to standard output or --output; the file
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
        lines = [json.dumps(asdict(one)) if as_json else str(one) for one in found]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    else:
        _prune_file(store, rules, Path(store) if in_place else output, apply=apply)
    if not apply:
        console(stderr=True).print("Dry run: nothing was written. Add --apply to do it.")


def _prune_file(path: str, rules: RetentionConfig, output: Path | None, *, apply: bool) -> None:
    from history_curator.record.retention import apply_retention

    source, counter = read_file(path), get_counter(None)
    rows, pruned = [], []
    for each in source.conversations:
        with _name_errors(each, source.conversations):
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
    paths: Annotated[list[str], typer.Argument(help="Logs: files or folders.")],
    *,
    budget: Annotated[list[int] | None, typer.Option("--budget", "-b", min=1)] = None,
    peer: Annotated[list[str] | None, typer.Option(help="Another policy for what-if.")] = None,
    what_if: Annotated[bool, typer.Option(help="Replay the sessions under policies.")] = True,
    html: Html = None,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Report the costs of recorded sessions, where the cache was lost, and what other policies cost."""
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
