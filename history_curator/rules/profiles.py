"""One table, from a provider to its rules, and the profile that applies them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from history_curator.config import check_options
from history_curator.entries import ConversationEntry
from history_curator.errors import ConfigurationError
from history_curator.rules import content, reasoning, roles, tools
from history_curator.rules.base import (
    ASSISTANT,
    TOOL,
    USER,
    Entries,
    Rule,
    Tail,
    Violation,
    repair_entries,
)
from history_curator.tokens.models import takes_later_system


class ProviderProfile:
    """The rules of one provider, in the order of repair.

    `repair` returns entries in which `find` finds no violation, keeps every word the user said, is
    idempotent, and returns the very list it was given when nothing is wrong. `merges` says whether
    runs of one role are merged, `hoists` whether later system entries move to the front, and
    `strips` whether reasoning goes after an edited prefix.

    Examples:
        >>> from history_curator import get_profile
        >>> from history_curator.testing import parse_entries, show
        >>> profile = get_profile("portable")
        >>> broken = parse_entries("S U A(c1) U T(c1) A U")
        >>> [violation.rule for violation in profile.find(broken)]
        ['P6', 'P6']
        >>> show(profile.repair(broken))
        'S U A(c1) T(c1) A* U A U'
    """

    def __init__(self, name: str, rules: Sequence[Rule]) -> None:
        self.name = name
        self.rules = tuple(rules)
        self._joints = [rule for rule in rules if type(rule) is roles.RolesAlternate]
        self.merges = bool(self._joints)
        systems = [rule for rule in rules if isinstance(rule, roles.OneSystemEntryLeads)]
        self.hoists = any(rule.later == "hoist" for rule in systems)
        bound = [rule for rule in rules if isinstance(rule, reasoning.ReasoningStaysBound)]
        self.strips = any(rule.mode == "strip" for rule in bound)
        self.opens_with_user = any(isinstance(rule, roles.UserSpeaksFirst) for rule in rules)

    def find(self, entries: Entries, tail: Tail = "request") -> list[Violation]:
        """Return every violation in order of position; those without a position come last."""
        found = [each for rule in self._select_rules(tail) for each in rule.find(entries)]
        return sorted(found, key=lambda each: (each.index is None, each.index))

    def is_entry_valid(self, entry: ConversationEntry) -> bool:
        """Return whether no rule objects to an entry alone."""
        return not any(rule.check_entry(entry) for rule in self.rules)

    def repair_unit(self, entries: tuple[ConversationEntry, ...]) -> tuple[ConversationEntry, ...]:
        """Return a unit after the rules that can judge it alone; the very tuple when it is valid."""
        return tuple(repair_entries(self.rules, entries, self.is_entry_valid, in_unit=True))

    def repair(
        self,
        entries: Entries,
        tail: Tail = "request",
        *,
        edited: bool = False,
        is_valid: Callable[[ConversationEntry], bool] | None = None,
    ) -> list[ConversationEntry]:
        """Return entries this provider takes; the very list when it takes them as they are.

        `edited` says that something was edited or left out already, and reasoning is bound to it;
        `is_valid` is `is_entry_valid`, where the caller remembers its answers.
        """
        given = entries if isinstance(entries, list) else list(entries)
        is_valid = is_valid or self.is_entry_valid
        repaired = repair_entries(self._select_rules(tail), given, is_valid)
        if not edited and repaired is given:
            return given
        since = 0 if edited else _find_first_change(given, repaired)
        return self.settle_reasoning(list(repaired), since)

    def settle_reasoning(
        self, entries: list[ConversationEntry], since: int = 0
    ) -> list[ConversationEntry]:
        """Strip reasoning behind an edit at or before `since`, where the profile does so.

        Reasoning of the turn whose tool loop is running always stays: providers ask for it.
        """
        if not self.strips or not any(entry.reasoning for entry in entries):
            return entries
        out = list(entries)
        for index in range(since, reasoning.find_running_turn(entries)):
            out[index] = reasoning.strip_reasoning(out[index])
        return out

    def without_reasoning(
        self, entries: tuple[ConversationEntry, ...]
    ) -> tuple[ConversationEntry, ...]:
        """Return a unit as it is shown after an edited prefix; the very tuple when that is the same."""
        if not self.strips or not any(entry.reasoning for entry in entries):
            return entries
        return tuple(map(reasoning.strip_reasoning, entries))

    def bridge(self, last: ConversationEntry, entry: ConversationEntry) -> ConversationEntry | None:
        """Return the entry that has to stand between two neighbours, if one has to."""
        needed = any(rule.needs_bridge(last, entry) for rule in self._joints)
        return roles.build_bridge() if needed else None

    def _select_rules(self, tail: Tail) -> list[Rule]:
        return [rule for rule in self.rules if tail == "request" or not rule.requests_only]


def _find_first_change(before: Entries, after: Entries) -> int:
    """Return where two views begin to differ in a way that is sent."""
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is not new and _sent_fields(old) != _sent_fields(new):
            return index
    return min(len(before), len(after))


def _sent_fields(entry: ConversationEntry) -> tuple[Any, ...]:
    blocks = [part.raw for part in entry.parts or () if part.kind != "text" and not part.is_mark]
    ids = entry.tool_call_id, entry.name
    return entry.role, entry.content or "", ids, entry.tool_calls or (), entry.reasoning, blocks


_DEFAULTS: dict[type[Rule], Rule | None] = {
    content.MessagesAreWellFormed: content.MessagesAreWellFormed(developer=False),
    roles.OneSystemEntryLeads: None,
    tools.ServerToolsStayWhole: tools.ServerToolsStayWhole(),
    reasoning.ItemsAreUnique: None,
    content.NothingIsBlank: content.NothingIsBlank(),
    tools.ResultsFollowTheirCalls: tools.ResultsFollowTheirCalls(),
    tools.CallIdsAreUnique: tools.CallIdsAreUnique(),
    tools.ArgumentsAreObjects: tools.ArgumentsAreObjects(),
    tools.ToolNamesAreAccepted: tools.ToolNamesAreAccepted(tools.PLAIN_NAME),
    content.ImagesFit: None,
    content.DocumentNamesAreAccepted: None,
    content.CacheMarksFit: content.CacheMarksFit(),
    reasoning.ReasoningStaysBound: None,
    roles.AnswersAreWhole: None,
    roles.RolesAlternate: None,
    roles.UserSpeaksFirst: roles.UserSpeaksFirst(),
    roles.SomeUserSpeaks: roles.SomeUserSpeaks(),
    roles.RequestEndsOnUserOrTool: roles.RequestEndsOnUserOrTool(),
}
"""Rules that hold where a provider has no other of the class; None where it then has none.

