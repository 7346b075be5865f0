"""Ray and Spark behind the executor protocol: ``submit(function, *arguments)`` gives a future.

Dask needs nothing of this: ``Client(...).get_executor()`` is an executor already.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from history_curator.lab._extra import need

Found = TypeVar("Found")


class RayExecutor(Executor):
    """Runs each call as a Ray task, on the cluster this process is connected to.

    Needs ``pip install ray``. A task whose worker dies is run again by Ray.
    """

    def __init__(self, **options: Any) -> None:
        """Take what ``ray.remote`` takes, such as ``num_cpus`` or ``max_retries``."""
        self._ray = need("ray", package="ray")
        self._options = options

    def submit(self, fn: Callable[..., Found], /, *args: Any, **kwargs: Any) -> Future[Found]:
        """Start a task and return its future."""
        remote = self._ray.remote(fn)
        task = remote.options(**self._options) if self._options else remote
        future: Future[Found] = task.remote(*args, **kwargs).future()
        return future


class SparkExecutor(Executor):
    """Runs each call as a Spark job of one partition, ``jobs`` of them at a time.

    Needs ``pip install pyspark``. A task whose worker is lost is run again by Spark.
    """

    def __init__(self, context: Any, jobs: int = 16) -> None:
        """Take a ``SparkContext``, and how many jobs are under way at once."""
        self._context = context
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="spark")

    def submit(self, fn: Callable[..., Found], /, *args: Any, **kwargs: Any) -> Future[Found]:
        """Start a job and return its future."""

        def job() -> Found:
            one = self._context.parallelize([(args, kwargs)], 1)
            found: list[Found] = one.map(lambda given: fn(*given[0], **given[1])).collect()
            return found[0]

        return self._threads.submit(job)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop taking jobs; the context stays open."""
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
