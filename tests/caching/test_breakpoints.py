"""Cache breakpoints: where they pay in a view, and how each provider wants them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator.caching import (
    CachePlan,
    Mark,
    apply_anthropic,
    find_cache_rules,
    place_marks,
    plan_cache,
)
from history_curator.entries import ConversationEntry, MessageRole

S, U, A, T = MessageRole.SYSTEM, MessageRole.USER, MessageRole.ASSISTANT, MessageRole.TOOL


def view_of(roles: str) -> list[ConversationEntry]:
    kinds = {"s": S, "u": U, "a": A, "t": T}
    return [ConversationEntry(kinds[role], f"text {at}") for at, role in enumerate(roles)]


def plan_for(roles: str, size: int = 2_000, **options: Any) -> CachePlan:
    entries = view_of(roles)
    given = {"prefix_entries": len(entries), "model": "anthropic", **options}
    return plan_cache(entries, [size] * len(entries), **given)


def places(plan: CachePlan, others: list[Mark] | None = None) -> list[tuple[str, int]]:
    return [(each.place, each.after) for each in plan.choose(others or [])]


class TestRules:
    @pytest.mark.parametrize(
        ("model", "minimum", "breakpoints"),
        [
            ("anthropic", 1024, 4),
            ("bedrock", 1024, 4),
            ("claude-sonnet-4-5-20250929", 1024, 4),
            ("us.anthropic.claude-opus-4-6-v1:0", 4096, 4),
            ("anthropic/claude-haiku-4-5", 4096, 4),
            ("claude-opus-4-7", 2048, 4),
            ("claude-opus-4-8", 1024, 4),
            ("claude-opus-5", 512, 4),
            ("openai", 1024, 0),
            ("gpt-5.5", 1024, 0),
            ("o3", 1024, 0),
            ("models/gemini-2.5-pro", 2048, 0),
        ],
    )
    def test_a_model_has_its_own_rules(self, model: str, minimum: int, breakpoints: int) -> None:
        rules = find_cache_rules(model)
        assert rules is not None
        assert (rules.minimum, rules.breakpoints) == (minimum, breakpoints)

    @pytest.mark.parametrize("model", [None, "", "my-own-model", "x/" * 100_000])
    def test_an_unknown_model_is_planned_like_anthropics(self, model: str | None) -> None:
        assert find_cache_rules(model) is None
        assert plan_for("su", model=model) == plan_for("su")


class TestPlaces:
    @pytest.mark.parametrize(
        ("roles", "options", "expected"),
        [
            ("suau", {}, [("front", 1), ("heads", 2), ("prefix", 4)]),
            ("satatu", {}, [("front", 1), ("prefix", 6)]),
            ("uau", {"tools_tokens": 3_000}, [("front", 0), ("heads", 1), ("prefix", 3)]),
            ("suaua", {"prefix_entries": 2}, [("front", 1), ("heads", 2), ("end", 5)]),
            ("suaua", {"prefix_entries": 3},
             [("front", 1), ("heads", 2), ("prefix", 3), ("end", 5)]),
            ("suau", {"size": 300}, [("prefix", 4)]),
            ("suau", {"size": 100}, []),
            ("suau", {"size": 1_500, "model": "claude-opus-4-6"}, [("prefix", 4)]),
            ("suau", {"model": "gpt-5.5"}, []),
            ("", {}, []),
        ],
    )  # fmt: skip
    def test_marks_stand_where_requests_begin_alike(
        self, roles: str, options: dict[str, Any], expected: list[tuple[str, int]]
    ) -> None:
        assert places(plan_for(roles, **options)) == expected


class TestMarksOfOthers:
    @pytest.mark.parametrize(
        ("others", "expected"),
        [
            ([Mark(0, 300), Mark(1, 300), Mark(4, 300)], [("prefix", 6)]),
            ([Mark(0, 300), Mark(1, 300), Mark(3, 300), Mark(4, 300)], []),
            ([Mark(6, 300)], [("front", 1), ("heads", 2)]),
        ],
    )
    def test_they_count_and_their_places_are_left_alone(
        self, others: list[Mark], expected: list[tuple[str, int]]
    ) -> None:
        assert places(plan_for("suauau"), others) == expected

    def test_ours_last_as_long_as_those_behind_and_no_longer_than_those_in_front(self) -> None:
        assert {each.ttl for each in plan_for("suau").choose([Mark(4, 3600)])} == {3600}
        assert {each.ttl for each in plan_for("suau").choose([Mark(0, 300)])} == {300}

    @given(
        st.text("uat", min_size=1, max_size=12),
        st.lists(st.tuples(st.integers(0, 13), st.sampled_from([300.0, 3600.0])), max_size=5),
        st.integers(0, 14),
    )
    def test_at_most_four_none_too_short_and_no_shorter_ttl_in_front(
        self, roles: str, others: list[tuple[int, float]], prefix: int
    ) -> None:
        entries = view_of("s" + roles)
        # Marks of others are in order by themselves, as a request has to be.
        ttls = sorted((ttl for _, ttl in others), reverse=True)
        positions = sorted(min(at, len(entries)) for at, _ in others)
        marks = [Mark(at, lasting) for at, lasting in zip(positions, ttls, strict=True)]
        plan = plan_cache(entries, [700] * len(entries), prefix_entries=prefix, model="anthropic")
        chosen = plan.choose(marks)
        assert len(chosen) + min(len(marks), 4) <= 4
        assert all(each.tokens >= 1024 for each in chosen)
        together = [(mark.after, -mark.ttl) for mark in marks]
        together += [(each.after, -each.ttl) for each in chosen]
        lasting = [-each for _, each in sorted(together)]
        assert lasting == sorted(lasting, reverse=True)
        assert not {mark.after for mark in marks} & {each.after for each in chosen}


MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "a question"},
    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
        {"type": "tool_use", "id": "c2", "name": "look", "input": {}}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "two"}]},
]  # fmt: skip


class TestAnthropic:
    def test_system_and_the_last_block_are_marked_and_nothing_given_changes(self) -> None:
        before = repr(MESSAGES)
        plan = plan_cache(view_of("satt"), [2_000] * 4, prefix_entries=4)
        out = apply_anthropic(MESSAGES[1:], plan, system="rules", tools=[{"name": "look"}])
        control = {"cache_control": {"type": "ephemeral"}}
        assert out["system"] == [{"type": "text", "text": "rules", **control}]
        assert out["messages"][1]["content"] == [
            MESSAGES[2]["content"][0],
            {**MESSAGES[2]["content"][1], **control},
        ]
        assert out["messages"][0] is MESSAGES[1]
        assert out["tools"] == [{"name": "look"}]
        assert repr(MESSAGES) == before

    def test_an_hour_that_stands_behind_makes_the_front_last_an_hour(self) -> None:
        block = {**MESSAGES[2]["content"][1], "cache_control": {"type": "ephemeral", "ttl": "1h"}}
        marked = [*MESSAGES[:2], {"role": "user", "content": [MESSAGES[2]["content"][0], block]}]
        plan = plan_cache(view_of("suatt"), [2_000] * 5, prefix_entries=5)
        out = apply_anthropic(marked, plan, system="rules")
        assert out["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}

    def test_the_last_tool_is_marked_when_there_is_no_system_prompt(self) -> None:
        plan = plan_cache(view_of("uatt"), [2_000] * 4, prefix_entries=4, tools_tokens=2_000)
        out = apply_anthropic(MESSAGES, plan, tools=[{"name": "a"}, {"name": "b"}])
        assert out["tools"] == [
            {"name": "a"},
            {"name": "b", "cache_control": {"type": "ephemeral"}},
        ]

    @pytest.mark.parametrize("content", ["", " ", [], [MESSAGES[1]["content"][0]], None])
    def test_a_message_that_can_carry_no_mark_passes_it_on(self, content: Any) -> None:
        messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": content}]
        plan = plan_cache(view_of("ua"), [2_000] * 2, prefix_entries=2)
        out = apply_anthropic(messages, plan)["messages"]
        assert out[0]["content"][0]["cache_control"] == {"type": "ephemeral"}
        assert out[1] is messages[1]

    def test_messages_of_another_view_are_left_alone(self) -> None:
        plan = plan_cache(view_of("suatt"), [2_000] * 5, prefix_entries=5)
        assert apply_anthropic(MESSAGES[:1], plan, system="rules")["messages"] == MESSAGES[:1]


def count_marks(value: Any) -> int:
    """Return how many marks a request carries, wherever they stand."""
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(map(count_marks, value.values()))
    return sum(map(count_marks, value)) if isinstance(value, list) else 0


@pytest.mark.parametrize("marked", [(), (1,), (1, 3), (1, 3, 5), (0, 1, 3, 5)])
def test_a_marked_request_never_gets_more_than_four(marked: tuple[int, ...]) -> None:
    messages: list[Any] = []
    for number in range(7):
        block = {"type": "text", "text": "x"}
        blocks = (
            [{**block, "cache_control": {"type": "ephemeral"}}] if number in marked else [block]
        )
        messages += [{"role": "user", "content": blocks}, {"role": "assistant", "content": [block]}]
    messages.pop()
    plan = plan_cache(view_of("uauauauauauau"), [5_000] * 13, prefix_entries=13)
    before, out = repr(messages), apply_anthropic(messages, plan)["messages"]
    shared = 0 in marked and any(each.after == 1 for each in plan.breakpoints)
    assert count_marks(out) == min(4, len(marked) + len(plan.breakpoints) - shared)
    with_marks = [index for index, each in enumerate(out) if count_marks(each)]
    assert {2 * number for number in marked} <= set(with_marks)
    if len(marked) < 4:  # the end is worth most
        assert with_marks[-1] == len(messages) - 1
    assert repr(messages) == before


def test_marks_are_placed_in_any_format_and_each_message_carries_one() -> None:
    plan = plan_cache(view_of("sua"), [2_000] * 3, prefix_entries=3)
    marked = place_marks(["s", "u", "a"], plan, [], lambda text, point: f"{text}:{point.place}")
    assert marked == ["s:front", "u:heads", "a:prefix"]
    assert place_marks(["s", "u", "a"], plan, [], lambda *_: None) == ["s", "u", "a"]
