"""Managers: each selects, shortens, clears, summarises, or brings back.

Configurations write them by name: `build_managers` finds each and builds it with its options.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import signature
from typing import Any

from history_curator.config import suggest_name
from history_curator.errors import ConfigurationError, a_type
from history_curator.managers.base import (
    ComposedManager,
    CurationContext,
    HistoryManager,
    ObservableManager,
    Step,
    apply_managers,
    snake_case,
)
from history_curator.managers.relevance import RelevanceManager
from history_curator.managers.search import Bm25Scorer, Scorer
from history_curator.managers.select import (
    PassthroughManager,
    SlidingWindowManager,
    TurnRetentionManager,
)
from history_curator.managers.shorten import RoleTruncator, ToolResultClearer, ToolResultTruncator
from history_curator.managers.summarize import SummarizingManager, keeping_summaries

__all__ = [
    "Bm25Scorer", "ComposedManager", "CurationContext", "HistoryManager", "ObservableManager",
    "PassthroughManager", "RelevanceManager", "RoleTruncator", "Scorer", "SlidingWindowManager",
    "Step", "SummarizingManager", "ToolResultClearer", "ToolResultTruncator",
    "TurnRetentionManager", "apply_managers", "build_managers", "keeping_summaries",
]  # fmt: skip

ObservableSlidingWindowManager = ObservableManager
"""`ObservableManager` watches any manager; this is its name where it watches a window."""

_MANAGERS: dict[str, Any] = {
    snake_case(name): globals()[name]
    for name in __all__
    if hasattr(globals().get(name), "curate") and name != "HistoryManager"
}
"""Every class above with a ``curate``, by its name in configurations."""
_NESTED = ("inner", "managers")
"""Options that hold managers."""


def build_managers(
    specs: Iterable[Any], objects: Mapping[str, Any] | None = None
) -> tuple[Any, ...]:
    """Return the managers that a configuration lists.

    Each is a name, or ``{name: {option: value}}``. `objects` stand behind names such as ``"@mine"``
    for a manager or the value of an option.

    Examples:
        >>> build_managers([{"sliding_window": {"window_size": 4}}])[0].window_size
        4
    """
    try:
        return tuple(_build_value(list(specs), objects or {}, "managers", is_manager=True))
    except RecursionError as error:
        raise ConfigurationError("managers: they are nested too deep to be built.") from error


def _build_value(value: Any, objects: Mapping[str, Any], where: str, *, is_manager: bool) -> Any:
    """Return what a configuration says: a given object, a manager, several, or the value itself."""
    if isinstance(value, str) and value.startswith("@"):
        name = value[1:]
        if name not in objects:
            fix = f"Fix: from_config(..., objects={{{name!r}: ...}})."
            raise ConfigurationError(f"{where}: no object named {name!r} was given. {fix}")
        return objects[name]
    if isinstance(value, (list, tuple)):
        return tuple(
            _build_value(each, objects, f"{where}[{position}]", is_manager=is_manager)
            for position, each in enumerate(value)
        )
    return _build_manager(value, objects, where) if is_manager else value


def _build_manager(spec: Any, objects: Mapping[str, Any], where: str) -> Any:
    if isinstance(spec, str):
        spec = {spec: None}
    if not isinstance(spec, Mapping) or len(spec) != 1:
        problem = f"{where}: a manager is written `name` or `name: {{option: value}}`"
        raise ConfigurationError(f"{problem}, and this is {a_type(spec)}.")
    ((name, given),) = spec.items()
    if name not in _MANAGERS:
        hint = suggest_name(str(name), _MANAGERS)
        raise ConfigurationError(f"{where}: no manager named {name!r}; {hint}")
    if not isinstance(given, Mapping | None):
        problem = f"{where}: the options of {name} must be a mapping"
        raise ConfigurationError(f"{problem}, not {a_type(given)}.")
    options = {
        str(option): _build_value(value, objects, f"{where}.{option}", is_manager=option in _NESTED)
        for option, value in (given or {}).items()
    }
    known = signature(_MANAGERS[name]).parameters
    for option in options.keys() - known.keys():
        hint = suggest_name(option, known) if known else "it takes none."
        raise ConfigurationError(f"{where}: {name} has no option {option!r}; {hint}")
    try:
        return _MANAGERS[name](**options)
    except (TypeError, ValueError) as error:  # a ConfigurationError is a ValueError
        raise ConfigurationError(f"{where} ({name}): {error}") from error
