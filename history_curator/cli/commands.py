"""The commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
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
from history_curator.cli.screen import (
    NARROW,
    console,
    decision_table,
    friendly,
    run_demo,
    summary_panel,
)
from history_curator.config import RetentionConfig
from history_curator.curator import Curator
from history_curator.doctor import BUDGETS, PEERS, Diagnosis, diagnose
from history_curator.entries import check_folder
from history_curator.formats import detect, read_entries
from history_curator.lab import (
    ReplayResults,
    SessionPage,
    load_conversations,
    peer_names,
    price_sheets,
    replay,
)
from history_curator.lab.files import StoredConversation, naming, read_file, write_text
from history_curator.lab.replay import progress_bar
from history_curator.lab.tables import Table, count_of
from history_curator.report import CurationReport
from history_curator.rules import check_conversation
from history_curator.tokens import count_tokens, get_counter

PROVIDERS = ("core", "portable", "openai", "openai-responses", "anthropic", "gemini", "bedrock",
             "mistral")  # fmt: skip

app = typer.Typer(
    name="history-curator",
    help="Keep the whole conversation; send the model a view that fits.",
    epilog="Exit codes: 0 done, 1 violations found (check), 2 input or settings cannot be used.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _complete(names: Collection[str]) -> Any:
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


# fmt: off
_RULES, _TOKENS = "Whose rules hold.", "An encoding or a model name."
_POLICY = "A known policy, or NAME=config.yaml"
_LOGS = ("Claude Code logs, JSON lines of requests with usage, LangSmith runs or OpenTelemetry spans; "
         "files or folders.")
_TAIL = "Whether you append to the view, so that it may end on an answer, or send it."
_FILE = typer.Argument(metavar="FILE", help="JSON, JSON lines or gzip; - is standard input.")
_BUDGET = typer.Option("--max-tokens", "-n", min=1, help="The budget.")
_known_providers, _known_policies = _complete(PROVIDERS), _complete(peer_names())
File = Annotated[str, _FILE]
Files = Annotated[list[str], _FILE]
Sources = Annotated[list[str], typer.Argument(
    metavar="SOURCE", help="Files, folders, patterns or URLs of conversations.")]
Logs = Annotated[list[str], typer.Argument(help=_LOGS)]
Store = Annotated[str, typer.Argument(
    metavar="STORE", help="A database URL such as sqlite:///chat.db, or a file.")]
Budget = Annotated[int | None, _BUDGET]
ReplayBudget = Annotated[int, _BUDGET]
Budgets = Annotated[list[int] | None, typer.Option(
    "--budget", "-b", min=1, help="For what-if; repeat for several.")]
Provider = Annotated[str | None, typer.Option(
    "--provider", "-p", help=_RULES, show_default="core, or --config",
    autocompletion=_known_providers)]
Counter = Annotated[str | None, typer.Option(
    "--counter", help=_TOKENS, show_default="o200k_base, or --config")]
Pricing = Annotated[str, typer.Option(
    help="Price sheet behind the cost.", autocompletion=_complete(price_sheets()))]
Policy = Annotated[str | None, typer.Option(
    help=f"{_POLICY}, to show beside the curator.", autocompletion=_known_policies)]
Policies = Annotated[list[str] | None, typer.Option(
    "--policy", help=f"{_POLICY}; repeat for several.", autocompletion=_known_policies)]
Peers = Annotated[list[str] | None, typer.Option(
    "--peer", help="Another policy for what-if; repeat for several.")]
Config = Annotated[Path | None, typer.Option(
    "--config", "-c", help="YAML or TOML of a whole curator.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write.")]
ResultFile = Annotated[Path | None, typer.Option(
    "--output", "-o", help="Write .json, .md or .parquet.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a page.")]
Finished = Annotated[Path | None, typer.Option(
    help="A folder; a run that was stopped goes on where it was.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON, to standard output.")]
Which = Annotated[int, typer.Option("--which", "-w", min=0, help="Which conversation of the file.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first conversations.")]
Tail = Annotated[bool | None, typer.Option(
    "--history/--request", help=_TAIL, show_default="as the conversation ends")]
History = Annotated[bool, typer.Option("--history", help="The conversation may end on an answer.")]
Full = Annotated[bool, typer.Option("--full", help="Everything: every column, every decision.")]
Table_ = Annotated[str | None, typer.Option("--table", help="Of a database: the table.")]
SessionId = Annotated[str | None, typer.Option("--session", help="Of a database: one conversation.")]
Apply = Annotated[bool, typer.Option(
    "--apply", help="Write it; otherwise only say what would change.")]
InPlace = Annotated[bool, typer.Option("--in-place", help="Of a file: overwrite it.")]
Replayed = Annotated[bool, typer.Option(
    "--what-if/--no-what-if", help="Replay the sessions under policies.")]
# fmt: on


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
    asked = {"provider": provider, "counter": counter}
    options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if config is not None:
        return Curator.from_config(config, **options)
    return Curator(max_tokens=max_tokens, **options)


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


def _read_all(paths: Sequence[str]) -> list[StoredConversation]:
    return [each for path in paths for each in read_file(path).conversations]


def _naming(
    stored: StoredConversation, among: Sequence[StoredConversation]
) -> AbstractContextManager[None]:
    """Name the conversation in errors when there are several."""
    return naming(stored.id) if len(among) > 1 else nullcontext()


def _read_one(file: str, which: int) -> StoredConversation:
    conversations = read_file(file).conversations
    if which >= len(conversations):
        held, last = count_of(len(conversations), "conversation"), len(conversations) - 1
        raise typer.BadParameter(
            f"{which} is not in the range 0<=x<={last}; the file holds {held}.",
            param_hint="'--which' / '-w'",
        )
    return conversations[which]


def _curate_one(
    file: str, which: int, curator: Curator, budget: int | None
) -> tuple[str, CurationReport]:
    stored = _read_one(file, which)
    return stored.id, curator.curate(stored.messages, tools=stored.tools, max_tokens=budget).report


def _check_folders(*paths: Path | None) -> None:
    """Refuse a path that cannot be written before the work, not after it."""
    for path in paths:
        if path is not None:
            check_folder(path)


def _say_written(*paths: Path | None) -> None:
    for path in paths:
        if path is not None:
            console().print(f"Written: {escape(str(path))}", soft_wrap=True)


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
    curator = _build_curator(max_tokens, provider, counter, config)
    tails: dict[bool | None, Literal["history", "request"] | None]
    tails = {None: None, True: "history", False: "request"}
    views = []
    for each in source.conversations:
        with _naming(each, source.conversations):
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
    conversations, name = _read_all(files), provider or "core"
    table = RichTable(title=f"Refused by {name}", title_justify="left", header_style="bold")
    for head in ("conversation", "message", "rule", "what is wrong"):
        table.add_column(head, overflow="fold")
    refused = set()
    for each in conversations:
        with _naming(each, conversations):
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
    curator = _build_curator(max_tokens, provider, counter, config)
    name, found = _curate_one(file, which, curator, max_tokens)
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
    curator = _build_curator(max_tokens, provider, counter, config)
    _, found = _curate_one(file, which, curator, max_tokens)
    _say_written(found.to_html(output or Path("curation.html")))


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
    _check_folders(output)
    stored = _read_one(file, which)
    policies: dict[str, Any] = {"curator": _build_curator(max_tokens, provider, counter, config)}
    policies |= _build_policies([policy] if policy else [], max_tokens, provider, counter)
    page = SessionPage(
        stored.messages, policies, max_tokens=max_tokens, tools=stored.tools, pricing=pricing,
        provider=provider or "core", counter=counter or "o200k_base",
    )  # fmt: skip
    _say_written(page.to_html(output or Path("session.html")))


@app.command(epilog="Example: history-curator count talk.json --counter gpt-4o")
@friendly
def count(files: Files, *, counter: Counter = None, as_json: AsJson = False) -> None:
    """Count tokens exactly as the budget does."""
    rows, name = [], counter or "o200k_base"
    conversations = _read_all(files)
    for each in conversations:
        with _naming(each, conversations):
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
    _check_folders(output, html)
    results = replay(
        load_conversations(*sources)[:limit],
        _build_policies(policy or peer_names(), max_tokens, provider, counter), pricing=pricing,
        provider=provider or "core", max_tokens=max_tokens, counter=counter or "o200k_base",
        finished=finished,
    )  # fmt: skip
    _print_results(results, full=full)
    if output is not None:
        writers: dict[str, Any] = {".parquet": results.to_parquet, ".md": results.to_markdown}
        writers.get(output.suffix, results.to_json)(output)
    if html is not None:
        results.to_html(html)
    _say_written(output, html)


def _print_results(results: ReplayResults, *, full: bool) -> None:
    screen = console()
    advice = results.recommend()  # where there is nothing to compare, it says why
    table = results.table(full=full).to_rich(
        title=results.about(), box=SIMPLE_HEAD, pad_edge=True, padding=(0, 1, 0, 0)
    )
    if screen.width < NARROW and not full:
        narrow = [column for column in table.columns if column.header not in ("sent", "cached")]
        table.columns = narrow
    screen.print(table)
    legend = RichTable.grid(padding=(0, 1))
    for head, meaning in results.legend(full=full).items():
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
    _check_folders(output)
    run_demo(max_tokens, output, full=full)


@app.command(epilog="Example: history-curator prune sqlite:///chat.db --apply")
@friendly
def prune(
    store: Store,
    *,
    config: Config = None,
    output: Output = None,
    table: Table_ = None,
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
        with _naming(each, source.conversations):
            reader = detect(each.messages)
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
    _say_written(html)


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
