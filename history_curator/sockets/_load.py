"""What a curator is made of: as a configuration sets it, and as another curator has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from history_curator.curator import Curator
from history_curator.settings import CuratorConfig, CuratorOptions

if TYPE_CHECKING:
    from pathlib import Path

ConfigSource: TypeAlias = "CuratorConfig | Mapping[str, Any] | str | Path"
"""What describes a curator: a configuration, a mapping, or the path of a file."""


def load_settings(
    config: ConfigSource | None,
    objects: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what a configuration sets, by name and with its managers made; overrides win.

    What it does not set is left out, so that the defaults of the socket hold, and so is what is no
    matter of a curator: limits and retention. Without a configuration these are the overrides
    alone.

    Raises:
        ConfigurationError: when the configuration is wrong or names an object not given.

    Examples:
        >>> load_settings({"max_tokens": 800, "provider": "openai"}, overrides={"max_tokens": 9})
        {'max_tokens': 9, 'provider': 'openai'}
    """
    given = dict(overrides or {})
    if config is None:
        return given
    loaded = CuratorConfig.load(config)
    settings = {
        field: getattr(loaded, field)
        for field in CuratorConfig.model_fields
        if field in loaded.model_fields_set and field not in ("limits", "retention")
    }
    if "managers" in settings and "managers" not in given:
        settings["managers"] = loaded.make_managers(objects)
    return {**settings, **given}


def rebuilt(curator: Curator, **changes: Any) -> Curator:
    """Return a curator with the managers and options of another, and these changes.

    Raises:
        ConfigurationError: when a change cannot work.

    Examples:
        >>> rebuilt(Curator(max_tokens=900, provider="openai"), max_tokens=400).profile.name
        'openai'
    """
    known = (name for name in CuratorOptions.__annotations__ if hasattr(curator, name))
    options = {name: getattr(curator, name) for name in known}
    options["provider"] = curator.profile
    return Curator(*curator.managers, **{**options, **changes})
