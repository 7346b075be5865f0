"""Calls of every kind keep their answers; what a provider keeps for us is never dropped."""

from __future__ import annotations

from typing import ClassVar

import pytest

from history_curator import BudgetUnsatisfiableError, Curator, check_conversation
from history_curator.errors import ConversionError
from history_curator.formats import find_format, read_entries
from history_curator.managers import SlidingWindowManager
from history_curator.rules import get_profile, repair_conversation

USER = {"role": "user", "content": "hi"}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
CODE = {"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {"code": "f()"}}
RAN = {"type": "code_execution_tool_result", "tool_use_id": "s1", "content": {}}
CALLER = {"type": "code_execution_20250825", "tool_id": "s1"}


def says(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def text(said):
    return {"type": "text", "text": said}


def kinds(message):
    return [block["type"] for block in message["content"]]


def asked(name, **more):
    return {"type": "tool_use", "id": name, "name": "look", "input": {}, **more}


def answered(name):
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": name, "content": "1"}],
    }


class TestServerTools:
    """Anthropic runs these itself; their blocks stand in the assistant's messages."""

    PROGRAM = (USER, says(CODE, asked("t1", caller=CALLER)), answered("t1"))
    MORE = (says(asked("t2", caller=CALLER)), answered("t2"))
    END = (says(RAN, text("done")), {"role": "user", "content": "thanks"})

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

    def test_a_paused_turn_goes_on_without_a_word_of_ours(self):
        given = [USER, says(text("hm"), SEARCH)]
        assert Curator(provider="anthropic").curate(given).messages == given

    def test_a_running_program_is_left_alone(self):
        given = list(self.PROGRAM)
        assert Curator(provider="anthropic").curate(given).messages == given

    def test_a_call_whose_program_is_gone_becomes_a_direct_one(self):
        given = [USER, *self.MORE, *self.END]
        view = repair_conversation(given, "anthropic")
        assert view[1]["content"] == [asked("t2")]
        assert kinds(view[3]) == ["text"]
        assert check_conversation(view, "anthropic") == []

    def test_a_window_that_cuts_through_a_program(self):
        given = [*self.PROGRAM, *self.MORE, *self.END]
        for last in range(1, len(given)):
            view = Curator(SlidingWindowManager(last), provider="anthropic").curate(given).messages
            assert check_conversation(view, "anthropic") == []

    def test_mcp_across_messages(self):
        use = {"type": "mcp_tool_use", "id": "s1", "name": "e", "server_name": "s", "input": {}}
        done = {"type": "mcp_tool_result", "tool_use_id": "s1", "is_error": False, "content": []}
        given = [USER, says(use, asked("t1")), answered("t1"), says(done, text("done")), USER]
        assert repair_conversation(given, "anthropic") == given
        cut = repair_conversation([USER, *given[3:]], "anthropic")
        assert kinds(cut[1]) == ["text"]


FUNCTION = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
KINDS = {
    "function": (FUNCTION, {"type": "function_call_output", "call_id": "c1", "output": "42"}),
    "custom": (
        {"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": "free text"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "42"},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
class TestResponsesItems:
    def test_a_pair_is_left_alone(self, kind):
        given = [USER, *KINDS[kind]]
        assert Curator(provider="openai-responses").curate(given).messages == given

    def test_an_output_without_its_call_goes(self, kind):
        given = [USER, KINDS[kind][1], {"role": "user", "content": "go on"}]
        view = (
            Curator(provider="openai-responses")
            .curate(given, format=find_format([FUNCTION]))
            .messages
        )
        assert view == [given[0], given[2]]

    def test_a_call_without_its_output_gets_one(self, kind):
        given = [USER, KINDS[kind][0], {"role": "user", "content": "go on"}]
        view = Curator(provider="openai-responses").curate(given).messages
        assert [entry.role.value for entry in read_entries(view)] == [
            "user",
            "assistant",
            "tool",
            "user",
        ]
        assert "may have run" in str(view[2])
        assert check_conversation(view, "openai-responses") == []


def test_items_of_other_kinds_stay_together_and_end_a_request():
    shown = {"type": "computer_screenshot", "image_url": "https://x.y/z.png"}
    given = [
        USER,
        {"type": "computer_call", "id": "cu_1", "call_id": "c1", "action": {"type": "wait"}},
        {"type": "computer_call_output", "call_id": "c1", "output": shown},
    ]
    assert Curator(provider="openai-responses").curate(given).messages == given
    turns = [*given, {"role": "user", "content": "go on"}]
    for budget in (1_500, 5_000):
        view = Curator(provider="openai-responses", max_tokens=budget).curate(turns * 3).messages
        assert [item in view for item in given[1:]] in ([True, True], [False, False])


def test_custom_tools_of_chat_completions_pair():
    body = {"name": "sql", "input": "select 1"}
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "custom", "custom": body}],
    }
    given = [USER, call, {"role": "tool", "tool_call_id": "c1", "content": "1"}]
    assert Curator(provider="openai").curate(given).messages == given
    view = Curator(provider="openai").curate(given[:2]).messages
    assert (view[1], view[2]["tool_call_id"]) == (call, "c1")


