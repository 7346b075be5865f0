"""One body for sync and async: it asks for what has to be waited for, and a driver waits."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

R = TypeVar("R")


class Ask(NamedTuple):
    """Something to wait for, in its sync and its async form; both take the same arguments.

    Attributes:
        sync: called by `drive`.
        asynchronous: called and awaited by `adrive`; a plain function will do.
        args: positional arguments of either.
        kwargs: named arguments of either.
    """

    sync: Callable[..., Any]
    asynchronous: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = MappingProxyType({})


Body = Generator[Ask, Any, R]
"""What is driven: yields what it waits for, is sent the answers, returns its result."""


def drive(body: Body[R]) -> R:
    """Run a body to its end, in sync code.

    Examples:
        >>> def body():
        ...     length = yield Ask(len, len, ("four",))
        ...     return length + 1
        >>> drive(body())
        5
    """
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            ask = body.send(answer) if error is None else body.throw(error)
        except StopIteration as stop:
            return cast("R", stop.value)
        answer = error = None
        try:
            answer = ask.sync(*ask.args, **ask.kwargs)
        except BaseException as caught:  # noqa: BLE001 - it belongs to the body
            error = caught


async def adrive(body: Body[R]) -> R:
    """Run a body to its end, awaiting what it asks for."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            ask = body.send(answer) if error is None else body.throw(error)
        except StopIteration as stop:
            return cast("R", stop.value)
        answer = error = None
        try:
            answer = ask.asynchronous(*ask.args, **ask.kwargs)
            if isawaitable(answer):
                answer = await answer
        except BaseException as caught:  # noqa: BLE001 - it belongs to the body
            error = caught
