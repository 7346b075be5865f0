"""Fields that get a request refused, F1 to F16, under the profiles they concern."""

from __future__ import annotations

import pytest

from history_curator.entries import ContentPart, ConversationEntry, MessageRole
from history_curator.rules import PROVIDERS, check_conversation, get_profile, repair_conversation
from tests.support.messages import assistant, call, entries, result, user

STRICT_OBJECTS = [name for name in PROVIDERS if not name.startswith("openai")]


def repaired(messages, provider, rule):
    """The repaired messages, after making sure that `rule` was what was wrong."""
    assert rule in {each.rule for each in check_conversation(messages, provider)}
    out = repair_conversation(messages, provider)
    assert check_conversation(out, provider) == []
    return out


def both_ids(messages):
    return messages[1]["tool_calls"][0]["id"], messages[2]["tool_call_id"]


@pytest.mark.parametrize(
    ("provider", "call_id"),
    [
        *((name, "functions.f:0") for name in ("core", "portable", "anthropic", "mistral")),
        *((name, "x" * 46) for name in ("core", "portable", "openai", "mistral")),
        ("mistral", "call_abcdefgh123"),
    ],
)
def test_f1_f2_f3_an_id_with_dots_or_of_46_characters_or_for_another_provider(provider, call_id):
    asked, answered = both_ids(repaired([user(), call(call_id), result(call_id)], provider, "P7"))
    assert asked == answered
    assert len(asked) == 9 if provider == "mistral" else len(asked) <= 40


def test_f1_bedrock_takes_dots_and_colons():
    given = [user(), call("functions.f:0"), result("functions.f:0")]
    assert check_conversation(given, "bedrock") == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_f4_no_tool_calls_key_when_empty(provider):
    out = repaired([user(), assistant(tool_calls=[]), user()], provider, "P11")
    assert all("tool_calls" not in each for each in out)


@pytest.mark.parametrize("provider", STRICT_OBJECTS)
@pytest.mark.parametrize(
    "arguments", ['{"city": "Par', "[]", "null", '"x"', "{'a': 1}", "[" * 5000]
)
def test_f5_f6_arguments_that_are_no_object(provider, arguments):
    asked = call("c1")
    asked["tool_calls"][0]["function"]["arguments"] = arguments
    out = repaired([user(), asked, result("c1", "real")], provider, "P9")
    assert out[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert out[2]["content"] == "real"


def test_f5_invalid_tool_calls_of_langchain():
    messages = pytest.importorskip("langchain_core.messages")
    broken = {"name": "look", "args": '{"city": "Par', "id": "c1", "error": "cut off"}
    given = [
        messages.HumanMessage("hi"),
        messages.AIMessage("", invalid_tool_calls=[{**broken, "type": "invalid_tool_call"}]),
    ]
    out = repair_conversation(given, "portable")
    assert check_conversation(out, "portable") == []
    assert [each.type for each in out] == ["human", "ai", "tool"]
    assert out[2].status == "error"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_f7_a_call_in_content_and_in_tool_calls_is_one_call(provider):
    use = {"type": "tool_use", "id": "a b", "name": "look", "input": {}}
    asked = call("a b") | {"content": [{"type": "text", "text": "hm"}, use]}
    out = repair_conversation([user(), asked, result("a b")], provider)
    assert check_conversation(out, provider) == []
    (read,) = entries([each for each in out if each["role"] == "assistant"])[-1].tool_calls
    answered = [each for each in entries(out) if each.role is MessageRole.TOOL]
    assert [each.tool_call_id for each in answered] == [read.id]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("content", ["", None, [], " \n", [{"type": "text", "text": ""}]])
def test_f8_tool_content_is_never_empty(provider, content):
    out = repaired([user(), call("c1"), result("c1", content)], provider, "P10")
    assert out[2]["content"] == "(empty)"


def test_f8_a_list_becomes_a_string_where_lists_are_not_portable():
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    given = [user(), call("c1"), result("c1", blocks)]
    assert check_conversation(given, "core") == []
    assert repaired(given, "portable", "P10")[2]["content"] == "a\nb"


def test_f9_an_error_without_words():
    block = {"type": "tool_result", "tool_use_id": "c1", "content": "", "is_error": True}
    use = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    given = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [block]},
    ]
    (answer,) = repaired(given, "anthropic", "P10")[2]["content"]
    assert (answer["content"], answer["is_error"]) == ("(empty)", True)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_f10_f13_thinking_without_an_answer_or_a_call(provider):
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    out = repaired([user("one"), assistant([thought])], provider, "P10")
    assert all(each["role"] == "user" for each in out)
    assert out[0]["content"].startswith("one")


# F11 and F12 are about signatures: tests/rules/test_reasoning.py.


@pytest.mark.parametrize("provider", ["core", "anthropic"])
def test_f14_the_21st_image_makes_an_old_large_one_fatal(provider):
    def shown(side):
        return ConversationEntry(
            MessageRole.USER, parts=(ContentPart("image", None, {}, side, side),)
        )

    profile = get_profile(provider)
    twenty = [shown(3000), *(shown(500) for _ in range(19))]
    assert profile.find(twenty) == []
    mended = profile.repair([*twenty, shown(500)])
    assert mended[0].content == "[image removed]"
    assert sum(each.has_media for each in mended) == 20


@pytest.mark.parametrize("provider", PROVIDERS)
def test_f15_a_name_with_a_space(provider):
    given = [user(), call("c1", name="look up"), result("c1", name="look up")]
    out = repaired(given, provider, "P8")
    assert out[1]["tool_calls"][0]["function"]["name"] == out[2]["name"] == "look_up"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_f16_an_extra_key(provider):
    out = repaired([user(timestamp=1), assistant(timestamp=2), user("bye")], provider, "P11")
    assert all("timestamp" not in each for each in out)
    assert [each["content"] for each in out] == ["hi", "hello", "bye"]


@pytest.mark.parametrize("provider", ["portable", "bedrock"])
def test_f16_an_extra_key_on_messages_that_are_merged(provider):
    out = repaired([user("a", timestamp=1), user("b", timestamp=2)], provider, "P11")
    assert out == [{"role": "user", "content": "a\n\nb"}]
