"""`ManagerConfig`: one manager of a pipeline, by name with its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from history_curator.errors import ConfigurationError, HistoryCuratorError
from history_curator.settings._registry import check_options, find_manager, make_manager

_NESTED = ("inner", "manager", "managers")
"""Options that hold managers."""


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
        try:
            factory = find_manager(self.name)
            check_options(self.name, factory, self.options)
        except ConfigurationError as error:
            raise ValueError(str(error)) from error
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
