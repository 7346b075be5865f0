"""A budget from what a model says about itself, and whose rules it obeys."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from history_curator.errors import ConfigurationError
from langchain_history_curator import HistoryCurator, budget_for_model
from langchain_history_curator.models import provider_of
from tests.langchain.scripted import ScriptedModel, look


def model_of(
    limit: int | None = 10_000, output: int | None = 1_000, **fields: Any
) -> ScriptedModel:
    profile = {"max_input_tokens": limit, "max_output_tokens": output}
    return ScriptedModel(profile={k: v for k, v in profile.items() if v is not None}, **fields)


class Claude(ScriptedModel):
    model_name: str = "claude-sonnet-4-5"


class Gpt(ScriptedModel):
    model_name: str = "gpt-4o"


class TestBudget:
    def test_ninety_five_percent_less_the_answer(self) -> None:
        budget = budget_for_model(model_of())
        assert (budget.max_tokens, budget.limit, budget.output) == (8_500, 10_000, 1_000)
        assert "max_input_tokens 10000" in budget.source
        assert "less 1000 for the answer" in budget.source

    @pytest.mark.parametrize(("share", "expected"), [(0.5, 5_000), (0.9, 8_500), (1.0, 8_500)])
    def test_a_share_of_the_window_is_never_more_than_the_budget(
        self, share: float, expected: int
    ) -> None:
        assert HistoryCurator.for_model(model_of(), share).max_tokens == expected

    @pytest.mark.parametrize("share", [0.0, 1.5, -0.1])
    def test_a_share_of_more_than_the_window_is_refused(self, share: float) -> None:
        with pytest.raises(ConfigurationError, match="a share of the model's window"):
            HistoryCurator.for_model(model_of(), share)

    def test_the_smallest_of_several_fallbacks(self) -> None:
        model = model_of(10_000).with_fallbacks([model_of(4_000, 200)])
        assert budget_for_model(model).limit == 4_000

    @pytest.mark.parametrize("model", [ScriptedModel(), ScriptedModel().with_retry()])
    def test_an_unknown_model_is_an_error_that_says_what_to_do(self, model: Any) -> None:
        with pytest.raises(ConfigurationError, match=r"ScriptedModel.*pass max_tokens=…"):
            HistoryCurator.for_model(model)

    def test_an_explicit_budget_keeps_the_models_tools_and_counter(self) -> None:
        model = Claude().bind_tools([look])
        step = HistoryCurator.for_model(model, max_tokens=500)
        assert [form["function"]["name"] for form in step.tools or ()] == ["look"]
        assert (step.counter, step.provider) == ("claude-sonnet-4-5", "anthropic")
        given = HistoryCurator.for_model(model, max_tokens=500, counter="cl100k_base")
        assert given.counter == "cl100k_base"

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda m: m.bind_tools([look]) | StrOutputParser(),
            lambda m: RunnableLambda(lambda x: x) | m.bind_tools([look]).with_retry() | str,
            lambda m: {"raw": m.bind_tools([look])} | RunnablePassthrough.assign(parsed=str),
            lambda m: (m.bind_tools([look]) | StrOutputParser()).with_config(tags=["x"]),
        ],
    )
    def test_the_model_is_found_inside_a_sequence(self, wrap: Any) -> None:
        step = HistoryCurator.for_model(wrap(model_of()))
        assert step.max_tokens == 8_500
        assert [form["function"]["name"] for form in step.tools or ()] == ["look"]

    @pytest.mark.parametrize("include_raw", [False, True])
    def test_the_model_is_found_behind_structured_output(self, include_raw: bool) -> None:
        openai = pytest.importorskip("langchain_openai")
        model = openai.ChatOpenAI(model="gpt-4o", api_key="none", max_tokens=500)
        form = {"title": "Form", "description": "f", "type": "object", "properties": {}}
        step = HistoryCurator.for_model(
            model.with_structured_output(form, method="function_calling", include_raw=include_raw)
        )
        assert step.max_tokens == int(128_000 * 0.95) - 500
        assert step.provider == "openai"
        assert [tool["function"]["name"] for tool in step.tools or ()] == ["Form"]


class TestProvider:
    def test_chat_completions_and_responses_are_told_apart(self) -> None:
        openai = pytest.importorskip("langchain_openai")
        chat = openai.ChatOpenAI(model="gpt-4o", api_key="none")
        items = openai.ChatOpenAI(model="gpt-4o", api_key="none", use_responses_api=True)
        assert provider_of(items.bind_tools([look])) == "openai-responses"
        assert provider_of(items.with_fallbacks([chat])) == "portable"

    @pytest.mark.parametrize(
        "model",
        [
            Gpt().with_fallbacks([Claude()]),
            Claude().with_fallbacks([Gpt()]),
            Gpt().with_fallbacks([Claude().with_retry()]).with_config(tags=["x"]),
            Gpt().with_fallbacks([Claude()]) | StrOutputParser(),
        ],
    )
    def test_fallbacks_of_another_provider(self, model: Any) -> None:
        step = HistoryCurator.for_model(model, max_tokens=500)
        assert (step.provider, step.counter) == ("portable", "claude-sonnet-4-5")
