"""The same curator with another budget: settings of a socket can change while it is in use."""

from __future__ import annotations

from typing import Any

from history_curator.curator import Curator
from history_curator.settings import CuratorOptions


def rebuilt(curator: Curator, **changes: Any) -> Curator:
    """Return a curator with the managers and options of another, and these changes.

    Raises:
        ConfigurationError: when a change cannot work.

    Example:
        >>> rebuilt(Curator(max_tokens=900, provider="openai"), max_tokens=400).profile.name
        'openai'
    """
    known = (name for name in CuratorOptions.__annotations__ if hasattr(curator, name))
    options = {name: getattr(curator, name) for name in known}
    options["provider"] = curator.profile
    return Curator(*curator.managers, **{**options, **changes})
