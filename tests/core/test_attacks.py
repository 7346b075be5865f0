"""Inputs made to break a guarantee. Each one did, once."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from typing import Any

import pytest

from history_curator import (
    ConfigurationError,
    ConversationEntry,
    ConversionError,
    Curator,
    HistoryCuratorError,
    MessageRole,
    check_conversation,
    count_tokens,
)
from history_curator.record.outbox import WriteBehind
from history_curator.run_steps import run_async, run_sync
from tests.support.messages import assistant, call, result, system, user

ALL = ("core", "portable", "openai", "anthropic", "gemini", "bedrock", "mistral")


class Doing:
    """A manager from a function."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def curate(self, entries: Any, *, context: Any) -> Any:
        return self.function(entries)


def texts(messages: list[Any]) -> list[Any]:
    return [message["content"] for message in messages]


class TestConversationsThatShareMessages:
    def test_a_slice_of_a_view_can_be_curated(self) -> None:
        messages = [
            assistant(f"a{n}") if n % 2 else user(f"u{n}" + " word" * 20) for n in range(41)
        ]
        view = Curator(max_tokens=300).curate(messages)
        assert Curator(max_tokens=300).curate(list(view.entries)[-4:]).messages


class TestStyles:
    @pytest.mark.parametrize("provider", ALL)
    def test_a_pending_block_call_stays_a_block(self, provider: str) -> None:
        block = {"type": "tool_use", "id": "abcdefghi", "name": "f", "input": {"x": 1}}
        for lead in ([], [{"type": "text", "text": ""}]):
            messages = [user("hi"), {"role": "assistant", "content": [*lead, block]}]
            curation = Curator(provider=provider).curate(messages)
            assert not check_conversation(curation.messages, provider=provider)
            assert curation.tokens == count_tokens(curation.messages)
            assert "tool_use" in json.dumps(curation.messages)

    def test_results_follow_the_style_of_their_call(self) -> None:
        asked = {
            **call("abcdefghi"),
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "ok"}],
        }
        messages = [user("hi"), asked, result("abcdefghi", "word " * 3_000)]
        last = Curator(max_tokens=1_000).curate(messages).messages[2]
        assert (last["role"], last["tool_call_id"]) == ("tool", "abcdefghi")

    def test_system_messages_stay_where_a_provider_takes_them(self) -> None:
        messages = [system("s"), user("a"), assistant("b"), system("s2"), user("c")]
        view = Curator(provider="openai", max_tokens=1_000).curate(messages).messages
        assert texts(view) == ["s", "a", "b", "s2", "c"]


class TestManagersThatMisbehave:
    MESSAGES = (system("sys"), user("one"), assistant("two"), user("three"))

    def test_copying_by_other_means(self) -> None:
        long = [user("word " * 3_000), assistant("ok"), user("?")]

        def shorten(entries: Any) -> Any:
            return [dataclasses.replace(entries[0], content="short"), *entries[1:]]

        curation = Curator(Doing(shorten), max_tokens=200).curate(long)
        assert curation.messages[0]["content"] == "short"
        assert count_tokens(curation.messages) == curation.tokens

    def test_returning_nothing(self) -> None:
        from history_curator import ComposedManager

        for manager in (Doing(lambda _: None), ComposedManager((Doing(lambda _: None),))):
            with pytest.raises(ConfigurationError, match="list of entries"):
                Curator(manager).curate(list(self.MESSAGES))

    def test_a_pin_set_by_one_survives_the_next(self) -> None:
        def pin(entries: Any) -> Any:
            return [entries[0].evolve(pinned=True), *entries[1:]]

        messages = [
            user("rule: be kind"),
            *(each for n in range(9) for each in (assistant(f"a{n}"), user(f"u{n}"))),
        ]
        view = Curator(Doing(pin), Doing(lambda entries: entries[-2:])).curate(messages).messages
        assert view[0]["content"] == "rule: be kind"


class TestBudgets:
    def test_bridges_do_not_lead_to_a_false_refusal(self) -> None:
        messages: list[Any] = []
        for step in range(60):
            messages += [user("q"), call(f"c{step}"), result(f"c{step}", "r")]
        messages.append(user("word " * 500))
        for budget in range(560, 2_400, 20):
            assert Curator(max_tokens=budget, provider="portable").curate(messages).tokens <= budget

    def test_thoughts_in_chunks_count(self) -> None:
        thought = {"type": "thinking", "thinking": [{"type": "text", "text": "word " * 5_000}]}
        messages = [
            user("q"),
            {"role": "assistant", "content": [thought, {"type": "text", "text": "a"}]},
        ]
        assert count_tokens(messages) > 5_000

    def test_shadow_mode_never_stands_in_the_way(self) -> None:
        messages = [user("word " * 500)]
        curation = Curator(max_tokens=100, mode="shadow").curate(messages)
        assert curation.messages == messages
        assert curation.report.warnings

    def test_the_last_n_include_a_late_result(self) -> None:
        messages = [user("q"), call("c1"), user("wait"), *(user(f"u{n}") for n in range(3))]
        messages.append(result("c1", "late"))
        view = Curator(max_tokens=120, preserve_last_n=2).curate(messages).messages
        assert "late" in texts(view)


