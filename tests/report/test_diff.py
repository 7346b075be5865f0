"""The difference of two views: what left, what joined, and which names are no longer shown."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from history_curator import Curator
from history_curator.report import ViewDiff
from tests.support.messages import call, result, system, user


def session(turns: int) -> list[dict[str, Any]]:
    messages = [system(), user("start at src/file_0000.txt")]
    for step in range(turns):
        messages += [
            call(f"c{step}", name="read", path=f"src/file_{step:04d}.txt"),
            result(f"c{step}", f"next is src/file_{step + 1:04d}.txt " + "pad " * 80),
        ]
    return messages


def between(curator: Curator, messages: list[Any], first: int, last: int) -> ViewDiff:
    before = curator.curate(messages[:first]).report
    return curator.curate(messages[:last]).report.diff(before)


def test_a_view_that_only_grew_lost_nothing() -> None:
    found = between(Curator(max_tokens=100_000), session(6), 8, 14)
    assert (found.left, found.tokens) == ((), 0)
    assert found.joined == tuple(range(8, 14))
    assert str(found) == "Nothing left the view; 6 entries joined it."


def test_entries_that_left_say_why() -> None:
    found = between(Curator(max_tokens=700), session(20), 10, 42)
    assert all("budget" in each.reason for each in found.left)
    assert found.tokens == sum(each.tokens_before for each in found.left) > 0
    assert str(found).startswith(f"{len(found.left)} entries left the view (")
    assert "before the cutoff" in str(found)


@given(st.integers(2, 30), st.integers(2, 30), st.sampled_from([700, 1_500, 5_000]))
def test_left_and_joined_account_for_the_difference(first: int, last: int, budget: int) -> None:
    first, last = sorted((first, last))
    messages, curator = session(15), Curator(max_tokens=budget)
    found = between(curator, messages, first, last)
    shown = [
        {each.index for each in curator.curate(messages[:upto]).report.decisions
         if each.index is not None and each.position is not None}
        for upto in (first, last)
    ]  # fmt: skip
    gone = {each.index for each in found.left}
    assert shown[1] == (shown[0] - gone) | set(found.joined)
