"""Calls of every kind keep their answers; what a provider keeps for us is never dropped."""

from __future__ import annotations

import pytest

from history_curator import BudgetUnsatisfiableError, Curator, check_conversation
from history_curator.errors import ConversionError
from history_curator.formats import find_format, read_entries
from history_curator.managers import SlidingWindowManager
from history_curator.rules import get_profile, repair_conversation
from tests.support.messages import call, result
from tests.wire.blocks import (
    ASKED,
    CALL,
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

SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
CODE = {"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {"code": "f()"}}
RAN = {"type": "code_execution_tool_result", "tool_use_id": "s1", "content": {}}
CALLER = {"type": "code_execution_20250825", "tool_id": "s1"}
GO_ON = user("go on")


def kinds(message):
    return [block["type"] for block in message["content"]]


def curate(given, provider, budget=None):
    return Curator(provider=provider, max_tokens=budget).curate(given).messages


class TestServerTools:
    """Anthropic runs these itself; their blocks stand in the assistant's messages."""

    PROGRAM = (USER, says(CODE, use("t1", caller=CALLER)), answered("t1"))
    MORE = (says(use("t2", caller=CALLER)), answered("t2"))
    END = (says(RAN, text("done")), user("thanks"))

    @pytest.mark.parametrize(
        "messages",
        [
            [USER, says(SEARCH, FOUND, text("found"))],
            [USER, says(text("hm"), SEARCH), says(FOUND, text("found"))],
            [*PROGRAM, *MORE, *END],
        ],
        ids=["in one message", "pause_turn", "caller"],
    )
    def test_whole_ones_are_left_alone(self, messages):
        assert repair_conversation(messages, "anthropic", tail="history") == messages

    def test_a_result_whose_use_was_left_out_goes(self):
        given = [USER, says(FOUND, text("found")), USER]
        (violation,) = check_conversation(given, "anthropic")
        assert (violation.index, violation.rule) == (1, "P6")
        assert kinds(repair_conversation(given, "anthropic")[1]) == ["text"]

    def test_a_use_that_was_never_answered_goes(self):
        given = [USER, says(text("hm"), SEARCH), USER]
        assert kinds(repair_conversation(given, "anthropic")[1]) == ["text"]

    @pytest.mark.parametrize("given", [[USER, says(text("hm"), SEARCH)], list(PROGRAM)])
    def test_a_paused_turn_and_a_running_program_go_on_without_a_word_of_ours(self, given):
        assert curate(given, "anthropic") == given

    def test_a_call_whose_program_is_gone_becomes_a_direct_one(self):
        view = repair_conversation([USER, *self.MORE, *self.END], "anthropic")
        assert view[1]["content"] == [use("t2")]
        assert kinds(view[3]) == ["text"]
        assert check_conversation(view, "anthropic") == []

    def test_a_window_that_cuts_through_a_program(self):
        given = [*self.PROGRAM, *self.MORE, *self.END]
        for last in range(1, len(given)):
            view = Curator(SlidingWindowManager(last), provider="anthropic").curate(given).messages
            assert check_conversation(view, "anthropic") == []

    def test_mcp_across_messages(self):
        asked = {"type": "mcp_tool_use", "id": "s1", "name": "e", "server_name": "s", "input": {}}
        done = {"type": "mcp_tool_result", "tool_use_id": "s1", "is_error": False, "content": []}
        given = [USER, says(asked, use("t1")), answered("t1"), says(done, text("done")), USER]
        assert repair_conversation(given, "anthropic") == given
        assert kinds(repair_conversation([USER, *given[3:]], "anthropic")[1]) == ["text"]


KINDS = {
    "function": (CALL, OUTPUT),
    "custom": (
        {"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": "free text"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "42"},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
class TestResponsesItems:
    def test_a_pair_is_left_alone(self, kind):
        given = [USER, *KINDS[kind]]
        assert curate(given, "openai-responses") == given

    def test_an_output_without_its_call_goes(self, kind):
        given, format = [USER, KINDS[kind][1], GO_ON], find_format([CALL])
        view = Curator(provider="openai-responses").curate(given, format=format).messages
        assert view == [given[0], given[2]]

    def test_a_call_without_its_output_gets_one(self, kind):
        view = curate([USER, KINDS[kind][0], GO_ON], "openai-responses")
        roles = [entry.role.value for entry in read_entries(view)]
        assert roles == ["user", "assistant", "tool", "user"]
        assert "may have run" in str(view[2])
        assert check_conversation(view, "openai-responses") == []


def test_items_of_other_kinds_stay_together_and_end_a_request():
    shown = {"type": "computer_screenshot", "image_url": "https://x.y/z.png"}
    given = [
        USER,
        {"type": "computer_call", "id": "cu_1", "call_id": "c1", "action": {"type": "wait"}},
        {"type": "computer_call_output", "call_id": "c1", "output": shown},
    ]
    assert curate(given, "openai-responses") == given
    for budget in (1_500, 5_000):
        view = curate([*given, GO_ON] * 3, "openai-responses", budget)
        assert [item in view for item in given[1:]] in ([True, True], [False, False])


def test_custom_tools_of_chat_completions_pair():
    body = {"name": "sql", "input": "select 1"}
    asking = call("c1") | {"tool_calls": [{"id": "c1", "type": "custom", "custom": body}]}
    given = [USER, asking, result("c1")]
    assert curate(given, "openai") == given
    view = curate(given[:2], "openai")
    assert (view[1], view[2]["tool_call_id"]) == (asking, "c1")


class TestReasoningItems:
    """A reasoning item and the ids behind it go together."""

    def test_they_stay_together(self):
        given = [USER, REASONED, CALL | {"id": "fc_1"}, OUTPUT]
        assert curate(given, "openai-responses") == given

    def test_where_the_reasoning_goes_the_ids_behind_it_go(self):
        given = [USER, REASONED, SAID, USER]
        profile = get_profile("openai-responses", reasoning="strip")
        format = find_format(given)
        view = format.write(profile.repair(read_entries(given, format), edited=True))
        assert view[1] == {"type": "message", "role": "assistant", "content": "yes"}

    def test_reasoning_that_nothing_follows_goes(self):
        given = [USER, SAID, REASONED | {"id": "rs_2"}, USER]
        (violation,) = check_conversation(given, "openai-responses")
        assert violation.rule == "P13"
        view = repair_conversation(given, "openai-responses")
        assert [item.get("type") for item in view] == [None, "message", None]


PLAIN = {"type": "message", "role": "assistant", "content": "yes"}
SEARCHED = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


@pytest.mark.parametrize(
    ("items", "later"),
    [([SAID], PLAIN), ([SEARCHED, SAID], PLAIN), ([REASONED, CALL | {"id": "fc_1"}, OUTPUT], CALL)],
    ids=["message", "search", "reasoning and call"],
)
def test_items_that_are_in_the_list_twice_are_written_without_their_ids(items, later):
    """OpenAI: ``Duplicate item found with id rs_1``."""
    given = [USER, *items, USER, *items]
    assert "P7" in {each.rule for each in check_conversation(given, "openai-responses")}
    view = repair_conversation(given, "openai-responses", tail="history")
    assert view[: len(items) + 2] == given[: len(items) + 2]
    second = view[len(items) + 2]
    assert {**second, "call_id": "c1"} | {"id": None} == {"call_id": "c1", **later, "id": None}
    assert second.get("id") != items[0].get("id")
    assert check_conversation(view, "openai-responses", tail="history") == []
    assert curate(given, "openai-responses") == view


@pytest.mark.parametrize(
    ("provider", "asking"),
    [
        ("bedrock", {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1"}}]}),
        ("gemini", {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}),
    ],
)
def test_a_tool_message_among_turns_of_blocks_is_an_error_that_names_it(provider, asking):
    given = [asking, {"role": "tool", "tool_call_id": "c1", "content": "1"}]
    with pytest.raises(ConversionError, match=r"messages\[1\]\.tool_call_id"):
        Curator(provider=provider).curate(given)


COMPACTED = {
    "anthropic": says({"type": "compaction", "content": "what was said"}, text("go on")),
    "openai-responses": {"type": "compaction", "id": "cmp_1", "encrypted_content": "opaque" * 20},
}


@pytest.mark.parametrize("provider", COMPACTED)
class TestBarriers:
    def conversation(self, provider):
        old, new = [[user(f"{age} {n}") for n in range(3)] for age in ("old", "new")]
        return [{"role": "system", "content": "be brief"}, *old, COMPACTED[provider], *new]

    @pytest.mark.parametrize("budget", [None, 5_000])
    def test_nothing_before_it_is_sent_again(self, provider, budget):
        view = curate(self.conversation(provider), provider, budget)
        assert "old" not in str(view)
        assert "be brief" in str(view)
        assert COMPACTED[provider] in view

    def test_no_manager_drops_it(self, provider):
        curator = Curator(SlidingWindowManager(1), provider=provider)
        assert COMPACTED[provider] in curator.curate(self.conversation(provider)).messages

    def test_a_budget_that_cannot_hold_it_says_so(self, provider):
        with pytest.raises(BudgetUnsatisfiableError):
            curate(self.conversation(provider), provider, 25)


RULE, LATER = [{"role": "system", "content": said} for said in ("be brief", "it is Monday")]


class TestLaterSystemMessages:
    TAKES = get_profile("anthropic", model="claude-opus-4-8")

    def sent(self, *given, provider=TAKES, budget=None):
        view = Curator(provider=provider, max_tokens=budget).curate(list(given), tail="request")
        assert check_conversation(view.messages, provider) == []
        assert repair_conversation(view.messages, provider) == view.messages
        return view.messages

    @pytest.mark.parametrize("budget", [None, 1_000])
    @pytest.mark.parametrize(
        "given",
        [
            [RULE, USER, LATER, YES, GO_ON],
            [RULE, USER, LATER, YES, GO_ON, LATER],
            [USER, says(use("t1")), answered("t1"), LATER],
        ],
        ids=["behind a question", "at the end", "behind a result"],
    )
    def test_they_stay_where_the_model_takes_them(self, given, budget):
        assert self.sent(*given, budget=budget) == given

    @pytest.mark.parametrize("budget", [None, 1_000])
    def test_behind_an_answer_they_wait_for_the_user(self, budget):
        given = [RULE, USER, YES, LATER, GO_ON]
        view = self.sent(*given, budget=budget)
        assert view == [RULE, USER, YES, GO_ON, LATER]
        assert self.sent(*given, YES, USER, budget=budget)[:5] == view

    def test_several_in_one_place_are_one(self):
        view = self.sent(USER, LATER, RULE)
        assert view == [USER, {"role": "system", "content": "it is Monday\n\nbe brief"}]

    def test_where_nobody_speaks_any_more_they_are_said_by_the_user(self):
        assert self.sent(USER, YES, LATER) == [USER, YES, user("it is Monday")]

    def test_else_they_move_to_the_front_or_are_said_by_the_user(self):
        given = [RULE, USER, YES, LATER, GO_ON]
        view = self.sent(*given, provider="anthropic")
        assert [m["role"] for m in view] == ["system", "system", "user", "assistant", "user"]
        view = self.sent(*given, provider=get_profile("anthropic", later_system="demote"))
        assert view[3] == user("it is Monday")


CLAUDE = says(THOUGHT, text("42"))
GEMINI = {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "42"}]}
GPT = (REASONED, {"role": "assistant", "content": "42"})


class TestForeignThinking:
    @pytest.mark.parametrize("provider", ["openai", "openai-responses", "gemini", "mistral"])
    def test_of_claude(self, provider):
        view = repair_conversation([USER, CLAUDE, USER], provider)
        assert "signature" not in str(view)
        assert "42" in str(view[1])

    @pytest.mark.parametrize("provider", ["anthropic", "openai", "mistral"])
    def test_of_gemini(self, provider):
        view = repair_conversation([ASKED, GEMINI, ASKED], provider)
        assert view[1]["parts"] == [{"text": "42"}]

    @pytest.mark.parametrize("provider", ["anthropic", "gemini", "mistral"])
    def test_of_gpt(self, provider):
        assert "reasoning" not in str(repair_conversation([USER, *GPT, USER], provider))

    @pytest.mark.parametrize(
        ("provider", "answer"),
        [("anthropic", [CLAUDE]), ("core", [CLAUDE]), ("openai-responses", GPT)],
    )
    def test_ones_own_stays(self, provider, answer):
        given = [USER, *answer, USER]
        assert repair_conversation(given, provider) == given


SHOWN = {"type": "input_image", "image_url": "https://x.y/z.png", "detail": "auto"}
MEDIA = {
    "anthropic": [USER, says(use()), user([found(content=[IMAGE])])],
    "items": [USER, CALL, OUTPUT | {"output": [SHOWN]}],
}


@pytest.mark.parametrize(
    ("wire", "provider"),
    [
        *[("anthropic", provider) for provider in ("core", "anthropic")],
        *[("items", provider) for provider in ("core", "openai", "openai-responses")],
    ],
)
def test_media_in_results_stay_in_blocks_and_items(wire, provider):
    assert repair_conversation(MEDIA[wire], provider) == MEDIA[wire]


@pytest.mark.parametrize("provider", ["core", "openai", "portable", "mistral"])
def test_media_in_results_go_where_chat_completions_has_no_room(provider):
    shown = {"type": "image_url", "image_url": {"url": "https://x.y/z.png"}}
    given = [USER, call("c1"), result("c1") | {"content": [shown]}]
    assert "[image removed]" in str(repair_conversation(given, provider)[2])


class TestThinkingOfAnotherModel:
    """A signature of Anthropic is good for the model that gave it."""

    OLD = CLAUDE | {"model": "claude-opus-4-5-20251101"}

    @pytest.mark.parametrize("name", ["core", "anthropic", "portable"])
    def test_goes_where_the_message_names_the_other_model(self, name):
        profile = get_profile(name, model="claude-sonnet-4-5")
        given = [USER, self.OLD, user("and?")]
        assert "P13" in {each.rule for each in check_conversation(given, profile)}
        view = repair_conversation(given, profile)
        assert view[1] == says(text("42"))
        assert check_conversation(view, profile) == []

    @pytest.mark.parametrize(
        "model", [None, "claude-opus-4-5", "us.anthropic.claude-opus-4-5-v1:0"]
    )
    def test_stays_where_it_is_ones_own(self, model):
        view = repair_conversation([USER, self.OLD, USER], get_profile("anthropic", model=model))
        assert view[1] == CLAUDE

    def test_stays_where_nobody_says_who_signed(self):
        given = [USER, CLAUDE, USER]
        profile = get_profile("anthropic", model="claude-sonnet-4-5")
        assert repair_conversation(given, profile) == given

    def test_langchain_names_it_in_the_metadata_of_the_response(self):
        messages = pytest.importorskip("langchain_core.messages")
        named = {"model_name": "claude-opus-4-5-20251101"}
        answer = messages.AIMessage(CLAUDE["content"], response_metadata=named)
        given = [messages.HumanMessage("hi"), answer, messages.HumanMessage("and?")]
        for model, kept in (("claude-opus-4-5", True), ("claude-sonnet-4-5", False)):
            view = curate(given, get_profile("anthropic", model=model))
            assert ("signature" in str(view[1].content)) is kept
