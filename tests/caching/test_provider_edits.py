"""The request fields of a provider's own cuts, as the official clients' types have them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from history_curator import ConfigurationError, Curator

TALK = [{"role": "user", "content": "hello"}]


def edits_of(provider: str, **options: Any) -> dict[str, Any]:
    return Curator(provider=provider, **options).curate(TALK).provider_edits()


def test_anthropics_client_takes_them() -> None:
    beta = pytest.importorskip("anthropic.types.beta")
    fields = edits_of("anthropic", max_tokens=90_000, compact_to=0.6)
    (edit,) = fields["context_management"]["edits"]
    TypeAdapter(beta.BetaClearToolUses20250919EditParam).validate_python(edit)
    known = beta.BetaClearToolUses20250919EditParam.__annotations__
    assert edit.keys() <= known.keys()
    assert edit["trigger"]["value"] == 90_000
    assert edit["clear_at_least"]["value"] == 36_000
    params = beta.message_create_params.MessageCreateParamsBase
    assert fields.keys() <= params.__annotations__.keys()


def test_openais_client_takes_them() -> None:
    params = pytest.importorskip("openai.types.responses.response_create_params")
    fields = edits_of("openai-responses", max_tokens=90_000)
    (entry,) = fields["context_management"]
    TypeAdapter(params.ContextManagement).validate_python(entry)
    assert entry.keys() <= params.ContextManagement.__annotations__.keys()
    assert fields.keys() <= params.ResponseCreateParamsBase.__annotations__.keys()


def test_langchains_models_take_them() -> None:
    anthropic = pytest.importorskip("langchain_anthropic")
    openai = pytest.importorskip("langchain_openai")
    fields = edits_of("anthropic", max_tokens=90_000)
    model = anthropic.ChatAnthropic(model="claude-sonnet-4-5", api_key="none", **fields)
    assert model.context_management == fields["context_management"]
    fields = edits_of("openai-responses", max_tokens=90_000)
    model = openai.ChatOpenAI(model="gpt-5", api_key="none", **fields)
    assert model.context_management == fields["context_management"]


def test_bedrocks_are_those_of_anthropic_in_the_body_of_invoke_model() -> None:
    own, fields = edits_of("anthropic", max_tokens=9_000), edits_of("bedrock", max_tokens=9_000)
    assert fields == {
        "anthropic_beta": own["betas"],
        "context_management": own["context_management"],
    }


@pytest.mark.parametrize("provider", ["core", "portable", "openai", "gemini", "mistral"])
def test_a_provider_that_cuts_nothing_is_an_error_with_a_fix(provider: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{provider}.*Fix: "):
        edits_of(provider, max_tokens=9_000)
    with pytest.raises(ConfigurationError, match="Fix: give the Curator max_tokens"):
        edits_of("anthropic")
