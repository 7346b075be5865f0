"""Every example that was found to be counted as one thing and sent as another."""

from __future__ import annotations

import json

import pytest

from history_curator import Curator, check_conversation, count_tokens
from history_curator.entries import ConversationEntry, MessageRole, ToolCall
from history_curator.errors import ConversionError
from history_curator.formats import BedrockFormat, find_format, read_entries
from history_curator.rules import PROVIDERS, repair_conversation
from tests.support.messages import call, result

USER = {"role": "user", "content": "hi"}


def use(name="c1", given=None, **more):
    block = {
        "type": "tool_use",
        "id": name,
        "name": "look",
        "input": {} if given is None else given,
    }
    return {"role": "assistant", "content": [{**block, **more}]}


def answer(name="c1", content="42"):
    return {"type": "tool_result", "tool_use_id": name, "content": content}


def repaired(messages, provider):
    """The conversation as it is sent, after making sure that something was wrong with it."""
    assert check_conversation(messages, provider), "nothing was reported"
    out = repair_conversation(messages, provider)
    assert check_conversation(out, provider) == []
    assert repair_conversation(out, provider) == out
    json.dumps(out, allow_nan=False)
    return out


@pytest.mark.parametrize("provider", ["core", "anthropic", "portable"])
@pytest.mark.parametrize("budget", [None, 500])
def test_two_tool_result_blocks_for_one_call_in_one_anthropic_message(provider, budget):
    twice = {"role": "user", "content": [answer(content="word " * 50_000), answer(content="small")]}
    curation = Curator(provider=provider, max_tokens=budget).curate([USER, use(), twice])
    assert curation.messages[-1]["content"] == [answer(content="small")]
    assert curation.tokens == count_tokens(curation.messages) < 100


class Inserts:
    """A manager that puts an exchange in front of the last message."""

    def curate(self, entries, *, context):
        made = {"origin": "note", "action": "inserted", "reason": "a test"}
        asked = ToolCall("z1", "look", "{}")
        return [
            *entries[:-1],
            ConversationEntry(MessageRole.ASSISTANT, "asking", tool_calls=(asked,), **made),
            ConversationEntry(MessageRole.TOOL, "found", tool_call_id="z1", **made),
            ConversationEntry(MessageRole.USER, "a note", **made),
            entries[-1],
        ]


class Shouts:
    """A manager that edits what another one inserted."""

    def curate(self, entries, *, context):
        return [
            entry.evolve(content=f"{entry.content}!") if entry.origin == "note" else entry
            for entry in entries
        ]


class TestAManagerEditsWhatAnotherInserted:
    def test_every_message_has_its_role_and_its_calls(self):
        given = [USER, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "go"}]
        view = Curator(Inserts(), Shouts()).curate(given).messages
        assert view[2:5] == [
            {
                "role": "assistant",
                "content": "asking!",
                "tool_calls": [
                    {
                        "id": "z1",
                        "type": "function",
                        "function": {"name": "look", "arguments": "{}"},
                    }
                ],
            },
            {"role": "tool", "content": "found!", "tool_call_id": "z1"},
            {"role": "user", "content": "a note!"},
        ]

    def test_in_the_format_of_the_rest(self):
        given = [
            USER,
            use(),
            {"role": "user", "content": [answer()]},
            {"role": "user", "content": "go"},
        ]
        view = Curator(Inserts(), Shouts(), provider="anthropic").curate(given).messages
        said = {"type": "text", "text": "asking!"}
        asked = {"type": "tool_use", "id": "z1", "name": "look", "input": {}}
        assert view[3:6] == [
            {"role": "assistant", "content": [said, asked]},
            {"role": "user", "content": [answer("z1", "found!")]},
            {"role": "user", "content": "a note!"},
        ]


class TestKeysOfOneStyleOnMessagesOfTheOther:
    def test_chat_calls_on_a_message_of_blocks(self):
        asked = use() | {"tool_calls": call("c2")["tool_calls"]}
        given = [USER, asked, {"role": "user", "content": [answer(), answer("c2")]}]
        view = repaired(given, "anthropic")
        assert "tool_calls" not in view[1]
        assert [block["id"] for block in view[1]["content"]] == ["c1", "c2"]

    def test_a_block_of_a_call_on_a_chat_message(self):
        asked = call("c1") | {"content": use()["content"]}
        view = repaired([USER, asked, result("c1")], "openai")
        assert ("tool_calls" in view[1]) != any(
            block["type"] == "tool_use" for block in view[1]["content"] or ()
        )

    def test_an_edited_message_keeps_no_key_of_the_other(self):
        odd = use() | {"refusal": None, "name": "ann"}
        (entry,) = find_format([USER]).read(odd, 0)
        (message,) = find_format([USER]).write([entry.evolve(content="hm", metadata=None)])
        assert message.keys() == {"role", "content"}


@pytest.mark.parametrize("budget", [None, 500])
def test_unknown_keys_are_stripped(budget):
    given = [
        USER | {"timestamp": 1.5},
        {"role": "assistant", "content": "yes", "trace_id": "x", "refusal": None},
        {"role": "user", "content": [{"type": "text", "text": "go on"}], "at": {"day": 1}},
    ]
    curation = Curator(provider="openai", max_tokens=budget).curate(given)
    assert all(each.keys() <= {"role", "content", "refusal"} for each in curation.messages)


ROLES = {" User ": "user", "SYSTEM": "system", "human": "user", "ai": "assistant"}


