"""A rule that is only about some fields has nothing to say where none of them is set."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from history_curator.dialects import DictDialect
from history_curator.model import ConversationEntry, MessageRole
from history_curator.rules import (
    PROVIDERS,
    ImagesFit,
    Invariant,
    NothingIsBlank,
    ProviderProfile,
    get_profile,
)
from history_curator.testing.strategies import broken_conversations
from tests.support.messages import assistant, call, result, user

DIALECT = DictDialect()


@pytest.mark.parametrize("provider", PROVIDERS)
@given(messages=broken_conversations())
def test_nothing_is_found_where_the_fields_are_not_set(
    provider: str, messages: list[dict[str, Any]]
) -> None:
    for index, message in enumerate(messages):
        for entry in DIALECT.read(message, index):
            for rule in get_profile(provider).invariants:
                unset = all(getattr(entry, field) is None for field in rule.about)
                if rule.about and unset:
                    assert not list(rule.look_at(entry))


@pytest.mark.parametrize("provider", PROVIDERS)
@given(messages=broken_conversations())
def test_a_profile_judges_an_entry_as_all_of_its_rules_do(
    provider: str, messages: list[dict[str, Any]]
) -> None:
    profile = get_profile(provider)
    for index, message in enumerate(messages):
        for entry in DIALECT.read(message, index):
            found = any(list(rule.look_at(entry)) for rule in profile.invariants)
            assert profile._judge(entry) is not found


@pytest.mark.parametrize("provider", PROVIDERS)
@given(messages=broken_conversations())
def test_nothing_is_found_across_entries_that_do_not_concern_a_rule(
    provider: str, messages: list[dict[str, Any]]
) -> None:
    entries = [e for at, message in enumerate(messages) for e in DIALECT.read(message, at)]
    for rule in get_profile(provider).invariants:
        if rule.looks_across and not rule.looks_always:
            others = [entry for entry in entries if not rule.concerns(entry)]
            assert not list(rule.look_across(others))


class NoShouting(ImagesFit):
    """A rule of somebody's own that looks further than the one it is made of."""

    def look_across(self, entries: Any) -> list[Any]:
        return [(at, "loud", "too loud") for at, e in enumerate(entries) if "!" in e.content]


def test_a_rule_that_is_made_of_another_always_looks() -> None:
    profile = ProviderProfile("mine", [NoShouting()])
    quiet, loud = (
        ConversationEntry(MessageRole.USER, "a"),
        ConversationEntry(MessageRole.USER, "b!"),
    )
    assert profile.holds_across([quiet], "request", profile.concerned([quiet]))
    assert not profile.holds_across([loud], "request", profile.concerned([loud]))


def test_every_kind_of_entry_is_looked_at_by_its_rules() -> None:
    profile = get_profile("mistral")
    good = [user("a"), call("abcdefgh1"), result("abcdefgh1"), assistant("b")]
    assert all(profile._judge(DIALECT.read(each, 0)[0]) for each in good)
    bad = [
        user(" "),
        call("abcdefgh1", name="no spaces please"),
        call("short"),
        result("abcdefgh1", name="no spaces please"),
        user("a", unknown=1),
    ]
    assert not any(profile._judge(DIALECT.read(each, 0)[0]) for each in bad)


class NoFailures(Invariant):
    """A rule of somebody's own, about a field no rule that ships is about."""

    code = "X1"
    about = ("status",)

    def look_at(self, entry: ConversationEntry) -> list[tuple[str, str]]:
        return [("failed", "it failed")] if entry.status == "error" else []

    def repair(self, entries: Any) -> list[ConversationEntry]:
        return [entry.evolve(status=None) if self.look_at(entry) else entry for entry in entries]


@pytest.mark.parametrize("rules", [[NoFailures()], [NothingIsBlank(), NoFailures()]])
@pytest.mark.parametrize("metadata", [None, {"key": 1}])
def test_a_rule_of_ones_own_may_be_about_any_field(rules: Any, metadata: Any) -> None:
    profile = ProviderProfile("mine", rules)
    good = ConversationEntry(MessageRole.TOOL, "ok", tool_call_id="a", metadata=metadata)
    bad = ConversationEntry(
        MessageRole.TOOL, "no", tool_call_id="b", status="error", metadata=metadata
    )
    assert profile.holds([good])
    assert not profile.holds([good, bad])
    assert [entry.status for entry in profile.repair([good, bad])] == [None, None]
