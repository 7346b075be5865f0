from __future__ import annotations

from typing import Any

from history_curator.lab.conversations import LabConversation, ReadConversation
from history_curator.lab.metrics import Dependency, find_dependencies, is_visible
from tests.support.data import load
from tests.support.messages import assistant, call, result, user


def read(*messages: dict[str, Any]) -> ReadConversation:
    return LabConversation("c", messages).read()


def needs(*messages: dict[str, Any]) -> list[Dependency]:
    return [need for some in find_dependencies(read(*messages)).values() for need in some]


class TestIdentifiers:
    def test_an_argument_value_seen_earlier_is_needed(self) -> None:
        found = needs(user("order #W5490111?"), call("c1", order="#W5490111"))
        assert [(need.kind, need.value, need.sources) for need in found] == [
            ("identifier", "#W5490111", (0,))
        ]

    def test_a_value_nobody_said_is_not(self) -> None:
        assert needs(user("hello there"), call("c1", order="#W5490111")) == []

    def test_every_earlier_holder_is_a_source(self) -> None:
        found = needs(
            user("see report.txt"), call("c1", path="report.txt"), result("c1", "empty"),
            assistant("report.txt is empty"), user("again"), call("c2", path="report.txt", n=1),
        )  # fmt: skip
        assert [need.sources for need in found if need.call == 5] == [(0, 1, 3)]

    def test_short_values_say_nothing(self) -> None:
        assert needs(user("yes 12"), call("c1", a="yes", b=12)) == []

    def test_values_match_unescaped(self) -> None:
        found = needs(user('say "hi" now'), call("c1", note='say "hi" now'))
        assert len(found) == 1


class TestRepeats:
    def test_the_same_call_again_needs_the_earlier_result(self) -> None:
        found = needs(user("go"), call("c1", q=1), result("c1"), call("c2", q=1), result("c2"))
        assert [(need.kind, need.sources) for need in found] == [("repeat", (2,))]

    def test_other_arguments_are_another_call(self) -> None:
        assert needs(user("go"), call("c1", q=1), result("c1"), call("c2", q=2)) == []

    def test_reused_ids_are_paired_with_the_nearest_call(self) -> None:
        found = needs(user("go"), call("c", q=1), result("c"), call("c", q=2), result("c"),
                      call("c", q=2))  # fmt: skip
        assert [(need.call, need.sources) for need in found] == [(5, (4,))]


class TestIsMet:
    record = read(user("go"), call("c1", q="alpha-17"), result("c1", "beta-99 " * 20))

    def met(self, need: Dependency, *indices: int, **edited: str) -> bool:
        view = {index: self.record.entries[index] for index in indices}
        for key, text in edited.items():
            index = int(key.removeprefix("at"))
            view[index] = self.record.entries[index].evolve(content=text)
        return is_visible(need, view, self.record)

    def test_a_source_in_the_view_is_enough(self) -> None:
        assert self.met(Dependency(9, "identifier", "beta-99", (2,)), 0, 2)

    def test_a_source_left_out_is_not(self) -> None:
        assert not self.met(Dependency(9, "identifier", "beta-99", (2,)), 0, 1)

    def test_an_edited_source_counts_while_it_shows_the_value(self) -> None:
        need = Dependency(9, "identifier", "beta-99", (2,))
        assert self.met(need, at2="beta-99 …")
        assert not self.met(need, at2="[cleared]")

    def test_a_repeat_is_met_while_half_of_the_result_is_there(self) -> None:
        need = Dependency(9, "repeat", "look", (2,))
        assert self.met(need, at2="beta-99 " * 12)
        assert not self.met(need, at2="beta-99 …")


def test_real_labels_are_found_again() -> None:
    """The data's own dependency labels and ours agree on nearly all values."""
    labelled = found = 0
    for row in load("tau_bench")[:60]:
        conversation = LabConversation(row["id"], row["messages"]).read()
        ours = {(need.call, need.value) for some in find_dependencies(conversation).values()
                for need in some if need.kind == "identifier"}  # fmt: skip
        for label in row["dependencies"]:
            labelled += 1
            found += (label["at"], str(label["value"])) in ours
    assert labelled > 100
    assert found / labelled > 0.95
