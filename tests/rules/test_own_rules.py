"""Rules of one's own: about the whole view, and about any field of an entry."""

from __future__ import annotations

from typing import Any

import pytest

from history_curator import Curator
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.rules import ProviderProfile, Rule, get_profile
from history_curator.rules.content import NothingIsBlank
from tests.support.messages import assistant, call, entries, result, system, user

MOST = 7


class FewAnswers(Rule):
    """No more than a few entries of the assistant in one view; the oldest lose their text."""

    code = "X1"

    def check_view(self, entries: Any) -> list[tuple[int | None, str]]:
        spoken = [at for at, entry in enumerate(entries) if _speaks(entry)]
        return [(at, "too many answers") for at in spoken[:-MOST]]

    def repair(self, entries: Any) -> list[ConversationEntry]:
        out = list(entries)
        for at, _ in self.check_view(entries):
            assert at is not None
            out[at] = out[at].evolve(content="[said before]", action="repaired")
        return out


def _speaks(entry: ConversationEntry) -> bool:
    return entry.role is MessageRole.ASSISTANT and entry.content not in (None, "", "[said before]")


@pytest.mark.parametrize("budget", [600, 50_000, None])
def test_a_rule_about_the_whole_view_holds_in_every_view(budget: int | None) -> None:
    profile = ProviderProfile("mine", [*get_profile("core").rules, FewAnswers()])
    curator = Curator(max_tokens=budget, provider=profile)
    history = [system("be brief")]
    for turn in range(30):
        history += [user(f"question {turn}"), assistant(f"answer {turn} " + "so " * 9)]
        if turn % 4 == 3:
            history[-1:] = [call(f"c{turn}"), result(f"c{turn}", "found " * 40), history[-1]]
        for _ in range(2):
            warm = curator.curate(history)
            assert not profile.find(warm.entries, "history")
            cold = Curator(max_tokens=budget, provider=profile).curate(history)
            assert (warm.messages, warm.tokens) == (cold.messages, cold.tokens)
    assert sum(map(_speaks, warm.entries)) == MOST


class NoFailures(Rule):
    """A rule about a field that no rule that ships is about."""

    code = "X1"

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        return ["it failed"] if entry.status == "error" else []

    def repair(self, entries: Any) -> list[ConversationEntry]:
        return [
            entry.evolve(status=None) if self.check_entry(entry) else entry for entry in entries
        ]


@pytest.mark.parametrize("rules", [[NoFailures()], [NothingIsBlank(), NoFailures()]])
def test_a_rule_of_ones_own_may_be_about_any_field(rules: list[Rule]) -> None:
    profile = ProviderProfile("mine", rules)
    good = ConversationEntry(MessageRole.TOOL, "ok", tool_call_id="a")
    bad = ConversationEntry(MessageRole.TOOL, "no", tool_call_id="b", status="error")
    assert profile.is_entry_valid(good)
    assert not profile.is_entry_valid(bad)
    assert [found.rule for found in profile.find([good, bad])] == ["X1"]
    assert [entry.status for entry in profile.repair([good, bad])] == [None, None]


class Endless(Rule):
    """A rule whose repair repairs nothing."""

    code = "X2"

    def check_view(self, entries: Any) -> list[tuple[int | None, str]]:
        return [(None, "never enough")]

    def repair(self, entries: Any) -> list[ConversationEntry]:
        return list(entries)


def test_a_rule_whose_repair_repairs_nothing_does_not_hang_the_loop() -> None:
    given = entries([user()])
    assert ProviderProfile("mine", [Endless()]).repair(given) == given
