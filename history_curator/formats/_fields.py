"""Read the fields of a message with care: any value may stand where a text or a number should."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from history_curator.errors import ConversionError, a_type

MAX_DEPTH = 100
"""How deep a value may be nested. Far above what any provider or tool uses, and far below what the
interpreter's stack holds, so that the answer is the same wherever we are called from."""


_PLAIN = frozenset((str, int, bool, type(None), bytes, bytearray))
_TEXT = frozenset((str,))
_NUMBER, _OTHER = "NaN or Infinity", "a key or a value"
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


class Reading:
    """One message being read: where it stands, and what had to be repaired to read it."""

    __slots__ = ("_met", "index", "repairs")

    def __init__(self, index: int) -> None:
        self.index = index
        self.repairs: list[str] = []
        self._met: dict[tuple[str, str], int] = {}

    @property
    def note(self) -> str | None:
        """What was repaired, in words for a person."""
        return "; ".join(dict.fromkeys(self.repairs)) or None

    def repaired(self, what: str) -> None:
        """Remember that something was read as something else than it is."""
        self.repairs.append(what)

    def nth(self, what: str, tool: str) -> int:
        """Return how many calls, or results, of a tool came before this one in the message."""
        before = self._met.get((what, tool), 0)
        self._met[what, tool] = before + 1
        return before

    def error(self, problem: str, field: str | None, fix: str) -> ConversionError:
        """Return an error that names the message and the field."""
        return ConversionError(problem, index=self.index, field=field, fix=fix)

    def mistyped(self, what: str, value: Any, field: str, fix: str) -> ConversionError:
        """Return the error for a value of a type that cannot stand where it does."""
        return self.error(f"{what} is {a_type(value)}.", field, fix)

    def missing(self, value: Any, field: str, fix: str) -> ConversionError:
        """Return the error for a field that has to be there and is not, or is of another type."""
        return self.error(
            f"{field} is {a_type(value) if value is not None else 'missing'}.", field, fix
        )

    def name_of(self, value: Any, field: str, what: str) -> str:
        """Return an id or a name: a text; a number is one too, once it is written as text."""
        if value.__class__ is str:
            return value
        if value is None:
            return ""
        if isinstance(value, (str, int, float)):
            if not isinstance(value, str):
                self.repaired(f"{field}: {what} was {a_type(value)}")
            return str(value)
        raise self.mistyped(what, value, field, "make it a string.")

    def object_of(self, value: Any, field: str) -> Mapping[str, Any]:
        """Return a value that has to be an object, such as the body of a block."""
        if isinstance(value, Mapping):
            return value
        raise self.error(f"it is {_kind(value)}.", field, "make it an object, or leave it out.")

    def list_of(self, value: Any, field: str) -> Sequence[Any]:
        """Return a value that has to be a list, if it is there at all."""
        if value is None:
            return ()
        if isinstance(value, (list, tuple)):
            return value
        raise self.error(f"it is {_kind(value)}.", field, "make it a list, or leave it out.")

    def checked(self, value: Any, field: str, *, sent: bool = True) -> Any:
        """Return a value that JSON can carry, and bytes: NaN and the infinities become null.

        Keys, and values of other types, become text. The very value that was given where nothing
        is wrong with it.

        Args:
            value: any value.
            field: where it stands.
            sent: whether it is sent at all; else only its numbers and its depth are looked at.

        Raises:
            ConversionError: when it is nested deeper than `MAX_DEPTH`, or holds itself.
        """
        wrong: set[str] = set()
        self._look_into((value,), field, wrong, MAX_DEPTH)
        if not wrong or (not sent and _NUMBER not in wrong):
            return value
        what = _NUMBER if _NUMBER in wrong else _OTHER
        self.repaired(f"{field}: {what}, which JSON has no words for")
        return _as_json(value)

    def _look_into(self, items: Iterable[Any], field: str, wrong: set[str], left: int) -> None:
        for item in items:
            kind = item.__class__
            if kind in _PLAIN:
                continue
            inside: Iterable[Any] | None = None
            if kind is float:
                if not math.isfinite(item):
                    wrong.add(_NUMBER)
            elif isinstance(item, (list, tuple)):
                inside = item
            elif isinstance(item, (dict, Mapping)):
                inside = item.values()
                if not (
                    _TEXT.issuperset(map(type, item)) or all(isinstance(key, str) for key in item)
                ):
                    wrong.add(_OTHER)
            elif not isinstance(item, (str, int, float)):
                wrong.add(_OTHER)
            if inside is not None:
                if not left:
                    raise too_deep(self.index, field)
                self._look_into(inside, field, wrong, left - 1)

    def arguments(self, value: Any, field: str) -> str:
        """Return arguments that should have been JSON text as such."""
        if value.__class__ is str:
            return self._finite_text(value, field)
        self.repaired(f"{field}: the arguments were {_kind(value)}, not text")
        return arguments_text(self.checked(value, field))

    def object_text(self, value: Any, field: str) -> str:
        """Return the text of arguments that should have been an object."""
        if isinstance(value, Mapping):
            return arguments_text(self.checked(value, field))
        self.repaired(f"{field}: the arguments were {_kind(value)}, not an object")
        if isinstance(value, str) and (parsed := parse_object(value)) is not None:
            value = parsed
        return arguments_text(self.checked(value, field))

    def free_text(self, value: Any, field: str) -> str:
        """Return the arguments of a tool that takes free text: an object that holds it."""
        if not isinstance(value, str):
            self.repaired(f"{field}: the input was not text")
            value = "" if value is None else json.dumps(value, default=str)
        return json.dumps({"input": value}, ensure_ascii=False)

    def _finite_text(self, text: str, field: str) -> str:
        """JSON text without NaN and the infinities, which are no JSON; others as they are."""
        if "NaN" not in text and "Infinity" not in text:
            return text
        odd: list[str] = []
        try:
            value = parse_json(text, odd.append)
        except ValueError:
            return text
        if not odd:
            return text
        self.repaired(f"{field}: NaN or Infinity, which JSON has no words for")
        return arguments_text(value)


