"""Summaries: only on overflow, of everything, once for each part, and never in the way."""

from __future__ import annotations

import asyncio
import re
import shelve
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from history_curator import ConfigurationError, Curation, Curator, SummarizingManager
from history_curator.managers import keeping_summaries
from history_curator.managers.summarize import DEFAULT_PROMPT, split_text
from history_curator.run_steps import run_sync
from history_curator.tokens import get_counter
from tests.support.guarantees import curate_and_check
from tests.support.messages import Message, assistant, call, result, system, user

COUNTER = get_counter("o200k_base")


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


def summarise(model: Any, **options: Any) -> Curation:
    return Curator(SummarizingManager(model, **options), max_tokens=1_000).curate(talk(40))


async def summarise_later(model: Any) -> Curation:
    return await Curator(SummarizingManager(model), max_tokens=1_000).acurate(talk(40))


def summaries(messages: list[Message]) -> list[str]:
    return [m["content"] for m in messages if str(m["content"]).startswith("[Summary")]


class TestOverflow:
    def test_the_model_is_not_called_while_the_history_fits(self) -> None:
        model, messages = Scripted(), talk(5)
        view = Curator(SummarizingManager(model), max_tokens=50_000).curate(messages).messages
        assert all(mine is given for mine, given in zip(view, messages, strict=True))
        assert model.prompts == []

    def test_one_marked_message_stands_for_the_part_before_the_cutoff(self) -> None:
        view = summarise(Scripted()).messages
        (summary,) = summaries(view)
        assert "Goal: a boat." in summary
        assert view[0]["role"] == "system"

    def test_every_cut_word_reaches_the_summariser(self) -> None:
        model = Scripted()
        view = summarise(model, chunk_tokens=200).messages
        text = "\n".join([str(m["content"]) for m in view] + model.prompts)
        for turn in range(40):
            assert f"fact{turn} is {turn * 7} " in text
            assert f"answer{turn} " in text
        assert "(none)" in model.prompts[0]
        assert "Goal: a boat. (1)" in model.prompts[1]  # the earlier summary is folded in

    def test_a_giant_result_is_handed_over_in_chunks(self) -> None:
        model = Scripted()
        lines = [f"row {n} of the table" for n in range(3_000)]
        messages = [user("read it"), call("c1"), result("c1", "\n".join(lines)), *talk(20)[2:]]
        manager = SummarizingManager(model, chunk_tokens=1_000)
        Curator(manager, max_tokens=1_500).curate(messages)
        frame = COUNTER.count(DEFAULT_PROMPT) + 500
        assert len(model.prompts) > 10
        assert all(COUNTER.count(prompt) <= 1_000 + frame for prompt in model.prompts)
        seen = set(re.findall(r"row \d+ of the table", "\n".join(model.prompts)))
        assert len(seen) >= 2_990  # a line may be cut in two where a chunk ends


class TestOnce:
    def test_between_compactions_the_model_is_not_asked_and_the_view_repeats(self) -> None:
        model, repeats = Scripted(), 0
        curator = Curator(SummarizingManager(model), max_tokens=2_000)
        before: list[Message] = []
        for turns in range(1, 80):
            view = curator.curate(talk(turns)).messages
            repeats += view[: len(before)] == before
            before = view
        assert repeats > 60
        assert 0 < len(model.prompts) < 79 / 2

    def test_a_given_cache_survives_the_manager(self, tmp_path: Path) -> None:
        asked = list[int]()
        for model in (Scripted(), Scripted()):
            with shelve.open(tmp_path / "summaries") as cache:  # any mapping will do
                summarise(model, cache=cache)
            asked.append(len(model.prompts))
        assert asked[0]
        assert not asked[1]


UNITS = [f"user: fact {n} " + "indeed " * 20 for n in range(12)]


