"""Which model said something, and whose rules a model obeys: both are told from names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# First match wins: a host with rules of its own (Bedrock) stands before the models it serves.
_PROVIDERS = (
    (r"bedrock|converse|\b(?:[a-z]{2,6}\.)?(?:anthropic|amazon|meta|cohere|ai21)\.\w", "bedrock"),
    (r"anthropic|claude", "anthropic"),
    (r"gemini|google|vertex|genai", "gemini"),
    (r"mistral|mixtral|ministral|codestral|pixtral|magistral", "mistral"),
    (r"ollama|llama_?cpp|hugging_?face|vllm|mlx|lmstudio|gemma|qwen|llama-?\d", "portable"),
    (r"openai[\W_]*responses", "openai-responses"),
    (r"azure_?(?:openai|chatopenai|ai)|openai|chatgpt|\bgpt-|\bo[1-9](?:-|$)", "openai"),
)
# A module path such as "langchain_anthropic.chat_models" is not a Bedrock model id.
_MODULE = re.compile(r"\b(?:langchain|llama_index|llamaindex)[\w.]*", re.IGNORECASE)
# What hosts put around the name of a model: a folder, a region and a vendor, a day, a version.
_AROUND = re.compile(
    r".*/|^(?:[a-z]{2,6}\.)?[a-z0-9]+\.(?=[a-z])|[-@]\d{8}\b.*$|-v\d+(?::\d+)?$|-latest$"
)
_CLAUDE = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:-(\d{1,2}))?(?!\d)")


def model_of(source: Any) -> str | None:
    """Return the model that gave an answer, from the fields where frameworks and logs name it."""
    for beside in (None, "response_metadata", "raw", "additional_kwargs"):
        holder = source if beside is None else _field(source, beside)
        for name in ("model_name", "model", "model_id"):
            value = _field(holder, name)
            if isinstance(value, str) and value:
                return value
    return None


def _field(holder: Any, name: str) -> Any:
    if isinstance(holder, Mapping):
        return holder.get(name)
    return None if holder is None else getattr(holder, name, None)


def is_same_model(one: str, other: str) -> bool:
    """Return whether two names are of one model, whoever hosts it.

    Examples:
        >>> is_same_model("claude-sonnet-4-5", "us.anthropic.claude-sonnet-4-5-20250929-v1:0")
        True
        >>> is_same_model("claude-sonnet-4-5", "claude-opus-4-5")
        False
    """
    return one == other or _bare_name(one) == _bare_name(other)


def takes_later_system(model: str) -> bool:
    """Return whether a model takes system messages within a conversation: Claude from 4.8 on.

    Examples:
        >>> [takes_later_system(f"claude-{name}") for name in ("opus-4-8", "sonnet-5", "opus-4-7")]
        [True, True, False]
    """
    found = _CLAUDE.match(_bare_name(model))
    return found is not None and (int(found[1]), int(found[2] or 0)) >= (4, 8)


def _bare_name(name: str) -> str:
    return _AROUND.sub("", _AROUND.sub("", name.strip().lower())).replace(".", "-")


def provider_for(class_or_model_name: str) -> str:
    """Return the profile for a model's name, or for the dotted name of a class that calls it.

    An unknown name gets ``core``, which both OpenAI and Anthropic accept. Open-weight servers get
    ``portable``: their chat templates are the strictest.

    Examples:
        >>> provider_for("langchain_anthropic.chat_models.ChatAnthropic")
        'anthropic'
        >>> provider_for("us.anthropic.claude-sonnet-4-20250514-v1:0")
        'bedrock'
        >>> provider_for("my_company.models.Oracle")
        'core'
    """
    name = class_or_model_name.strip()
    if _MODULE.search(name):
        name = re.sub(r"\b(?:langchain|llama_index|llamaindex)[_.]", "", name, flags=re.IGNORECASE)
        name = name.replace(".", " ").replace("llms ", "")
    name = name.lower()
    return next((provider for pattern, provider in _PROVIDERS if re.search(pattern, name)), "core")
