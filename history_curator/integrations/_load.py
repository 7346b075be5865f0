"""What a curator is made of: as a configuration sets it, as another has it, as the model wants it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from history_curator.curator import Curator
from history_curator.managers import build_managers
from history_curator.rules import ProviderProfile, ReasoningMode, get_profile
from history_curator.config import CuratorConfig, CuratorOptions

ConfigSource = CuratorConfig | Mapping[str, Any] | str | Path
"""What describes a curator: a configuration, a mapping, or the path of a file."""


def load_settings(
    config: ConfigSource | None,
    objects: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what a configuration sets, by name and with its managers made; overrides win.

    What it does not set is left out, so that the defaults of the socket hold, and so is what is no
    matter of a curator: the retention. Without a configuration these are the overrides
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
        if field in loaded.model_fields_set and field != "retention"
    }
    if "managers" in settings and "managers" not in given:
        settings["managers"] = build_managers(loaded.managers, objects)
    return {**settings, **given}


def as_managers(given: Any) -> tuple[Any, ...]:
    """Return managers as they are given: in a sequence, one alone, or none.

    Examples:
        >>> as_managers(None), as_managers([1, 2]), as_managers(3)
        ((), (1, 2), (3,))
    """
    if given is None:
        return ()
    return tuple(given) if isinstance(given, Sequence) else (given,)


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


class Asked(NamedTuple):
    """Who is asked, as far as the rules for a request depend on it.

    Attributes:
        models: the names of all models that may answer, such as one and its fallbacks. Nothing
            is taken for granted of a model where they differ, or where one has no name.
        in_place: whether the client sends system messages within a conversation where they
            stand; most move them to the front.
    """

    models: tuple[str | None, ...] = ()
    in_place: bool = False


def rules_for(
    provider: str | ProviderProfile, asked: Asked, reasoning: ReasoningMode | None = None
) -> ProviderProfile:
    """Return the profile for a request; one of your own as it is.

    Examples:
        >>> rules_for("anthropic", Asked(("claude-opus-4-8",), in_place=True)).hoists
        False
        >>> rules_for("anthropic", Asked(("claude-opus-4-8", "claude-opus-4-5"), True)).hoists
        True
    """
    names = set(asked.models)
    return get_profile(
        provider,
        reasoning=reasoning,
        later_system=None if asked.in_place else "hoist",
        model=names.pop() if len(names) == 1 else None,
    )
