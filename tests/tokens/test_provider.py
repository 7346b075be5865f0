"""Whose rules a model obeys, told from a name."""

from __future__ import annotations

import pytest

from history_curator.rules import get_profile
from history_curator.tokens.models import provider_for


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("langchain_openai.chat_models.base.ChatOpenAI", "openai"),
        ("langchain_openai.chat_models.azure.AzureChatOpenAI", "openai"),
        ("langchain_anthropic.chat_models.ChatAnthropic", "anthropic"),
        ("langchain_aws.chat_models.bedrock_converse.ChatBedrockConverse", "bedrock"),
        ("langchain_google_genai.chat_models.ChatGoogleGenerativeAI", "gemini"),
        ("langchain_google_vertexai.chat_models.ChatVertexAI", "gemini"),
        ("langchain_google_vertexai.model_garden.ChatAnthropicVertex", "anthropic"),
        ("langchain_mistralai.chat_models.ChatMistralAI", "mistral"),
        ("langchain_ollama.chat_models.ChatOllama", "portable"),
        ("langchain_core.language_models.fake_chat_models.FakeListChatModel", "core"),
        ("llama_index.llms.openai.base.OpenAI", "openai"),
        ("llama_index.llms.openai.responses.OpenAIResponses", "openai-responses"),
        ("openai_responses_llm", "openai-responses"),
        ("llama_index.llms.anthropic.base.Anthropic", "anthropic"),
        ("llama_index.llms.bedrock_converse.base.BedrockConverse", "bedrock"),
        ("llama_index.llms.google_genai.base.GoogleGenAI", "gemini"),
        ("llama_index.llms.mistralai.base.MistralAI", "mistral"),
        ("llama_index.llms.ollama.base.Ollama", "portable"),
        ("llama_index.core.llms.mock.MockLLM", "core"),
        ("gpt-4o", "openai"),
        ("o3-mini", "openai"),
        ("openai/gpt-4o", "openai"),
        ("claude-sonnet-4-5", "anthropic"),
        ("anthropic/claude-sonnet-4-5", "anthropic"),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "bedrock"),
        ("anthropic.claude-3-haiku-20240307-v1:0", "bedrock"),
        ("models/gemini-2.5-pro", "gemini"),
        ("mistral-large-latest", "mistral"),
        ("meta-llama/Llama-3.1-8B-Instruct", "portable"),
        ("qwen3-32b", "portable"),
        ("", "core"),
        ("my_company.models.Oracle", "core"),
    ],
)
def test_known_names(name: str, provider: str) -> None:
    assert provider_for(name) == provider
    assert get_profile(provider).name == provider


def test_case_and_space_do_not_matter() -> None:
    assert provider_for("  Claude-Sonnet-4-5 ") == "anthropic"