class TestReasoningItems:
    """A reasoning item and the ids behind it go together."""

    THOUGHT: ClassVar = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "abc=",
    }
    CALL: ClassVar = FUNCTION | {"id": "fc_1"}
    OUTPUT: ClassVar = {"type": "function_call_output", "call_id": "c1", "output": "42"}
    SAID: ClassVar = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "yes", "annotations": []}],
    }

    def test_they_stay_together(self):
        given = [USER, self.THOUGHT, self.CALL, self.OUTPUT]
        assert Curator(provider="openai-responses").curate(given).messages == given

    def test_where_the_reasoning_goes_the_ids_behind_it_go(self):
        given = [USER, self.THOUGHT, self.SAID, {"role": "user", "content": "and?"}]
        profile = get_profile("openai-responses", reasoning="strip")
        format = find_format(given)
        entries = read_entries(given, format)
        view = format.write(profile.repair(entries, edited=True))
        assert view[1] == {"type": "message", "role": "assistant", "content": "yes"}

    def test_reasoning_that_nothing_follows_goes(self):
        given = [USER, self.SAID, self.THOUGHT | {"id": "rs_2"}, {"role": "user", "content": "?"}]
        (violation,) = check_conversation(given, "openai-responses")
        assert violation.rule == "P13"
        view = repair_conversation(given, "openai-responses")
        assert [item.get("type") for item in view] == [None, "message", None]


class TestItemsThatAreInTheListTwice:
    """OpenAI: ``Duplicate item found with id rs_1``."""

    SEARCHED: ClassVar = {"type": "web_search_call", "id": "ws_1", "status": "completed"}

    @pytest.mark.parametrize(
        ("items", "later"),
        [
            ([TestReasoningItems.SAID], {"type": "message", "role": "assistant", "content": "yes"}),
            (
                [SEARCHED, TestReasoningItems.SAID],
                {"type": "message", "role": "assistant", "content": "yes"},
            ),
            (
                [TestReasoningItems.THOUGHT, TestReasoningItems.CALL, TestReasoningItems.OUTPUT],
                FUNCTION,
            ),
        ],
        ids=["message", "search", "reasoning and call"],
    )
    def test_are_written_without_their_ids(self, items, later):
        given = [USER, *items, {"role": "user", "content": "and?"}, *items]
        assert "P7" in {each.rule for each in check_conversation(given, "openai-responses")}
        view = repair_conversation(given, "openai-responses", tail="history")
        assert view[: len(items) + 2] == given[: len(items) + 2]
        found = view[len(items) + 2]
        assert {**found, "call_id": "c1"} | {"id": None} == {"call_id": "c1", **later, "id": None}
        assert found.get("id") != items[0].get("id")
        assert check_conversation(view, "openai-responses", tail="history") == []
        assert Curator(provider="openai-responses").curate(given).messages == view


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
        old = [{"role": "user", "content": f"old {n}"} for n in range(3)]
        new = [{"role": "user", "content": f"new {n}"} for n in range(3)]
        return [{"role": "system", "content": "be brief"}, *old, COMPACTED[provider], *new]

    @pytest.mark.parametrize("budget", [None, 5_000])
    def test_nothing_before_it_is_sent_again(self, provider, budget):
        view = (
            Curator(provider=provider, max_tokens=budget)
            .curate(self.conversation(provider))
            .messages
        )
        assert "old" not in str(view)
        assert "be brief" in str(view)
        assert COMPACTED[provider] in view

    def test_no_manager_drops_it(self, provider):
        curator = Curator(SlidingWindowManager(1), provider=provider)
        assert COMPACTED[provider] in curator.curate(self.conversation(provider)).messages

    def test_a_budget_that_cannot_hold_it_says_so(self, provider):
        with pytest.raises(BudgetUnsatisfiableError):
            Curator(provider=provider, max_tokens=25).curate(self.conversation(provider))


