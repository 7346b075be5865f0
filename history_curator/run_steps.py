"""Run one generator body as sync or as async code.

The body yields each call it has to wait for, in both forms; a runner makes the call and sends the
result back. So every step is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

R = TypeVar("R")


class Call(NamedTuple):
    """One call to wait for, in its sync and its async form; both take the same arguments.

    Attributes:
        sync: called by `run_sync`.
        asynchronous: called and awaited by `run_async`; a plain function will do.
        args: positional arguments of either.
        kwargs: named arguments of either.
    """

    sync: Callable[..., Any]
    asynchronous: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = MappingProxyType({})


Steps = Generator[Call, Any, R]
"""A body: it yields calls, is sent their results, and returns its own."""


def run_sync(steps: Steps[R]) -> R:
    """Run a body to its end in sync code.

    Examples:
        >>> def steps():
        ...     length = yield Call(len, len, ("four",))
        ...     return length + 1
        >>> run_sync(steps())
        5
    """
    result: Any = None
    error: BaseException | None = None
    while True:
        try:
            call = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as stop:
            return cast("R", stop.value)
        result = error = None
        try:
            result = call.sync(*call.args, **call.kwargs)
        except BaseException as caught:  # noqa: BLE001 - it belongs to the body
            error = caught


async def run_async(steps: Steps[R]) -> R:
    """Run a body to its end in async code, awaiting its calls."""
    result: Any = None
    error: BaseException | None = None
    while True:
        try:
            call = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as stop:
            return cast("R", stop.value)
        result = error = None
        try:
            result = call.asynchronous(*call.args, **call.kwargs)
            if isawaitable(result):
                result = await result
        except BaseException as caught:  # noqa: BLE001 - it belongs to the body
            error = caught
