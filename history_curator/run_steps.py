"""Run one generator body as sync or as async code.

The body yields each call it has to wait for; a runner makes it and sends the result back.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

R = TypeVar("R")


class Call(NamedTuple):
    """One call to wait for, in its sync and its async form; both take the same arguments."""

    sync: Callable[..., Any]
    asynchronous: Callable[..., Any]  # a plain function will do
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
    try:
        _run(steps, awaits=False).send(None)
    except StopIteration as stop:
        return cast("R", stop.value)
    raise AssertionError("a sync call was awaited")


async def run_async(steps: Steps[R]) -> R:
    """Run a body to its end in async code, awaiting its calls."""
    return await _run(steps, awaits=True)


async def _run(steps: Steps[R], *, awaits: bool) -> R:
    result: Any = None
    error: BaseException | None = None
    while True:
        try:
            call = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as stop:
            return cast("R", stop.value)
        result = error = None
        try:
            function = call.asynchronous if awaits else call.sync
            result = function(*call.args, **call.kwargs)
            if awaits and isawaitable(result):
                result = await result
        except BaseException as caught:  # noqa: BLE001 - it belongs to the body
            error = caught
