"""The rules that hold for whoever is asked."""

from __future__ import annotations

from typing import NamedTuple

from history_curator.rules import ProviderProfile, ReasoningMode, get_profile


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
