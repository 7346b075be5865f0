"""Every example that was found to be counted as one thing and sent as another."""

from __future__ import annotations

import json

import pytest

from history_curator import Curator, check_conversation, count_tokens
from history_curator.entries import ConversationEntry, MessageRole, ToolCall
from history_curator.errors import ConversionError
from history_curator.formats import find_format
from history_curator.rules import PROVIDERS, repair_conversation
from tests.support.messages import call, result
from tests.wire.blocks import (
    CALL,
    CONVERSED,
    IMAGE,
    OUTPUT,
    REASONED,
    SAID,
    THOUGHT,
    USER,
    YES,
    answered,
    found,
    says,
    text,
    use,
    user,
)
from tests.wire.promises import hold

GO_ON = user("go on")


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
    given = [USER, says(use()), user([found(content="word " * 50_000), found()])]
    curation = Curator(provider=provider, max_tokens=budget).curate(given)
    assert curation.messages[-1] == answered("c1")
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
        view = Curator(Inserts(), Shouts()).curate([USER, YES, GO_ON]).messages
        assert view[2:5] == [
            call("z1", text="asking!"),
            result("z1", "found!"),
            user("a note!"),
        ]

    def test_in_the_format_of_the_rest(self):
        given = [USER, says(use()), answered("c1"), GO_ON]
        view = Curator(Inserts(), Shouts(), provider="anthropic").curate(given).messages
        assert view[3:6] == [
            says(text("asking!"), use("z1")),
            user([found("z1", "found!")]),
            user("a note!"),
        ]


class TestKeysOfOneStyleOnMessagesOfTheOther:
    def test_chat_calls_on_a_message_of_blocks(self):
        asked = says(use()) | {"tool_calls": call("c2")["tool_calls"]}
        view = repaired([USER, asked, answered("c1", "c2")], "anthropic")
        assert "tool_calls" not in view[1]
        assert [block["id"] for block in view[1]["content"]] == ["c1", "c2"]

    def test_a_block_of_a_call_on_a_chat_message(self):
        view = repaired([USER, call("c1") | {"content": [use()]}, result("c1")], "openai")
        assert ("tool_calls" in view[1]) != any(
            block["type"] == "tool_use" for block in view[1]["content"] or ()
        )

    def test_an_edited_message_keeps_no_key_of_the_other(self):
        odd = says(use()) | {"refusal": None, "name": "ann"}
        (entry,) = find_format([USER]).read(odd, 0)
        (message,) = find_format([USER]).write([entry.evolve(content="hm", metadata=None)])
        assert message.keys() == {"role", "content"}


ROLES = {"human": "user", "ai": "assistant"}


@pytest.mark.parametrize("provider", PROVIDERS)
class TestTypesOnTheWire:
    def test_an_unknown_role_is_an_error_that_names_it(self, provider):
        odd = [USER, {"role": "robot", "content": "x"}]
        with pytest.raises(ConversionError, match=r"messages\[1\]\.role: unknown role"):
            check_conversation(odd, provider)
        with pytest.raises(ConversionError):
            Curator(provider=provider).curate(odd)

    @pytest.mark.parametrize("given", ROLES)
    def test_an_unusual_role(self, provider, given):
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
        for odd in (says(use(input={"x": deep})), user([text("a") | {"x": deep}])):
            with pytest.raises(ConversionError, match="nested more than"):
                Curator(provider=provider).curate([USER, odd])
            with pytest.raises(ConversionError, match="nested more than"):
                check_conversation([USER, odd], provider)
        while isinstance(deep, list):
            deep = deep.pop()  # a long chain of lists is not freed by itself

    def test_a_tool_message_after_an_anthropic_tool_use_answers_its_call(self, provider):
        given = [USER, says(use("callcall1")), result("callcall1", "42")]
        assert Curator(provider=provider).curate(given).messages[2] == answered("callcall1")


class TestBedrockOrNot:
    """Blocks of text without a type are Bedrock's, or lack their type."""

    ALONE = (CONVERSED,)
    OTHERS = ("openai", "openai-responses", "anthropic", "mistral")

    def test_alone_they_are_bedrocks(self):
        for provider in (None, "core", "portable", "gemini", "bedrock"):
            assert find_format(self.ALONE, provider).name == "bedrock"

    @pytest.mark.parametrize("provider", OTHERS)
    def test_for_a_provider_of_another_format_they_lack_their_type(self, provider):
        with pytest.raises(ConversionError, match=r"content\[0\]: a content block has no type"):
            check_conversation(self.ALONE, provider)

    @pytest.mark.parametrize("provider", [*PROVIDERS, None])
    @pytest.mark.parametrize("kind", ["image", "document", "video", "json", "toolUse"])
    def test_other_blocks_without_a_type_are_bedrocks_for_everybody(self, provider, kind):
        assert find_format([user([{kind: {}}])], provider).name == "bedrock"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_developer_becomes_system_where_it_is_not_known(provider):
    given = [{"role": "developer", "content": "be brief"}, USER]
    view = repair_conversation(given, provider)
    if provider in ("openai", "openai-responses", "core"):
        assert view == given
    else:
        assert view[0] == {"role": "system", "content": "be brief"}


