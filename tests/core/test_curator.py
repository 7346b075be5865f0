"""What a caller of `Curator` relies on, case by case."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from typing import Any

import pytest

from history_curator import (
    BudgetUnsatisfiableError,
    ConfigurationError,
    ConversionError,
    Curator,
    EventBus,
    HistoryCurated,
    SlidingWindowManager,
    ToolResultTruncator,
    count_tokens,
)
from tests.support.messages import assistant, call, result, system, user


def loop(steps: int, words: int = 200) -> list[dict[str, Any]]:
    """A system message, one question, and a long run of tool calls."""
    messages = [system("be brief"), user("find it")]
    for step in range(steps):
        messages += [call(f"c{step}"), result(f"c{step}", f"{step} " * words)]
    return messages


class TestBudget:
    @pytest.mark.parametrize("budget", [120, 500, 2_000, 8_000])
    def test_the_count_is_exact_with_tools_and_reserve(self, budget: int) -> None:
        tools = [{"type": "function", "function": {"name": "look", "description": "looks"}}]
        curation = Curator(max_tokens=budget).curate(loop(60), tools=tools, reserve=20)
        assert curation.tokens == count_tokens(curation.messages, tools=tools)
        assert curation.tokens + 20 <= budget

    @pytest.mark.parametrize(
        ("options", "fixes"),
        [
            ({}, ""),
            ({"tools": [{"name": "f", "description": "find"}]}, ", fewer tool schemas"),
            ({"reserve": 9}, ", a lower reserve"),
        ],
    )
    def test_a_refusal_names_what_does_not_fit_and_what_would(
        self, options: dict[str, Any], fixes: str
    ) -> None:
        messages = [system("s"), user("word " * 500)]
        with pytest.raises(BudgetUnsatisfiableError) as caught:
            Curator(max_tokens=100).curate(messages, **options)
        assert caught.value.max_tokens == 100
        needed = caught.value.needed
        assert f"Fix: max_tokens of at least {needed}{fixes}, or shorten" in str(caught.value)
        Curator(max_tokens=needed).curate(messages, **options)
        assert caught.value.needed > 500
        assert [index for index, _, _ in caught.value.irreducible] == [0, 1]
        assert "messages[1]" in str(caught.value)
        assert pickle.loads(pickle.dumps(caught.value)).needed == caught.value.needed

    def test_user_text_is_never_cut(self) -> None:
        question = "why " * 300
        messages = [*loop(40), assistant("done"), user(question)]
        view = Curator(max_tokens=700).curate(messages).messages
        assert view[-1] is messages[-1]

    def test_a_giant_newest_result_is_capped_head_and_tail(self) -> None:
        messages = [user("read"), call("c1"), result("c1", "HEAD " + "x y " * 50_000 + " TAIL")]
        curation = Curator(max_tokens=2_000).curate(messages)
        text = curation.messages[-1]["content"]
        assert text.startswith("HEAD")
        assert text.endswith("TAIL")
        assert curation.report.decisions[-1].action == "truncated"

    def test_one_budget_for_one_call(self) -> None:
        curator = Curator(max_tokens=50_000)
        assert curator.curate(loop(40), max_tokens=900).tokens <= 900


class TestPrefix:
    def test_compact_to_of_one_cuts_just_enough(self) -> None:
        messages = loop(120)
        sliding = Curator(max_tokens=4_000, compact_to=1.0).curate(messages)
        stepping = Curator(max_tokens=4_000, compact_to=0.3).curate(messages)
        assert sliding.report.curated_count >= stepping.report.curated_count


class TestInput:
    @pytest.mark.parametrize(
        ("messages", "field"),
        [
            ("hello", None),
            ({"role": "user", "content": "x"}, None),
            ([1], None),
            ([user("x"), "y"], None),
            ([{"content": "x"}], "role"),
            ([{"role": "wizard", "content": "x"}], "role"),
            ([{"role": None, "content": "x"}], "role"),
            ([{"role": ["user"], "content": "x"}], "role"),
            ([user("x", name=5)], "name"),
            ([user("x", name=["a"])], "name"),
            ([{"role": "user"}], "content"),
            ([{"role": "user", "content": 5}], "content"),
            ([{"role": "tool", "content": {"a": 1}, "tool_call_id": "c"}], "content"),
            ([{"role": "user", "content": [3]}], "content[0]"),
            ([{"role": "assistant", "content": "", "tool_calls": "x"}], "tool_calls"),
            ([{"role": "assistant", "content": "", "tool_calls": [1]}], "tool_calls[0]"),
        ],
    )
    def test_what_cannot_be_read_is_named(self, messages: Any, field: str | None) -> None:
        with pytest.raises(ConversionError) as caught:
            Curator().curate(messages)
        assert caught.value.field == field
        assert caught.value.fix

    @pytest.mark.parametrize(
        "broken",
        [
            {"type": "function", "function": {"name": "f", "arguments": "{"}, "id": "c1"},
            {"type": "function", "function": {"name": "f", "arguments": "[]"}, "id": "c1"},
            {"type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"type": "function", "function": {"arguments": "{}"}, "id": "c1"},
        ],
    )
    def test_a_malformed_call_is_mended_and_reported(self, broken: dict[str, Any]) -> None:
        messages = [user("q"), {"role": "assistant", "content": None, "tool_calls": [broken]}]
        before = copy.deepcopy(messages)
        report = Curator().curate(messages).report
        assert messages == before
        assert any(decision.action != "kept" for decision in report.decisions)

    @pytest.mark.parametrize(
        "options", [{"max_tokens": 0}, {"compact_to": 0.0}, {"mode": "guess"}, {"max_tokens": True}]
    )
    def test_settings_that_cannot_work_are_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError):
            Curator(**options)
        with pytest.raises(ConfigurationError):
            Curator(object())  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"key": ["thread"]}, "key is .* hashable"),
            ({"idle": "soon"}, "idle is .* seconds"),
            ({"idle": -1}, "idle is .* seconds"),
            ({"reserve": -100}, "reserve is -100"),
            ({"reserve": None}, "reserve is None"),
            ({"max_tokens": "100"}, "max_tokens is '100'"),
        ],
    )
    def test_arguments_that_cannot_work_are_refused(self, options: Any, said: str) -> None:
        curator = Curator(max_tokens=1_000)
        with pytest.raises(ConfigurationError, match=said):
            curator.curate([user("q")], **options)
        with pytest.raises(ConfigurationError, match=said):
            asyncio.run(curator.acurate([user("q")], **options))
        with pytest.raises(ConfigurationError, match="did you mean 'reserve'"):
            asyncio.run(curator.acurate([user("q")], reserved=3))  # type: ignore[call-arg]


class TestReport:
    def test_one_decision_per_entry_and_per_invention(self) -> None:
        messages = [user("q"), call("a", "b"), result("b", "rb"), user("late"), result("a", "ra")]
        report = Curator(provider="portable").curate(messages).report
        recorded = [each for each in report.decisions if each.index is not None]
        assert [each.index for each in recorded] == list(range(len(messages)))
        assert report.actions["inserted"] >= 1
        assert report.actions["moved"] == 1

    def test_dropped_entries_name_who_dropped_them(self) -> None:
        report = Curator(SlidingWindowManager(4), max_tokens=2_000).curate(loop(20)).report
        managers = {each.manager for each in report.decisions if each.action == "dropped"}
        assert managers == {"SlidingWindowManager"}
        assert "window of the last 4" in report.explain()


class TestWays:
    def test_shadow_reports_but_sends_everything(self) -> None:
        messages = loop(40)
        curation = Curator(max_tokens=1_000, mode="shadow").curate(messages)
        assert curation.messages == messages
        assert curation.report.curated_count < len(messages)

    def test_async_gives_the_same(self) -> None:
        messages = loop(40)
        curator = Curator(ToolResultTruncator(max_length=100), max_tokens=1_500)
        assert asyncio.run(curator.acurate(messages)).messages == curator.curate(messages).messages

    def test_an_async_only_manager_says_so(self) -> None:
        class Slow:
            async def acurate(self, entries: Any, *, context: Any) -> Any:
                return entries[-2:]

        curator = Curator(Slow())  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="acurate"):
            curator.curate(loop(3))
        assert len(asyncio.run(curator.acurate(loop(3))).messages) < 8

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (ToolResultTruncator, "the class ToolResultTrunc"),
            (16_000, "an int .*Fix: for a budget write max_tokens=16000"),
            ([SlidingWindowManager(3)], "a list .*Fix: pass the managers without the brackets"),
        ],
    )
    def test_what_is_no_manager_is_named_with_its_fix(self, given: Any, said: str) -> None:
        with pytest.raises(ConfigurationError, match=rf"managers\[1\] is {said}"):
            Curator(SlidingWindowManager(4), given)

    def test_pins_and_the_last_n_survive_any_manager(self) -> None:
        messages = loop(30)
        messages[4] = {**messages[4], "pinned": True}
        curation = Curator(SlidingWindowManager(2), max_tokens=3_000).curate(messages)
        kept = {each.index for each in curation.report.decisions if each.position is not None}
        assert {0, 1, 4, 5} <= kept
        last = Curator(SlidingWindowManager(0), preserve_last_n=6).curate(messages)
        kept = {each.index for each in last.report.decisions if each.position is not None}
        assert set(range(56, 62)) <= kept

    def test_threads_share_a_curator(self) -> None:
        curator = Curator(max_tokens=1_500)
        messages = loop(60)
        expected = {
            end: Curator(max_tokens=1_500).curate(messages[:end]).messages
            for end in range(2, 122, 6)
        }
        wrong: list[int] = []

        def work(offset: int) -> None:
            wrong.extend(
                end
                for end in list(expected)[offset:] + list(expected)[:offset]
                if curator.curate(messages[:end]).messages != expected[end]
            )

        threads = [threading.Thread(target=work, args=(offset,)) for offset in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_events_tell_what_happened(self) -> None:
        bus = EventBus()
        heard: list[HistoryCurated] = []
        bus.subscribe(HistoryCurated, heard.append)
        curation = Curator(max_tokens=1_000, bus=bus, name="support").curate(loop(40))
        assert [event.prompt_name for event in heard] == ["support"]
        assert heard[0].original_count == 82
        assert heard[0].curated_count == len(curation.messages)
