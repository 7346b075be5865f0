"""Replay recorded conversations call by call under several policies; nothing is sent."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from history_curator.entries import ConversationEntry, write_private
from history_curator.errors import ConfigurationError, HistoryCuratorError, a_type
from history_curator.lab.conversations import LabConversation, ReadConversation, as_conversations
from history_curator.lab.metrics import (
    Dependency,
    PriceSheet,
    count_visible_edits,
    find_dependencies,
    find_edits,
    get_prices,
    missing_dependencies,
    price_sheets,
)
from history_curator.lab.policies import Policy, PolicyUnavailableError, as_policies
from history_curator.lab.results import ReplayResults, Tally, sum_tallies
from history_curator.rules import ProviderProfile, Violation, get_profile
from history_curator.tokens import TokenCounter, get_counter

_BUNDLE = 100
"""Short conversations travel to a worker together, up to this many messages."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that every measurement shares; they travel to the workers."""

    counter: TokenCounter
    provider: str | None = "core"
    prices: tuple[PriceSheet, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayedCall:
    """One call under a policy.

    Attributes:
        at: index of the entry that answers it.
        before, sent: the view of the call before, and the view with the ``sizes`` of its entries.
        repeated: how many entries at its beginning repeat the view before.
        tokens, cached: of the whole request, and of its part that repeats the request before.
        idle, seconds: time since the answer before, and time to make the view.
        failure: the error that the policy raised instead of giving a view.
    """

    at: int
    before: Sequence[ConversationEntry]
    sent: Sequence[ConversationEntry] = ()
    sizes: Sequence[int] = ()
    repeated: int = 0
    tokens: int = 0
    cached: int = 0
    idle: float | None = None
    seconds: float = 0.0
    is_over: bool = False
    violations: Sequence[Violation] = ()
    failure: Exception | None = None


def replay_calls(
    record: ReadConversation,
    policy: Policy,
    counter: TokenCounter,
    calls: Iterable[int],
    profile: ProviderProfile | None,
) -> Iterator[ReplayedCall]:
    """Make these calls again under a policy, one after the other; nothing is sent."""
    view, max_tokens = policy.start(record, counter), policy.max_tokens
    overhead = counter.priming + record.hidden
    overhead += counter.count_tools(record.tools) if record.tools else 0
    before: Sequence[ConversationEntry] | None = None
    previous_call = 0
    for at in calls:
        idle = record.idle_seconds(previous_call, at) if previous_call else None
        previous_call, started = at, perf_counter()
        try:
            sent = view(at)
        except (HistoryCuratorError, ValueError) as error:
            yield ReplayedCall(at, before or (), failure=error)
            before = None
            continue
        seconds = perf_counter() - started
        sizes = [counter.count_entry(entry) for entry in sent]
        repeated, tokens = _count_repeated(before or (), sent), sum(sizes) + overhead
        cached = sum(sizes[:repeated]) + (0 if before is None else overhead - counter.priming)
        yield ReplayedCall(
            at, before or (), sent, sizes, repeated, tokens, cached, idle, seconds,
            is_over=max_tokens is not None and tokens - record.hidden > max_tokens,
            violations=profile.find(list(sent)) if profile else (),
        )  # fmt: skip
        before = sent


def _count_repeated(before: Sequence[ConversationEntry], sent: Sequence[ConversationEntry]) -> int:
    pairs = enumerate(zip(before, sent, strict=False))
    changed = (index for index, (old, new) in pairs if old is not new and old != new)
    return next(changed, min(len(before), len(sent)))


def measure_conversation(
    conversation: LabConversation, policies: Mapping[str, Policy], settings: Settings
) -> dict[str, Tally]:
    """Return one tally for each policy. Runs in a worker; everything given is picklable."""
    record, counter = conversation.read(), settings.counter
    dependencies, edits = find_dependencies(record), find_edits(record)
    used = [each for some in dependencies.values() for each in some]
    made_again = sum(each.kind == "repeat" for each in used)
    counts = len(record.calls), len(used) - made_again, made_again, sum(map(len, edits.values()))
    profile = get_profile(settings.provider) if settings.provider else None
    for entry in record.entries:  # so that the time of no policy includes first counts
        counter.count_entry(entry)
    tallies = {name: Tally(record.id, *counts) for name in policies}
    for name, policy in policies.items():
        tally = tallies[name]
        try:
            for call in replay_calls(record, policy, counter, record.calls, profile):
                _add_call(tally, call, settings.prices)
                needed, replaced = dependencies.get(call.at, ()), edits.get(call.at, ())
                _add_missing(tally, needed, missing_dependencies(needed, call.sent, record))
                tally.edits += len(replaced)
                tally.edits_seen += count_visible_edits(replaced, call.sent, record)
        except PolicyUnavailableError as error:
            tally.note = str(error)
        if policy.max_tokens:
            sizes = (tokens - record.hidden for tokens in tally.tokens)
            tally.budget_use = sum(sizes) / policy.max_tokens
    return tallies


def _add_missing(tally: Tally, needed: Sequence[Dependency], missing: Sequence[Dependency]) -> None:
    repeats, lost = (sum(e.kind == "repeat" for e in some) for some in (needed, missing))
    tally.repeats += repeats
    tally.identifiers += len(needed) - repeats
    tally.repeated_calls += lost
    tally.lost_identifiers += len(missing) - lost


def _add_call(tally: Tally, call: ReplayedCall, prices: Sequence[PriceSheet]) -> None:
    if call.failure is not None:
        tally.failed += 1
        tally.note = f"{type(call.failure).__name__}: {call.failure}"[:200]
        return
    tally.measured += 1
    tally.seconds += call.seconds
    tally.tokens.append(call.tokens)
    tally.at.append(call.at)
    tally.cached += call.cached
    for sheet in prices:
        cost = sheet.cost(call.tokens, call.cached, call.idle)
        tally.costs[sheet.name] = tally.costs.get(sheet.name, 0.0) + cost
    tally.over_budget += call.is_over
    tally.invalid += bool(call.violations)
    for violation in call.violations:
        tally.violations[violation.rule] = tally.violations.get(violation.rule, 0) + 1
    for entry, size in zip(call.sent, call.sizes, strict=True):
        tally.roles[entry.role.value] = tally.roles.get(entry.role.value, 0) + size


def replay(
    conversations: Any,
    policies: Mapping[str, Any] | Sequence[str],
    *,
    pricing: str | PriceSheet = "anthropic",
    provider: str | None = "core",
    max_tokens: int | None = None,
    counter: Any = "o200k_base",
    executor: Executor | Literal["serial"] | None = None,
    progress: bool = True,
    finished: str | Path | None = None,
) -> ReplayResults:
    """Re-run every recorded call under every policy and measure what would have been sent.

    Every policy sees the same record before each call and is measured by the same counter, rules
    and prices.

    Args:
        conversations: a file, folder, pattern or URL (see `load_conversations`), lists of
            messages, mappings with a ``messages`` list (``id``, ``tools`` and ``times`` are used
            where present), or `LabConversation` objects.
        policies: by name, a `Curator`, a function that builds one, a `Policy`, or the name of a
            known policy (`peer_names`); a list of known names does as well.
        pricing: price sheet for the ``cost`` column.
        provider: profile whose rules decide which requests are invalid; None looks at no rules,
            which saves most of the time on long conversations.
        max_tokens: budget for policies given by name.
        counter: encoding, model name or counter for every number.
        executor: any ``concurrent.futures`` executor; by default one process per core. A cluster's
            executor works: ``dask.distributed.Client(...).get_executor()``. ``"serial"`` stays in
            this process.
        progress: show a bar, where rich is installed.
        finished: a folder for finished conversations. A run that was stopped goes on from there
            when it is given the same folder.

    Raises:
        ConfigurationError: when a policy, price sheet, executor or folder cannot be used.

    Examples:
        >>> talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        >>> results = replay([talk], ["no curation"], progress=False, executor="serial")
        >>> results["no curation"].peak > 0
        True
    """
    started = perf_counter()
    talks = as_conversations(conversations)
    chosen = as_policies(policies, max_tokens)
    sheet = get_prices(pricing)
    sheets = {**price_sheets(), sheet.name: sheet}
    # One counter travels with each task, so that its policies share its memory of texts.
    settings = Settings(get_counter(counter), provider, tuple(sheets.values()))
    files: dict[int, Path] = {}
    found: dict[int, dict[str, Tally]] = {}
    if finished is not None:
        folder = Path(finished)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        files = {n: _finished_file(folder, talk, chosen, settings) for n, talk in enumerate(talks)}
        for number, file in files.items():
            if file.exists():
                rows = json.loads(file.read_text(encoding="utf-8"))
                found[number] = {name: Tally(**row) for name, row in rows.items()}
    pending = [(number, talk) for number, talk in enumerate(talks) if number not in found]
    tasks = [(bundle, chosen, settings) for bundle in _bundle(pending)]
    bar: AbstractContextManager[Callable[[int], None]] = nullcontext(lambda _done: None)
    if progress and find_spec("rich"):
        bar = progress_bar("conversations", len(talks), len(found))
    with bar as advance, _open_pool(executor, tasks) as pool:
        for part in _run_tasks(tasks, pool):
            found.update(part)
            for number in part.keys() & files.keys():
                rows = {name: asdict(tally) for name, tally in part[number].items()}
                write_private(files[number], json.dumps(rows))
            advance(len(part))
    tallies = {name: [found[number][name] for number in sorted(found)] for name in chosen}
    return ReplayResults(
        policies={name: sum_tallies(name, each, sheet.name) for name, each in tallies.items()},
        tallies=tallies,
        pricing=sheet.name,
        provider=provider or "no",
        seconds=perf_counter() - started,
    )


Task = tuple[Sequence[tuple[int, LabConversation]], Mapping[str, Policy], Settings]


def _bundle(
    talks: Iterable[tuple[int, LabConversation]],
) -> list[list[tuple[int, LabConversation]]]:
    """Return the longest conversations first, one in each bundle, and short ones together."""
    bundles: list[list[tuple[int, LabConversation]]] = []
    size = _BUNDLE
    for number, talk in sorted(talks, key=lambda pair: -len(pair[1].messages)):
        if size >= _BUNDLE:
            bundles.append([])
            size = 0
        bundles[-1].append((number, talk))
        size += len(talk.messages)
    return bundles


def _measure_task(task: Task) -> dict[int, dict[str, Tally]]:
    bundle, policies, settings = task
    return {number: measure_conversation(talk, policies, settings) for number, talk in bundle}


def _run_tasks(
    tasks: Sequence[Task], pool: Executor | None
) -> Iterator[dict[int, dict[str, Tally]]]:
    if pool is None:
        yield from map(_measure_task, tasks)
        return
    waiting: list[Future[dict[int, dict[str, Tally]]]] = []
    waiting += [pool.submit(_measure_task, task) for task in tasks]
    try:
        for future in as_completed(waiting):
            yield future.result()
    except BrokenProcessPool as error:
        raise ConfigurationError(
            "a worker process was killed, most often for want of memory. Fix: pass an executor "
            "with fewer workers, and finished= to keep what is done."
        ) from error
    finally:
        for future in waiting:
            future.cancel()


def _open_pool(
    executor: Executor | Literal["serial"] | None, tasks: Sequence[Task]
) -> AbstractContextManager[Executor | None]:
    if executor == "serial":
        return nullcontext(None)
    if executor is not None:
        if not hasattr(executor, "submit"):
            raise ConfigurationError(
                f"executor is {a_type(executor)}. Fix: pass a concurrent.futures "
                'executor, "serial", or nothing.'
            )
        return nullcontext(executor)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if len(tasks) < 2 or (cores or 1) < 2:
        return nullcontext(None)
    try:
        pickle.dumps(tasks[0][1])
    except Exception as error:
        raise ConfigurationError(
            f"a policy cannot travel to another process ({error}). Fix: pass a module-level "
            'function that builds the curator, or executor="serial".'
        ) from error
    return ProcessPoolExecutor(max_workers=cores, mp_context=get_context("spawn"))


@contextmanager
def progress_bar(title: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error, with rich, and hand out ``advance(n)``."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn(),
               TimeRemainingColumn(), "left")  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total, completed=done)
        yield lambda more: bar.advance(task, more)


def _finished_file(
    folder: Path, talk: LabConversation, policies: Mapping[str, Policy], settings: Settings
) -> Path:
    """Return the file of a conversation, named by its content and everything it is measured by.

    Policies are compared by name, class and budget; the options of their managers are not seen.
    """
    chosen = [[name, type(each).__name__, each.max_tokens] for name, each in policies.items()]
    prices = [repr(sheet) for sheet in settings.prices]
    said = [talk.id, talk.messages, talk.tools, talk.times, talk.hidden]
    key = [said, chosen, settings.counter.name, settings.provider, prices]
    digest = hashlib.sha256(json.dumps(key, default=str, sort_keys=True).encode())
    return folder / f"{digest.hexdigest()[:32]}.json"
