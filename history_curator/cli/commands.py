"""The commands."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from history_curator.cli.terminal import (
    Commands,
    console,
    print_decisions,
    print_findings,
    run_demo,
    say_written,
    warn,
)
from history_curator.config import RetentionConfig
from history_curator.curator import Curator
from history_curator.doctor import BUDGETS, Diagnosis, diagnose, judge
from history_curator.entries import MessageRole, check_folder
from history_curator.errors import HistoryCuratorError
from history_curator.lab import (
    LabConversation,
    ReplayResults,
    SessionPage,
    load_conversations,
    policy_names,
    replay,
)
from history_curator.lab.conversations import name_in_errors
from history_curator.lab.files import write_text
from history_curator.lab.results import Table, count_of
from history_curator.rules import check_conversation
from history_curator.tokens import count_tokens, get_counter


def _check_path(path: Path | None) -> Path | None:
    """Refuse a path that cannot be written before the work, not after it."""
    if path is not None:
        check_folder(path)
    return path


def _parse_rise(text: str) -> str:
    """Refuse a rise that is no percentage."""
    if not re.fullmatch(r"\+?\d+(\.\d+)?%", text.strip()):
        raise typer.BadParameter(f"{text!r} is no percentage. Fix: write it like +5%.")
    return text


def _as_share(text: str) -> float:
    return float(text.strip().strip("+%")) / 100


def _as_table(output: Path | None) -> Path | None:
    """Return an output that is a table of rows by its ending; any other has all numbers."""
    return output if output is not None and output.suffix == ".parquet" else None


# fmt: off
_FILE = typer.Argument(
    metavar="FILE", help="A file of conversations or a log, a folder, or - for standard input; "
    "also in an object store (s3://…), with the package of fsspec for it.")
_BUDGET = typer.Option("--max-tokens", "-n", min=1, help="The most tokens a request may have.")
File = Annotated[str, _FILE]
Files = Annotated[list[str], _FILE]
Budget = Annotated[int | None, _BUDGET]
ReplayBudget = Annotated[int, _BUDGET]
Provider = Annotated[str | None, typer.Option(
    "--provider", "-p", help="The provider whose message rules apply.", show_default="core")]
Counter = Annotated[str | None, typer.Option(
    "--counter", help="The tokenizer that counts: an encoding or a model name.",
    show_default="o200k_base")]
Pricing = Annotated[str, typer.Option(help="The prices: a sheet or a model name.")]
Policies = Annotated[list[str] | None, typer.Option(
    "--policy", help=f"One of {', '.join(policy_names())}, or NAME=config.yaml; may be repeated.")]
Config = Annotated[Path | None, typer.Option(
    "--config", "-c", help="A YAML or TOML file with the options; those given here win.")]
Output = Annotated[Path | None, typer.Option(
    "--output", "-o", callback=_check_path,
    help="Write the messages to this file, not to standard output.")]
Budgets = Annotated[list[int] | None, typer.Option(
    "--budget", "-b", min=1, help="A budget to replay under; may be repeated.",
    show_default=", ".join(map(str, BUDGETS)))]
Numbers = Annotated[Path | None, typer.Option(
    "--output", "-o", callback=_check_path, help="Also write all numbers to this file, as JSON, or to one "
    "that ends on .parquet a row for each session, in compare for each policy as well.")]
Scheduler = Annotated[str | None, typer.Option(
    metavar="ADDRESS", help="Work on the Dask cluster of this scheduler: tcp://host:8786.")]
Sample = Annotated[int | None, typer.Option(
    min=1, help="Take so many of the files, the same every time.")]
Html = Annotated[Path | None, typer.Option(
    "--html", callback=_check_path, help="Also write a page for a browser to this file.")]
Page = Annotated[Path | None, typer.Option(
    "--html", "--output", "-o", callback=_check_path, help="Write a page for a browser to this file.")]
Which = Annotated[int | None, typer.Option(
    "--which", "-w", min=0, help="The number of the conversation, where the file has several.")]
# fmt: on

RULES = "Rules: https://history-curator.github.io/history-curator/providers/"

app = typer.Typer(
    name="history-curator",
    cls=Commands,
    help="Keep the full history; send the model a view that fits.",
    epilog="--version shows the version. Exit codes: 0 done, 1 violations found (check) or more than "
    "the baseline allows (doctor --against), 2 input or settings cannot be used.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _build_curator(
    max_tokens: int | None, provider: str | None, counter: str | None, config: Path | None
) -> Curator:
    """Return the curator; a provider or counter that was asked for wins over the file's."""
    asked: dict[str, Any] = {"provider": provider, "counter": counter}
    options = {name: value for name, value in asked.items() if value}
    if config is not None:
        return Curator.from_config(config, **options)
    return Curator(max_tokens=max_tokens, **options)


