"""Managers that select and shorten."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator import Curator
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConfigurationError
from history_curator.managers import (
    ComposedManager,
    CurationContext,
    PassthroughManager,
    RoleTruncator,
    SlidingWindowManager,
    ToolResultClearer,
    ToolResultTruncator,
    TurnRetentionManager,
)
from history_curator.testing import parse
from history_curator.tokens import HeuristicCounter
from tests.support.messages import (
    Message,
    assistant,
    call,
    entries,
    exchange,
    result,
    system,
    texts,
    user,
)

COUNTER = HeuristicCounter()


def context(**changes: Any) -> CurationContext:
    return CurationContext(counter=COUNTER, **changes)


def curated(manager: Any, messages: list[Message], **changes: Any) -> list[ConversationEntry]:
    return list(manager.curate(entries(messages), context=context(**changes)))


MANAGERS = [
    PassthroughManager(),
    SlidingWindowManager(0),
    SlidingWindowManager(1),
    SlidingWindowManager(4),
    ToolResultTruncator(max_length=30),
    ToolResultTruncator(max_tokens=8, keep="both"),
    ToolResultClearer(keep=0, placeholder="[-]"),
    TurnRetentionManager(0),
    TurnRetentionManager(1),
    TurnRetentionManager(1, older="exclude"),
    RoleTruncator(user=20, assistant=5, tool=10),
    ComposedManager((ToolResultTruncator(20), SlidingWindowManager(3))),
]

words = st.text("ab \n", max_size=80)
ids = st.sampled_from(["c1", "c2", "c3"])
messages = st.lists(
    st.one_of(
        st.builds(system, words),
        st.builds(user, words),
        st.builds(assistant, words),
        st.builds(call, ids),
        st.builds(lambda first, second: call(first, second, at=7), ids, ids),
        st.builds(result, ids, words),
    ),
    max_size=25,
)


class TestEveryManager:
    @pytest.mark.parametrize("manager", MANAGERS, ids=repr)
    @given(given_messages=messages)
    def test_a_second_run_changes_nothing_and_order_system_entries_and_the_input_stay(
        self, manager: Any, given_messages: list[Message]
    ) -> None:
        before = entries(given_messages)
        untouched = copy.deepcopy(before)
        after = list(manager.curate(before, context=context()))
        assert before == untouched
        assert list(manager.curate(after, context=context())) == after
        places = {id(entry): place for place, entry in enumerate(before)}
        positions = [places[id(entry.root)] for entry in after]
        assert positions == sorted(set(positions))
        kept = {id(entry) for entry in after}
        assert all(id(entry) in kept for entry in before if entry.role.value == "system")
        for entry in after:
            if entry.original is not None:
                assert entry.action
                assert entry.reason

    @pytest.mark.parametrize("manager", MANAGERS, ids=repr)
    def test_pinned_entries_survive_untouched(self, manager: Any) -> None:
        said = entries(
            [user("q" * 50), *exchange("c1", text="x" * 500), assistant("y" * 50), user("z")]
        )
        pinned = [replace(entry, pinned=True) for entry in said]
        assert list(manager.curate(pinned, context=context())) == pinned


class TestSlidingWindowManager:
    @pytest.mark.parametrize(
        ("size", "said", "expected"),
        [
            (2, [system("s"), user("1"), assistant("2"), user("3")], ["s", "2", "3"]),
            (1, [system("a"), user("1"), system("b"), user("2")], ["a", "b", "2"]),
            (0, [system("s"), user("1")], ["s"]),
            (4, [user("1"), *exchange("c1", "c2"), user("2"), user("3")], ["2", "3"]),
            (2, [user("1"), *exchange("c", "d")], [None, "found", "found"]),
            (3, [call("c"), user("1"), user("2"), result("c", "late"), user("3")], list("123")),
        ],
        ids=["last", "system", "zero", "an exchange is whole", "newest exchange", "late result"],
    )
    def test_system_and_the_last_entries_stay(
        self, size: int, said: list[Message], expected: list[str | None]
    ) -> None:
        assert texts(curated(SlidingWindowManager(size), said)) == expected

    def test_preserve_last_n_widens_the_window_and_a_reason_is_given(self) -> None:
        said, wider = entries([user(number) for number in "012345"]), context(preserve_last_n=3)
        assert texts(SlidingWindowManager(1).curate(said, context=wider)) == ["3", "4", "5"]
        assert "window" in wider.reasons[id(said[0])]

    @pytest.mark.parametrize("size", [-1, 1.5, True, "3"])
    def test_a_size_that_is_no_count_is_refused(self, size: Any) -> None:
        with pytest.raises(ConfigurationError, match="window_size"):
            SlidingWindowManager(size)


class TestToolResultTruncator:
    def test_only_results_are_shortened(self) -> None:
        said = [user("u" * 99), *exchange("c1", text="r" * 99)]
        kept = curated(ToolResultTruncator(max_length=40), said)
        assert kept[0].content == "u" * 99
        assert kept[2].content == "r" * (40 - len("\n... [truncated]")) + "\n... [truncated]"
        assert (kept[2].truncated, kept[2].original_length) == (True, 99)

    def test_limits_are_in_characters_or_tokens(self) -> None:
        kept = curated(ToolResultTruncator(), exchange("c1", text="r" * 9_000))
        assert len(kept[1].content or "") == 2_000
        kept = curated(ToolResultTruncator(max_tokens=25), exchange("c1", text="word " * 900))
        assert COUNTER.count(kept[1].content or "") <= 25
        with pytest.raises(ConfigurationError, match="not both"):
            ToolResultTruncator(max_length=1, max_tokens=1)

    @pytest.mark.parametrize(("keep", "ends"), [("head", "0…"), ("tail", "…9"), ("both", "0…9")])
    def test_the_part_asked_for_stays(self, keep: Any, ends: str) -> None:
        manager = ToolResultTruncator(max_length=len(ends), keep=keep, suffix="…")
        assert texts(curated(manager, exchange("c1", text="0123456789")))[1] == ends


class TestToolResultClearer:
    SAID: ClassVar[list[Message]] = [user("go")] + [
        m for n in range(5) for m in exchange(f"c{n}", text=f"{n}" * 60)
    ]
    EXCLUDED: ClassVar = [
        *exchange("a", text="x" * 60, name="policy"),
        *exchange("b", text="y" * 60),
    ]
    REUSED: ClassVar = [*exchange("c1", text="old " * 20), *exchange("c1", text="new " * 20)]

    @pytest.mark.parametrize(
        ("manager", "said", "expected"),
        [
            (ToolResultClearer(keep=2), SAID, [True, True, True, False, False]),
            (ToolResultClearer(keep=1, batch=3), SAID, [True, True, True, False, False]),
            (ToolResultClearer(keep=3, batch=3), SAID, [False] * 5),
            (ToolResultClearer(keep=0, exclude_tools=("policy",)), EXCLUDED, [False, True]),
            (ToolResultClearer(keep=0, exclude_tools="policy"), EXCLUDED, [False, True]),
            (ToolResultClearer(keep=0), exchange("c1", text="ok"), [False]),
            (ToolResultClearer(keep=1), REUSED, [True, False]),
        ],
    )
    def test_old_results_of_other_tools_are_cleared(
        self, manager: ToolResultClearer, said: list[Message], expected: list[bool]
    ) -> None:
        results = [entry for entry in curated(manager, said) if entry.role is MessageRole.TOOL]
        assert [entry.content == manager.placeholder for entry in results] == expected


class TestTurnRetentionManager:
    SAID: ClassVar[list[Message]] = [
        *(system("s"), user("one"), call("c1", text="looking"), result("c1"), *exchange("c2")),
        *(assistant("1"), user("two"), *exchange("c3"), assistant("2"), user("three")),
    ]

    def test_older_turns_keep_their_text(self) -> None:
        kept = curated(TurnRetentionManager(preserve_turns=2), self.SAID)
        assert texts(kept) == ["s", "one", "looking", "1", "two", None, "found", "2", "three"]
        assert kept[2].tool_calls is None
        assert all(entry.original is None for entry in kept[4:])

    def test_older_turns_can_be_excluded(self) -> None:
        kept = curated(TurnRetentionManager(preserve_turns=1, older="exclude"), self.SAID)
        assert texts(kept) == ["s", "three"]

    @pytest.mark.parametrize(
        ("turns", "said", "expected"),
        [
            (
                0,
                [user("one"), *exchange("c1"), assistant("1"), user("two"), *exchange("c2")],
                ["one", "1", "two", None, "found"],
            ),
            (0, [user("q"), *exchange("c"), assistant("a")], ["q", "a"]),
            (
                1,
                [user("one"), call("c1"), user("two"), result("c1", "late"), assistant("a")],
                ["one", None, "two", "late", "a"],
            ),
            (1, [user("one"), call("c1"), user("two"), assistant("a")], ["one", None, "two", "a"]),
        ],
        ids=["being answered", "answered", "a late result", "no result yet"],
    )
    def test_only_a_turn_that_is_over_is_reduced(
        self, turns: int, said: list[Message], expected: list[str | None]
    ) -> None:
        assert texts(curated(TurnRetentionManager(turns), said)) == expected


class TestRoleTruncator:
    def test_limits_differ_by_role(self) -> None:
        said = [
            system("s" * 99),
            user("u" * 99),
            assistant("a" * 99),
            *exchange("c", text="t" * 99),
        ]
        kept = curated(RoleTruncator(user=50, assistant=30), said)
        assert [len(text or "") for text in texts(kept)] == [99, 50, 30, 0, 99]
        assert [entry.original_length for entry in kept] == [None, 99, 99, None, None]

    def test_calls_survive_their_text_being_cut(self) -> None:
        kept = curated(RoleTruncator(assistant=20), [call("c1", text="t" * 99), result("c1")])
        assert kept[0].tool_calls
        assert len(kept[0].content or "") == 20


@pytest.mark.parametrize("provider", ["core", "portable", "anthropic", "gemini", "openai"])
def test_a_note_of_ours_counts_as_part_of_a_sliding_window(provider: str) -> None:
    messages = parse("S U A U A(c1) T(c1) A(c2) T(c2) A(c3) T(c3) A(c4) T(c4)")
    for size in (2, 3, 4, 5, 6):
        view = Curator(SlidingWindowManager(size), provider=provider).curate(messages).entries
        assert (
            sum(entry.role is not MessageRole.SYSTEM for entry in view) <= size + 1
        )  # the question
        assert view[1].role is MessageRole.USER


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_a_sliding_window_over_results_without_calls_has_none_of_them(size: int) -> None:
    messages = [result(f"c{number}", "stray") for number in range(8)]
    view = Curator(SlidingWindowManager(size)).curate(messages, tail="request").messages
    assert not any(message["role"] == "tool" for message in view)
