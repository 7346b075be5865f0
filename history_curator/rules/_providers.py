"""One provider's rules: a list of invariants with their parameters, in the order of repair."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from history_curator.formats import takes_later_system
from history_curator.errors import ConfigurationError
from history_curator.entries import MessageRole
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
from history_curator.config import check_options

__all__ = ["PROVIDERS", "ProviderProfile", "Tail", "get_profile"]


class _Ways(NamedTuple):
    """What a profile can be asked to do in more than one way."""

    reasoning: ReasoningMode
    later_system: LaterSystem = "hoist"
    model: str | None = None


# The order is such that one round of repairs is enough: fields before structure, structure before
# what is read off it, the ends last.
_ORDER: tuple[type[Invariant], ...] = (
    MessagesAreWellFormed,
    OneSystemEntryLeads,
    ServerToolsStayWhole,
    ItemsAreUnique,
    NothingIsBlank,
    ResultsFollowTheirCalls,
    CallIdsAreUnique,
    ArgumentsAreObjects,
    ToolNamesAreAccepted,
    ImagesFit,
    ReasoningStaysBound,
    AnswersAreWhole,
    RolesAlternate,
    UserSpeaksFirst,
    SomeUserSpeaks,
    RequestEndsOnUserOrTool,
)


def _everywhere(ways: _Ways) -> list[Invariant]:
    """What holds where a provider says nothing else."""
    return [
        MessagesAreWellFormed(developer=False),
        OneSystemEntryLeads(ways.later_system),
        ServerToolsStayWhole(),
        NothingIsBlank(),
        ResultsFollowTheirCalls(),
        CallIdsAreUnique(),
        ArgumentsAreObjects(),
        ToolNamesAreAccepted(PLAIN_NAME),
        UserSpeaksFirst(),
        SomeUserSpeaks(),
        RequestEndsOnUserOrTool(),
    ]


_ANYWHERE = (OneSystemEntryLeads, UserSpeaksFirst)
"""OpenAI takes system messages anywhere, and anybody may speak first."""
_SHOWN_BY_TOOLS = (MessageRole.USER, MessageRole.TOOL)
_SHOWN_BY_ALL = (*_SHOWN_BY_TOOLS, MessageRole.ASSISTANT)
_ANY_SIZE = 1 << 30


def _core(ways: _Ways) -> list[Invariant]:
    return [
        MessagesAreWellFormed(),
        ItemsAreUnique(),
        ToolNamesAreAccepted(authors=True),
        ImagesFit(max_images=100, max_side=8000, crowd=20, crowded_side=2000, wired=True),
        ReasoningStaysBound(ways.reasoning, model=ways.model),
        AnswersAreWhole(),
    ]


def _portable(ways: _Ways) -> list[Invariant]:
    return [
        NothingIsBlank(flat_results=True),
        ToolNamesAreAccepted(authors=True),
        ImagesFit(),
        ReasoningStaysBound(ways.reasoning, model=ways.model),
        RolesAlternate(),
    ]


def _openai(ways: _Ways) -> list[Invariant]:
    """Chat Completions."""
    return [
        MessagesAreWellFormed(),
        ResultsFollowTheirCalls(ordered=False),
        CallIdsAreUnique(r".{1,40}", scope="message"),
        ArgumentsAreObjects(texts=False),
        ToolNamesAreAccepted(PLAIN_NAME, authors=True),
        ImagesFit(max_images=500, max_side=_ANY_SIZE, wired=True),
        ReasoningStaysBound(ways.reasoning, family="openai"),
        AnswersAreWhole(),
    ]


def _openai_responses(ways: _Ways) -> list[Invariant]:
    """Items: their outputs may hold images and files, and ids may be longer."""
    return [
        *_openai(ways),
        ItemsAreUnique(),
        CallIdsAreUnique(r".{1,64}"),
        ImagesFit(max_images=500, max_side=_ANY_SIZE, roles=_SHOWN_BY_TOOLS),
    ]


def _anthropic(ways: _Ways) -> list[Invariant]:
    return [
        OneSystemEntryLeads(ways.later_system, run=True),
        ResultsFollowTheirCalls(ordered=False),
        CallIdsAreUnique(r"[A-Za-z0-9_-]+"),
        ToolNamesAreAccepted(LONG_NAME),
        ImagesFit(
            max_images=100, max_side=8000, crowd=20, crowded_side=2000, roles=_SHOWN_BY_TOOLS
        ),
        ReasoningStaysBound(ways.reasoning, family="anthropic", model=ways.model),
    ]


def _gemini(ways: _Ways) -> list[Invariant]:
    return [
        CallIdsAreUnique(r".+", scope="message"),
        ToolNamesAreAccepted(GEMINI_NAME),
        ImagesFit(max_images=3000, max_side=_ANY_SIZE, roles=_SHOWN_BY_ALL),
        ReasoningStaysBound(ways.reasoning, family="gemini"),
        RolesAlternate(users=False, bridges=False),
    ]


def _bedrock(ways: _Ways) -> list[Invariant]:
    """Converse: what Anthropic asks, with other names and numbers."""
    return [
        *_anthropic(ways),
        CallIdsAreUnique(BEDROCK_ID),
        ToolNamesAreAccepted(PLAIN_NAME),
        ImagesFit(max_images=20, max_side=8000, roles=_SHOWN_BY_TOOLS),
        RolesAlternate(),
    ]


def _mistral(ways: _Ways) -> list[Invariant]:
    return [
        MessagesAreWellFormed(text_with_calls=False, developer=False),
        CallIdsAreUnique(MISTRAL_ID, scope="message", length=9, bare=True),
        ImagesFit(max_images=8, max_side=_ANY_SIZE),
        ReasoningStaysBound(ways.reasoning, family="mistral"),
        RolesAlternate(users=False, assistants=False),
    ]


class _Provider(NamedTuple):
    """What a provider says for itself; of two rules of a kind the later one holds."""

    own: Callable[[_Ways], list[Invariant]]
    reasoning: ReasoningMode
    lifts: tuple[type[Invariant], ...] = ()
    by_model: bool = False  # whether its rules differ from model to model


_PROVIDERS = {
    "core": _Provider(_core, "strip", by_model=True),
    "portable": _Provider(_portable, "strip", by_model=True),
    "openai": _Provider(_openai, "keep", lifts=_ANYWHERE),
    "openai-responses": _Provider(_openai_responses, "keep", lifts=_ANYWHERE),
    "anthropic": _Provider(_anthropic, "strip", by_model=True),
    "gemini": _Provider(_gemini, "keep"),
    "bedrock": _Provider(_bedrock, "strip", by_model=True),
    "mistral": _Provider(_mistral, "keep"),
}

PROVIDERS: tuple[str, ...] = tuple(_PROVIDERS)
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
            models that take them there. The first rewrites the prefix whenever one is added; it
            is the default, but for a `model` of Anthropic that takes them: Claude from Opus 4.8
            on. OpenAI takes them anywhere, so its profiles never move them.
        model: the model that is asked. Thinking that another model of Anthropic signed is taken
            off then, where its message names that model: dicts under ``model``, as Claude Code
            logs them, LangChain in ``response_metadata``. A message that names none keeps its
            thinking: nothing else in it tells who signed.

    Raises:
        ConfigurationError: for a name or mode nobody knows.

    Examples:
        >>> get_profile("mistral")
        ProviderProfile('mistral', reasoning='keep')
    """
    if isinstance(provider, ProviderProfile):
        return provider
    if provider not in _PROVIDERS:
        raise ConfigurationError(
            f"provider: unknown profile {provider!r}. Fix: use one of {', '.join(PROVIDERS)}, "
            "or in Python pass a ProviderProfile."
        )
    check_options({"reasoning": reasoning})
    if later_system not in (None, "hoist", "demote", "stay"):
        raise ConfigurationError(
            f"later_system: unknown way {later_system!r}. Fix: use 'hoist', 'demote' or 'stay'."
        )
    rules = _PROVIDERS[provider]
    if not rules.by_model:
        model = None
    if later_system is None:
        takes = provider == "anthropic" and model is not None and takes_later_system(model)
        later_system = "stay" if takes else "hoist"
    return _built(provider, _Ways(reasoning or rules.reasoning, later_system, model))


@lru_cache(maxsize=256)
def _built(name: str, ways: _Ways) -> ProviderProfile:
    provider = _PROVIDERS[name]
    rules = {type(rule): rule for rule in (*_everywhere(ways), *provider.own(ways))}
    return ProviderProfile(
        name, [rules[kind] for kind in _ORDER if kind in rules and kind not in provider.lifts]
    )