def _build_policies(
    names: Sequence[str], max_tokens: int, provider: str | None, counter: str | None
) -> dict[str, Any]:
    """Return policies by name; ``NAME=config.yaml`` is a curator of one's own."""
    policies: dict[str, Any] = {}
    for label, _, path in (name.partition("=") for name in names):
        if path and not label:
            raise HistoryCuratorError(f"--policy '={path}' has no name. Fix: NAME={path}.")
        own = _build_curator(max_tokens, provider, counter, Path(path)) if path else label
        policies[label] = own
    return policies


def _load(files: Sequence[str]) -> tuple[list[LabConversation], list[str]]:
    """Return the conversations that can be read, and a line for everything that cannot."""
    problems: list[str] = []
    conversations = load_conversations(*files, problems=problems)
    _warn_of_problems(files, len(conversations), problems)
    return conversations, problems


def _warn_of_problems(files: Sequence[str], count: int, problems: Sequence[str]) -> None:
    """List what could not be read; raise where no conversation was."""
    if not count:
        nothing = f"{files[0]} holds no conversation. Fix: name another file."
        raise HistoryCuratorError(next(iter(problems), nothing))
    warn([f"Passed over, {len(problems):,} in all:", *problems] if problems else [])


def _read_one(file: str, which: int | None) -> LabConversation:
    """Return one conversation of a file or folder; without ``which`` the first, saying so."""
    conversations, _ = _load([file])
    last, held = len(conversations) - 1, count_of(len(conversations), "conversation")
    if (which or 0) > last:
        fix = f"--which 0 to {last}" if last else "leave --which out"
        raise HistoryCuratorError(f"{file} holds {held}, and no number {which}. Fix: {fix}.")
    if which is None and last:
        names = ", ".join(f"{n} {each.id}" for n, each in enumerate(conversations[:6]))
        more = ", …" if last > 5 else ""
        warn([f"{file} holds {held}; this is number 0. Choose with --which: {names}{more}"])
    return conversations[which or 0]


def _show(found: ReplayResults | Diagnosis, html: Path | None, output: Path | None) -> None:
    """Print what was found; write its page and all its numbers where they were asked for."""
    print_findings(found.describe())
    if output is not None and output != _as_table(output):
        write_text(found.to_json() + "\n", output)
    if html is not None:
        found.to_html(html)
    say_written(output, html)


@app.command(epilog="Example: history-curator curate talk.json -n 16000 -o view.json")
def curate(
    file: File,
    *,
    max_tokens: Budget = None,
    provider: Provider = None,
    counter: Counter = None,
    config: Config = None,
    output: Output = None,
) -> None:
    """Write the view of FILE as a JSON list of messages; of several, JSON lines with id and messages."""
    talks, views = load_conversations(file), []
    curator = _build_curator(max_tokens, provider, counter, config)
    for each in talks:
        with name_in_errors(each.id):
            curation = curator.curate(each.messages, tools=each.tools, max_tokens=max_tokens)
        views.append({"id": each.id, "messages": curation.messages})
        warn([f"{each.id}: {curation.report.headline}"], style="")
    lines = [json.dumps(view, ensure_ascii=False) for view in views]
    if len(views) == 1:
        lines = [json.dumps(views[0]["messages"], ensure_ascii=False, indent=2)]
    write_text("".join(f"{line}\n" for line in lines), output)
    say_written(output)