class Rolling:
    """Summarises texts and keeps the prompts."""

    def __init__(self, chunk_tokens: int = 8_000, cache: dict[str, str] | None = None) -> None:
        self.prompts: list[str] = []
        self.manager = SummarizingManager(
            self.write, prompt="{earlier}|{messages}", chunk_tokens=chunk_tokens, cache=cache
        )

    def write(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return f"summary {len(self.prompts)}"

    def __call__(self, *texts: str) -> str:
        return run_sync(self.manager.summarize_texts(texts, 100, COUNTER))


class TestRolling:
    def test_only_new_texts_are_summarised_and_none_twice(self) -> None:
        fold = Rolling()
        assert fold(*UNITS[:8]) == "summary 1"
        assert all(text in fold.prompts[0] for text in UNITS[:8])
        assert fold(*UNITS) == "summary 2"
        assert fold.prompts[1].startswith("summary 1|user: fact 8")
        assert "fact 7" not in fold.prompts[1]
        assert (fold(*UNITS), fold(*UNITS[:8])) == ("summary 2", "summary 1")
        assert len(fold.prompts) == 2

    def test_many_texts_take_several_prompts_within_the_limit(self) -> None:
        fold = Rolling(chunk_tokens=120)
        fold(*UNITS)
        assert 2 < len(fold.prompts) < len(UNITS)
        assert all(COUNTER.count(prompt) < 140 for prompt in fold.prompts)

    def test_branches_of_one_beginning_each_find_their_own_summary(self) -> None:
        fold = Rolling()
        left, right = [*UNITS[:6], "left"], [*UNITS[:6], "right"]
        mine, theirs = fold(*left), fold(*right)
        assert fold(*left, UNITS[7]) != fold(*right, UNITS[7])
        assert fold.prompts[2].startswith(f"{mine}|")
        assert fold.prompts[3].startswith(f"{theirs}|")

    def test_a_text_that_ends_where_another_begins_is_another_text(self) -> None:
        fold = Rolling()
        assert fold("one", "b\0c") != fold("one\0b", "c")


class TestKeepingSummaries:
    def test_summaries_kept_by_the_caller_are_found_again(self) -> None:
        stored: dict[str, str] = {}
        for expected in (1, 0):
            fold = Rolling()
            with keeping_summaries(stored):
                fold(*UNITS)
            assert len(fold.prompts) == expected

    def test_a_cache_of_the_manager_comes_first(self) -> None:
        stored, cache = dict[str, str](), dict[str, str]()
        with keeping_summaries(stored):
            Rolling(cache=cache)(*UNITS)
        assert cache
        assert not stored


def fail(prompt: str) -> str:
    raise TimeoutError("no answer")


def run_out(prompt: str) -> str:
    return next(iter(()))


class TestFailure:
    @pytest.mark.parametrize(
        ("model", "error"),
        [
            (lambda prompt: None, "ValueError"),
            (lambda prompt: "   ", "ValueError"),
            (lambda prompt: 42, "ValueError"),
            (fail, "TimeoutError"),
            (run_out, "RuntimeError"),
        ],
        ids=["none", "blank", "number", "raises", "stops"],
    )
    def test_a_model_that_fails_does_not_stop_the_conversation(
        self, model: Any, error: str
    ) -> None:
        curation = summarise(model)
        assert curation.messages == Curator(max_tokens=1_000).curate(talk(40)).messages
        (warning,) = curation.report.warnings
        assert f"summary failed ({error})" in warning

    def test_a_failed_summary_is_tried_again_on_the_next_call(self) -> None:
        answers: Iterator[Any] = iter([None])

        def flaky(prompt: str) -> Any:
            return next(answers, "Goal: a boat.")

        curator = Curator(SummarizingManager(flaky), max_tokens=1_000)
        assert summaries(curator.curate(talk(40)).messages) == []
        assert len(summaries(curator.curate(talk(40)).messages)) == 1

    def test_an_answer_that_is_too_long_is_cut(self) -> None:
        curation = summarise(lambda prompt: "long " * 5_000, max_tokens=100)
        (summary,) = summaries(curation.messages)
        assert COUNTER.count(summary) < 140


class TestModels:
    async def summarise_both_ways(self, model: Any, answer: str) -> None:
        for curation in (summarise(model), await summarise_later(model)):
            (summary,) = summaries(curation.messages)
            assert answer in summary

    @pytest.mark.parametrize("content", ["in words", [{"type": "text", "text": "in words"}]])
    async def test_a_langchain_model_is_invoked(self, content: Any) -> None:
        models = pytest.importorskip("langchain_core.language_models")
        messages = pytest.importorskip("langchain_core.messages")
        answers = iter([messages.AIMessage(content)] * 50)
        await self.summarise_both_ways(models.GenericFakeChatModel(messages=answers), "in words")

    async def test_a_llamaindex_model_completes(self) -> None:
        llms = pytest.importorskip("llama_index.core.llms")
        await self.summarise_both_ways(llms.MockLLM(max_tokens=20), "")

    async def test_a_function_runs_either_way(self) -> None:
        await self.summarise_both_ways(lambda prompt: "Goal: a boat.", "boat")

    @pytest.mark.parametrize("model", [awaited, partial(awaited)])
    async def test_an_async_function_needs_acurate(self, model: Any) -> None:
        (summary,) = summaries((await summarise_later(model)).messages)
        assert "awaited" in summary
        with pytest.raises(ConfigurationError, match=r"is async.*acurate"):
            summarise(model)

    @pytest.mark.parametrize(
        ("model", "options", "problem"),
        [
            (42, {}, "function from text to text"),
            (str, {"prompt": "summarise! {earlier}"}, r"\{messages\}"),
            (str, {"max_tokens": 1}, "50 or more"),
        ],
    )
    def test_settings_that_cannot_work_are_refused(
        self, model: Any, options: dict[str, Any], problem: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=problem):
            SummarizingManager(model, **options)


class TestGuarantees:
    @pytest.mark.parametrize("provider", ["core", "portable", "anthropic", "gemini"])
    @pytest.mark.parametrize("budget", [500, 1_000, 3_000])
    def test_the_guarantees_hold_with_a_summary(self, provider: str, budget: int) -> None:
        messages = talk(30)
        for n in range(10):
            messages += [call(f"c{n}"), result(f"c{n}", "row " * 100)]
        manager = SummarizingManager(lambda prompt: "Goal: a boat.")
        curator = Curator(manager, max_tokens=budget, provider=provider)
        assert curate_and_check(messages, curator=curator) is not None

    def test_a_split_text_loses_nothing(self) -> None:
        for text in ("word " * 5_000, "x" * 40_000, "line\n" * 3_000, "", "{braces} {messages}"):
            pieces = split_text(text, 120, COUNTER)
            assert "".join(pieces) == text
            assert all(COUNTER.count(piece) <= 120 for piece in pieces)