class TestReports:
    @pytest.mark.parametrize("provider", ALL)
    def test_text_and_calls_in_one_message(self, provider: str) -> None:
        messages = [
            user("hi"),
            {**call("abcdefghi"), "content": "let me look"},
            result("abcdefghi", "r"),
        ]
        curation = Curator(provider=provider).curate(messages)
        positions = {each.position for each in curation.report.decisions}
        assert positions == set(range(len(curation.messages)))

    def test_one_object_recorded_twice(self) -> None:
        twice = ConversationEntry(MessageRole.USER, "ok")
        messages = [twice, ConversationEntry(MessageRole.ASSISTANT, "yes"), twice]
        report = Curator().curate(messages).report
        assert [each.position for each in report.decisions] == [0, 1, 2]


class TestFieldsThatSurvive:
    def test_what_is_kept_beside_a_call(self) -> None:
        asked = call("c0")
        asked["tool_calls"][0]["function"]["arguments"] = json.dumps({"x": "y" * 2_000})
        asked["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "SIG"}}
        messages = [user("q"), asked, result("c0", "r " * 800)]
        for step in range(1, 30):
            messages += [call(f"c{step}"), result(f"c{step}", "r " * 300)]
        view = Curator(max_tokens=2_500).curate(messages).messages
        edited = next((each for each in view if "SIG" in json.dumps(each)), None)
        if edited is not None:
            assert edited["tool_calls"][0]["extra_content"]

    def test_cache_marks_of_blocks(self) -> None:
        mark = {"cache_control": {"type": "ephemeral"}}
        use = {"type": "tool_use", "name": "f", "input": {}, **mark}
        short = {"type": "tool_result", "tool_use_id": "a", "content": "short", **mark}
        long = {"type": "tool_result", "tool_use_id": "b", "content": "word " * 3_000}
        messages = [
            user("q"),
            {"role": "assistant", "content": [{**use, "id": "a"}, {**use, "id": "b"}]},
            {"role": "user", "id": "m1", "content": [short, long]},
        ]
        view = Curator(max_tokens=800).curate(messages).messages
        assert "id" not in view[2]  # nothing that Anthropic takes on a message
        assert view[2]["content"][0] == messages[2]["content"][0]

    def test_some_of_the_thoughts(self) -> None:
        messages = [
            user("q"),
            {
                **call("c1"),
                "thinking_blocks": [
                    {"type": "thinking", "thinking": "signed", "signature": "S"},
                    {"type": "thinking", "thinking": "unsigned"},
                ],
            },
            result("c1", "r"),
        ]
        curation = Curator(provider="anthropic").curate(messages)
        assert not check_conversation(curation.messages, provider="anthropic")
        assert count_tokens(curation.messages) == curation.tokens

    def test_thoughts_of_a_merged_message(self) -> None:
        messages = [
            user("q"),
            {**assistant("let me"), "reasoning_content": "deep thought"},
            call("c1"),
            result("c1", "r"),
        ]
        curation = Curator(provider="portable", reasoning="keep").curate(messages)
        assert count_tokens(curation.messages) == curation.tokens


@pytest.mark.parametrize(
    ("odd", "named"),
    [
        ({"role": "user", "content": [{"type": ["text"], "text": "hi"}]}, r"\.content\[0\]"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"arguments": {(1, 2): 3}}}]},
            r"\.tool_calls\[0\]",
        ),
    ],
)
def test_values_that_json_cannot_carry_are_refused_by_name(odd: dict[str, Any], named: str) -> None:
    with pytest.raises(ConversionError, match=r"messages\[0\]" + named):
        Curator().curate([odd])


def test_a_buffer_used_both_ways_on_one_loop_says_so() -> None:
    rows: list[str] = []

    async def append(items: Any) -> None:
        await asyncio.sleep(0.05)
        rows.extend(items)

    buffer = WriteBehind(lambda: list(rows), rows.extend, aappend=append)

    async def main() -> None:
        task = asyncio.create_task(run_async(buffer.add(["a"])))
        await asyncio.sleep(0.01)
        with pytest.raises(HistoryCuratorError, match="await"):
            run_sync(buffer.read())
        await task

    asyncio.run(main())
    assert rows == ["a"]


@pytest.mark.parametrize("method", ["get", "items", "keys", "values", "__getitem__", "__iter__"])
@pytest.mark.parametrize("place", ["message", "block", "call"])
def test_an_exception_of_a_dict_subclass_is_an_error_of_ours(method: str, place: str) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("boom")

    odd: Any = type("Odd", (dict,), {method: fail})
    messages = {
        "message": [odd(role="user", content="hi")],
        "block": [{"role": "user", "content": [odd(type="text", text="hi")]}],
        "call": [user("hi"), {**call("c1"), "tool_calls": [odd(call("c1")["tool_calls"][0])]}],
    }[place]
    for use in (Curator(max_tokens=1_000).curate, count_tokens, check_conversation):
        with contextlib.suppress(HistoryCuratorError):
            use(messages)
