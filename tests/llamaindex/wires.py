"""Real LLMs over a scripted transport: what is looked at is the JSON that would leave."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.langchain import wires
from tests.langchain.wires import NAMES, Request, Step

__all__ = ["NAMES", "Request", "Step", "Wire"]


class Wire(wires.Wire):
    """One provider: the requests it got, those it refused, and the LLM that made them.

    Args:
        name: which class of LLM.
        script: the answer to every request, from its JSON.
        counts: what is reported for a request, from its JSON: the prompt, and what of it was cached.
        settings: further fields of the LLM.
    """

    def __init__(
        self,
        name: str,
        *given: Any,
        counts: Callable[[Request], tuple[int, int]] | None = None,
        **settings: Any,
    ) -> None:
        self.counts = counts
        super().__init__(name, *given, **settings)

    def answer(self, body: Request) -> tuple[int, Request]:
        """Note a request and answer it, or refuse it."""
        status, answer = super().answer(body)
        if status == 200 and self.counts is not None:
            _report(self.name, answer, *self.counts(body))
        return status, answer

    def transport(self, library: Any = httpx) -> Any:
        """For clients that use httpx, or a library just like it; answers also as a stream."""

        def respond(request: Any) -> Any:
            body = json.loads(request.content)
            status, answer = self.answer(body)
            if status == 200 and (body.get("stream") or "stream" in request.url.path):
                text = "".join(
                    (f"event: {kind}\n" if kind else "") + f"data: {json.dumps(event)}\n\n"
                    for kind, event in _STREAMS[self.name](answer, body)
                )
                headers = {"content-type": "text/event-stream"}
                return library.Response(status, text=text, headers=headers)
            return library.Response(status, json=answer)

        return library.MockTransport(respond)

    def open(self, settings: dict[str, Any]) -> Any:
        """Return the LLM."""
        return _MODELS[self.name](self, settings)

    @property
    def llm(self) -> Any:
        """The LLM."""
        return self.model


def _openai(wire: Wire, settings: dict[str, Any]) -> Any:
    module = pytest.importorskip("llama_index.llms.openai")
    kind = module.OpenAIResponses if wire.name == "responses" else module.OpenAI
    parts: dict[str, Any] = {
        "model": "gpt-5" if wire.name == "responses" else "gpt-4o",
        "api_key": "none",
        "max_retries": 0,
        "http_client": httpx.Client(transport=wire.transport()),
        "async_http_client": httpx.AsyncClient(transport=wire.transport()),
    }
    return kind(**parts | settings)


def _anthropic(wire: Wire, settings: dict[str, Any]) -> Any:
    module = pytest.importorskip("llama_index.llms.anthropic")
    import anthropic

    if int(anthropic.__version__.partition(".")[0]) > 0:
        pytest.skip("llama-index-llms-anthropic 0.12 does not work with anthropic 1.0 and later")
    parts: dict[str, Any] = {"api_key": "none", "max_retries": 0}
    model = {"model": "claude-sonnet-4-5", "max_tokens": 1_000}
    llm = module.Anthropic(**model | parts | settings)
    llm._client = anthropic.Anthropic(http_client=httpx.Client(transport=wire.transport()), **parts)
    llm._aclient = anthropic.AsyncAnthropic(
        http_client=httpx.AsyncClient(transport=wire.transport()), **parts
    )
    return llm


def _gemini(wire: Wire, settings: dict[str, Any]) -> Any:
    module = pytest.importorskip("llama_index.llms.google_genai")
    from google import genai

    model = {"model": "gemini-2.5-flash", "api_key": "none", "max_tokens": 1_000}
    limits = {"context_window": 1_000_000, "max_retries": 0}
    llm = module.GoogleGenAI(**model | limits | settings)
    arguments = {"transport": wire.transport()}
    options = genai.types.HttpOptions(client_args=arguments, async_client_args=arguments)
    llm._client = genai.Client(api_key="none", http_options=options)
    return llm


def _bedrock(wire: Wire, settings: dict[str, Any]) -> Any:
    module = pytest.importorskip("llama_index.llms.bedrock_converse")
    boto3 = pytest.importorskip("boto3")
    from botocore.awsrequest import AWSResponse

    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    client = boto3.client("bedrock-runtime", region_name="us-east-1", **keys)

    class Body:
        def __init__(self, text: bytes) -> None:
            self._text = text

        def stream(self, **kwargs: Any) -> Any:
            yield self._text

    def respond(request: Any, **kwargs: Any) -> AWSResponse:
        status, body = wire.answer(json.loads(request.body))
        if status != 200:
            body = {"message": body["error"]["message"], "__type": "ValidationException"}
        elif request.url.endswith("converse-stream"):
            headers = {"content-type": "application/vnd.amazon.eventstream"}
            return AWSResponse(request.url, status, headers, Body(_frames(_bedrock_stream(body))))
        headers = {"content-type": "application/json"}
        return AWSResponse(request.url, status, headers, Body(json.dumps(body).encode()))

    for call in ("Converse", "ConverseStream"):
        client.meta.events.register(f"before-send.bedrock-runtime.{call}", respond)
    model = {"model": "us.anthropic.claude-haiku-4-5-20251001-v1:0", "max_tokens": 1_000}
    parts = {"client": client, "region_name": "us-east-1"}
    return module.BedrockConverse(**model | parts | settings)


_MODELS: dict[str, Callable[[Wire, dict[str, Any]], Any]] = {
    "openai": _openai,
    "responses": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock": _bedrock,
}


# What was counted, where each provider reports it.


def _report(name: str, answer: Request, prompt: int, cached: int) -> None:
    read, cached_tokens = prompt - cached, {"cached_tokens": cached}
    written = {**cached_tokens, "cache_write_tokens": 0}
    reports: dict[str, Request] = {
        "openai": {"prompt_tokens": prompt, "prompt_tokens_details": cached_tokens},
        "responses": {"input_tokens": prompt, "input_tokens_details": written},
        "anthropic": {"input_tokens": read, "cache_read_input_tokens": cached},
        "gemini": {"promptTokenCount": prompt, "cachedContentTokenCount": cached},
        "bedrock": {"inputTokens": read, "cacheReadInputTokens": cached},
    }
    answer["usageMetadata" if name == "gemini" else "usage"] |= reports[name]


# A text as the events of a stream.

Events = list[tuple[str, Request]]


def _openai_stream(answer: Request, body: Request) -> Events:
    head = {"id": answer["id"], "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
    message = answer["choices"][0]["message"]
    for place, call in enumerate(message.get("tool_calls") or ()):
        call["index"] = place
    deltas: list[Request] = [{"delta": message}, {"delta": {}, "finish_reason": "stop"}]
    events = [{**head, "choices": [{"index": 0, **delta}]} for delta in deltas]
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append({**head, "choices": [], "usage": answer["usage"]})
    return [("", event) for event in events]


def _responses_stream(answer: Request, body: Request) -> Events:
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    message = answer["output"][-1]
    place = {"item_id": message["id"], "output_index": 0, "content_index": 0, "logprobs": []}
    events: list[Request] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_text.delta", "delta": message["content"][0]["text"], **place},
        {"type": "response.completed", "response": answer},
    ]
    return [(one["type"], {**one, "sequence_number": n}) for n, one in enumerate(events)]


def _anthropic_stream(answer: Request, body: Request) -> Events:
    usage = answer["usage"]
    # The first event says how much was read beside the cache, the last all of it.
    begun = {**answer, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    text = answer["content"][-1]["text"]
    done = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    events: list[Request] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": done, "usage": usage},
        {"type": "message_stop"},
    ]
    return [(one["type"], one) for one in events]


def _gemini_stream(answer: Request, body: Request) -> Events:
    return [("", answer)]


def _bedrock_stream(answer: Request) -> Events:
    text = answer["output"]["message"]["content"][-1]["text"]
    return [
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"delta": {"text": text}, "contentBlockIndex": 0}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": answer["stopReason"]}),
        ("metadata", {"usage": answer["usage"], "metrics": answer["metrics"]}),
    ]


_STREAMS: dict[str, Callable[[Request, Request], Events]] = {
    "openai": _openai_stream,
    "responses": _responses_stream,
    "anthropic": _anthropic_stream,
    "gemini": _gemini_stream,
}


def _frames(events: Events) -> bytes:
    """Events as Bedrock frames them: lengths, headers, payload, and a sum behind each."""
    out = b""
    for kind, payload in events:
        named = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
        headers = b"".join(
            struct.pack("!B", len(name)) + name.encode() + b"\7" + struct.pack("!H", len(value))
            + value.encode()
            for name, value in named.items()
        )  # fmt: skip
        data = json.dumps(payload).encode()
        head = struct.pack("!II", len(headers) + len(data) + 16, len(headers))
        frame = head + struct.pack("!I", zlib.crc32(head)) + headers + data
        out += frame + struct.pack("!I", zlib.crc32(frame))
    return out
