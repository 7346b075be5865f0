"""A rule of one's own that looks at the whole view holds in every view, warm and cold."""

from __future__ import annotations

from typing import Any

import pytest

from history_curator import Curator
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.rules import ImagesFit, Invariant, ProviderProfile, get_profile
from tests.support.messages import assistant, call, result, system, user

MOST = 7


class FewAnswers(Invariant):
    """No more than a few entries of the assistant in one view; the oldest lose their text."""

    code = "X1"

    def look_across(self, entries: Any) -> list[tuple[int | None, str, str]]:
        spoken = [at for at, entry in enumerate(entries) if _speaks(entry)]
        return [(at, "many", "too many answers") for at in spoken[:-MOST]]

    def repair(self, entries: Any) -> list[ConversationEntry]:
        out = list(entries)
        for at, _, _ in self.look_across(entries):
            assert at is not None
            out[at] = out[at].evolve(content="[said before]", action="repaired")
        return out


class FewAnswersAndImages(FewAnswers, ImagesFit):
    """The same, made of one that says what it is about."""


def _speaks(entry: ConversationEntry) -> bool:
    return entry.role is MessageRole.ASSISTANT and entry.content not in (None, "", "[said before]")


@pytest.mark.parametrize("rule", [FewAnswers, FewAnswersAndImages])
@pytest.mark.parametrize("budget", [600, 50_000, None])
def test_it_holds_in_every_view(rule: type[Invariant], budget: int | None) -> None:
    profile = ProviderProfile("mine", [*get_profile("core").invariants, rule()])
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