@app.command(epilog="Example: history-curator check logs/*.jsonl --provider anthropic")
def check(files: Files, *, provider: Provider = None) -> None:
    """List the messages that a provider would refuse; exit code 1 when there are any.

    A conversation may end on an answer, as stored ones do.
    """
    (conversations, problems), rows = _load(files), []
    for each in conversations:
        is_history = not each.entries or each.entries[-1].role is MessageRole.ASSISTANT
        tail: Any = "history" if is_history else "request"
        for violation in check_conversation(each.messages, provider or "core", tail=tail):
            index = "–" if violation.index is None else str(violation.index)
            rows.append((each.id, index, violation.rule, violation.message))
    total, refused = count_of(len(conversations), "conversation"), {row[0] for row in rows}
    if rows:
        heads = ("conversation", "message", "rule", "problem")
        console().print(f"[bold]Refused by {escape(provider or 'some provider')}")
        console().print(Table("", heads, rows, text_last=True).to_rich())
        console().print(f"{count_of(len(rows), 'violation')} in {len(refused)} of {total}.")
        rules = f" -p {provider}" if provider else ""
        fix = f"Fix: history-curator curate {files[0]}{rules} -o fixed.json"
        console().print(escape(f"{fix}\n{RULES}"), soft_wrap=True)
    else:
        console().print(f"[green]{total}, valid for {provider or 'every supported provider'}.")
    if rows or problems:
        raise typer.Exit(2 if problems else 1)


