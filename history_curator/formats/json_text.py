"""JSON as text: one bounded reader for texts that others wrote."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any

from history_curator.errors import ConversionError

MAX_DEPTH = 100
"""How deep a value may be nested. Far above what any provider or tool uses, and far below what the
interpreter's stack holds, so that the answer is the same wherever we are called from."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|$)', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


def too_deep(index: int | None = None, field: str | None = None) -> ConversionError:
    """Return the error for a value that is nested too deeply."""
    problem = f"a value is nested more than {MAX_DEPTH} levels deep."
    return ConversionError(
        problem, index=index, field=field, fix="flatten it, or pass it as one JSON text."
    )


def arguments_text(arguments: Any) -> str:
    """Return arguments as JSON text; text is kept as it is, even when it is not JSON."""
    if isinstance(arguments, str):
        return arguments
    if arguments is None:
        return "{}"
    try:
        return _ENCODER.encode(arguments)
    except RecursionError:
        raise too_deep() from None
    except (TypeError, ValueError):  # keys that JSON has no words for
        return repr(arguments)


def free_input(arguments: str) -> str:
    """Return the free text that `Reading.free_text` made arguments of."""
    given = (parse_object(arguments) or {}).get("input")
    return given if isinstance(given, str) else ""


def parse_json(text: str) -> Any:
    """Return what a JSON text says; NaN and the infinities are null.

    The answer does not depend on the caller's stack.

    Raises:
        ValueError: when it is not JSON, or nested deeper than `MAX_DEPTH`.
    """
    if text.count("{") + text.count("[") > MAX_DEPTH:
        steps = (1 if char in "[{" else -1 for char in _BRACKET.findall(_STRING.sub("", text)))
        if max(accumulate(steps), default=0) > MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
    try:
        return _DECODER.decode(text)
    except RecursionError:  # the caller is deep in its stack; a thread has one of its own
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(_DECODER.decode, text).result()


def parse_object(text: str) -> dict[str, Any] | None:
    """Return the object that a JSON text says; None when it says anything else."""
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
