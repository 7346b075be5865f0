"""The terminal: options and the objects made from them, errors in one line, and the demo."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table as RichTable
from rich.text import Text

from history_curator.curator import Curator
from history_curator.entries import check_folder
from history_curator.errors import HistoryCuratorError
from history_curator.lab import (
    NewestThatFit,
    NoCuration,
    ReplayResults,
    SessionPage,
    peer_names,
    price_sheets,
    replay,
    sample_conversation,
)
from history_curator.lab.files import StoredConversation, naming, read_file
from history_curator.lab.tables import Table, count_of, short_number
from history_curator.report import CurationReport

PROVIDERS = ("core", "portable", "openai", "openai-responses", "anthropic", "gemini", "bedrock",
             "mistral")  # fmt: skip


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
TableName = Annotated[str | None, typer.Option("--table", help="Of a database: the table.")]
SessionId = Annotated[str | None, typer.Option("--session", help="Of a database: one conversation.")]
Apply = Annotated[bool, typer.Option(
    "--apply", help="Write it; otherwise only say what would change.")]
InPlace = Annotated[bool, typer.Option("--in-place", help="Of a file: overwrite it.")]
Replayed = Annotated[bool, typer.Option(
    "--what-if/--no-what-if", help="Replay the sessions under policies.")]
# fmt: on


def build_curator(
    max_tokens: int | None, provider: str | None, counter: str | None, config: Path | None
) -> Curator:
    """Return the curator; a provider or counter that was asked for wins over the file's."""
    asked = {"provider": provider, "counter": counter}
    options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if config is not None:
        return Curator.from_config(config, **options)
    return Curator(max_tokens=max_tokens, **options)


def build_policies(
    names: Sequence[str], max_tokens: int, provider: str | None, counter: str | None
) -> dict[str, Any]:
    """Return policies by name; ``NAME=config.yaml`` is a curator of one's own."""
    policies: dict[str, Any] = {}
    for name in names:
        label, _, path = name.partition("=")
        if path and not label:
            raise typer.BadParameter(f"{name!r} has no name. Write NAME={path}.")
        own = build_curator(max_tokens, provider, counter, Path(path)) if path else label
        policies[label] = own
    return policies


def read_all(paths: Sequence[str]) -> list[StoredConversation]:
    """Return the conversations of several files."""
    return [each for path in paths for each in read_file(path).conversations]


def name_errors(
    stored: StoredConversation, among: Sequence[StoredConversation]
) -> AbstractContextManager[None]:
    """Name the conversation in errors when there are several."""
    return naming(stored.id) if len(among) > 1 else nullcontext()


def read_one(file: str, which: int) -> StoredConversation:
    """Return one conversation of a file, by its number."""
    conversations = read_file(file).conversations
    if which >= len(conversations):
        held, last = count_of(len(conversations), "conversation"), len(conversations) - 1
        raise typer.BadParameter(
            f"{which} is not in the range 0<=x<={last}; the file holds {held}.",
            param_hint="'--which' / '-w'",
        )
    return conversations[which]


def curate_one(
    file: str, which: int, curator: Curator, budget: int | None
) -> tuple[str, CurationReport]:
    """Curate one conversation of a file; return its name and its report."""
    stored = read_one(file, which)
    return stored.id, curator.curate(stored.messages, tools=stored.tools, max_tokens=budget).report


def check_folders(*paths: Path | None) -> None:
    """Refuse a path that cannot be written before the work, not after it."""
    for path in paths:
        if path is not None:
            check_folder(path)


def say_written(*paths: Path | None) -> None:
    """Name the files that were written."""
    for path in paths:
        if path is not None:
            console().print(f"Written: {escape(str(path))}", soft_wrap=True)


NARROW = 60
"""On a terminal with fewer columns a table leaves some columns out."""
_COLOURS = {
    "kept": "green", "truncated": "yellow", "cleared": "dark_orange", "dropped": "red",
    "merged": "cyan", "moved": "blue", "inserted": "magenta", "summarised": "magenta",
    "repaired": "cyan",
}  # fmt: skip
_LEVELS = "▁▂▃▄▅▆▇█"
_NEWEST = "the newest that fit"
_GONE = {
    "dropped": "left at the cutoff; the record keeps them",
    "truncated": "shortened to head and tail, with a mark",
    "cleared": "cleared to a placeholder",
    "merged": "joined with a neighbour",
    "summarised": "replaced by a summary",
}
Command = TypeVar("Command", bound=Callable[..., Any])


