"""One provider's rules: a list of invariants with their parameters, in the order of repair."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

from history_curator.errors import ConfigurationError
from history_curator.model import MessageRole
from history_curator.rules import (
    AnswersAreWhole,
    ArgumentsAreObjects,
    CallIdsAreUnique,
    ImagesFit,
    Invariant,
    ItemsAreUnique,
    LaterSystem,
    MessagesAreWellFormed,
    NothingIsBlank,
    OneSystemEntryLeads,
    ReasoningMode,
    ReasoningStaysBound,
    RequestEndsOnUserOrTool,
    ResultsFollowTheirCalls,
    RolesAlternate,
    ServerToolsStayWhole,
    SomeUserSpeaks,
    ToolNamesAreAccepted,
    UserSpeaksFirst,
)
from history_curator.rules._call_ids_are_unique import BEDROCK_ID, MISTRAL_ID
from history_curator.rules._profile import ProviderProfile, Tail
from history_curator.rules._tool_names_are_accepted import GEMINI_NAME, LONG_NAME, PLAIN_NAME

__all__ = ["PROVIDERS", "ProviderProfile", "Tail", "get_profile"]

ProviderName = Literal[
    "core",
    "portable",
    "openai",
    "openai-responses",
    "anthropic",
    "gemini",
    "bedrock",
    "mistral",
]


class _Ways(NamedTuple):
    """What a profile can be asked to do in more than one way."""

    reasoning: ReasoningMode
    later_system: LaterSystem = "hoist"
    model: str | None = None


# The order below is such that one round of repairs is enough: fields before structure, structure
# before what is read off it, the ends last.
_SHOWN_BY_TOOLS = (MessageRole.USER, MessageRole.TOOL)
_SHOWN_BY_ALL = (*_SHOWN_BY_TOOLS, MessageRole.ASSISTANT)


def _core(ways: _Ways) -> list[Invariant]:
    return [
        MessagesAreWellFormed(),
        OneSystemEntryLeads(ways.later_system),
        ServerToolsStayWhole(),
        ItemsAreUnique(),
        NothingIsBlank(),
        ResultsFollowTheirCalls(),
        CallIdsAreUnique(),
        ArgumentsAreObjects(),
        ToolNamesAreAccepted(authors=True),
        ImagesFit(max_images=100, max_side=8000, crowd=20, crowded_side=2000, wired=True),
        ReasoningStaysBound(ways.reasoning, model=ways.model),
        AnswersAreWhole(),
        UserSpeaksFirst(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


def _portable(ways: _Ways) -> list[Invariant]:
    return [
        MessagesAreWellFormed(developer=False),
        OneSystemEntryLeads(ways.later_system),
        ServerToolsStayWhole(),
        NothingIsBlank(flat_results=True),
        ResultsFollowTheirCalls(),
        CallIdsAreUnique(),
        ArgumentsAreObjects(),
        ToolNamesAreAccepted(authors=True),
        ImagesFit(),
        ReasoningStaysBound(ways.reasoning, model=ways.model),
        RolesAlternate(),
        UserSpeaksFirst(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


def _openai(ways: _Ways) -> list[Invariant]:
    """Chat Completions."""
    return [
        MessagesAreWellFormed(),
        ServerToolsStayWhole(),
        NothingIsBlank(),
        ResultsFollowTheirCalls(ordered=False),
        CallIdsAreUnique(r".{1,40}", scope="message"),
        ArgumentsAreObjects(texts=False),
        ToolNamesAreAccepted(PLAIN_NAME, authors=True),
        ImagesFit(max_images=500, max_side=1 << 30, wired=True),
        ReasoningStaysBound(ways.reasoning, family="openai"),
        AnswersAreWhole(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


def _openai_responses(ways: _Ways) -> list[Invariant]:
    """Items: their outputs may hold images and files, and ids may be longer."""
    return [
        MessagesAreWellFormed(),
        ServerToolsStayWhole(),
        ItemsAreUnique(),
        NothingIsBlank(),
        ResultsFollowTheirCalls(ordered=False),
        CallIdsAreUnique(r".{1,64}"),
        ArgumentsAreObjects(texts=False),
        ToolNamesAreAccepted(PLAIN_NAME, authors=True),
        ImagesFit(max_images=500, max_side=1 << 30, roles=_SHOWN_BY_TOOLS),
        ReasoningStaysBound(ways.reasoning, family="openai"),
        AnswersAreWhole(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


def _anthropic(ways: _Ways) -> list[Invariant]:
    return [
        MessagesAreWellFormed(developer=False),
        OneSystemEntryLeads(ways.later_system, run=True),
        ServerToolsStayWhole(),
        NothingIsBlank(),
        ResultsFollowTheirCalls(ordered=False),
        CallIdsAreUnique(r"[A-Za-z0-9_-]+"),
        ArgumentsAreObjects(),
        ToolNamesAreAccepted(LONG_NAME),
        ImagesFit(
            max_images=100, max_side=8000, crowd=20, crowded_side=2000, roles=_SHOWN_BY_TOOLS
        ),
        ReasoningStaysBound(ways.reasoning, family="anthropic", model=ways.model),
        UserSpeaksFirst(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


def _gemini(ways: _Ways) -> list[Invariant]:
    return [
        MessagesAreWellFormed(developer=False),
        OneSystemEntryLeads(ways.later_system),
        ServerToolsStayWhole(),
        NothingIsBlank(),
        ResultsFollowTheirCalls(),
        CallIdsAreUnique(r".+", scope="message"),
        ArgumentsAreObjects(),
        ToolNamesAreAccepted(GEMINI_NAME),
        ImagesFit(max_images=3000, max_side=1 << 30, roles=_SHOWN_BY_ALL),
        ReasoningStaysBound(ways.reasoning, family="gemini"),
        RolesAlternate(users=False, bridges=False),
        UserSpeaksFirst(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


def _bedrock(ways: _Ways) -> list[Invariant]:
    return [
        MessagesAreWellFormed(developer=False),
        OneSystemEntryLeads(ways.later_system, run=True),
        ServerToolsStayWhole(),
        NothingIsBlank(),
        ResultsFollowTheirCalls(ordered=False),
        CallIdsAreUnique(BEDROCK_ID),
        ArgumentsAreObjects(),
        ToolNamesAreAccepted(PLAIN_NAME),
        ImagesFit(max_images=20, max_side=8000, roles=_SHOWN_BY_TOOLS),
        ReasoningStaysBound(ways.reasoning, family="anthropic", model=ways.model),
        RolesAlternate(),
        UserSpeaksFirst(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


def _mistral(ways: _Ways) -> list[Invariant]:
    return [
        MessagesAreWellFormed(text_with_calls=False, developer=False),
        OneSystemEntryLeads(ways.later_system),
        ServerToolsStayWhole(),
        NothingIsBlank(),
        ResultsFollowTheirCalls(),
        CallIdsAreUnique(MISTRAL_ID, scope="message", length=9, bare=True),
        ArgumentsAreObjects(),
        ToolNamesAreAccepted(PLAIN_NAME),
        ImagesFit(max_images=8, max_side=1 << 30),
        ReasoningStaysBound(ways.reasoning, family="mistral"),
        RolesAlternate(users=False, assistants=False),
        UserSpeaksFirst(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


_BUILDERS: dict[str, tuple[Callable[[_Ways], list[Invariant]], ReasoningMode]] = {
    "core": (_core, "strip"),
    "portable": (_portable, "strip"),
    "openai": (_openai, "keep"),
    "openai-responses": (_openai_responses, "keep"),
    "anthropic": (_anthropic, "strip"),
    "gemini": (_gemini, "keep"),
    "bedrock": (_bedrock, "strip"),
    "mistral": (_mistral, "keep"),
}

PROVIDERS: tuple[str, ...] = tuple(_BUILDERS)
"""The names `get_profile` knows."""


def get_profile(
    provider: str | ProviderProfile = "core",
    *,
    reasoning: ReasoningMode | None = None,
    later_system: LaterSystem | None = None,
    model: str | None = None,
) -> ProviderProfile:
    """Return a profile by name; a profile of your own comes back as it is.

    Args:
        provider: one of `PROVIDERS`, or a profile.
        reasoning: ``strip``, ``keep`` or ``refuse`` instead of the provider's default.
        later_system: what becomes of system messages behind the first other one: ``hoist`` them
            to the front, ``demote`` them to user text where they stand, or let them ``stay``, for
            models that take them there, such as Claude from Opus 4.8 on. The first rewrites the
            prefix whenever one is added. OpenAI takes them anywhere, so its profiles never move
            them.
        model: the model that is asked. Thinking that another model of Anthropic signed is taken
            off then, where its message names that model: dicts under ``model``, as Claude Code
            logs them, LangChain in ``response_metadata``. A message that names none keeps its
            thinking: nothing else in it tells who signed.

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
    if later_system not in (None, "hoist", "demote", "stay"):
        raise ConfigurationError(
            f"later_system: unknown way {later_system!r}. Fix: use 'hoist', 'demote' or 'stay'."
        )
    build, usual = _BUILDERS[provider]
    return _built(provider, build, _Ways(reasoning or usual, later_system or "hoist", model))


@lru_cache(maxsize=256)
def _built(name: str, build: Callable[[_Ways], list[Invariant]], ways: _Ways) -> ProviderProfile:
    return ProviderProfile(name, build(ways))
