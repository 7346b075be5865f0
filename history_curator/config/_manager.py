"""Managers by name: which names there are, and one manager of a pipeline with its options."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from history_curator import managers
from history_curator.errors import ConfigurationError, HistoryCuratorError
from history_curator.config._options import did_you_mean

Factory = Callable[..., Any]

_registered: dict[str, Factory] = {}
_guard = threading.Lock()
_NESTED = ("inner", "manager", "managers")
"""Options that hold managers."""


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
    """Return what makes the manager of this name; the error suggests the closest one."""
    short = name.removesuffix("_manager")
    for candidate in (name, short):
        if candidate in _registered:
            return _registered[candidate]
    if short not in _NAMES:
        hint = did_you_mean(short, manager_names())
        raise ConfigurationError(f"no manager named {name!r}; {hint}")
    factory: Factory = getattr(managers, _NAMES[short])
    return factory


def check_taken(name: str, factory: Factory, options: Mapping[str, Any]) -> None:
    """Refuse options a manager does not take, and miss those it needs."""
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
        raise ConfigurationError(f"{name} needs {' and '.join(map(repr, needed))}")


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


class ManagerConfig(BaseModel):
    """One manager by name. Frozen; the name and the options' names are checked when read.

    Examples:
        >>> ManagerConfig.model_validate("passthrough").to_plain()
        'passthrough'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """In snake_case, with or without ``_manager``."""

    options: dict[str, Any] = Field(default_factory=dict)
    """What its constructor takes."""

    @model_validator(mode="before")
    @classmethod
    def _read_short_forms(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"name": data}
        if not isinstance(data, Mapping):
            return data
        given = {str(key): value for key, value in data.items()}
        if "name" not in given:
            if len(given) != 1:
                raise ValueError(
                    "a manager is written `name`, `name: {option: value}` or "
                    "`{name: ..., option: value}`"
                )
            name, options = next(iter(given.items()))
            return {"name": name, "options": _options(name, options)}
        name = given.pop("name")
        nested = _options(str(name), given.pop("options", None))
        return {"name": name, "options": {**nested, **given}}

    @model_validator(mode="after")
    def _check(self) -> ManagerConfig:
        check_taken(self.name, find_manager(self.name), self.options)
        for option in _NESTED:
            if option in self.options:
                value = self.options[option]
                self.options[option] = (
                    [ManagerConfig.model_validate(one) for one in value]
                    if isinstance(value, (list, tuple))
                    else ManagerConfig.model_validate(value)
                )
        return self

    def to_plain(self) -> Any:
        """Return the shortest form that reads back as this."""
        if not self.options:
            return self.name
        return {self.name: {option: _plain(value) for option, value in self.options.items()}}


def build_value(value: Any, objects: Mapping[str, Any], where: str) -> Any:
    """Return what an option stands for: a manager, a given object, or itself.

    Raises:
        ConfigurationError: naming the manager that cannot be made.
    """
    if isinstance(value, (list, tuple)):
        return tuple(build_value(one, objects, f"{where}[{n}]") for n, one in enumerate(value))
    if isinstance(value, str) and value.startswith("@"):
        if value[1:] not in objects:
            raise ConfigurationError(
                f"{where}: no object named {value[1:]!r} was given. "
                f"Fix: build(objects={{{value[1:]!r}: ...}})."
            )
        return objects[value[1:]]
    if not isinstance(value, ManagerConfig):
        return value
    options = {
        option: build_value(one, objects, f"{where}.{option}")
        for option, one in value.options.items()
    }
    try:
        return make_manager(find_manager(value.name), options)
    except HistoryCuratorError as error:
        raise ConfigurationError(f"{where} ({value.name}): {error}") from error
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where} ({value.name}) cannot be made: {error}") from error


def _options(name: str, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        # pydantic collects ValueErrors, and lets TypeErrors through.
        raise ValueError(  # noqa: TRY004
            f"the options of {name} must be a mapping, not {type(given).__name__}"
        )
    return {str(key): value for key, value in given.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, ManagerConfig):
        return value.to_plain()
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
