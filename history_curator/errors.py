"""Every error this library raises. Each names what was wrong, where, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Any

__all__ = [
    "BudgetUnsatisfiableError", "ConfigurationError", "ConversionError", "HistoryCuratorError",
    "HistoryValidationError",
]  # fmt: skip

_NAME = re.compile(r"[\w.:/+-]{1,40}", re.ASCII)


def name_value(value: object) -> str:
    """Return a value for an error where it is a name, and only its kind where it may be prose."""
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, str):
        return repr(value) if _NAME.fullmatch(value) else f"a text of {len(value)} characters"
    return a_type(value)


def a_type(value: object) -> str:
    """Return the name of a value's type with its article, such as ``a list``."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def without_text(error: BaseException) -> str:
    """Return the kind of an error and where it was raised; its text may quote a conversation."""
    place = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} ({Path(place.filename).name}:{place.lineno})"


class HistoryCuratorError(Exception):
    """Base of every error raised by History Curator."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).__new__, (type(self), *self.args), self.__dict__


class ConfigurationError(HistoryCuratorError, ValueError):
    """A curator, manager or profile was set up with values that cannot work."""


class ConversionError(HistoryCuratorError, ValueError):
    """The message at `index` of a list cannot be read or written; `fix` mends its `field`."""

    def __init__(
        self,
        problem: str,
        *,
        index: int | None = None,
        field: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.problem, self.index, self.field, self.fix = problem, index, field, fix
        where = "messages" if index is None else f"messages[{index}]"
        where += f".{field}" if field else ""
        super().__init__(f"{where}: {problem}" + (f" Fix: {fix}" if fix else ""))


class HistoryValidationError(HistoryCuratorError, ValueError):
    """A conversation history handed in at the boundary breaks a critical rule.

    `field` is the path of the culprit, such as ``"conversation_history[3].role"``, `message` says
    what is wrong and what is expected, `value` describes the offending value, and `error_type` is
    ``type_error``, ``missing_field`` or ``invalid_value``.
    """

    def __init__(
        self, field: str, message: str, value: object = None, error_type: str = "invalid_value"
    ) -> None:
        self.field, self.message, self.value, self.error_type = field, message, value, error_type
        super().__init__(f"{field}: {message}" + ("" if value is None else f" (got {value!r})"))


class BudgetUnsatisfiableError(HistoryCuratorError):
    """The messages that must be sent do not fit the token budget.

    The smallest view that keeps every guarantee has `needed` tokens, `max_tokens` are allowed.
    `irreducible` has an ``(index, role, tokens)`` for each message that cannot be left out, and
    `overhead` is what is no message: tool schemas, reserve, priming.
    """

    def __init__(
        self,
        needed: int,
        max_tokens: int,
        irreducible: Sequence[tuple[int | None, str, int]] = (),
        overhead: int = 0,
        *,
        tools: int = 0,
        reserve: int = 0,
    ) -> None:
        self.needed, self.max_tokens, self.overhead = needed, max_tokens, overhead
        self.irreducible = tuple(irreducible)
        parts = [
            f"{'inserted' if index is None else f'messages[{index}]'} ({role}, {tokens} tokens)"
            for index, role, tokens in self.irreducible
        ]
        beside = {"tool schemas": tools, "reserve": reserve, "priming": overhead - tools - reserve}
        parts += [f"{name} ({tokens} tokens)" for name, tokens in beside.items() if tokens]
        fixes = [f"max_tokens of at least {needed}", *["fewer tool schemas"] * bool(tools)]
        fixes += ["a lower reserve"] * bool(reserve)
        problem = f"The smallest view needs {needed} tokens, the budget is {max_tokens}."
        problem += f" Cannot be left out: {'; '.join(parts) or 'nothing'}."
        fix = f"Fix: {', '.join(fixes)}, or shorten the messages named above."
        super().__init__(f"{problem} {fix}")