CITATION = {"type": "url_citation", "url": "https://a.b/c", "title": "t"}
CITATION |= {"start_index": 0, "end_index": 3}
CITED = SAID | {
    "content": [
        {"type": "output_text", "text": "yes", "annotations": [CITATION]},
        {"type": "refusal", "refusal": "no"},
    ]
}


def curate(messages, provider, budget):
    return Curator(provider=provider, max_tokens=budget).curate(messages, tail="request")


class TestBehindABarrier:
    COMPACTED = says({"type": "compaction", "content": "what was said"}, text("go on"))

    def conversation(self, turns):
        given = [user("old " * 500), self.COMPACTED]
        for turn in range(turns):
            given += [user(f"word {turn} " * 40), says(text("yes " * 60))]
        return [*given, USER]

    @pytest.mark.parametrize("provider", ["anthropic", "core", "portable"])
    def test_everything_is_sent_that_fits_to_the_last_token(self, provider):
        for turns in (5, 7):
            given = self.conversation(turns)
            everything = curate(given, provider, None)
            view = curate(given, provider, everything.tokens)
            assert view.messages == everything.messages
            assert not view.report.compacted

    def test_nothing_is_told_of_what_was_before_it(self):
        thought = {"type": "thinking", "thinking": "hm " * 800, "signature": "c2ln"}
        given = self.conversation(2)
        given[3] = says(thought, text("yes"))
        view = curate(given, "core", 1_000).messages
        assert "Earlier in this conversation" not in str(view)
        assert view[0] == self.COMPACTED
        assert "hm hm" not in str(view)


def test_no_bridge_is_counted_where_results_and_the_user_speak_in_one_message_of_bedrock():
    asked = {"toolUse": {"toolUseId": "t1", "name": "look", "input": {}}}
    answer = {"toolResult": {"toolUseId": "t1", "content": [{"text": "42"}]}}
    given = [
        user([{"text": "hi"}]),
        says(asked),
        user([answer, {"text": "and now?"}]),
    ]
    tokens = curate(given, "bedrock", None).tokens
    assert curate(given, "bedrock", tokens).messages == given


def test_a_squeezed_result_counts_the_words_that_a_rule_puts_in_place_of_its_image():
    results = [found("t1", [text("word " * 597), IMAGE]), found("t2", "word " * 560)]
    calls = says(text("why " * 983), use("t1"), use("t2"))
    assert hold([USER, calls, user(results)], "portable", 2_000, "") is None


def test_plain_answers_before_a_call_are_one_with_those_that_a_moved_output_leaves():
    given = [
        USER,
        CALL,
        user("and?"),
        {"role": "assistant", "content": "one"},
        OUTPUT,
        {"role": "assistant", "content": "two"},
        CALL | {"call_id": "c2"},
        OUTPUT | {"call_id": "c2"},
    ]
    for budget in (None, 2_000):
        curation = curate(given, "openai-responses", budget)
        assert curation.tokens == count_tokens(curation.messages)
        assert hold(given, "openai-responses", budget, "moved") is None


def test_a_server_tool_use_without_an_id_or_a_result_goes():
    lost = {"type": "server_tool_use", "id": "", "name": "code_execution", "input": {}}
    given = [user("look"), says(lost, use()), answered("c1"), says(text("done")), user("thanks")]
    view = Curator(max_tokens=1_000, provider="anthropic").curate(given).messages
    assert view[1]["content"] == [use()]


@pytest.mark.parametrize(
    "given",
    [
        [USER, CITED, REASONED, USER],
        [USER, YES, user(" ") | {"type": "message"}, CITED, USER],
    ],
    ids=["ids go with stripped reasoning", "joined to a plain answer"],
)
def test_annotations_of_an_answer_that_is_written_anew(given):
    assert hold(given, "core", None, "unsent") is None
    answer = curate(given, "core", None).messages[1]
    assert "id" not in answer
    assert CITED["content"] == answer["content"][-2:]


def test_thinking_stays_where_everything_fits_to_the_last_token():
    given = [USER, says(THOUGHT | {"thinking": "hm " * 700}, text("yes")), user("and? " * 230)]
    everything = curate(given, "anthropic", None)
    assert curate(given, "anthropic", everything.tokens).messages == given


@pytest.mark.parametrize(
    ("message", "format"),
    [
        (SAID | {"content": [{"text": "yes"}]}, "responses"),
        ({"role": "user", "content": [{"type": [1], "text": "x"}]}, "dicts"),
        ({"type": "message", "role": "user", "content": [{"type": "hologram"}]}, "responses"),
        (says(THOUGHT) | {"type": "message", "id": "msg_1"}, "dicts"),
    ],
    ids=["a block without a type", "a type that is no text", "a new type", "answer of Anthropic"],
)
@pytest.mark.parametrize("provider", ["core", "openai-responses", "portable"])
def test_whose_format_it_is(message, format, provider):
    assert find_format([message], provider).name == format
