"""Whose rules a model obeys, told from a name."""

from __future__ import annotations

import pytest

from history_curator.rules import get_profile
from history_curator.tokens.models import provider_for

NAMES = """
openai: langchain_openai.chat_models.base.ChatOpenAI llama_index.llms.openai.base.OpenAI
openai: langchain_openai.chat_models.azure.AzureChatOpenAI gpt-4o o3-mini openai/gpt-4o
openai-responses: llama_index.llms.openai.responses.OpenAIResponses openai_responses_llm
anthropic: langchain_anthropic.chat_models.ChatAnthropic llama_index.llms.anthropic.base.Anthropic
anthropic: langchain_google_vertexai.model_garden.ChatAnthropicVertex
anthropic: claude-sonnet-4-5 anthropic/claude-sonnet-4-5 Claude-Sonnet-4-5
bedrock: langchain_aws.chat_models.bedrock_converse.ChatBedrockConverse
bedrock: llama_index.llms.bedrock_converse.base.BedrockConverse
bedrock: us.anthropic.claude-sonnet-4-20250514-v1:0 anthropic.claude-3-haiku-20240307-v1:0
gemini: langchain_google_genai.chat_models.ChatGoogleGenerativeAI models/gemini-2.5-pro
gemini: langchain_google_vertexai.chat_models.ChatVertexAI
gemini: llama_index.llms.google_genai.base.GoogleGenAI
mistral: langchain_mistralai.chat_models.ChatMistralAI mistral-large-latest
mistral: llama_index.llms.mistralai.base.MistralAI
portable: langchain_ollama.chat_models.ChatOllama llama_index.llms.ollama.base.Ollama
portable: meta-llama/Llama-3.1-8B-Instruct qwen3-32b
core: langchain_core.language_models.fake_chat_models.FakeListChatModel
core: llama_index.core.llms.mock.MockLLM my_company.models.Oracle
"""
CASES = [
    (name, provider)
    for provider, _, names in (line.partition(": ") for line in NAMES.strip().splitlines())
    for name in names.split()
]


@pytest.mark.parametrize(("name", "provider"), [*CASES, ("", "core"), ("  GPT-4o ", "openai")])
def test_a_name_tells_the_provider(name: str, provider: str) -> None:
    assert provider_for(name) == provider
    assert get_profile(provider).name == provider