class TestLaterSystemMessages:
    RULE = {"role": "system", "content": "be brief"}  # noqa: RUF012
    LATER = {"role": "system", "content": "it is Monday"}  # noqa: RUF012
    YES = {"role": "assistant", "content": "yes"}  # noqa: RUF012
    GO_ON = {"role": "user", "content": "go on"}  # noqa: RUF012
    TAKES = get_profile("anthropic", model="claude-opus-4-8")

    def sent(self, *given, provider=TAKES, budget=None):
        view = Curator(provider=provider, max_tokens=budget).curate(list(given), tail="request")
        assert check_conversation(view.messages, provider) == []
        assert repair_conversation(view.messages, provider) == view.messages
        return view.messages

    @pytest.mark.parametrize("budget", [None, 1_000])
    def test_they_stay_where_the_model_takes_them(self, budget):
        given = [self.RULE, USER, self.LATER, self.YES, self.GO_ON]
        assert self.sent(*given, budget=budget) == given
        assert self.sent(*given, self.LATER, budget=budget) == [*given, self.LATER]

    @pytest.mark.parametrize("budget", [None, 1_000])
    def test_behind_a_tool_result_too(self, budget):
        given = [USER, says(asked("t1")), answered("t1"), self.LATER]
        assert self.sent(*given, budget=budget) == given

    @pytest.mark.parametrize("budget", [None, 1_000])
    def test_behind_an_answer_they_wait_for_the_user(self, budget):
        given = [self.RULE, USER, self.YES, self.LATER, self.GO_ON]
        view = self.sent(*given, budget=budget)
        assert view == [self.RULE, USER, self.YES, self.GO_ON, self.LATER]
        assert self.sent(*given, self.YES, USER, budget=budget)[:5] == view

    def test_several_in_one_place_are_one(self):
        view = self.sent(USER, self.LATER, self.RULE)
        assert view == [USER, {"role": "system", "content": "it is Monday\n\nbe brief"}]

    def test_where_nobody_speaks_any_more_they_are_said_by_the_user(self):
        view = self.sent(USER, self.YES, self.LATER)
        assert view == [USER, self.YES, {"role": "user", "content": "it is Monday"}]

    def test_else_they_move_to_the_front(self):
        given = [self.RULE, USER, self.YES, self.LATER, self.GO_ON]
        view = self.sent(*given, provider="anthropic")
        assert [m["role"] for m in view] == ["system", "system", "user", "assistant", "user"]

    def test_or_are_said_by_the_user(self):
        profile = get_profile("anthropic", later_system="demote")
        view = self.sent(self.RULE, USER, self.YES, self.LATER, self.GO_ON, provider=profile)
        assert view[3] == {"role": "user", "content": "it is Monday"}


class TestForeignThinking:
    CLAUDE = says({"type": "thinking", "thinking": "hm", "signature": "sig"}, text("42"))
    GEMINI: ClassVar = {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "42"}]}
    OPENAI = (
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"role": "assistant", "content": "42"},
    )

    @pytest.mark.parametrize("provider", ["openai", "openai-responses", "gemini", "mistral"])
    def test_of_claude(self, provider):
        view = repair_conversation([USER, self.CLAUDE, USER], provider)
        assert "signature" not in str(view)
        assert "42" in str(view[1])

    @pytest.mark.parametrize("provider", ["anthropic", "openai", "mistral"])
    def test_of_gemini(self, provider):
        asking = {"role": "user", "parts": [{"text": "hi"}]}
        view = repair_conversation([asking, self.GEMINI, asking], provider)
        assert view[1]["parts"] == [{"text": "42"}]

    @pytest.mark.parametrize("provider", ["anthropic", "gemini", "mistral"])
    def test_of_gpt(self, provider):
        view = repair_conversation([USER, *self.OPENAI, USER], provider)
        assert "reasoning" not in str(view)

    def test_ones_own_stays(self):
        for provider, given in (
            ("anthropic", [USER, self.CLAUDE, USER]),
            ("core", [USER, self.CLAUDE, USER]),
            ("openai-responses", [USER, *self.OPENAI, USER]),
        ):
            assert repair_conversation(given, provider) == given


