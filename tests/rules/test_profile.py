"""A profile finds, repairs units and views, and passes views that are plainly in order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator.entries import ContentPart, ConversationEntry, MessageRole, ToolCall
from history_curator.formats import MessageGroup
from history_curator.rules import PROVIDERS, get_profile
from history_curator.testing import parse_entries, show
from tests.support.messages import assistant, entries
from tests.support.strategies import broken_conversations, conversations

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}
IDS = st.sampled_from(["abcdefgh1", "abcdefgh2", "c1", ""])
CALLERS = {"caller": {"tool_id": "s1"}}
EXTRAS: list[Any] = [None, None, {"anthropic": {}}, {"anthropic": CALLERS}, {"chat": {}}]
EXTRAS += [{"gemini": {"nameless": True}}, {"responses": {"id": "fc"}}, {"thought_signature": "s"}]
SOURCES: list[Any] = [None, None, None, {"role": "tool"}, {"role": "user", "audio": {"id": "a"}}]
SOURCES += [{"role": "user", "content": "", "tool_calls": []}, {"role": "model", "parts": []}]
SOURCES += [{"type": "message", "id": "m", "role": "assistant", "content": "x"}, object()]
SOURCES += [MessageGroup([{"type": "function_call", "id": "fc", "call_id": "abcdefgh1"}])]
PARTS = [ContentPart("text", "a"), ContentPart("text", " "), ContentPart("image", width=9_999)]
PARTS += [ContentPart("other", raw={"type": "server_tool_use", "id": "s1"})]
RARE = st.fixed_dictionaries(
    {},
    optional={
        "parts": st.lists(st.sampled_from(PARTS), max_size=2).map(tuple),
        "source": st.sampled_from(SOURCES),
        "span": st.just((0, 2)),
        "name": st.sampled_from(["ada", "a b"]),
        "role_name": st.just("developer"),
        "barrier": st.just(True),
        "tool_name": st.sampled_from(["look", "see"]),
        "metadata": st.just({"content": 1}),
    },
)
CALLS = st.builds(
    ToolCall, IDS, st.sampled_from(["look", "look", "a b"]), st.sampled_from(["{}", "["]),
    st.sampled_from(EXTRAS),
)  # fmt: skip
TEXTS = st.sampled_from(["hi", "hi", "é", " ", None, "\udce9"])


@st.composite
def odd_exchanges(draw: st.DrawFn) -> list[ConversationEntry]:
    """Questions, calls that are answered for the most part, and answers, with odd fields."""
    out = [ConversationEntry(MessageRole.SYSTEM, "rules")] if draw(st.booleans()) else []
    for role in draw(st.lists(st.sampled_from([MessageRole.USER, MessageRole.ASSISTANT]))):
        calls = draw(st.lists(CALLS, max_size=1)) if role is MessageRole.ASSISTANT else []
        out.append(ConversationEntry(role, draw(TEXTS), tool_calls=tuple(calls) or None))
        for call in calls:
            answered = call.id if draw(st.integers(0, 9)) else draw(IDS)
            out.append(ConversationEntry(MessageRole.TOOL, draw(TEXTS), tool_call_id=answered))
    for _ in range(draw(st.integers(0, 2)) if out else 0):
        at = draw(st.integers(0, len(out) - 1))
        out[at] = out[at].evolve(**draw(RARE))
    return out


@pytest.mark.parametrize("provider", PROVIDERS)
@given(
    view=st.one_of(broken_conversations().map(entries), odd_exchanges()),
    tail=st.sampled_from(["request", "history"]),
)
def test_no_rule_objects_to_a_plain_view_or_a_valid_entry(
    provider: str, view: Any, tail: Any
) -> None:
    profile = get_profile(provider)
    if profile.is_plain(view, tail, profile.is_entry_valid):
        assert profile.find(view, tail) == []
    for entry in view:
        found = any(rule.check_entry(entry) for rule in profile.rules)
        assert profile.is_entry_valid(entry) is not found


@given(messages=conversations())
def test_a_common_conversation_is_plain(messages: list[dict[str, Any]]) -> None:
    profile = get_profile("core")
    assert profile.is_plain(entries(messages), "request", profile.is_entry_valid)


def test_verdicts_come_from_the_caller_where_it_remembers_them() -> None:
    profile, view = get_profile("core"), parse_entries("S U A(c1) T(c1) A U")
    asked = []
    assert profile.repair(view, is_valid=lambda entry: not asked.append(entry)) is view
    assert asked == view


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("A(c1,c2) T(c2) T(c1)", "A(c1,c2) T(c1) T(c2)"),
        ("A(c1,c2) T(c2)", "A(c1,c2) T*(c1) T(c2)"),
        ("A~(c1) T(c1)", "A(c1) T(c1)"),
        ("A", "A"),  # who speaks first and last is no matter of a unit
        ("A(c1) T(c1)", "A(c1) T(c1)"),
    ],
)
def test_a_unit_is_repaired_by_the_rules_that_can_judge_it_alone(unit: str, expected: str) -> None:
    profile, given = get_profile("core"), tuple(parse_entries(unit))
    repaired = profile.repair_unit(given)
    assert show(repaired) == expected
    assert (repaired is given) is (unit == expected)
    assert profile.repair_unit(repaired) is repaired


def test_a_unit_without_reasoning_is_the_very_unit_where_there_is_none_or_it_is_kept() -> None:
    plain = tuple(entries([assistant("42")]))
    thinking = tuple(entries([assistant([THOUGHT, {"type": "text", "text": "42"}])]))
    assert get_profile("anthropic").without_reasoning(plain) is plain
    assert get_profile("openai").without_reasoning(thinking) is thinking
    (stripped,) = get_profile("anthropic").without_reasoning(thinking)
    assert (stripped.reasoning, stripped.content) == (None, "42")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_bridge_is_returned_where_the_profile_would_insert_one(provider: str) -> None:
    view = parse_entries("U A(c1) T(c1) U")
    profile = get_profile(provider)
    inserted = [entry.origin for entry in profile.repair(view)].count("bridge")
    assert (profile.bridge(view[2], view[3]) is not None) is bool(inserted)
    assert profile.bridge(view[3], view[2]) is None
