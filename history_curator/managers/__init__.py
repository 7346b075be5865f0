"""Managers: each selects, shortens, clears, summarises, or brings back.

Configurations write them by name: `build_managers` finds each and builds it with its options.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
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
    is_answered,
    start_of_turns,
)
from history_curator.managers.shorten import RoleTruncator, ToolResultClearer, ToolResultTruncator
from history_curator.managers.summarize import SummarizingManager, keeping_summaries

__all__ = [
    "Bm25Scorer",
    "ComposedManager",
    "CurationContext",
    "HistoryManager",
    "ObservableManager",
    "PassthroughManager",
    "RelevanceManager",
    "RoleTruncator",
    "Scorer",
    "SlidingWindowManager",
    "Step",
    "SummarizingManager",
    "ToolResultClearer",
    "ToolResultTruncator",
    "TurnRetentionManager",
    "apply_managers",
    "build_managers",
    "is_answered",
    "keeping_summaries",
    "manager_names",
    "register_manager",
    "start_of_turns",
]

ObservableSlidingWindowManager = ObservableManager
"""`ObservableManager` watches any manager; this is its name where it watches a window."""

_factories: dict[str, Callable[..., Any]] = {
    snake_case(name): globals()[name]
    for name in __all__
    if hasattr(globals().get(name), "curate") and name != "HistoryManager"
}
"""Every class above with a ``curate``, by its name in configurations."""
_NESTED = ("inner", "manager", "managers")
"""Options that hold managers."""


def register_manager(name: str, factory: Callable[..., Any], *, replace: bool = False) -> None:
    """Make a class, or a function that returns a manager, available to configurations.

    Examples:
        >>> register_manager("keep_all", PassthroughManager, replace=True)
        >>> "keep_all" in manager_names()
        True
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigurationError(
            f"{name!r} cannot name a manager. Fix: use snake_case, such as {snake_case(name)!r}."
        )
    if not replace and name in _factories:
        raise ConfigurationError(
            f"There is a manager named {name!r}. Fix: choose another name, or replace=True."
        )
    _factories[name] = factory


def manager_names() -> tuple[str, ...]:
    """Return every name a configuration may use."""
    return tuple(sorted(_factories))


def build_managers(
    specs: Iterable[Any], objects: Mapping[str, Any] | None = None
) -> tuple[Any, ...]:
    """Return the managers that a configuration lists.

    Each is a name, ``{name: {option: value}}`` or ``{"name": name, option: value}``; `objects` are
    those behind options such as ``"@summarizer"``.

    Examples:
        >>> build_managers([{"sliding_window": {"window_size": 4}}])[0].window_size
        4
    """
    try:
        return tuple(
            _build_manager(spec, objects or {}, f"managers[{position}]")
            for position, spec in enumerate(specs)
        )
    except RecursionError as error:
        raise ConfigurationError("managers: they are nested too deep to be built.") from error


def _build_manager(spec: Any, objects: Mapping[str, Any], where: str) -> Any:
    name, given = _read_spec(spec, where)
    factory = _factories.get(name) or _factories.get(name.removesuffix("_manager"))
    if factory is None:
        hint = suggest_name(name.removesuffix("_manager"), manager_names())
        raise ConfigurationError(f"{where}: no manager named {name!r}; {hint}")
    options = {
        str(option): _build_option(value, objects, f"{where}.{option}", option in _NESTED)
        for option, value in given.items()
    }
    _check_parameters(f"{where}: {name}", factory, options)
    try:
        return factory(**options)
    except (TypeError, ValueError) as error:  # a ConfigurationError is a ValueError
        raise ConfigurationError(f"{where} ({name}): {error}") from error


def _read_spec(spec: Any, where: str) -> tuple[str, Mapping[Any, Any]]:
    """Return the name and the options of a manager, from any of its three forms."""
    if isinstance(spec, str):
        return spec, {}
    if not isinstance(spec, Mapping) or ("name" not in spec and len(spec) != 1):
        raise ConfigurationError(
            f"{where}: a manager is written `name`, `name: {{option: value}}` or "
            f"`{{name: ..., option: value}}`, and this is {a_type(spec)}."
        )
    if "name" in spec:
        return str(spec["name"]), {each: spec[each] for each in spec if each != "name"}
    ((name, options),) = spec.items()
    if not isinstance(options, Mapping | None):
        raise ConfigurationError(
            f"{where}: the options of {name} must be a mapping, not {a_type(options)}."
        )
    return str(name), options or {}


def _build_option(value: Any, objects: Mapping[str, Any], where: str, is_manager: bool) -> Any:
    """Return the value of an option: managers, a given object, or the value itself."""
    if isinstance(value, str) and value.startswith("@"):
        if value[1:] not in objects:
            raise ConfigurationError(
                f"{where}: no object named {value[1:]!r} was given. "
                f"Fix: from_config(..., objects={{{value[1:]!r}: ...}})."
            )
        return objects[value[1:]]
    if isinstance(value, (list, tuple)):
        numbered = enumerate(value)
        return tuple(
            _build_option(each, objects, f"{where}[{n}]", is_manager) for n, each in numbered
        )
    is_spec = is_manager and isinstance(value, (str, Mapping))
    return _build_manager(value, objects, where) if is_spec else value


def _check_parameters(where: str, factory: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse options that a factory does not take, and the lack of those that it needs."""
    parameters = inspect.signature(factory).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return
    for option in options:
        if option not in parameters:
            hint = suggest_name(option, parameters) if parameters else "it takes none."
            raise ConfigurationError(f"{where} has no option {option!r}; {hint}")
    required = {name for name, each in parameters.items() if each.default is each.empty}
    if missing := sorted(map(repr, required - options.keys())):
        raise ConfigurationError(f"{where} needs {' and '.join(missing)}")