Their order is the order of repair, so every class has a line: one without would repair last.
One round of repairs is enough in this order: fields, then structure, then both ends.
"""

_any_size = partial(content.ImagesFit, max_side=1 << 30)
_claude_images = partial(content.ImagesFit, 100, 8000, crowd=20, crowded_side=2000, in_errors=False)
_OPENAI: tuple[Rule, ...] = (
    content.MessagesAreWellFormed(),
    tools.ResultsFollowTheirCalls(ordered=False),
    tools.CallIdsAreUnique(r".{1,40}", scope="message"),
    tools.ArgumentsAreObjects(texts=False),
    tools.ToolNamesAreAccepted(tools.PLAIN_NAME, authors=True),
    _any_size(500, wired=True),
    roles.AnswersAreWhole(),
)
_ANTHROPIC: tuple[Rule, ...] = (
    tools.ResultsFollowTheirCalls(ordered=False),
    tools.CallIdsAreUnique(r"[A-Za-z0-9_-]+"),
    tools.ToolNamesAreAccepted(tools.LONG_NAME),
    _claude_images(roles=(USER, TOOL)),
)
_RULES: dict[str, tuple[Rule, ...]] = {
    "core": (
        content.MessagesAreWellFormed(),
        reasoning.ItemsAreUnique(),
        tools.ToolNamesAreAccepted(authors=True),
        _claude_images(wired=True),
        content.DocumentNamesAreAccepted(),
        roles.AnswersAreWhole(),
    ),
    "portable": (
        content.NothingIsBlank(flat_results=True),
        tools.ToolNamesAreAccepted(authors=True),
        content.ImagesFit(in_errors=False),
        content.DocumentNamesAreAccepted(),
        roles.RolesAlternate(),
    ),
    "openai": _OPENAI,
    "openai-responses": (
        *_OPENAI,
        reasoning.ItemsAreUnique(),
        tools.CallIdsAreUnique(r".{1,64}"),
        _any_size(500, roles=(USER, TOOL)),
    ),
    "anthropic": _ANTHROPIC,
    "gemini": (
        tools.CallIdsAreUnique(r".+", scope="message"),
        tools.ToolNamesAreAccepted(tools.GEMINI_NAME),
        _any_size(3000, roles=(USER, TOOL, ASSISTANT)),
        roles.RolesAlternate(users=False, bridges=False),
    ),
    "bedrock": (
        *_ANTHROPIC,
        tools.CallIdsAreUnique(tools.BEDROCK_ID),
        tools.ToolNamesAreAccepted(tools.PLAIN_NAME),
        content.ImagesFit(20, 8000, roles=(USER, TOOL)),
        content.DocumentNamesAreAccepted(),
        roles.RolesAlternate(),
    ),
    "mistral": (
        tools.CallIdsAreUnique(tools.MISTRAL_ID, scope="message", length=9, bare=True),
        _any_size(8),
        roles.RolesAlternate(users=False, assistants=False),
    ),
}
"""The rules a provider has of its own; of two rules of a class the later one holds."""

_FAMILIES: dict[str, reasoning.Family] = {
    "openai": "openai",
    "openai-responses": "openai",
    "anthropic": "anthropic",
    "bedrock": "anthropic",
    "gemini": "gemini",
    "mistral": "mistral",
}
"""Whose reasoning a provider takes."""

PROVIDERS: tuple[str, ...] = tuple(_RULES)
"""The names `get_profile` knows."""


def get_profile(
    provider: str | ProviderProfile = "core",
    *,
    reasoning: reasoning.ReasoningMode | None = None,
    later_system: roles.LaterSystem | None = None,
    model: str | None = None,
) -> ProviderProfile:
    """Return a profile by name; a profile of your own comes back as it is.

    Args:
        provider: one of `PROVIDERS`, or a profile.
        reasoning: ``strip`` or ``keep`` instead of the provider's default.
        later_system: ``hoist`` later system messages to the front, which rewrites the prefix,
            ``demote`` them to user text, or let them ``stay``, as Claude takes them from Opus 4.8 on.
        model: the model that is asked. Thinking goes where its message names another model of
            Anthropic; Gemini 3 gets signatures.
    """
    if isinstance(provider, ProviderProfile):
        return provider
    if provider not in _RULES:
        raise ConfigurationError(
            f"provider: unknown profile {provider!r}. Fix: use one of {', '.join(PROVIDERS)}, "
            "or in Python pass a ProviderProfile."
        )
    check_options({"reasoning": reasoning})
    if later_system not in (None, "hoist", "demote", "stay"):
        raise ConfigurationError(
            f"later_system: unknown way {later_system!r}. Fix: use 'hoist', 'demote' or 'stay'."
        )
    if later_system is None:
        takes = provider == "anthropic" and model is not None and takes_later_system(model)
        later_system = "stay" if takes else "hoist"
    # Models of Anthropic bind reasoning to themselves and to the messages before it.
    binds = _FAMILIES.get(provider, "anthropic") == "anthropic"
    mode = reasoning or ("strip" if binds else "keep")
    named = model if binds or provider == "gemini" else None
    return _build_profile(provider, mode, later_system, named)


@lru_cache(maxsize=256)
def _build_profile(
    name: str, mode: reasoning.ReasoningMode, later: roles.LaterSystem, model: str | None
) -> ProviderProfile:
    family = _FAMILIES.get(name)
    rules = {**_DEFAULTS, **{type(rule): rule for rule in _RULES[name]}}
    rules[reasoning.ReasoningStaysBound] = reasoning.ReasoningStaysBound(mode, family, model)
    if family == "openai":  # takes system messages anywhere, and anybody first
        rules[roles.UserSpeaksFirst] = None
    else:
        run = family == "anthropic"
        rules[roles.OneSystemEntryLeads] = roles.OneSystemEntryLeads(later, run)
    return ProviderProfile(name, [rule for rule in rules.values() if rule is not None])