class TestMediaInResults:
    SHOWN: ClassVar = {"type": "image", "source": {"type": "url", "url": "https://x.y/z.png"}}

    def anthropic(self):
        result = {"type": "tool_result", "tool_use_id": "t1", "content": [self.SHOWN]}
        return [USER, says(asked("t1")), {"role": "user", "content": [result]}]

    def items(self):
        shown = {"type": "input_image", "image_url": "https://x.y/z.png", "detail": "auto"}
        return [
            USER,
            FUNCTION,
            {"type": "function_call_output", "call_id": "c1", "output": [shown]},
        ]

    def chat(self):
        shown = {"type": "image_url", "image_url": {"url": "https://x.y/z.png"}}
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        asking = {"role": "assistant", "content": None, "tool_calls": [call]}
        return [USER, asking, {"role": "tool", "tool_call_id": "c1", "content": [shown]}]

    @pytest.mark.parametrize("provider", ["core", "anthropic"])
    def test_stay_in_blocks_of_anthropic(self, provider):
        assert repair_conversation(self.anthropic(), provider) == self.anthropic()

    @pytest.mark.parametrize("provider", ["core", "openai", "openai-responses"])
    def test_stay_in_items_of_responses(self, provider):
        assert repair_conversation(self.items(), provider) == self.items()

    @pytest.mark.parametrize("provider", ["core", "openai", "portable", "mistral"])
    def test_go_where_chat_completions_has_no_room(self, provider):
        assert "[image removed]" in str(repair_conversation(self.chat(), provider)[2])


class TestThinkingOfAnotherModel:
    """A signature of Anthropic is good for the model that gave it."""

    OLD = TestForeignThinking.CLAUDE | {"model": "claude-opus-4-5-20251101"}

    def profile(self, name, model):
        return get_profile(name, model=model)

    @pytest.mark.parametrize("name", ["core", "anthropic", "portable"])
    def test_goes_where_the_message_names_the_other_model(self, name):
        profile = self.profile(name, "claude-sonnet-4-5")
        given = [USER, self.OLD, {"role": "user", "content": "and?"}]
        assert "P13" in {each.rule for each in check_conversation(given, profile)}
        view = repair_conversation(given, profile)
        assert view[1] == says(text("42"))
        assert check_conversation(view, profile) == []

    @pytest.mark.parametrize(
        "model", [None, "claude-opus-4-5", "us.anthropic.claude-opus-4-5-v1:0"]
    )
    def test_stays_where_it_is_ones_own(self, model):
        view = repair_conversation([USER, self.OLD, USER], self.profile("anthropic", model))
        assert view[1] == TestForeignThinking.CLAUDE

    def test_stays_where_nobody_says_who_signed(self):
        given = [USER, TestForeignThinking.CLAUDE, USER]
        assert repair_conversation(given, self.profile("anthropic", "claude-sonnet-4-5")) == given

    def test_langchain_names_it_in_the_metadata_of_the_response(self):
        messages = pytest.importorskip("langchain_core.messages")
        answer = messages.AIMessage(
            TestForeignThinking.CLAUDE["content"],
            response_metadata={"model_name": "claude-opus-4-5-20251101"},
        )
        given = [messages.HumanMessage("hi"), answer, messages.HumanMessage("and?")]
        for model, kept in (("claude-opus-4-5", True), ("claude-sonnet-4-5", False)):
            view = Curator(provider=self.profile("anthropic", model)).curate(given).messages
            assert ("signature" in str(view[1].content)) is kept
