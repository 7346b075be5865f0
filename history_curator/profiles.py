"""One provider's rules: a list of invariants with their parameters, in the order of repair."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal

from history_curator._profile import ProviderProfile, Tail
from history_curator.errors import ConfigurationError
from history_curator.invariants import (
    ArgumentsAreObjects,
    CallIdsAreUnique,
    ImagesFit,
    Invariant,
    MessagesAreWellFormed,
    NothingIsBlank,
    OneSystemEntryLeads,
    ReasoningMode,
    ReasoningStaysBound,
    RequestEndsOnUserOrTool,
    ResultsFollowTheirCalls,
    RolesAlternate,
    SomeUserSpeaks,
    ToolNamesAreAccepted,
    UserSpeaksFirst,
)
from history_curator.invariants._call_ids_are_unique import BEDROCK_ID, MISTRAL_ID
from history_curator.invariants._tool_names_are_accepted import GEMINI_NAME, LONG_NAME, PLAIN_NAME
from history_curator.model import MessageRole

__all__ = ["PROVIDERS", "ProviderProfile", "Tail", "get_profile"]

ProviderName = Literal["core", "portable", "openai", "anthropic", "gemini", "bedrock", "mistral"]

# The order below is such that one round of repairs is enough: fields before structure, structure
# before what is read off it, the ends last.
_SHOWN_BY_TOOLS = (MessageRole.USER, MessageRole.TOOL)


def _core(mode: ReasoningMode) -> list[Invariant]:
    return [
        MessagesAreWellFormed(),
        OneSystemEntryLeads(),
        NothingIsBlank(),
        ResultsFollowTheirCalls(),
        CallIdsAreUnique(),
        ArgumentsAreObjects(),
        ToolNamesAreAccepted(authors=True),
        ImagesFit(max_images=100, max_side=8000, crowd=20, crowded_side=2000),
        ReasoningStaysBound(mode),
        UserSpeaksFirst(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


def _portable(mode: ReasoningMode) -> list[Invariant]:
    return [
        MessagesAreWellFormed(),
        OneSystemEntryLeads(),
        NothingIsBlank(flat_results=True),
        ResultsFollowTheirCalls(),
        CallIdsAreUnique(),
        ArgumentsAreObjects(),
        ToolNamesAreAccepted(authors=True),
        ImagesFit(),
        ReasoningStaysBound(mode),
        RolesAlternate(),
        UserSpeaksFirst(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


def _openai(mode: ReasoningMode) -> list[Invariant]:
    return [
        MessagesAreWellFormed(),
        NothingIsBlank(),
        ResultsFollowTheirCalls(ordered=False),
        CallIdsAreUnique(r".{1,40}", scope="message"),
        ToolNamesAreAccepted(PLAIN_NAME, authors=True),
        ImagesFit(max_images=500, max_side=1 << 30),
        ReasoningStaysBound(mode, family="openai"),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


def _anthropic(mode: ReasoningMode) -> list[Invariant]:
    return [
        MessagesAreWellFormed(),
        OneSystemEntryLeads(run=True),
        NothingIsBlank(),
        ResultsFollowTheirCalls(ordered=False),
        CallIdsAreUnique(r"[A-Za-z0-9_-]+"),
        ArgumentsAreObjects(),
        ToolNamesAreAccepted(LONG_NAME),
        ImagesFit(
            max_images=100, max_side=8000, crowd=20, crowded_side=2000, roles=_SHOWN_BY_TOOLS
        ),
        ReasoningStaysBound(mode, family="anthropic"),
        UserSpeaksFirst(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


def _gemini(mode: ReasoningMode) -> list[Invariant]:
    return [
        MessagesAreWellFormed(),
        OneSystemEntryLeads(),
        NothingIsBlank(),
        ResultsFollowTheirCalls(),
        CallIdsAreUnique(r".+", scope="message"),
        ArgumentsAreObjects(),
        ToolNamesAreAccepted(GEMINI_NAME),
        ImagesFit(max_images=3000, max_side=1 << 30),
        ReasoningStaysBound(mode, family="gemini"),
        RolesAlternate(users=False, bridges=False),
        UserSpeaksFirst(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


def _bedrock(mode: ReasoningMode) -> list[Invariant]:
    return [
        MessagesAreWellFormed(),
        OneSystemEntryLeads(run=True),
        NothingIsBlank(),
        ResultsFollowTheirCalls(ordered=False),
        CallIdsAreUnique(BEDROCK_ID),
        ArgumentsAreObjects(),
        ToolNamesAreAccepted(PLAIN_NAME),
        ImagesFit(max_images=20, max_side=8000, roles=_SHOWN_BY_TOOLS),
        ReasoningStaysBound(mode, family="anthropic"),
        RolesAlternate(),
        UserSpeaksFirst(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


def _mistral(mode: ReasoningMode) -> list[Invariant]:
    return [
        MessagesAreWellFormed(text_with_calls=False),
        OneSystemEntryLeads(),
        NothingIsBlank(),
        ResultsFollowTheirCalls(),
        CallIdsAreUnique(MISTRAL_ID, scope="message", length=9, bare=True),
        ArgumentsAreObjects(),
        ToolNamesAreAccepted(PLAIN_NAME),
        ImagesFit(max_images=8, max_side=1 << 30),
        ReasoningStaysBound(mode),
        RolesAlternate(users=False, assistants=False),
        UserSpeaksFirst(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


_BUILDERS: dict[str, tuple[Callable[[ReasoningMode], list[Invariant]], ReasoningMode]] = {
    "core": (_core, "strip"),
    "portable": (_portable, "strip"),
    "openai": (_openai, "keep"),
    "anthropic": (_anthropic, "strip"),
    "gemini": (_gemini, "keep"),
    "bedrock": (_bedrock, "strip"),
    "mistral": (_mistral, "keep"),
}

PROVIDERS: tuple[str, ...] = tuple(_BUILDERS)
"""The names `get_profile` knows."""


def get_profile(
    provider: str | ProviderProfile = "core", *, reasoning: ReasoningMode | None = None
) -> ProviderProfile:
    """Return a profile by name; a profile of your own comes back as it is.

    Args:
        provider: one of `PROVIDERS`, or a profile.
        reasoning: ``strip``, ``keep`` or ``refuse`` instead of the provider's default.

    Raises:
        ConfigurationError: for a name or mode nobody knows.

    Example:
        >>> get_profile("mistral")
        ProviderProfile('mistral', reasoning='keep')
    """
    if isinstance(provider, ProviderProfile):
        return provider
    if provider not in _BUILDERS:
        raise ConfigurationError(
            f"provider: unknown profile {provider!r}. Fix: use one of {', '.join(PROVIDERS)}, "
            "or pass a ProviderProfile."
        )
    if reasoning not in (None, "strip", "keep", "refuse"):
        raise ConfigurationError(
            f"reasoning: unknown mode {reasoning!r}. Fix: use 'strip', 'keep' or 'refuse'."
        )
    return _built(provider, reasoning or _BUILDERS[provider][1])


@cache
def _built(name: str, mode: ReasoningMode) -> ProviderProfile:
    return ProviderProfile(name, _BUILDERS[name][0](mode))
