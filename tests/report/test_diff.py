from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from history_curator import Curator
from history_curator.report import ViewDiff
from tests.support.messages import assistant, call, result, system, user


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


class TestDiff:
    def test_a_view_that_only_grew_lost_nothing(self) -> None:
        found = between(Curator(max_tokens=100_000), session(6), 8, 14)
        assert found.left == ()
        assert found.identifiers == ()
        assert found.joined == tuple(range(8, 14))
        assert str(found) == "Nothing left the view; 6 entries joined it."

    def test_units_leave_whole_and_say_what_they_were(self) -> None:
        found = between(Curator(max_tokens=700), session(20), 10, 42)
        assert found.left
        units = [unit for unit in found.left if unit.kind == "exchange"]
        assert all(len(unit.entries) == 2 for unit in units)
        assert units[0].gist.startswith("read(")
        assert all("budget" in unit.reason for unit in found.left)
        assert found.tokens == sum(unit.tokens for unit in found.left) > 0

    def test_identifiers_gone_are_shown_nowhere_in_the_view(self) -> None:
        messages = session(20)
        curator = Curator(max_tokens=700)
        found = between(curator, messages, 10, 42)
        now = str(curator.curate(messages).messages)
        assert all(name not in now for name in found.identifiers)

    def test_identifiers_that_later_calls_name_were_needed(self) -> None:
        messages = session(20)
        found = between(Curator(max_tokens=700), messages, 10, 42)
        gone = ViewDiff(found.left, (), (), ("src/file_0001.txt", "src/file_0002.txt"))
        later = Curator().curate([user("x"), call("z", name="read", path="src/file_0002.txt"),
                                  result("z"), assistant("ok"), user("y")]).entries  # fmt: skip
        assert gone.needed(later) == ("src/file_0002.txt",)
        assert gone.needed([]) == ()

    @given(st.integers(2, 30), st.integers(2, 30), st.sampled_from([700, 1_500, 5_000]))
    def test_left_and_joined_account_for_the_difference(
        self, first: int, last: int, budget: int
    ) -> None:
        first, last = sorted((first, last))
        messages, curator = session(15), Curator(max_tokens=budget)
        found = between(curator, messages, first, last)
        shown = [
            {each.index for each in curator.curate(messages[:upto]).report.decisions
             if each.index is not None and each.position is not None}
            for upto in (first, last)
        ]  # fmt: skip
        gone = {index for unit in found.left for index in unit.entries}
        assert shown[1] == (shown[0] - gone) | set(found.joined)
