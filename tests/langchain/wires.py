"""Real chat models over a scripted transport: what is looked at is the JSON that would leave.

A transport is as strict as its provider: it answers what it would refuse with status 400.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx
import pytest

from history_curator.tokens import get_counter
from tests.support.strict import REFUSALS

Request = dict[str, Any]

# A provider never gives an id twice, whichever client asks: an agent replaces what has the same.
_numbers = itertools.count(1)

NAMES = ("openai", "responses", "anthropic", "gemini", "bedrock")


class Step(NamedTuple):
    """The text or the calls (id, name, arguments) of an answer, signed reasoning and a search before."""

    text: str = "ok"
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    thinks: bool = False
    searches: bool = False


Script = Callable[[Request], Step]


class Wire:
    """One provider: the requests it got, those it refused, and the model that made them.

    `script` answers each request, but for those that the provider would refuse.
    """

    def __init__(self, name: str, script: Script = lambda body: Step(), **settings: Any) -> None:
        self.name = name
        self.script = script
        self.requests: list[Request] = []
        self.refused: list[str] = []
        self.model: Any = self.open(settings)

    def open(self, settings: dict[str, Any]) -> Any:
        """Return the model."""
        return _MODELS[self.name](self, settings)

    def answer(self, body: Request) -> tuple[int, Request]:
        """Note a request and answer it, or refuse it."""
        self.requests.append(body)
        found = REFUSALS[self.name](body)
        if found:
            self.refused += found
            return 400, {"error": {"message": "; ".join(found), "type": "invalid_request_error"}}
        prompt = get_counter("o200k_base").count(json.dumps(body))
        return 200, _ANSWERS[self.name](self.script(body), next(_numbers), prompt)

    def transport(self, library: Any = httpx) -> Any:
        """For clients that use httpx, or a library just like it."""

        def respond(request: Any) -> Any:
            status, body = self.answer(json.loads(request.content))
            return library.Response(status, json=body)

        return library.MockTransport(respond)

    @property
    def last(self) -> Request:
        """The newest request."""
        return self.requests[-1]


_NO_KEY: dict[str, Any] = {"api_key": "none", "max_retries": 0}


def _openai(wire: Wire, settings: dict[str, Any]) -> Any:
    module = pytest.importorskip("langchain_openai")
    clients = {
        "http_client": httpx.Client(transport=wire.transport()),
        "http_async_client": httpx.AsyncClient(transport=wire.transport()),
    }
    return module.ChatOpenAI(**{"model": "gpt-4o", **_NO_KEY, **clients, **settings})


def _responses(wire: Wire, settings: dict[str, Any]) -> Any:
    return _openai(wire, {"use_responses_api": True, "model": "gpt-5", **settings})


def _anthropic(wire: Wire, settings: dict[str, Any]) -> Any:
    module = pytest.importorskip("langchain_anthropic")
    import anthropic
    from anthropic import _base_client

    # The SDK takes clients of the library it was built with.
    library: Any = getattr(_base_client, "httpx2", None) or _base_client.httpx
    named = {"model": "claude-sonnet-4-5", "max_tokens": 1_000}
    model = module.ChatAnthropic(**{**named, **_NO_KEY, **settings})
    model.__dict__["_client"] = anthropic.Anthropic(
        http_client=library.Client(transport=wire.transport(library)), **_NO_KEY
    )
    model.__dict__["_async_client"] = anthropic.AsyncAnthropic(
        http_client=library.AsyncClient(transport=wire.transport(library)), **_NO_KEY
    )
    return model


def _gemini(wire: Wire, settings: dict[str, Any]) -> Any:
    module = pytest.importorskip("langchain_google_genai")
    named = {"model": "gemini-2.5-flash", "client_args": {"transport": wire.transport()}}
    return module.ChatGoogleGenerativeAI(**{**named, **_NO_KEY, "max_retries": 1, **settings})


def _bedrock(wire: Wire, settings: dict[str, Any]) -> Any:
    module = pytest.importorskip("langchain_aws")
    import boto3
    from botocore.awsrequest import AWSResponse

    parts = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    client = boto3.client("bedrock-runtime", region_name="us-east-1", **parts)

    class Body:
        def __init__(self, text: str) -> None:
            self._text = text.encode()

        def stream(self, **kwargs: Any) -> Any:
            yield self._text

    def respond(request: Any, **kwargs: Any) -> AWSResponse:
        status, body = wire.answer(json.loads(request.body))
        if status != 200:
            body = {"message": body["error"]["message"], "__type": "ValidationException"}
        headers = {"content-type": "application/json"}
        return AWSResponse(request.url, status, headers, Body(json.dumps(body)))

    client.meta.events.register("before-send.bedrock-runtime.Converse", respond)
    named = {"model": "us.anthropic.claude-haiku-4-5-20251001-v1:0", "region_name": "us-east-1"}
    return module.ChatBedrockConverse(**{**named, "client": client, **settings})


_MODELS: dict[str, Callable[[Wire, dict[str, Any]], Any]] = {
    "openai": _openai,
    "responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock": _bedrock,
}


def _openai_answer(step: Step, number: int, prompt: int) -> Request:
    calls = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for id_, name, given in step.calls
    ]
    message: Request = {"role": "assistant", "content": None if calls else step.text}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": prompt, "completion_tokens": 1, "total_tokens": prompt + 1}
    head = {"id": f"r{number}", "object": "chat.completion", "created": 1, "model": "gpt-4o"}
    return {**head, "choices": [choice], "usage": usage}


def _responses_answer(step: Step, number: int, prompt: int) -> Request:
    done = {"status": "completed"}
    mark = f"r{number}" if step.thinks else f"{number}"
    output: list[Request] = []
    if step.thinks:
        summary = [{"type": "summary_text", "text": "hm"}]
        thought = {"type": "reasoning", "id": f"rs_{mark}", "summary": summary}
        output.append({**thought, "encrypted_content": "gAAAA"})
    if step.searches:
        action = {"type": "search", "query": "weather"}
        output.append({"type": "web_search_call", "id": f"ws_{mark}", "action": action, **done})
    for place, (id_, name, given) in enumerate(step.calls):
        call = {"call_id": id_, "name": name, "arguments": json.dumps(given), **done}
        output.append({"type": "function_call", "id": f"fc_{mark}_{place}", **call})
    if not step.calls:
        said = [{"type": "output_text", "text": step.text, "annotations": []}]
        message = {"role": "assistant", "content": said, **done}
        output.append({"type": "message", "id": f"msg_{mark}", **message})
    head = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": "gpt-5"}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], **done}
    details = {
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    usage = {"input_tokens": prompt, "output_tokens": 1, "total_tokens": prompt + 1, **details}
    return {**head, **rest, "output": output, "usage": usage}


def _anthropic_answer(step: Step, number: int, prompt: int) -> Request:
    content: list[Request] = []
    if step.thinks:
        content.append({"type": "thinking", "thinking": "hm", "signature": f"sig{number}"})
    if step.searches:
        name = f"srvtoolu_{number}"
        search = {"type": "server_tool_use", "id": name, "name": "web_search"}
        content += [
            {**search, "input": {"query": "weather"}},
            {"type": "web_search_tool_result", "tool_use_id": name, "content": []},
        ]
    if step.text and not step.calls:
        content.append({"type": "text", "text": step.text})
    content += [
        {"type": "tool_use", "id": id_, "name": name, "input": given}
        for id_, name, given in step.calls
    ]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": content,
        "stop_reason": "tool_use" if step.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": prompt, "output_tokens": 1},
    }


def _gemini_answer(step: Step, number: int, prompt: int) -> Request:
    parts: list[Request] = [
        {"functionCall": {"id": id_, "name": name, "args": given}}
        for id_, name, given in step.calls
    ]
    if parts and step.thinks:
        parts[0]["thoughtSignature"] = "c2ln"
    if not parts:
        parts = [{"text": step.text}]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": prompt, "candidatesTokenCount": 1, "totalTokenCount": prompt + 1}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash"}


def _bedrock_answer(step: Step, number: int, prompt: int) -> Request:
    content: list[Request] = []
    if step.thinks:
        thought = {"reasoningText": {"text": "hm", "signature": f"sig{number}"}}
        content.append({"reasoningContent": thought})
    if step.text and not step.calls:
        content.append({"text": step.text})
    content += [
        {"toolUse": {"toolUseId": id_, "name": name, "input": given}}
        for id_, name, given in step.calls
    ]
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use" if step.calls else "end_turn",
        "usage": {"inputTokens": prompt, "outputTokens": 1, "totalTokens": prompt + 1},
        "metrics": {"latencyMs": 1},
    }


_ANSWERS: dict[str, Callable[[Step, int, int], Request]] = {
    "openai": _openai_answer,
    "responses": _responses_answer,
    "anthropic": _anthropic_answer,
    "gemini": _gemini_answer,
    "bedrock": _bedrock_answer,
}
