"""`CuratorConfig`: a whole pipeline as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from history_curator.boundary import HistoryLimits
from history_curator.errors import ConfigurationError
from history_curator.config._fields import CuratorFields, declared
from history_curator.config._manager import ManagerConfig, build_value
from history_curator.config._options import OPTIONS
from history_curator.config._problems import configuration_error
from history_curator.config._retention import RetentionConfig
from history_curator.config._text import dump_toml, dump_yaml, load_mapping

if TYPE_CHECKING:
    from history_curator.curator import Curator

BLOCK = "curator"
"""Where the settings live in a larger file."""


class CuratorConfig(CuratorFields):
    """Everything a `Curator` is made of, from YAML, TOML, JSON or a dict.

    Managers stand in the order they run, by name with their options: ``passthrough`` alone,
    ``sliding_window: {window_size: 40}``, or ``{name: sliding_window, window_size: 40}``. The
    options ``inner`` and ``managers`` hold managers written the same way. An option such as
    ``"@summarizer"`` stands for the object of that name given to `build`. Unknown settings,
    managers and options are refused with the closest known one. Frozen; what `to_dict`,
    `to_yaml`, `to_toml` and `to_json` return reads back as an equal configuration.

    Examples:
        >>> config = CuratorConfig.from_dict(
        ...     {"managers": ["passthrough"], "max_tokens": 8000, "provider": "openai"}
        ... )
        >>> config.managers[0].name
        'passthrough'
        >>> CuratorConfig.from_dict(config.to_dict()) == config
        True
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    managers: tuple[ManagerConfig, ...] = ()
    """In the order they run; none is the curator's own default."""

    counter: str = Field(
        default=OPTIONS["counter"].default,
        min_length=1,
        description="An encoding or a model's name.",
    )

    provider: str = declared("provider")

    name: str = declared("name")

    retention: RetentionConfig | None = None
    """What stores keep of older turns."""

    limits: HistoryLimits | None = None
    """What callers may hand in."""

    @field_validator("managers", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        if value is None:
            return ()
        return (value,) if isinstance(value, (str, ManagerConfig)) else value

    @field_validator("retention", mode="before")
    @classmethod
    def _read_retention(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            try:
                return RetentionConfig.from_dict(value)
            except ConfigurationError as error:
                raise ValueError(_after_heading(error)) from error
        return value

    @field_validator("limits", mode="before")
    @classmethod
    def _read_limits(cls, value: Any) -> Any:
        if isinstance(value, str):
            return HistoryLimits.preset(value)
        if isinstance(value, Mapping):
            changes = {str(key): item for key, item in value.items() if key != "preset"}
            preset = value.get("preset")
            return (HistoryLimits.preset(preset) if preset else HistoryLimits()).tuned(**changes)
        return value

    @field_validator("provider")
    @classmethod
    def _known_provider(cls, value: str) -> str:
        from history_curator.rules import get_profile

        get_profile(value)
        return value

    @classmethod
    def load(cls, source: CuratorConfig | Mapping[str, Any] | str | Path) -> CuratorConfig:
        """Return a configuration from whatever describes one: itself, a dict, or a file's path."""
        if isinstance(source, CuratorConfig):
            return source
        return cls.from_dict(source) if isinstance(source, Mapping) else cls.from_file(source)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, source: str = "") -> CuratorConfig:
        """Read the settings, either alone or in a larger file.

        In a larger file they stand under ``curator``, beside ``limits`` and
        ``conversation.retention``.

        Raises:
            ConfigurationError: listing every problem with its path and fix.
        """
        settings, prefix = _find_settings(data)
        try:
            return cls(**settings)
        except ValidationError as error:
            raise configuration_error(error, cls, prefix=prefix, source=source) from error

    @classmethod
    def from_file(cls, path: str | Path) -> CuratorConfig:
        """Read a YAML, TOML or JSON file."""
        return cls.from_dict(load_mapping(path), source=str(path))

    @classmethod
    def from_yaml(cls, text: str) -> CuratorConfig:
        """Read YAML text."""
        return cls.from_dict(load_mapping(text, kind="yaml"))

    @classmethod
    def from_toml(cls, text: str) -> CuratorConfig:
        """Read TOML text."""
        return cls.from_dict(load_mapping(text, kind="toml"))

    @classmethod
    def from_json(cls, text: str) -> CuratorConfig:
        """Read JSON text."""
        return cls.from_dict(load_mapping(text, kind="json"))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, without those left at their default."""
        settings: dict[str, Any] = {}
        if self.managers:
            settings["managers"] = [manager.to_plain() for manager in self.managers]
        for field, info in type(self).model_fields.items():
            value = getattr(self, field)
            if field == "managers" or value == info.default:
                continue
            plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
            settings[field] = plain
        return settings

    def to_yaml(self) -> str:
        """Return YAML text."""
        return dump_yaml(self.to_dict())

    def to_toml(self) -> str:
        """Return TOML text. It has no null: a manager's options that are None are left out."""
        settings = self.to_dict()
        if self.limits is not None:
            settings["limits"] = {
                field: "none" if value is None else value
                for field, value in settings["limits"].items()
            }
        return dump_toml(settings)

    def to_json(self) -> str:
        """Return JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def build(self, objects: Mapping[str, Any] | None = None, **overrides: Any) -> Curator:
        """Return the curator.

        Args:
            objects: what options such as ``"@summarizer"`` stand for.
            **overrides: passed to `Curator` in place of the settings, such as ``bus``.

        Raises:
            ConfigurationError: a manager refused its options, or an object was not given.
        """
        from history_curator.curator import Curator

        settings = {
            field: getattr(self, field)
            for field in type(self).model_fields
            if field not in ("managers", "retention", "limits")
        }
        return Curator(*self.make_managers(objects), **{**settings, **overrides})

    def make_managers(self, objects: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
        """Return the managers alone; see `build`."""
        return tuple(
            build_value(manager, objects or {}, f"managers[{position}]")
            for position, manager in enumerate(self.managers)
        )


def _find_settings(data: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    block = data.get(BLOCK)
    prefix = ""
    if isinstance(block, Mapping):
        settings, prefix = {str(key): value for key, value in block.items()}, BLOCK
        if "limits" in data:
            settings.setdefault("limits", data["limits"])
    else:
        settings = {str(key): value for key, value in data.items() if key != "conversation"}
    conversation = data.get("conversation")
    if isinstance(conversation, Mapping) and "retention" in conversation:
        settings.setdefault("retention", conversation["retention"])
    return settings, prefix


def _after_heading(error: ConfigurationError) -> str:
    return "; ".join(line.strip() for line in str(error).splitlines()[1:]) or str(error)
