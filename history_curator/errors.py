"""Every error this library raises. Each names what was wrong, where, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

__all__ = [
    "BudgetUnsatisfiableError",
    "ConfigurationError",
    "ConversionError",
    "HistoryCuratorError",
    "HistoryValidationError",
    "a_type",
    "named",
    "without_text",
]


_NAME = re.compile(r"[\w.:/+-]{1,40}", re.ASCII)


def named(value: object) -> str:
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
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return type(error).__name__
    file = last.tb_frame.f_code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{type(error).__name__} ({file}:{last.tb_lineno})"


class HistoryCuratorError(Exception):
    """Base of every error raised by History Curator."""


class ConfigurationError(HistoryCuratorError, ValueError):
    """A curator, manager or profile was set up with values that cannot work."""


class ConversionError(HistoryCuratorError, ValueError):
    """A message could not be read or written.

    Attributes:
        index: position of the message in the list that was given, or None.
        field: the field that is wrong, such as ``"role"``.
        fix: what to do about it.
    """

    def __init__(
        self,
        problem: str,
        *,
        index: int | None = None,
        field: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.problem = problem
        self.index = index
        self.field = field
        self.fix = fix
        where = "messages" if index is None else f"messages[{index}]"
        if field:
            where = f"{where}.{field}"
        super().__init__(f"{where}: {problem}" + (f" Fix: {fix}" if fix else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_conversion_error, (self.problem, self.index, self.field, self.fix))


class HistoryValidationError(HistoryCuratorError, ValueError):
    """A conversation history handed in at the boundary breaks a critical rule.

    Attributes:
        field: path of the culprit, such as ``"conversation_history[3].role"``.
        message: what is wrong and what is expected.
        value: a short description of the offending value.
    """

    def __init__(self, field: str, message: str, value: object = None) -> None:
        self.field = field
        self.message = message
        self.value = value
        super().__init__(f"{field}: {message}" + ("" if value is None else f" (got {value!r})"))

    def __reduce__(self) -> tuple[Any, ...]:
        return (HistoryValidationError, (self.field, self.message, self.value))


class BudgetUnsatisfiableError(HistoryCuratorError):
    """What must be sent does not fit the token budget, whatever is left out.

    Attributes:
        needed: tokens of the smallest view that keeps every guarantee.
        max_tokens: the budget it had to fit in.
        irreducible: one ``(index, role, tokens)`` per message that cannot be left out.
        overhead: tokens that are not messages: tool schemas, reserve, priming.
    """

    def __init__(
        self,
        needed: int,
        max_tokens: int,
        irreducible: Sequence[tuple[int | None, str, int]] = (),
        overhead: int = 0,
    ) -> None:
        self.needed = needed
        self.max_tokens = max_tokens
        self.irreducible = tuple(irreducible)
        self.overhead = overhead
        parts = [
            f"{'inserted' if index is None else f'messages[{index}]'} ({role}, {tokens} tokens)"
            for index, role, tokens in self.irreducible
        ]
        if overhead:
            parts.append(f"tool schemas, reserve and priming ({overhead} tokens)")
        super().__init__(
            f"The smallest view needs {needed} tokens, the budget is {max_tokens}. "
            f"Cannot be left out: {'; '.join(parts) or 'nothing'}. "
            "Fix: raise max_tokens, lower reserve, send fewer tool schemas, "
            "or shorten the messages named above."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        args = (self.needed, self.max_tokens, self.irreducible, self.overhead)
        return (BudgetUnsatisfiableError, args)


def _rebuild_conversion_error(
    problem: str, index: int | None, field: str | None, fix: str | None
) -> ConversionError:
    return ConversionError(problem, index=index, field=field, fix=fix)
