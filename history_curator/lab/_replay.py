"""Replay recorded conversations call by call under several policies; one that was stopped goes on."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from history_curator.caching import PriceSheet, get_prices, price_sheets
from history_curator.errors import ConfigurationError, a_type
from history_curator.lab._conversation import LabConversation, as_conversations
from history_curator.lab._extra import progress_bar
from history_curator.lab._measure import Settings, Tally, measure_conversation, tally_to_dict
from history_curator.lab._policies import Policy, as_policies
from history_curator.lab._results import ReplayResults
from history_curator.lab._sources import load_conversations
from history_curator.lab._table import summarise
from history_curator.entries import write_private
from history_curator.tokens import get_counter


class FinishedFolder:
    """One JSON file per finished conversation, and one that says how they were measured.

    A conversation is known by its content, so files may be added, removed or reordered between
    two runs. The folder belongs to one set of policies and settings; another set is refused. What
    is compared are the policies' names, kinds and budgets: a manager's options are not seen.
    """

    def __init__(
        self, path: str | Path, policies: Mapping[str, Policy], settings: Settings
    ) -> None:
        self._folder = Path(path)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._check(_described(policies, settings))

    def _check(self, wanted: dict[str, Any]) -> None:
        manifest = self._folder / "run.json"
        if not manifest.exists():
            _write(manifest, wanted)
            return
        found = json.loads(manifest.read_text(encoding="utf-8"))
        for key, value in wanted.items():
            if found.get(key) != value:
                raise ConfigurationError(
                    f"{self._folder} holds a run with {key} {found.get(key)!r}, not {value!r}. "
                    "Fix: take up the same run, or pass another folder."
                )

    def read(self, conversation: LabConversation) -> dict[str, Tally] | None:
        """Return what was measured of a conversation, or None when it is not finished."""
        path = self._path(conversation)
        if not path.exists():
            return None
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {name: Tally(**row) for name, row in rows.items()}

    def write(self, conversation: LabConversation, tallies: Mapping[str, Tally]) -> None:
        """Keep what was measured; a file is there whole or not at all."""
        rows = {name: tally_to_dict(tally) for name, tally in tallies.items()}
        _write(self._path(conversation), rows)

    def _path(self, conversation: LabConversation) -> Path:
        said = json.dumps(
            [conversation.id, conversation.messages, conversation.questions, conversation.tools],
            default=str, sort_keys=True,
        )  # fmt: skip
        return self._folder / f"{hashlib.sha256(said.encode()).hexdigest()[:32]}.json"


def _described(policies: Mapping[str, Policy], settings: Settings) -> dict[str, Any]:
    return {
        "policies": [
            [name, type(policy).__name__, policy.max_tokens] for name, policy in policies.items()
        ],
        "counter": settings.counter.name,
        "provider": settings.provider,
        "prices": [repr(sheet) for sheet in settings.prices],
        "max_calls": settings.max_calls,
    }


def _write(path: Path, data: Any) -> None:
    write_private(path, json.dumps(data))


Task = tuple[Sequence[tuple[int, LabConversation]], Mapping[str, Policy], Settings]


def replay(
    conversations: Any,
    policies: Mapping[str, Any] | Sequence[str],
    *,
    pricing: str | PriceSheet | Mapping[str, Any] = "anthropic",
    provider: str | None = "core",
    max_tokens: int | None = None,
    counter: Any = "o200k_base",
    executor: Executor | Literal["serial"] | None = None,
    progress: bool = True,
    max_calls: int | None = None,
    finished: str | Path | None = None,
) -> ReplayResults:
    """Re-run every recorded call under every policy and measure what would have been sent.

    Nothing is sent to any model. Every policy sees the same record before each call and is
    measured by the same counter, rules and prices.

    Args:
        conversations: a file, folder, pattern or URL (see `load_conversations`), lists of
            messages, mappings with a ``messages`` list (``id``, ``questions`` and ``tools`` are
            used where present), or `LabConversation` objects.
        policies: by name, a `Curator`, a function that builds one, a `Policy`, or the name of a
            known policy (`peer_names`); a list of known names does as well.
        pricing: price sheet for the ``cost`` column.
        provider: profile whose rules decide what would be refused; None looks at no rules, which
            saves most of the time on long conversations.
        max_tokens: budget for policies given by name.
        counter: encoding, model name or counter for every number.
        executor: any ``concurrent.futures`` executor; by default one process per core. A cluster's
            executor works: ``dask.distributed.Client(...).get_executor()``, `RayExecutor`,
            `SparkExecutor`. ``"serial"`` stays in this process.
        progress: show a bar, where rich is installed.
        max_calls: measure at most this many consecutive calls per conversation.
        finished: a folder for what is finished. A run that was stopped goes on where it was when
            it is given the same folder.

    Raises:
        ConfigurationError: when a policy, price sheet, executor or folder cannot be used.

    Examples:
        >>> talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        >>> print(
        ...     replay([talk], ["no curation"], progress=False, executor="serial")[
        ...         "no curation"
        ...     ].peak
        ...     > 0
        ... )
        True
    """
    started = perf_counter()
    if isinstance(conversations, (str, Path)):
        conversations = load_conversations(conversations)
    talks = as_conversations(conversations)
    chosen = as_policies(policies, max_tokens)
    sheet = get_prices(pricing)
    sheets = {**price_sheets(), sheet.name: sheet}
    # One counter travels with each task, so that its policies share what was counted.
    settings = Settings(get_counter(counter), provider, tuple(sheets.values()), max_calls)
    folder = None if finished is None else FinishedFolder(finished, chosen, settings)
    found: dict[int, dict[str, Tally]] = {}
    if folder is not None:
        known = ((number, folder.read(talk)) for number, talk in enumerate(talks))
        found = {number: tallies for number, tallies in known if tallies is not None}
    todo = [(number, talk) for number, talk in enumerate(talks) if number not in found]
    tasks = _tasks(todo, chosen, settings)
    bar: AbstractContextManager[Callable[[int], None]] = nullcontext(lambda _done: None)
    if progress and find_spec("rich"):
        bar = progress_bar("conversations", len(talks), len(found))
    with bar as advance, _pool(executor, tasks) as pool:
        for part in _run(tasks, pool):
            found.update(part)
            for number, tallies in part.items():
                if folder is not None:
                    folder.write(talks[number], tallies)
            advance(len(part))
    by_policy = {name: [found[number][name] for number in sorted(found)] for name in chosen}
    return ReplayResults(
        policies={name: summarise(name, each, sheet.name) for name, each in by_policy.items()},
        tallies=by_policy,
        pricing=sheet.name,
        provider=provider or "no",
        seconds=perf_counter() - started,
    )


def _tasks(
    talks: Sequence[tuple[int, LabConversation]],
    policies: Mapping[str, Policy],
    settings: Settings,
) -> list[Task]:
    """Return the longest conversations first, one per task, and short ones in bundles."""
    order = sorted(talks, key=lambda pair: -len(pair[1].messages))
    tasks: list[Task] = []
    bundle: list[tuple[int, LabConversation]] = []
    size = 0
    for pair in order:
        bundle.append(pair)
        size += len(pair[1].messages)
        if size >= 100:
            tasks.append((bundle, policies, settings))
            bundle, size = [], 0
    if bundle:
        tasks.append((bundle, policies, settings))
    return tasks


def _work(task: Task) -> dict[int, dict[str, Tally]]:
    bundle, policies, settings = task
    return {number: measure_conversation(talk, policies, settings) for number, talk in bundle}


def _run(tasks: Sequence[Task], pool: Executor | None) -> Iterable[dict[int, dict[str, Tally]]]:
    if pool is None:
        yield from map(_work, tasks)
        return
    waiting: list[Future[dict[int, dict[str, Tally]]]] = [pool.submit(_work, t) for t in tasks]
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


def _pool(
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
