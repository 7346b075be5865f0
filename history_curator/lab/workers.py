"""Run tasks in this process, in processes of this machine, or on a Dask cluster, a few at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pickle import PicklingError
from typing import Any, TypeVar

from history_curator.errors import ConfigurationError
from history_curator.lab.conversations import import_extra

IN_FLIGHT = 1_000
"""How many tasks may wait for a worker, or for their result to be taken, at one time."""
FEW_FILES = 8
"""Fewer files are read by the caller, so that each conversation is a task of its own."""
Task = TypeVar("Task")
Result = TypeVar("Result")


def run_tasks(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    executor: Any = None,
    scheduler: str | None = None,
) -> Iterator[Result]:
    """Yield what a function returns for each task, in the order of the tasks.

    Without an executor and a scheduler processes of this machine run them; ``"serial"`` is this
    process. A task whose worker dies is run again by the scheduler.
    """
    if executor == "serial" and scheduler is None:
        yield from map(function, tasks)
        return
    pending = deque[Any]()
    with _open_workers(executor, scheduler) as submit:
        try:
            for task in tasks:
                pending.append(submit(function, task))
                if len(pending) >= IN_FLIGHT:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except (PicklingError, AttributeError, TypeError) as error:
            if "pickle" not in str(error):
                raise
            problem = f"a policy cannot be sent to another process ({error})."
            raise ConfigurationError(f'{problem} Fix: pass executor="serial".') from error
        finally:
            for each in pending:
                each.cancel()


@contextmanager
def _open_workers(executor: Any, scheduler: str | None) -> Iterator[Callable[..., Any]]:
    """Yield a function that starts a task and returns its future."""
    if scheduler is not None:
        with import_extra("distributed", "scale").Client(scheduler) as client:
            yield partial(client.submit, pure=False)
    elif executor is not None:
        yield executor.submit
    else:
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            yield pool.submit