@pytest.mark.parametrize("provider", PROVIDERS)
class TestTypesOnTheWire:
    def test_an_unknown_role_is_an_error_that_names_it(self, provider):
        odd = [USER, {"role": "robot", "content": "x"}]
        with pytest.raises(ConversionError, match=r"messages\[1\]\.role: unknown role"):
            check_conversation(odd, provider)
        with pytest.raises(ConversionError):
            Curator(provider=provider).curate(odd)

    @pytest.mark.parametrize("given", ROLES)
    def test_a_padded_or_unusual_role(self, provider, given):
        view = repaired([{"role": given, "content": "x"}, USER], provider)
        assert ROLES[given] in {message["role"] for message in view}
        assert given not in {message["role"] for message in view}

    @pytest.mark.parametrize("given", [{"a": 1}, None], ids=["dict", "null"])
    def test_arguments_that_are_not_text(self, provider, given):
        asked = call("callcall1")
        asked["tool_calls"][0]["function"]["arguments"] = given
        view = repaired([USER, asked, result("callcall1")], provider)
        assert json.loads(view[1]["tool_calls"][0]["function"]["arguments"]) == (given or {})

    def test_a_call_without_a_type(self, provider):
        asked = call("callcall1")
        del asked["tool_calls"][0]["type"]
        view = repaired([USER, asked, result("callcall1")], provider)
        assert view[1]["tool_calls"][0]["type"] == "function"

    @pytest.mark.parametrize("depth", [150, 100_000])
    def test_nesting_of_any_depth_is_an_error_of_ours(self, provider, depth):
        deep = "bottom"
        for _ in range(depth):
            deep = [deep]
        for odd in (
            use(given={"x": deep}),
            {"role": "user", "content": [{"type": "text", "text": "a", "x": deep}]},
        ):
            with pytest.raises(ConversionError, match="nested more than"):
                Curator(provider=provider).curate([USER, odd])
            with pytest.raises(ConversionError, match="nested more than"):
                check_conversation([USER, odd], provider)
        while isinstance(deep, list):
            deep = deep.pop()  # a long chain of lists is not freed by itself

    def test_a_function_message_with_a_tool_call_id_answers_its_call(self, provider):
        odd = {"role": "function", "name": "look", "tool_call_id": "callcall1", "content": "42"}
        view = repaired([USER, call("callcall1"), odd], provider)
        assert (view[2]["role"], view[2]["tool_call_id"]) == ("tool", "callcall1")
        assert view[2]["content"] == "42"

    def test_a_tool_message_after_an_anthropic_tool_use_answers_its_call(self, provider):
        view = repaired([USER, use("callcall1"), result("callcall1", "42")], provider)
        assert view[2] == {"role": "user", "content": [answer("callcall1")]}

    def test_a_result_block_after_a_chat_call_answers_it(self, provider):
        odd = {"role": "user", "content": [answer("callcall1")]}
        view = repaired([USER, call("callcall1"), odd], provider)
        assert (view[2]["role"], view[2]["content"]) == ("tool", "42")


class TestBedrockOrNot:
    """Blocks of text without a type are Bedrock's, or lack their type."""

    ALONE = ({"role": "user", "content": [{"text": "hello"}]},)
    MIXED = (USER, {"role": "assistant", "content": [{"text": "yes"}]}, USER)
    OTHERS = ("openai", "openai-responses", "anthropic", "mistral")
    USED = (
        *ALONE,
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t1", "name": "look"}}]},
    )

    def test_alone_they_are_bedrocks(self):
        for provider in (None, "core", "portable", "gemini", "bedrock"):
            assert find_format(self.ALONE, provider).name == "bedrock"

    @pytest.mark.parametrize("provider", OTHERS)
    def test_for_a_provider_of_another_format_they_lack_their_type(self, provider):
        with pytest.raises(ConversionError, match=r"content\[0\]: a content block has no type"):
            check_conversation(self.ALONE, provider)

    @pytest.mark.parametrize("provider", OTHERS)
    def test_the_format_decides_where_it_is_given(self, provider):
        format, given = BedrockFormat(), list(self.ALONE)
        assert check_conversation(given, provider, format=format) == []
        curator = Curator(provider=provider)
        assert curator.curate(given, format=format).messages[0] is given[0]

    def test_beside_a_plain_text_bedrock_is_the_one_that_says_so(self):
        assert find_format(self.MIXED).name == find_format(self.MIXED, "core").name == "dicts"
        assert find_format(self.MIXED, "bedrock").name == "bedrock"

    @pytest.mark.parametrize("provider", [*PROVIDERS, None])
    @pytest.mark.parametrize("kind", ["image", "document", "video", "json", "toolUse"])
    def test_other_blocks_without_a_type_are_bedrocks_for_everybody(self, provider, kind):
        assert find_format([{"role": "user", "content": [{kind: {}}]}], provider).name == "bedrock"

    @pytest.mark.parametrize("provider", OTHERS)
    def test_a_view_that_lost_its_blocks_says_the_same_in_either_format(self, provider):
        view = repair_conversation([*self.USED, *self.ALONE], provider)
        told = [entry.content for entry in read_entries(view, BedrockFormat())]
        assert [entry.content for entry in read_entries(view, find_format(view, provider))] == told


@pytest.mark.parametrize("provider", ["portable", "anthropic", "gemini", "bedrock", "mistral"])
def test_developer_becomes_system(provider):
    view = repaired([{"role": "developer", "content": "be brief"}, USER], provider)
    assert view[0] == {"role": "system", "content": "be brief"}


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "core"])
def test_developer_stays_where_it_is_known(provider):
    given = [{"role": "developer", "content": "be brief"}, USER]
    assert repair_conversation(given, provider) == given


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_placeholder_says_that_the_call_may_have_run(provider):
    view = repair_conversation([USER, call("callcall1")], provider)
    assert "may have run" in view[2]["content"]
