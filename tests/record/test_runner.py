from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from history_curator import Curator, HistoryCurated, ToolResultTruncator, check_conversation
from history_curator.errors import ConfigurationError, ConversionError
from history_curator.record import ConversationRunner, HistorySession, get_evaluation_history
from tests.support.messages import Message, assistant, call, system, texts, user


class Script:
    """A model that says what it was told to, and remembers what it was sent."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent: list[list[Message]] = []

    def __call__(self, messages: list[Message], tools: Any) -> Any:
        self.sent.append(list(messages))
        return self.answers.pop(0)


def raw_call(arguments: str) -> Message:
    asked = call("c1", name="fail")
    asked["tool_calls"][0]["function"]["arguments"] = arguments
    return asked


class TestRunning:
    def test_tools_run_until_the_model_answers(self) -> None:
        model = Script(call("c1", "c2", name="add", a=1, b=2), assistant("3"))
        runner = ConversationRunner(model, {"add": lambda a, b: a + b})
        outcome = runner.run("1 + 2?")
        assert (outcome.content, outcome.steps, outcome.stopped) == ("3", 2, "answer")
        assert texts(outcome.messages) == ["1 + 2?", None, "3", "3", "3"]
        assert [m.get("tool_call_id") for m in model.sent[1]] == [None, None, "c1", "c2"]

    def test_everything_is_recorded_in_order_under_one_evaluation(self) -> None:
        model = Script(call("c1", name="look"), assistant("ok"), assistant("bye"))
        runner = ConversationRunner(model, {"look": lambda: {"x": 1}})
        first_run = runner.evaluation_id
        first = runner.run([system("s"), user("go")])
        second = runner.run("thanks")
        assert texts(runner.session.entries) == ["s", "go", None, '{"x": 1}', "ok", "thanks", "bye"]
        assert get_evaluation_history(runner.session, first_run) == first.entries
        assert [entry.sequence for entry in first.entries] == list(range(5))
        assert second.entries[0].evaluation_id == runner.evaluation_id != first_run
        assert len(model.sent[-1]) == 6

    def test_the_step_limit_ends_a_run(self) -> None:
        model = Script(*(call(f"c{n}", name="look") for n in range(9)))
        outcome = ConversationRunner(model, {"look": str}, max_steps=3).run("go")
        assert (outcome.content, outcome.steps, outcome.stopped) == (None, 3, "max_steps")
        with pytest.raises(ConfigurationError, match="max_steps"):
            ConversationRunner(model, max_steps=0)

    def test_a_manager_decides_what_is_sent_not_what_is_recorded(self) -> None:
        model = Script(call("c1", name="dump"), assistant("done"))
        seen = list[HistoryCurated]()
        runner = ConversationRunner(
            model, {"dump": lambda: "x" * 9_000}, history_manager=ToolResultTruncator(100)
        )
        runner.session.bus.subscribe(HistoryCurated, seen.append)
        runner.run("go")
        assert len(model.sent[1][2]["content"]) == 100
        assert runner.session.entries[2].content == "x" * 9_000
        assert [event.curated_count for event in seen] == [1, 3]


class TestFailures:
    @pytest.mark.parametrize(
        ("asked", "expected"),
        [
            (call("c1", name="nope"), "unknown tool 'nope'"),
            (call("c1", name="fail"), "ZeroDivisionError"),
            (call("c1", name="fail", unexpected=1), "TypeError"),
            (raw_call("{not json"), "Error"),
            (raw_call("[1, 2]"), "TypeError"),
        ],
    )
    def test_become_results_the_model_can_read(self, asked: Message, expected: str) -> None:
        model = Script(asked, assistant("sorry"))
        runner = ConversationRunner(model, {"fail": lambda: 1 / 0})
        assert runner.run("go").content == "sorry"
        failed = runner.session.entries[2]
        assert expected in (failed.content or "")
        assert failed.status == "error"

    def test_a_response_without_a_message_is_refused(self) -> None:
        with pytest.raises(ConversionError, match="assistant message"):
            ConversationRunner(Script({"role": "user", "content": "?"})).run("go")


def test_an_answer_to_anthropic_is_in_blocks() -> None:
    use = {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1, "b": 2}}
    model = Script({"role": "assistant", "content": [use]}, assistant("3"))
    runner = ConversationRunner(model, {"add": lambda a, b: a + b})
    assert runner.run("1 + 2?").content == "3"
    block = model.sent[1][2]["content"][0]
    assert (block["type"], block["tool_use_id"], block["content"]) == ("tool_result", "t1", "3")


class TestAsync:
    async def test_awaits_the_model_and_the_tools(self) -> None:
        script = Script(call("c1", "c2", name="wait"), assistant("done"))
        running = 0
        most = 0

        async def model(messages: list[Message], tools: Any) -> Any:
            await asyncio.sleep(0)
            return script(messages, tools)

        async def wait() -> str:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            return json.dumps("ok")

        outcome = await ConversationRunner(model, {"wait": wait}).arun("go")
        assert outcome.content == "done"
        assert most == 2

    def test_an_async_model_needs_arun(self) -> None:
        async def model(messages: list[Message], tools: Any) -> Message:
            return assistant()

        with pytest.raises(ConfigurationError, match="arun"):
            ConversationRunner(model).run("go")


def test_a_restored_session_goes_on_in_its_format() -> None:
    """What was said to Anthropic goes back to Anthropic as it was."""
    use = {"type": "tool_use", "id": "t1", "name": "find", "input": {"q": 1}}
    said = [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "looking"}, use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "found"}]},
    ]
    session, model = HistorySession(), Script(said[-1], said[-1])
    session.record(said)
    for manager in (None, Curator(provider="anthropic", max_tokens=2_000)):
        restored = HistorySession.from_json(session.to_json())
        ConversationRunner(model, session=restored, history_manager=manager).run("again?")
        assert model.sent[-1] == [*said, user("again?")]
        assert check_conversation(model.sent[-1], provider="anthropic") == []
