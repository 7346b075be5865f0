"""JSON as text: one bounded reader for texts that others wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
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


def too_deep(index: int | None = None, field: str | None = None) -> ConversionError:
    """Return the error for a value that is nested too deeply."""
    return ConversionError(
        f"a value is nested more than {MAX_DEPTH} levels deep.",
        index=index,
        field=field,
        fix="flatten it, or pass it as one JSON text.",
    )


def free_input(arguments: str) -> str:
    """Return the free text that `Reading.free_text` made arguments of."""
    given = (parse_object(arguments) or {}).get("input")
    return given if isinstance(given, str) else ""


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


def parse_json(text: str, on_constant: Callable[[str], None] | None = None) -> Any:
    """Return what a JSON text says; NaN and the infinities are null.

    The answer does not depend on the caller's stack.

    Args:
        text: the text.
        on_constant: called with each NaN or infinity that is met.

    Raises:
        ValueError: when it is not JSON, or nested deeper than `MAX_DEPTH`.
    """
    decoder = _DECODER if on_constant is None else json.JSONDecoder(parse_constant=on_constant)
    try:
        value = decoder.decode(text)
    except RecursionError:
        return _parse_apart(text, decoder)
    if text.count("{") + text.count("[") > MAX_DEPTH and _is_deep(value):
        raise _too_deep_json()
    return value


def parse_object(text: str) -> dict[str, Any] | None:
    """Return the object that a JSON text says; None when it says anything else."""
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _parse_apart(text: str, decoder: json.JSONDecoder) -> Any:
    """Parse in a thread, which has a stack of its own: the caller is deep in its stack."""
    steps = (1 if bracket in "[{" else -1 for bracket in _STRING.sub("", text) if bracket in "[]{}")
    if max(accumulate(steps), default=0) > MAX_DEPTH:
        raise _too_deep_json()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(decoder.decode, text).result()


def _too_deep_json() -> ValueError:
    return ValueError(f"nested more than {MAX_DEPTH} levels deep")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        holders = [item for item in level if isinstance(item, (dict, list))]
        if not holders:
            return False
        level = [
            item for each in holders for item in (each if isinstance(each, list) else each.values())
        ]
    return True
