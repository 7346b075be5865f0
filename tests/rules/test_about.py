"""A rule that is only about some features has nothing to say where no entry has one of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given

from history_curator import Curator
from history_curator.formats import DictFormat, detect, read_entries
from history_curator.errors import ConversionError
from history_curator.entries import ConversationEntry, MessageRole, ToolCall
from history_curator.rules import (
    PROVIDERS,
    ImagesFit,
    Invariant,
    NothingIsBlank,
    ProviderProfile,
    get_profile,
)
from history_curator.rules._features import EVERYTHING, features_of
from history_curator.testing.strategies import broken_conversations
from tests.support.messages import assistant, call, result, user
from tests.wire.generators import FORMATS, draw

DIALECT = DictFormat()


@pytest.mark.parametrize("provider", PROVIDERS)
@given(messages=broken_conversations())
def test_nothing_is_found_where_no_entry_has_what_a_rule_is_about(
    provider: str, messages: list[dict[str, Any]]
) -> None:
    _nothing_is_found_in_others(provider, read_entries(messages, DIALECT))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("wire", FORMATS)
def test_nor_in_any_format(provider: str, wire: str) -> None:
    for number in range(40):
        messages = draw(wire, number)
        with suppress(ConversionError):  # what cannot be read is judged by nobody
            _nothing_is_found_in_others(provider, _read(messages, provider))


def _read(messages: list[Any], provider: str) -> list[ConversationEntry]:
    return read_entries(messages, detect(messages, provider))


def _nothing_is_found_in_others(provider: str, entries: list[ConversationEntry]) -> None:
    for rule in get_profile(provider).invariants:
        others = [entry for entry in entries if not features_of(entry) & rule.watched]
        assert rule.watched == EVERYTHING or not rule.find(others)


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
    assert profile.holds_across([quiet], "request", features_of(quiet))
    assert not profile.holds_across([loud], "request", features_of(loud))


class NoQuestions(ImagesFit):
    """A rule of somebody's own that looks at other entries than the one it is made of."""

    def look_at(self, entry: ConversationEntry) -> list[tuple[str, str]]:
        return [("asked", "a question")] if "?" in (entry.content or "") else []


def test_an_entry_is_judged_by_a_rule_that_is_made_of_another() -> None:
    profile = ProviderProfile("mine", [NoQuestions()])
    assert not profile.holds([ConversationEntry(MessageRole.USER, "so?")])
    assert profile.holds([ConversationEntry(MessageRole.USER, "so.")])


def test_a_rule_that_is_made_of_another_may_say_what_it_is_about() -> None:
    class Few(ImagesFit):
        about = ImagesFit.about

        def look_across(self, entries: Any) -> list[Any]:
            return []

    assert Few().watched == ImagesFit().watched != NoShouting().watched == EVERYTHING


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


def test_a_call_that_names_a_program_that_is_not_here_becomes_a_direct_one() -> None:
    """Nothing but what is kept beside the call tells of the program."""
    kept = {"anthropic": {"caller": {"type": "code_execution_20250825", "tool_id": "srv_1"}}}
    history = [
        ConversationEntry(MessageRole.USER, "go"),
        ConversationEntry(MessageRole.ASSISTANT, tool_calls=(ToolCall("t1", "look", "{}", kept),)),
        ConversationEntry(MessageRole.TOOL, "seen", tool_call_id="t1"),
    ]
    view = Curator(max_tokens=1_000, provider="anthropic").curate(history).entries
    assert view[1].tool_calls is not None
    assert view[1].tool_calls[0].extra == {"anthropic": {}}
