"""What providers and frameworks report is one `Usage`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from history_curator.tokens import Usage, read_usage

FORMS: dict[str, tuple[dict[str, Any], Usage]] = {
    "openai chat": (
        {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107,
         "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 30}},
        Usage(100, 64, 30, 7),
    ),
    "openai responses": (
        {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 64,
         "cache_write_tokens": 0}, "output_tokens": 7, "output_tokens_details":
         {"reasoning_tokens": 3}, "total_tokens": 107},
        Usage(100, 64, 0, 7, 0, 3),
    ),
    "anthropic": (
        {"input_tokens": 3, "cache_read_input_tokens": 90, "cache_creation_input_tokens":
         12, "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens":
         10}, "output_tokens": 5},
        Usage(105, 90, 12, 5, 10),
    ),
    "anthropic without a cache": (
        {"input_tokens": 3, "cache_read_input_tokens": 0, "output_tokens": 5},
        Usage(3, 0, 0, 5),
    ),
    "anthropic wholly from the cache": (
        {"input_tokens": 0, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 12,
         "output_tokens": 5},
        Usage(102, 90, 12, 5),
    ),
    "gemini json": (
        {"promptTokenCount": 50, "cachedContentTokenCount": 20, "candidatesTokenCount": 4,
         "thoughtsTokenCount": 6},
        Usage(50, 20, 0, 10, 0, 6),
    ),
    "gemini python": (
        {"prompt_token_count": 50, "cached_content_token_count": None,
         "candidates_token_count": 4},
        Usage(50, 0, 0, 4),
    ),
    "bedrock": (
        {"inputTokens": 5, "outputTokens": 1, "totalTokens": 15, "cacheReadInputTokens": 7,
         "cacheWriteInputTokens": 2, "cacheDetails": [{"ttl": "5m", "inputTokens": 1},
         {"ttl": "1h", "inputTokens": 1}]},
        Usage(14, 7, 2, 1, 1),
    ),
    "langchain": (
        {"input_tokens": 100, "output_tokens": 2, "total_tokens": 102,
         "input_token_details": {"cache_read": 50, "cache_creation": 20},
         "output_token_details": {"reasoning": 1}},
        Usage(100, 50, 20, 2, 0, 1),
    ),
    "langchain with lifetimes": (
        {"input_tokens": 100, "output_tokens": 2, "total_tokens": 102,
         "input_token_details": {"cache_read": 50, "cache_creation": 0,
         "ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 15}},
        Usage(100, 50, 20, 2, 15),
    ),
    "langchain with a service tier": (
        {"input_tokens": 100, "output_tokens": 2, "total_tokens": 102,
         "input_token_details": {"priority_cache_read": 50, "priority": 50}},
        Usage(100, 50, 0, 2),
    ),
    "llama-index bedrock": (
        {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 15,
         "cache_read_input_tokens": 7, "cache_creation_input_tokens": 2},
        Usage(14, 7, 2, 1),
    ),
    "a router that adds them up": (
        {"prompt_tokens": 14, "completion_tokens": 1, "total_tokens": 15,
         "cache_read_input_tokens": 7, "cache_creation_input_tokens": 2},
        Usage(14, 7, 2, 1),
    ),
}  # fmt: skip


class TestForms:
    @pytest.mark.parametrize("form", FORMS)
    def test_each_form_says_the_whole_prompt(self, form):
        reported, usage = FORMS[form]
        assert read_usage(reported) == usage

    @pytest.mark.parametrize("form", FORMS)
    def test_an_object_says_the_same_as_a_mapping(self, form):
        reported, usage = FORMS[form]
        assert read_usage(SimpleNamespace(**reported)) == usage

    @pytest.mark.parametrize("holder", ["usage", "usage_metadata", "token_usage"])
    def test_a_message_or_an_answer_may_hold_it(self, holder):
        reported, usage = FORMS["openai chat"]
        assert read_usage({"role": "assistant", holder: reported}) == usage
        assert read_usage(SimpleNamespace(raw=SimpleNamespace(**{holder: reported}))) == usage
        assert read_usage({"response_metadata": {holder: reported}}) == usage

    def test_a_line_of_a_log(self):
        reported, usage = FORMS["anthropic"]
        line = {"type": "assistant", "message": {"role": "assistant", "usage": reported}}
        assert read_usage(line) == usage

    def test_a_usage_is_itself(self):
        assert read_usage(Usage(9)) == Usage(9)

    @pytest.mark.parametrize(
        "nothing",
        [
            None,
            {},
            "usage",
            7,
            [],
            {"role": "user", "content": "hi"},
            {"usage": None},
            {"usage": {"input_tokens": None, "output_tokens": 3}},
            {"usage": {"input_tokens": -4}},
            {"usage": {"input_tokens": True}},
            {"usage": {"input_tokens": 10**400}},
            {"usage": {"input_tokens": 0, "output_tokens": 0}},
        ],
    )
    def test_nothing_reported_is_none(self, nothing):
        assert read_usage(nothing) is None

    def test_what_no_cache_touched(self):
        assert Usage(100, 60, 30).uncached == 10


CLIENTS: list[tuple[str, str, dict[str, Any], Usage]] = [
    ("openai.types", "CompletionUsage",
     {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11,
      "prompt_tokens_details": {"cached_tokens": 4}}, Usage(9, 4, 0, 2)),
    ("anthropic.types", "Usage",
     {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 5}, Usage(8, 5, 0, 4)),
    ("google.genai.types", "GenerateContentResponseUsageMetadata",
     {"prompt_token_count": 10, "cached_content_token_count": 4, "candidates_token_count": 3,
      "thoughts_token_count": 2}, Usage(10, 4, 0, 5, 0, 2)),
]  # fmt: skip


class TestClients:
    @pytest.mark.parametrize(("module", "name", "fields", "usage"), CLIENTS)
    def test_objects_of_the_providers_clients(self, module, name, fields, usage):
        reported = getattr(pytest.importorskip(module), name)(**fields)
        assert read_usage(reported) == usage
        assert read_usage(SimpleNamespace(usage=reported)) == usage
        assert read_usage(SimpleNamespace(usage_metadata=reported)) == usage

    def test_langchain(self):
        messages = pytest.importorskip("langchain_core.messages")
        reported, usage = FORMS["langchain"]
        assert read_usage(messages.AIMessage("hi", usage_metadata=reported)) == usage
        assert read_usage(messages.AIMessage("hi")) is None

    def test_llama_index(self):
        llms = pytest.importorskip("llama_index.core.llms")
        reported, usage = FORMS["llama-index bedrock"]
        said = llms.ChatMessage(role="assistant", content="hi")
        assert read_usage(llms.ChatResponse(message=said, additional_kwargs=reported)) == usage
        assert read_usage(llms.ChatResponse(message=said, raw={"usage": reported})) == usage
        assert read_usage(llms.ChatResponse(message=said)) is None
