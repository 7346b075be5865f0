"""Whose rules a model obeys, told from the name of the model or of the class that calls it."""

from __future__ import annotations

import re

__all__ = ["provider_for"]

# First match wins: a host with rules of its own (Bedrock) stands before the models it serves.
_RULES: tuple[tuple[str, str], ...] = (
    (r"bedrock|converse|\b(?:[a-z]{2,6}\.)?(?:anthropic|amazon|meta|cohere|ai21)\.\w", "bedrock"),
    (r"anthropic|claude", "anthropic"),
    (r"gemini|google|vertex|genai", "gemini"),
    (r"mistral|mixtral|ministral|codestral|pixtral|magistral", "mistral"),
    (r"ollama|llama_?cpp|hugging_?face|vllm|mlx|lmstudio|gemma|qwen|llama-?\d", "portable"),
    (r"openai[\W_]*responses", "openai-responses"),
    (r"azure_?(?:openai|chatopenai|ai)|openai|chatgpt|\bgpt-|\bo[1-9](?:-|$)", "openai"),
)
_COMPILED = tuple((re.compile(pattern), provider) for pattern, provider in _RULES)
# A module path such as "langchain_anthropic.chat_models" is not a Bedrock model id.
_MODULE = re.compile(r"\b(?:langchain|llama_index|llamaindex)[\w.]*", re.IGNORECASE)


def provider_for(class_or_model_name: str) -> str:
    """Return the profile for a model's name, or for the dotted name of a class that calls it.

    What is not recognised gets ``core``, which both OpenAI and Anthropic accept. Open-weight
    servers get ``portable``: their chat templates are the strictest.

    Example:
        >>> provider_for("langchain_anthropic.chat_models.ChatAnthropic")
        'anthropic'
        >>> provider_for("us.anthropic.claude-sonnet-4-20250514-v1:0")
        'bedrock'
        >>> provider_for("gpt-4o")
        'openai'
        >>> provider_for("llama_index.llms.openai.responses.OpenAIResponses")
        'openai-responses'
        >>> provider_for("my_company.models.Oracle")
        'core'
    """
    name = class_or_model_name.strip()
    if _MODULE.search(name):
        name = re.sub(r"\b(?:langchain|llama_index|llamaindex)[_.]", "", name, flags=re.IGNORECASE)
        name = name.replace(".", " ").replace("llms ", "")
    name = name.lower()
    for pattern, provider in _COMPILED:
        if pattern.search(name):
            return provider
    return "core"