def too_deep(index: int | None = None, field: str | None = None) -> ConversionError:
    """Return the error for a value that is nested too deeply."""
    return ConversionError(
        f"a value is nested more than {MAX_DEPTH} levels deep.",
        index=index,
        field=field,
        fix="flatten it, or pass it as one JSON text.",
    )


def arguments_text(arguments: Any) -> str:
    """Arguments as JSON text; text is kept as it is, even when it is not JSON."""
    if isinstance(arguments, str):
        return arguments
    if arguments is None:
        return "{}"
    try:
        return _ENCODER.encode(arguments)
    except (TypeError, ValueError):  # keys that JSON has no words for
        return repr(arguments)


def parse_json(text: str, constant: Callable[[str], None] | None = None) -> Any:
    """Return what a JSON text says; NaN and the infinities are null.

    Args:
        text: the text.
        constant: called with each of those that is met.

    Raises:
        ValueError: when it is not JSON, or nested deeper than `MAX_DEPTH`.
    """
    try:
        decoder = _DECODER if constant is None else json.JSONDecoder(parse_constant=constant)
        value = decoder.decode(text)
        deep = text.count("{") + text.count("[") > MAX_DEPTH and _is_deep(value)
    except RecursionError:
        deep = True
    if deep:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
    return value


def parse_object(text: str) -> dict[str, Any] | None:
    """Return the object that a JSON text says; None when it says anything else."""
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def free_input(arguments: str) -> str:
    """Return the free text that `Reading.free_text` made arguments of."""
    given = (parse_object(arguments) or {}).get("input")
    return given if isinstance(given, str) else ""


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, anything else as an empty one."""
    return value if isinstance(value, Mapping) else {}


def type_of(block: Any) -> str:
    """Return the type that a block or an item names, an empty text where it names none."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    return kind if isinstance(kind, str) else ""


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        held = [item for item in level if isinstance(item, (dict, list))]
        if not held:
            return False
        level = [
            item for each in held for item in (each if isinstance(each, list) else each.values())
        ]
    return True


def _as_json(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    return value if value.__class__ in _PLAIN or isinstance(value, (str, int)) else str(value)


def _kind(value: Any) -> str:
    return "null" if value is None else a_type(value)
