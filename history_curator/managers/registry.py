"""Managers by name, as configurations write them: finding one, and building it with its options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from history_curator import managers
from history_curator.config import suggest_name
from history_curator.errors import ConfigurationError, a_type

_registered: dict[str, Callable[..., Any]] = {}

_NESTED = ("inner", "manager", "managers")
"""Options that hold managers."""


def snake_case(class_name: str) -> str:
    """Return the name of a manager in configurations: `SlidingWindowManager` is sliding_window."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower()
    return name.removesuffix("_manager")


def _own_managers() -> dict[str, str]:
    """Return the class names of the library's managers by their names in configurations."""
    classes = set(managers.__all__) - {"CurationContext", "HistoryManager"}
    return {snake_case(name): name for name in classes if name[0].isupper()}


def register_manager(name: str, factory: Callable[..., Any], *, replace: bool = False) -> None:
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
    if not replace and name in manager_names():
        raise ConfigurationError(
            f"There is a manager named {name!r}. Fix: choose another name, or replace=True."
        )
    _registered[name] = factory


def manager_names() -> tuple[str, ...]:
    """Return every name a configuration may use."""
    return tuple(sorted({*_own_managers(), *_registered}))


def build_managers(
    specs: Iterable[Any], objects: Mapping[str, Any] | None = None
) -> tuple[Any, ...]:
    """Return the managers that a configuration lists.

    Args:
        specs: each a name, ``{name: {option: value}}`` or ``{"name": name, option: value}``.
        objects: what options such as ``"@summarizer"`` stand for.

    Raises:
        ConfigurationError: naming the place, the manager, and what is wrong with it.

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
    factory = _find_factory(name, where)
    options = {option: _build_option(option, given[option], objects, where) for option in given}
    parameters = _read_parameters(factory)
    if parameters is not None:
        _check_parameters(f"{where}: {name}", options, parameters)
    positional: list[Any] = []
    for option, parameter in (parameters or {}).items():
        if parameter.kind is parameter.VAR_POSITIONAL and option in options:
            positional = list(options.pop(option))
    try:
        return factory(*positional, **options)
    except (TypeError, ValueError) as error:  # a ConfigurationError is a ValueError
        raise ConfigurationError(f"{where} ({name}): {error}") from error


def _read_spec(spec: Any, where: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of a manager, from any of its three forms."""
    if isinstance(spec, str):
        return spec, {}
    if not isinstance(spec, Mapping) or ("name" not in spec and len(spec) != 1):
        raise ConfigurationError(
            f"{where}: a manager is written `name`, `name: {{option: value}}` or "
            f"`{{name: ..., option: value}}`, and this is {a_type(spec)}."
        )
    rest = dict(spec)
    if "name" in spec:
        name, options = rest.pop("name"), rest.pop("options", None)
    else:
        name, options = rest.popitem()
    if not isinstance(options, Mapping | None):
        raise ConfigurationError(
            f"{where}: the options of {name} must be a mapping, not {a_type(options)}."
        )
    return str(name), {str(option): value for option, value in {**(options or {}), **rest}.items()}


def _find_factory(name: str, where: str) -> Callable[..., Any]:
    short, own = name.removesuffix("_manager"), _own_managers()
    for candidate in (name, short):
        if candidate in _registered:
            return _registered[candidate]
    if short not in own:
        hint = suggest_name(short, manager_names())
        raise ConfigurationError(f"{where}: no manager named {name!r}; {hint}")
    factory: Callable[..., Any] = getattr(managers, own[short])
    return factory


def _build_option(option: str, value: Any, objects: Mapping[str, Any], where: str) -> Any:
    """Return the value of an option: managers, a given object, or the value itself."""
    if isinstance(value, str) and value.startswith("@"):
        if value[1:] not in objects:
            raise ConfigurationError(
                f"{where}.{option}: no object named {value[1:]!r} was given. "
                f"Fix: from_config(..., objects={{{value[1:]!r}: ...}})."
            )
        return objects[value[1:]]
    if option in _NESTED and isinstance(value, (str, Mapping)):
        return _build_manager(value, objects, f"{where}.{option}")
    if isinstance(value, (list, tuple)):
        return tuple(
            _build_manager(one, objects, f"{where}.{option}[{n}]")
            if option in _NESTED and not (isinstance(one, str) and one.startswith("@"))
            else _build_option("", one, objects, f"{where}.{option}[{n}]")
            for n, one in enumerate(value)
        )
    return value


def _read_parameters(factory: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    """Return the named parameters of a factory, or None when it takes any."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return None
    return dict(parameters)


def _check_parameters(
    where: str, options: Iterable[str], parameters: Mapping[str, inspect.Parameter]
) -> None:
    for option in options:
        if option not in parameters:
            hint = suggest_name(option, parameters) if parameters else "it takes none."
            raise ConfigurationError(f"{where} has no option {option!r}; {hint}")
    needed = [
        repr(option)
        for option, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_POSITIONAL
        and option not in options
    ]
    if needed:
        raise ConfigurationError(f"{where} needs {' and '.join(needed)}")
