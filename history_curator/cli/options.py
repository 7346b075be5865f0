"""The options of the commands, and the objects made from them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from history_curator.cli.screen import console
from history_curator.curator import Curator
from history_curator.entries import check_folder
from history_curator.lab import peer_names, price_sheets
from history_curator.lab.files import StoredConversation, naming, read_file
from history_curator.lab.tables import count_of
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
