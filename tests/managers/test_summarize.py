"""Summaries: only on overflow, of everything, once per cell, and never in the way."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from history_curator import ConfigurationError, Curator, SummarizingManager
from history_curator.managers.summarize import DEFAULT_PROMPT, resolve_summarizer, split_text
from history_curator.tokens import get_counter
from tests.support.guarantees import curate_and_check
from tests.support.messages import Message, assistant, call, result, system, user


def talk(turns: int) -> list[Message]:
    messages = [system("be brief"), user("the goal is a boat")]
    for turn in range(turns):
        messages += [
            assistant(f"answer{turn} " + "because " * 20),
            user(f"fact{turn} is {turn * 7} " + "indeed " * 20),
        ]
    return messages


class Scripted:
    """A summariser that keeps what it was asked."""

    def __init__(self, answer: str = "Goal: a boat.") -> None:
        self.prompts: list[str] = []
        self.answer = answer

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return f"{self.answer} ({len(self.prompts)})"


async def awaited(prompt: str) -> str:
    await asyncio.sleep(0)
    return "awaited"


def summaries(messages: list[Message]) -> list[str]:
    return [m["content"] for m in messages if str(m["content"]).startswith("[Summary")]


class TestWhen:
    def test_no_call_while_the_history_fits(self) -> None:
        model = Scripted()
        messages = talk(5)
        view = Curator(SummarizingManager(model), max_tokens=50_000).curate(messages).messages
        assert model.prompts == []
        assert all(mine is given for mine, given in zip(view, messages, strict=True))

    def test_on_overflow_one_marked_message_stands_for_what_was_cut(self) -> None:
        view = Curator(SummarizingManager(Scripted()), max_tokens=1_000).curate(talk(40)).messages
        (summary,) = summaries(view)
        assert "Goal: a boat." in summary
        assert view[0]["role"] == "system"

    def test_every_word_that_was_cut_reaches_the_summariser(self) -> None:
        model = Scripted()
        manager = SummarizingManager(model, chunk_tokens=200)
        view = Curator(manager, max_tokens=1_000).curate(talk(40)).messages
        text, asked = "\n".join(str(m["content"]) for m in view), "\n".join(model.prompts)
        for turn in range(40):
            assert f"fact{turn} is {turn * 7} " in text + asked
            assert f"answer{turn} " in text + asked

    def test_a_giant_result_is_handed_over_in_chunks(self) -> None:
        model = Scripted()
        lines = [f"row {n} of the table" for n in range(3_000)]
        messages = [user("read it"), call("c1"), result("c1", "\n".join(lines)), *talk(20)[2:]]
        manager = SummarizingManager(model, chunk_tokens=1_000)
        Curator(manager, max_tokens=1_500).curate(messages)
        counter = get_counter("o200k_base")
        frame = counter.count(DEFAULT_PROMPT) + 500
        assert len(model.prompts) > 10
        assert all(counter.count(prompt) <= 1_000 + frame for prompt in model.prompts)
        seen = set(re.findall(r"row \d+ of the table", "\n".join(model.prompts)))
        assert len(seen) >= 2_990  # a line may be cut in two where a chunk ends

    def test_the_earlier_summary_is_folded_in(self) -> None:
        model = Scripted()
        Curator(SummarizingManager(model, chunk_tokens=300), max_tokens=1_000).curate(talk(60))
        assert len(model.prompts) > 1
        assert "(none)" in model.prompts[0]
        assert "Goal: a boat. (1)" in model.prompts[1]


class TestOnce:
    def test_the_same_history_is_summarised_once(self) -> None:
        model = Scripted()
        curator = Curator(SummarizingManager(model), max_tokens=1_000)
        first = curator.curate(talk(40)).messages
        asked = len(model.prompts)
        assert curator.curate(talk(40)).messages == first
        assert len(model.prompts) == asked

    def test_a_growing_history_asks_far_less_often_than_it_grows(self) -> None:
        model = Scripted()
        curator = Curator(SummarizingManager(model), max_tokens=2_000)
        calls = 0
        for turns in range(1, 120):
            curator.curate(talk(turns))
            calls += 1
        assert 0 < len(model.prompts) < calls / 2

    def test_between_jumps_the_summary_and_all_after_it_repeat(self) -> None:
        curator = Curator(SummarizingManager(lambda prompt: "same"), max_tokens=2_000)
        kept = 0
        before: list[Message] = []
        for turns in range(40, 80):
            view = curator.curate(talk(turns)).messages
            kept += view[: len(before)] == before
            before = view
        assert kept > 25

    def test_a_given_cache_survives_the_manager(self) -> None:
        cache: dict[str, str] = {}
        first, second = Scripted(), Scripted()
        for model in (first, second):
            manager = SummarizingManager(model, cache=cache)
            Curator(manager, max_tokens=1_000).curate(talk(40))
        assert first.prompts
        assert not second.prompts


class TestFailure:
    @pytest.mark.parametrize("answer", [None, "", "   ", 42])
    def test_no_usable_answer_falls_back_and_says_so(self, answer: Any) -> None:
        curator = Curator(SummarizingManager(lambda prompt: answer), max_tokens=1_000)
        curation = curator.curate(talk(40))
        assert summaries(curation.messages) == []
        assert curation.tokens <= 1_000
        assert any("summary failed" in warning for warning in curation.report.warnings)

    def test_a_raising_model_does_not_stop_the_conversation(self) -> None:
        def broken(prompt: str) -> str:
            raise TimeoutError("no answer")

        plain = Curator(max_tokens=1_000).curate(talk(40)).messages
        curation = Curator(SummarizingManager(broken), max_tokens=1_000).curate(talk(40))
        assert curation.messages == plain
        assert any("failed (TimeoutError)" in warning for warning in curation.report.warnings)

    def test_an_exhausted_script_counts_as_a_failure(self) -> None:
        answers: Iterator[str] = iter(())
        curator = Curator(SummarizingManager(lambda prompt: next(answers)), max_tokens=1_000)
        assert curator.curate(talk(40)).report.warnings

    def test_it_is_tried_again_on_the_next_call(self) -> None:
        answers: Iterator[Any] = iter([None])

        def flaky(prompt: str) -> Any:
            return next(answers, "Goal: a boat.")

        curator = Curator(SummarizingManager(flaky), max_tokens=1_000)
        assert summaries(curator.curate(talk(40)).messages) == []
        assert len(summaries(curator.curate(talk(40)).messages)) == 1

    def test_an_answer_that_is_too_long_is_cut(self) -> None:
        manager = SummarizingManager(lambda prompt: "long " * 5_000, max_tokens=100)
        curation = Curator(manager, max_tokens=1_000).curate(talk(40))
        (summary,) = summaries(curation.messages)
        assert get_counter("o200k_base").count(summary) < 140


class TestModels:
    def test_a_langchain_model_is_invoked(self) -> None:
        models = pytest.importorskip("langchain_core.language_models")
        messages = pytest.importorskip("langchain_core.messages")
        answers = iter([messages.AIMessage("from langchain")] * 50)
        model = models.GenericFakeChatModel(messages=answers)
        view = Curator(SummarizingManager(model), max_tokens=1_000).curate(talk(40)).messages
        assert "from langchain" in summaries(view)[0]

    async def test_a_langchain_model_is_awaited(self) -> None:
        models = pytest.importorskip("langchain_core.language_models")
        messages = pytest.importorskip("langchain_core.messages")
        answers = iter([messages.AIMessage([{"type": "text", "text": "in blocks"}])] * 50)
        model = models.GenericFakeChatModel(messages=answers)
        curation = await Curator(SummarizingManager(model), max_tokens=1_000).acurate(talk(40))
        assert "in blocks" in summaries(curation.messages)[0]

    @pytest.mark.parametrize("awaited", [True, False])
    async def test_a_llamaindex_model_completes(self, awaited: bool) -> None:
        llms = pytest.importorskip("llama_index.core.llms")
        curator = Curator(SummarizingManager(llms.MockLLM(max_tokens=20)), max_tokens=1_000)
        view = (await curator.acurate(talk(40))) if awaited else curator.curate(talk(40))
        assert len(summaries(view.messages)) == 1

    def test_an_async_function_works_from_sync_code(self) -> None:
        view = Curator(SummarizingManager(awaited), max_tokens=1_000).curate(talk(40)).messages
        assert "awaited" in summaries(view)[0]

    @pytest.mark.parametrize(
        "model", [awaited, partial(awaited), lambda prompt: awaited(prompt + "!")]
    )
    async def test_an_async_function_works_inside_a_running_loop(self, model: Any) -> None:
        for view in (
            Curator(SummarizingManager(model), max_tokens=1_000).curate(talk(40)),
            await Curator(SummarizingManager(model), max_tokens=1_000).acurate(talk(40)),
        ):
            assert "awaited" in summaries(view.messages)[0]

    def test_an_async_function_that_fails_does_not_stop_the_conversation(self) -> None:
        async def model(prompt: str) -> str:
            raise TimeoutError("no answer")

        curation = Curator(SummarizingManager(model), max_tokens=1_000).curate(talk(40))
        assert summaries(curation.messages) == []
        assert "failed (TimeoutError)" in "".join(curation.report.warnings)

    async def test_a_plain_function_works_in_acurate(self) -> None:
        curator = Curator(SummarizingManager(Scripted()), max_tokens=1_000)
        assert summaries((await curator.acurate(talk(40))).messages)

    def test_content_wins_over_a_text_method(self) -> None:
        answer = SimpleNamespace(content="the content", text=lambda: "no")
        assert resolve_summarizer(lambda prompt: answer).ask("x") == "the content"

    def test_what_cannot_summarise_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="function from text to text"):
            SummarizingManager(42)

    def test_a_prompt_without_a_place_for_the_messages_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"\{messages\}"):
            SummarizingManager(Scripted(), prompt="summarise! {earlier}")


class TestGuarantees:
    @pytest.mark.parametrize("provider", ["core", "portable", "anthropic", "gemini"])
    @pytest.mark.parametrize("budget", [500, 1_000, 3_000])
    def test_hold_with_a_summary(self, provider: str, budget: int) -> None:
        messages = talk(30)
        for n in range(10):
            messages += [call(f"c{n}"), result(f"c{n}", "row " * 100)]
        manager = SummarizingManager(lambda prompt: "Goal: a boat.")
        curator = Curator(manager, max_tokens=budget, provider=provider)
        assert curate_and_check(messages, curator=curator, idempotent=False) is not None

    def test_chunks_lose_nothing(self) -> None:
        counter = get_counter("o200k_base")
        for text in ("word " * 5_000, "x" * 40_000, "line\n" * 3_000, "", "{braces} {messages}"):
            pieces = split_text(text, 120, counter)
            assert "".join(pieces) == text
            assert all(counter.count(piece) <= 120 for piece in pieces)
