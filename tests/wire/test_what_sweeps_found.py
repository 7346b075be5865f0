"""What the long sweeps found, each as the least conversation that shows it."""

from __future__ import annotations

import pytest

from history_curator import Curator, count_tokens
from history_curator.formats import find_format
from tests.wire.promises import hold
from tests.wire.test_pairs_and_barriers import asked, says, text

USER = {"role": "user", "content": "hi"}
CITED = {"type": "url_citation", "url": "https://a.b/c", "title": "t", "start_index": 0}
CITING = {"type": "output_text", "text": "yes", "annotations": [CITED | {"end_index": 3}]}
ANSWER = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
PIXEL = {"type": "image", "source": {"type": "url", "url": "https://x.y/z.png"}}


def curate(messages, provider, budget):
    return Curator(provider=provider, max_tokens=budget).curate(messages, tail="request")


class TestBehindABarrier:
    COMPACTED = says({"type": "compaction", "content": "what was said"}, text("go on"))

    def conversation(self, turns):
        given = [{"role": "user", "content": "old " * 500}, self.COMPACTED]
        for turn in range(turns):
            given += [{"role": "user", "content": f"word {turn} " * 40}, says(text("yes " * 60))]
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
    use = {"toolUse": {"toolUseId": "t1", "name": "look", "input": {}}}
    result = {"toolResult": {"toolUseId": "t1", "content": [{"text": "42"}]}}
    given = [
        {"role": "user", "content": [{"text": "hi"}]},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result, {"text": "and now?"}]},
    ]
    tokens = curate(given, "bedrock", None).tokens
    assert curate(given, "bedrock", tokens).messages == given


def test_a_squeezed_result_counts_the_words_that_a_rule_puts_in_place_of_its_image():
    results = [
        {"type": "tool_result", "tool_use_id": "t1", "content": [text("word " * 597), PIXEL]},
        {"type": "tool_result", "tool_use_id": "t2", "content": "word " * 560},
    ]
    calls = says(text("why " * 983), asked("t1"), asked("t2"))
    assert hold([USER, calls, {"role": "user", "content": results}], "portable", 2_000, "") is None


class TestAnswersOfResponses:
    def test_plain_messages_before_a_call_are_one_answer_with_those_a_moved_output_leaves(self):
        call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
        given = [
            USER,
            call,
            {"role": "user", "content": "and?"},
            {"role": "assistant", "content": "one"},
            {"type": "function_call_output", "call_id": "c1", "output": "late"},
            {"role": "assistant", "content": "two"},
            call | {"call_id": "c2"},
            {"type": "function_call_output", "call_id": "c2", "output": "42"},
        ]
        for budget in (None, 2_000):
            curation = curate(given, "openai-responses", budget)
            assert curation.tokens == count_tokens(curation.messages)
            assert hold(given, "openai-responses", budget, "moved") is None


def test_a_server_tool_use_without_an_id_or_a_result_goes() -> None:
    use = {"type": "server_tool_use", "id": "", "name": "code_execution", "input": {}}
    call = {"type": "tool_use", "id": "toolu_5", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_5", "content": "seen"}
    messages = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [use, call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
        {"role": "user", "content": "thanks"},
    ]
    view = Curator(max_tokens=1_000, provider="anthropic").curate(messages).messages
    assert view[1]["content"] == [call]


class TestWhatIsNotWrittenIsNotCounted:
    def held(self, given, budget=None):
        assert hold(given, "core", budget, "unsent") is None
        return curate(given, "core", budget)

    def test_annotations_stay_where_the_ids_go_with_stripped_reasoning(self):
        answer = ANSWER | {"content": [CITING, {"type": "refusal", "refusal": "no"}]}
        thought = {"type": "reasoning", "id": "rs_1", "summary": []}
        view = self.held([USER, answer, thought, USER]).messages
        assert view[1]["content"] == answer["content"]
        assert "id" not in view[1]

    def test_annotations_of_an_answer_that_is_joined_to_a_plain_one(self):
        plain = {"role": "assistant", "content": "before"}
        blank = {"role": "user", "content": " ", "type": "message"}
        self.held([USER, plain, blank, ANSWER | {"content": [CITING]}, USER])


def test_thinking_stays_where_everything_fits_to_the_last_token():
    thought = {"type": "thinking", "thinking": "hm " * 700, "signature": "c2ln"}
    given = [USER, says(thought, text("yes")), {"role": "user", "content": "and? " * 230}]
    everything = curate(given, "anthropic", None)
    assert curate(given, "anthropic", everything.tokens).messages == given


class TestWhoseFormatItIs:
    UNTYPED = ANSWER | {"content": [{"text": "yes"}]}

    @pytest.mark.parametrize("provider", ["core", "openai-responses", "portable"])
    def test_an_item_of_responses_with_a_block_without_a_type_is_not_bedrocks(self, provider):
        assert find_format([self.UNTYPED], provider).name == "responses"

    def test_a_block_whose_type_is_no_text_is_not_a_block_without_one(self):
        assert (
            find_format([{"role": "user", "content": [{"type": [1], "text": "x"}]}]).name == "dicts"
        )

    def test_a_block_of_a_new_type_in_an_item_of_the_user(self):
        odd = {"type": "message", "role": "user", "content": [{"type": "hologram", "x": 1}]}
        assert find_format([odd]).name == "responses"

    def test_answers_of_anthropic_have_the_same_type(self):
        thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
        assert find_format([says(thought) | {"type": "message", "id": "msg_1"}]).name == "dicts"
