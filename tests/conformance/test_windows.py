"""Windows that cut where it hurts, W1 to W8: whatever a manager cuts, the seal mends."""

from __future__ import annotations

import pytest

from history_curator.curator import Curator
from history_curator.managers import SlidingWindowManager
from history_curator.rules import PROVIDERS, check_conversation
from history_curator.testing import parse, show
from history_curator.tokens import count_tokens
from tests.support.messages import assistant, call, exchange, result, system, user

LONG = "word " * 200
FOREIGN = {"openai", "openai-responses", "gemini", "mistral"}
"""Whose models did not sign the thinking of Claude."""


class KeepLast:
    """A naive window: the last n entries, wherever that cuts."""

    def __init__(self, count):
        self.count = count

    def curate(self, entries, *, context):
        return entries[-self.count :]


def view_of(messages, provider, *managers, **options):
    view = Curator(*managers, provider=provider, **options).curate(messages).messages
    assert check_conversation(view, provider) == []
    return view


def texts(view):
    return [each["content"] for each in view]


@pytest.mark.parametrize("provider", PROVIDERS)
class TestWindows:
    def test_w1_a_long_tool_loop_keeps_its_question(self, provider):
        loop = [
            each for number in range(30) for each in exchange(f"c{number}", text=f"{number} {LONG}")
        ]
        given = [system(), user("the question"), *loop]
        budget = count_tokens(given) // 5
        view = view_of(given, provider, max_tokens=budget)
        assert any("the question" in (text or "") for text in texts(view))
        assert view[-1]["role"] == "tool"
        assert count_tokens(view) <= budget
        calls = sum(len(each.get("tool_calls", ())) for each in view)
        assert calls == sum(each["role"] == "tool" for each in view)

    def test_w2_keeping_one_reaches_back_to_the_call_and_its_user(self, provider):
        given = [user("the question"), call("c1"), result("c1", "the answer")]
        view = view_of(given, provider, KeepLast(1))
        assert "the question" in texts(view)
        assert "the answer" in texts(view) or view[-1]["role"] == "user"

    def test_w3_a_result_whose_call_is_gone_goes_too(self, provider):
        given = [system(), user("one"), *exchange("c1", text="lost"), assistant(), user("two")]
        view = view_of(given, provider, KeepLast(3))
        assert "two" in texts(view)
        asked = {item["id"] for each in view for item in each.get("tool_calls", ())}
        assert {each["tool_call_id"] for each in view if each["role"] == "tool"} <= asked

    @pytest.mark.parametrize("kept", range(1, 13))
    def test_w4_parallel_results_stay_together(self, provider, kept):
        ids = [f"c{number}" for number in range(10)]
        given = [user("all of it"), *exchange(*ids)]
        view = view_of(given, provider, KeepLast(kept))
        assert sum(each["role"] == "tool" for each in view) in (0, 10)
        assert "all of it" in texts(view)

    def test_w5_a_run_of_results_for_two_calls_one_gone(self, provider):
        given = parse("U A(c1) A(c2) T(c1) T(c2) U")
        view = view_of(given, provider, KeepLast(4))
        assert texts(view)[-1] == given[-1]["content"]

    @pytest.mark.parametrize("kept", [1, 2, 5])
    def test_w6_the_system_message_is_never_evicted(self, provider, kept):
        given = [system("the rules"), user("a"), assistant(), user("b"), assistant(), user("c")]
        view = view_of(given, provider, KeepLast(kept))
        assert view[0] == given[0]

    def test_w6_not_by_the_budget_either(self, provider):
        talk = [
            each for number in range(40) for each in (user(f"{number} {LONG}"), assistant(LONG))
        ]
        given = [system("the rules"), *talk, user("now")]
        view = view_of(given, provider, max_tokens=2_000, retrieve=False)
        assert view[0] is given[0]
        assert view[-1] is given[-1]

    def test_w7_trailing_results_are_never_stripped(self, provider):
        given = parse("S U A U A(c1,c2) T(c1) T(c2)")
        view = view_of(given, provider, SlidingWindowManager(4))
        assert texts(view)[-2:] == texts(given)[-2:]

    def test_w8_thinking_is_never_cut_from_its_tool_loop(self, provider):
        thought = {"type": "thinking", "thinking": "hm", "signature": "s"}

        def step(number):
            use = {"type": "tool_use", "id": f"callnum{number:02}", "name": "look", "input": {}}
            answer = {"type": "tool_result", "tool_use_id": use["id"], "content": LONG}
            return [
                {"role": "assistant", "content": [thought, use]},
                {"role": "user", "content": [answer]},
            ]

        given = [user("go"), *(each for number in range(12) for each in step(number))]
        view = view_of(given, provider, max_tokens=1_500)
        for message in view:
            blocks = message["content"] if isinstance(message["content"], list) else []
            kinds = [block["type"] for block in blocks]
            if "tool_use" in kinds and provider not in FOREIGN:
                assert kinds == ["thinking", "tool_use"]
        assert show(view).endswith(")")
