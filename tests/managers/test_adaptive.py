"""Adaptive clearing: what was needed later stays longer."""

from __future__ import annotations

import pytest

from history_curator import ConfigurationError, Curator
from history_curator.managers import AdaptiveManager
from history_curator.managers._adaptive import ToolUse
from tests.support.messages import Message, call, entries, result, user


def work(steps: int = 40) -> list[Message]:
    """Lists show ids that later calls use; chatter is never used again."""
    messages = [user("go")]
    for step in range(steps):
        shown = f"order_{step}00 is open. " + "and so on " * 60
        messages += [
            call(f"l{step}", name="list", page=f"page{step}"),
            result(f"l{step}", shown),
            call(f"s{step}", name="show", order=f"order_{step}00"),
            result(f"s{step}", "nothing of note " * 60),
        ]
    return messages


def cleared(curation: object) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in curation.entries:  # type: ignore[attr-defined]
        if entry.action == "cleared" and "stay" in (entry.reason or ""):
            tool = (entry.reason or "").split(":")[0]
            counts[tool] = counts.get(tool, 0) + 1
    return counts


class TestAdaptiveManager:
    def test_learns_which_results_were_used_later(self) -> None:
        uses = AdaptiveManager().learn(entries(work(10)))
        assert uses["list"] == ToolUse(results=10, used=10)
        assert uses["show"] == ToolUse(results=10)

    def test_learns_what_was_fetched_again(self) -> None:
        messages = [user("go")]
        for step in range(6):
            messages += [call(f"c{step}", name="read", path="a.py"), result(f"c{step}", "text")]
        assert AdaptiveManager().learn(entries(messages))["read"].fetched_again == 5

    def test_needed_results_stay_longer(self) -> None:
        curation = Curator(AdaptiveManager(), max_tokens=8_000).curate(work())
        counts = cleared(curation)
        assert counts["show"] > counts["list"] > 0

    def test_nothing_is_cleared_while_the_history_fits(self) -> None:
        messages = work()
        view = Curator(AdaptiveManager(), max_tokens=1_000_000).curate(messages).messages
        assert all(mine is given for mine, given in zip(view, messages, strict=True))

    def test_nothing_changes_until_a_batch_has_arrived(self) -> None:
        curator = Curator(AdaptiveManager(batch=10))
        messages = work()
        changes = 0
        before = curator.curate(messages[:61]).messages
        for at in range(65, len(messages), 4):
            view = curator.curate(messages[:at]).messages
            changes += view[: len(before)] != before
            before = view
        assert 0 < changes <= 10

    def test_the_reason_says_what_was_learned(self) -> None:
        curation = Curator(AdaptiveManager()).curate(work())
        reasons = {entry.reason for entry in curation.entries if entry.action == "cleared"}
        assert any("list: " in str(r) and "results used later" in str(r) for r in reasons)

    @pytest.mark.parametrize(("results", "expected"), [(0, 5), (1_000, 1)])
    def test_what_stays_is_bounded(self, results: int, expected: int) -> None:
        manager = AdaptiveManager(least=1, most=9)
        assert manager.keep_for(ToolUse(results)) == expected
        assert manager.keep_for(ToolUse(results=5, used=5, fetched_again=5)) == 9

    def test_settings_that_cannot_work_are_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="least"):
            AdaptiveManager(least=9, most=3)
