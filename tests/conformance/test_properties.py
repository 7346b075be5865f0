"""What a repair guarantees, over generated conversations."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings

from history_curator.curator import Curator
from history_curator.rules import PROVIDERS, check_conversation, get_profile, repair_conversation
from tests.support.messages import entries
from tests.support.strategies import broken_conversations, conversations


@pytest.mark.parametrize("provider", PROVIDERS)
class TestRepair:
    @given(messages=broken_conversations())
    def test_leaves_nothing_to_find_or_to_repair_again_and_changes_nothing_in_place(
        self, provider, messages
    ):
        before = copy.deepcopy(messages)
        for tail in ("request", "history"):
            repaired = repair_conversation(messages, provider, tail=tail)
            assert check_conversation(repaired, provider, tail=tail) == []
            assert repair_conversation(repaired, provider, tail=tail) == repaired
        assert messages == before

    @given(messages=broken_conversations())
    def test_loses_no_word_of_the_user_and_says_why_it_changed_an_entry(self, provider, messages):
        read = entries(messages)
        repaired = get_profile(provider).repair(read)
        assert get_profile(provider).repair(repaired) is repaired
        heard = "\n".join(entry.content or "" for entry in repaired if entry.role.value == "user")
        for entry in read:
            if entry.role.value == "user" and entry.content and entry.content.strip():
                assert entry.content.strip() in heard
        known = {id(entry) for entry in read}
        changed = [entry for entry in repaired if id(entry) not in known]
        assert all(entry.action and entry.reason for entry in changed)

    @given(messages=conversations())
    def test_finds_nothing_in_a_sound_conversation(self, provider, messages):
        if provider == "mistral":
            rules = {each.rule for each in check_conversation(messages, provider)}
            assert rules <= {"P7"}  # nine-character ids
        else:
            read = entries(messages)
            assert get_profile(provider).repair(read) is read


@pytest.mark.parametrize("provider", PROVIDERS)
@settings(max_examples=25)
@given(messages=broken_conversations(max_turns=8))
def test_a_growing_conversation_is_taken_at_every_step(provider, messages):
    growing = Curator(provider=provider)
    for end in range(1, len(messages) + 1):
        view = growing.curate(messages[:end], tail="request").messages
        assert check_conversation(view, provider) == []
        fresh = Curator(provider=provider).curate(messages[:end], tail="request")
        assert view == fresh.messages