@app.command(epilog="Example: history-curator explain talk.json -n 16000 --html page.html")
def explain(
    file: File,
    *,
    max_tokens: Budget = None,
    provider: Provider = None,
    counter: Counter = None,
    config: Config = None,
    which: Which = None,
    html: Page = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the decision for each message of a conversation, with the reason."""
    talk, curator = _read_one(file, which), _build_curator(max_tokens, provider, counter, config)
    found = curator.curate(talk.messages, tools=talk.tools, max_tokens=max_tokens).report
    if as_json:
        sys.stdout.write(found.to_json(indent=2) + "\n")
    elif html is None:
        print_decisions(found)
    else:
        say_written(found.to_html(html))


@app.command(epilog="Example: history-curator session talk.json -n 16000 --policy trim_messages")
def session(
    file: File,
    *,
    html: Page = Path("session.html"),
    max_tokens: ReplayBudget = 32_000,
    policy: Policies = None,
    provider: Provider = None,
    counter: Counter = None,
    which: Which = None,
) -> None:
    """Write one page with every call of a conversation, under the curator or two policies."""
    talk, names = _read_one(file, which), policy or []
    names = names if len(names) == 2 else ["curator", *names]
    page = SessionPage(
        talk.messages, _build_policies(names, max_tokens, provider, counter), tools=talk.tools,
        max_tokens=max_tokens, provider=provider or "core", counter=counter or "o200k_base",
    )  # fmt: skip
    say_written(page.to_html(html or Path("session.html")))


@app.command(epilog="Example: history-curator count talk.json --counter gpt-4o")
def count(
    files: Files,
    *,
    counter: Counter = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count tokens as the budget does."""
    counting, rows = get_counter(counter), []
    is_estimate = counting.name.endswith("estimated")  # the vocabulary is not on this machine
    for each in _load(files)[0]:
        tokens = count_tokens(each.messages, counting, tools=each.tools)
        rows.append((each.id, f"{len(each.messages):,}", f"{tokens:,}"))
        if as_json:
            row = {"id": each.id, "messages": len(each.messages), "tokens": tokens}
            row |= {"counter": counting.name, "is_estimate": is_estimate}
            sys.stdout.write(json.dumps(row) + "\n")
    heads = ("conversation", "messages", f"tokens ({counting.name})")
    if not as_json:
        console().print(Table("", heads, rows).to_rich())


@app.command(epilog="Example: history-curator compare logs/ -n 32000 --html page.html")
def compare(
    files: Files,
    *,
    policy: Policies = None,
    max_tokens: ReplayBudget = 32_000,
    provider: Provider = None,
    pricing: Pricing = "anthropic",
    counter: Counter = None,
    html: Html = None,
    output: Numbers = None,
    sample: Sample = None,
    scheduler: Scheduler = None,
) -> None:
    """Replay recorded conversations under several policies and compare them."""
    policies = _build_policies(policy or policy_names(), max_tokens, provider, counter)
    problems: list[str] = []
    results = replay(
        files, policies, max_tokens=max_tokens, pricing=pricing, provider=provider or "core",
        counter=counter or "o200k_base", sample=sample, scheduler=scheduler, parquet=_as_table(output),
        problems=problems,
    )  # fmt: skip
    count = sum(each.conversations for each in results.policies.values())
    _warn_of_problems(files, count, problems)
    _show(results, html, output)


@app.command(epilog="Example: history-curator demo -n 12000")
def demo(html: Page = None, max_tokens: ReplayBudget = 12_000) -> None:
    """Curate an agent's session in front of you and write its page."""
    run_demo(max_tokens, html)


@app.command(epilog="Example: history-curator prune sqlite:///chat.db --apply")
def prune(
    store: Annotated[str, typer.Argument(help="The URL of a database: sqlite:///chat.db.")],
    *,
    config: Config = None,
    apply: Annotated[bool, typer.Option("--apply", help="Do it; else say what would go.")] = False,
) -> None:
    """Remove tool details of older turns from a SQL store, by retention rules.

    The rules are those of --config. Without it the last two turns stay whole, and tool results of
    older ones are trimmed to name and status.
    """
    from history_curator.record.prune import prune_store

    rules = RetentionConfig(persist_tool_invocations="trimmed")
    if config is not None:
        rules = RetentionConfig.from_file(config)
    found = prune_store(store, config=rules, apply=apply)
    sys.stdout.write("".join(f"{one}\n" for one in found))
    if not apply:
        warn(["Dry run: nothing was written. Add --apply to do it."])


@app.command(
    epilog="Example: history-curator doctor ~/.claude/projects --html cost.html. With --against the "
    "exit code is 1 when a call costs more, or calls missed more, than the baseline allows."
)
def doctor(
    files: Files,
    *,
    budget: Budgets = None,
    what_if: Annotated[bool, typer.Option(help="Replay the sessions under policies.")] = True,
    html: Html = None,
    output: Numbers = None,
    against: Annotated[Path | None, typer.Option(
        metavar="BASELINE", exists=True, dir_okay=False, help="Compare with what -o wrote as JSON before.")] = None,
    max_cost: Annotated[str, typer.Option(
        callback=_parse_rise, help="How much the cost of a call may rise.")] = "+5%",
    max_missed: Annotated[str, typer.Option(
        callback=_parse_rise, help="By how many points the share of missed may rise.")] = "+1%",
    sample: Sample = None,
    scheduler: Scheduler = None,
) -> None:  # fmt: skip
    """Report the costs of recorded sessions, where the cache was lost, and what other policies cost."""
    found = diagnose(
        files, budgets=(budget or BUDGETS) if what_if else (), progress=True, sample=sample,
        scheduler=scheduler, parquet=_as_table(output),
    )  # fmt: skip
    verdict = None
    if against is not None:  # before the output is written: it may be the same file
        shares = {"max_cost": _as_share(max_cost), "max_missed": _as_share(max_missed)}
        verdict = judge(found, against, **shares)
    _show(found, html, output)
    if verdict is not None:
        print_findings(verdict.describe())
        if not verdict.passed:
            raise typer.Exit(1)