class Screen(Console):
    """A console that leaves a closed pipe to `history_curator.cli.main`."""

    def on_broken_pipe(self) -> None:
        """Pass the error on instead of ending with exit code 1."""
        raise BrokenPipeError


def console(stderr: bool = False) -> Console:
    """Return a console; where the output is no terminal it is 140 columns wide."""
    screen = Screen(stderr=stderr, highlight=False)
    if screen.is_terminal or os.environ.get("COLUMNS"):
        return screen
    return Screen(stderr=stderr, highlight=False, width=140)


def friendly(command: Command) -> Command:
    """Turn the library's errors and missing files into one line and exit code 2."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:
            raise
        except (HistoryCuratorError, OSError, ImportError) as error:
            text = str(error)
            if isinstance(error, OSError) and error.strerror:
                named = f"{error.filename}: " if error.filename is not None else ""
                text = f"{named}{error.strerror}."
            console(stderr=True).print(f"[red]error:[/red] {escape(text)}", soft_wrap=True)
            raise typer.Exit(2) from error

    return run  # type: ignore[return-value]


def summary_panel(report: CurationReport, title: str) -> Panel:
    """Return the numbers of a curation and its budget bar."""
    before, after = (
        count_of(count, "message") for count in (report.original_count, report.curated_count)
    )
    body = Text(f"{before}, {report.tokens_before:,} tokens on record\n")
    body.append(f"{after}, {report.tokens:,} tokens in the view", "bold")
    if report.max_tokens:
        body.append(f" of {report.max_tokens:,}\n").append_text(budget_bar(report))
    prefix = count_of(report.prefix_entries, "message")
    body.append(f"\nstable prefix: {prefix}, {report.prefix_tokens:,} tokens\n")
    for action, count in sorted(report.actions.items(), key=lambda item: -item[1]):
        body.append(f"{count} {action}  ", _COLOURS.get(action, "white"))
    for warning in report.warnings:
        body.append(f"\nwarning: {warning}", "yellow")
    return Panel(body, title=escape(title), title_align="left", border_style="blue", expand=False)


def budget_bar(report: CurationReport, width: int = 56) -> Text:
    """Return a bar of the budget: the stable prefix darker, the rest of the view lighter."""
    whole = max(report.max_tokens or 0, report.tokens, 1)
    used = round(width * report.tokens / whole)
    stable = min(used, round(width * report.prefix_tokens / whole))
    bar = Text("█" * stable, "blue")
    bar.append("█" * (used - stable), "cyan").append("░" * (width - used), "bright_black")
    return bar.append(f" {report.tokens / whole:.0%}")


def decision_table(report: CurationReport, *, narrow: bool = False) -> RichTable:
    """Return one row for each decision; a narrow table has neither reasons nor texts."""
    table = RichTable(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right", no_wrap=True, min_width=3)
    table.add_column("role", no_wrap=True, min_width=9)
    table.add_column("decision", no_wrap=True, min_width=10)
    table.add_column("tokens", justify="right", no_wrap=True, min_width=12)
    if not narrow:
        table.add_column("why", no_wrap=True, overflow="ellipsis", max_width=36)
        table.add_column("text")  # the only column that gives way
    for row in report.to_dict()["decisions"]:
        action, before, after = row["action"], row["tokens_before"], row["tokens_after"]
        text = " ".join(str(row.get("before") or row.get("after") or "")[:200].split())
        calls = ", ".join(f"{call['name']}({call['arguments']})" for call in row["tool_calls"])
        style = "bright_black" if action == "dropped" else ""
        cells = (
            "+" if row["index"] is None else str(row["index"]),
            row["role"],
            Text(action, _COLOURS.get(action, "white")),
            f"{after:,}" if before == after else f"{before:,} → {after:,}",
            Text("" if action == "kept" else row["reason"]),
            Text((text or calls)[:120], style, no_wrap=True, overflow="ellipsis"),
        )
        table.add_row(*cells[: len(table.columns)])
    return table


def run_demo(max_tokens: int, output: Path | None = None, *, full: bool = False) -> None:
    """Curate the sample conversation call by call, show its cost, and write its page."""
    screen = console()
    narrow = screen.width < NARROW
    messages = sample_conversation()
    report = Curator(max_tokens=max_tokens).curate(messages).report
    policies: dict[str, Any] = {
        "curator": Curator(max_tokens=max_tokens),
        _NEWEST: NewestThatFit(max_tokens),
        "everything": NoCuration(max_tokens),
    }
    results = replay([messages], policies, executor="serial", progress=False)
    page = SessionPage(messages, {name: policies[name] for name in ("curator", _NEWEST)})
    screen.rule("An agent looks for a slow checkout", align="left")
    if full:
        screen.print(decision_table(report, narrow=narrow), "")
    screen.print(_last_request(report))
    title = f"\nThe whole session, {count_of(len(page.data['calls']), 'call')}"
    screen.print(_whole_session(results, title, narrow=narrow))
    screen.print(_call_by_call(page.data["policies"][0], max_tokens))
    if output is None:
        output = Path(tempfile.mkdtemp(prefix="history-curator-")) / "demo.html"
    more = "" if full else " --full prints every decision."
    screen.print(f"\nEvery call, message and reason on one page (open it in a browser).{more}")
    screen.print(str(page.to_html(output).resolve()), style="bold", soft_wrap=True)


def _last_request(report: CurationReport) -> RichTable:
    table = RichTable(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    messages = count_of(report.original_count, "message")
    table.add_row("went in", f"{messages}, {report.tokens_before:,} tokens")
    sent = f"{count_of(report.curated_count, 'message')}, {report.tokens:,} of {report.max_tokens:,} tokens "
    table.add_row("is sent", Text(sent).append_text(budget_bar(report, width=20)))
    lines = []
    for action, where in _GONE.items():
        found = [each for each in report.decisions if each.action == action]
        if found:
            gone = sum(each.tokens_before - each.tokens_after for each in found)
            lines.append(f"{count_of(len(found), 'message')} {where}: {gone:,} tokens less")
    for each in report.decisions:
        if each.action == "inserted":
            note = "the recap" if each.origin == "recap" else "a note"
            lines.append(f"in their place {note}, {each.tokens_after:,} tokens: {each.reason}")
    for number, line in enumerate(lines or ["nothing"]):
        table.add_row("" if number else "left out", line)
    return table


def _whole_session(results: ReplayResults, title: str, *, narrow: bool) -> RichTable:
    heads = ("tokens", "cached", "cost", "lost", "invalid", "over")[2 * narrow :]
    rows = []
    for name, each in results.policies.items():
        lost = each.lost_identifiers + each.repeated_calls
        cells = (short_number(each.tokens_sent), f"{each.cached_share:.0%}", f"{each.cost:.3f}",
                 f"{lost} of {each.identifiers + each.repeats}", f"{each.invalid}",
                 f"{each.over_budget}")  # fmt: skip
        rows.append([name, *cells[2 * narrow :]])
    table = Table(title, ("", *heads), rows).to_rich(title=title, header_style="bright_black")
    table.rows[0].style = "bold"
    table.caption_justify = "left"
    table.caption = (
        "cached repeats the request before and costs a tenth; cost in millions of tokens at full "
        "price (Anthropic); lost was needed by a later call and out of view; invalid requests "
        "break a rule of the provider, over are requests over the budget. "
        f"{_NEWEST!r} is trim_messages of LangChain, written again."
    )
    return table


def _call_by_call(policy: Mapping[str, Any], max_tokens: int) -> Text:
    """Return the size of each request as a line of bars; compactions in another colour."""
    line, compactions = Text("\ncurator  ", "bold"), []
    for number, view in enumerate(policy["views"], 1):
        level = min(len(_LEVELS) - 1, int(view["tokens"] / max_tokens * len(_LEVELS)))
        line.append(_LEVELS[level], "yellow" if view["compacted"] else "blue")
        compactions += [str(number)] if view["compacted"] else []
    where = f"compactions at call {', '.join(compactions)}" if compactions else "no compaction"
    return line.append(f"  {where}; between compactions nothing sent changes", "bright_black")
