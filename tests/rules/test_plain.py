"""What is taken to be plainly in order is in order: no rule of the profile objects to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator.entries import ContentPart, ConversationEntry, MessageRole, ToolCall
from history_curator.formats import MessageGroup
from history_curator.rules import PROVIDERS, get_profile
from history_curator.testing import parse_entries
from tests.support.messages import entries
from tests.support.strategies import broken_conversations, conversations

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
        calls = draw(st.lists(CALLS, max_size=2)) if role is MessageRole.ASSISTANT else []
        out.append(ConversationEntry(role, draw(TEXTS), tool_calls=tuple(calls) or None))
        for call in calls:
            answered = call.id if draw(st.integers(0, 9)) else draw(IDS)
            out.append(ConversationEntry(MessageRole.TOOL, draw(TEXTS), tool_call_id=answered))
    for _ in range(draw(st.integers(0, 2)) if out else 0):
        at = draw(st.integers(0, len(out) - 1))
        out[at] = out[at].evolve(**draw(RARE))
    return out


VIEWS = st.one_of(broken_conversations().map(entries), odd_exchanges())


@pytest.mark.parametrize("provider", PROVIDERS)
@given(view=VIEWS, tail=st.sampled_from(["request", "history"]))
def test_no_rule_objects_to_a_plain_view(provider: str, view: Any, tail: Any) -> None:
    profile = get_profile(provider)
    if profile.is_plain(view, tail):
        assert profile.find(view, tail) == []
    for entry in view:
        if profile.is_entry_valid(entry):
            assert not any(rule.check_entry(entry) for rule in profile.rules)


@given(messages=conversations())
def test_a_common_conversation_is_plain(messages: list[dict[str, Any]]) -> None:
    assert get_profile("core").is_plain(entries(messages))


@pytest.mark.parametrize(
    ("text", "providers"),
    [
        ("S U A(c1) T(c1) U", {"core", "openai", "openai-responses", "anthropic", "gemini"}),
        ("U U A U", set(PROVIDERS) - {"portable", "bedrock"}),
        ("S U A", set()),
        ("A U", set()),
        ("S S U", set()),
    ],
)
def test_a_view_that_a_provider_may_refuse_is_not_plain(text: str, providers: set[str]) -> None:
    view = parse_entries(text)
    assert {name for name in PROVIDERS if get_profile(name).is_plain(view)} == providers
