"""Managers by name, looked up only when a configuration uses them."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from history_curator import managers
from history_curator.errors import ConfigurationError
from history_curator.settings._options import did_you_mean

Factory = Callable[..., Any]

_registered: dict[str, Factory] = {}
_guard = threading.Lock()


def snake_case(class_name: str) -> str:
    """Return the name a manager goes by: ``SlidingWindowManager`` is ``sliding_window``."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower()
    return name.removesuffix("_manager")


_NAMES = {
    snake_case(name): name
    for name in managers.__all__
    if name not in ("CurationContext", "HistoryManager")
}


def register_manager(name: str, factory: Factory, *, replace: bool = False) -> None:
    """Make a manager available to configurations under a name.

    Args:
        name: in snake_case.
        factory: the class, or any callable that takes the options and returns a manager.
        replace: allow a name that is taken.

    Raises:
        ConfigurationError: the name is not snake_case, or taken.

    Examples:
        >>> class LastTen:
        ...     def curate(self, entries, *, context):
        ...         return entries[-10:]
        >>> register_manager("last_ten", LastTen, replace=True)
        >>> "last_ten" in manager_names()
        True
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigurationError(
            f"{name!r} cannot name a manager. Fix: use snake_case, such as {snake_case(name)!r}."
        )
    with _guard:
        if not replace and (name in _NAMES or name in _registered):
            raise ConfigurationError(
                f"There is a manager named {name!r}. Fix: choose another name, or replace=True."
            )
        _registered[name] = factory


def manager_names() -> tuple[str, ...]:
    """Return every name a configuration may use."""
    return tuple(sorted({*_NAMES, *_registered}))


def find_manager(name: str) -> Factory:
    """Return what makes the manager of this name.

    Raises:
        ConfigurationError: there is none; the closest name is suggested.
    """
    short = name.removesuffix("_manager")
    for candidate in (name, short):
        if candidate in _registered:
            return _registered[candidate]
    if short not in _NAMES:
        hint = did_you_mean(short, manager_names())
        raise ConfigurationError(f"no manager named {name!r}; {hint}")
    factory: Factory = getattr(managers, _NAMES[short])
    return factory


def check_options(name: str, factory: Factory, options: Mapping[str, Any]) -> None:
    """Refuse options a manager does not take, and miss those it needs.

    Raises:
        ConfigurationError: naming the option.
    """
    parameters = _parameters(factory)
    if parameters is None:
        return
    for option in options:
        if option not in parameters:
            hint = did_you_mean(option, parameters) if parameters else "it takes none."
            raise ConfigurationError(f"{name} has no option {option!r}; {hint}")
    needed = [
        option
        for option, parameter in parameters.items()
        if parameter.default is parameter.empty
        and option not in options
        and parameter.kind is not parameter.VAR_POSITIONAL
    ]
    if needed:
        raise ConfigurationError(f"{name} needs {_listed(needed)}")


def make_manager(factory: Factory, options: Mapping[str, Any]) -> Any:
    """Call a factory, spreading an option that its signature takes as ``*name``."""
    positional: list[Any] = []
    named = dict(options)
    for option, parameter in (_parameters(factory) or {}).items():
        if parameter.kind is parameter.VAR_POSITIONAL and option in named:
            positional = list(named.pop(option))
    return factory(*positional, **named)


def _parameters(factory: Factory) -> dict[str, inspect.Parameter] | None:
    """Return the named parameters of a factory, or None when it takes any."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {parameter.name: parameter for parameter in parameters}


def _listed(names: Iterable[str]) -> str:
    return " and ".join(repr(name) for name in names)
