"""Real LLMs over a scripted transport: what is looked at is the JSON that would leave."""

from __future__ import annotations

import inspect
import json
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
        settings: further fields of the LLM.
    """

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
    return kind(
        **{
            "model": "gpt-5" if wire.name == "responses" else "gpt-4o",
            "api_key": "none",
            "max_retries": 0,
            "http_client": httpx.Client(transport=wire.transport()),
            "async_http_client": httpx.AsyncClient(transport=wire.transport()),
            **settings,
        }
    )


def _anthropic(wire: Wire, settings: dict[str, Any]) -> Any:
    module = pytest.importorskip("llama_index.llms.anthropic")
    import anthropic
    from anthropic import _base_client
    from llama_index.llms.anthropic import utils

    for name in ("MessageParam", "BetaMessageParam"):
        # Newer SDKs have a union there, which cannot be called; before, calling it made a dict.
        if not isinstance(getattr(utils, name, dict), type):
            setattr(utils, name, dict)
    library: Any = getattr(_base_client, "httpx2", None) or _base_client.httpx
    parts: dict[str, Any] = {"api_key": "none", "max_retries": 0}
    llm = module.Anthropic(
        **{"model": "claude-sonnet-4-5", "max_tokens": 1_000, **parts, **settings}
    )
    llm._client = anthropic.Anthropic(
        http_client=library.Client(transport=wire.transport(library)), **parts
    )
    llm._aclient = anthropic.AsyncAnthropic(
        http_client=library.AsyncClient(transport=wire.transport(library)), **parts
    )
    for client in (llm._client, llm._aclient):
        _forget_temperature(client.messages)
    return llm


def _forget_temperature(messages: Any) -> None:
    """Newer SDKs take no temperature, which this version of the LLM always passes."""
    create = messages.create
    if "temperature" in inspect.signature(create).parameters:
        return

    def without(**given: Any) -> Any:
        given.pop("temperature", None)
        return create(**given)

    messages.create = without


def _gemini(wire: Wire, settings: dict[str, Any]) -> Any:
    module = pytest.importorskip("llama_index.llms.google_genai")
    from google import genai

    llm = module.GoogleGenAI(
        **{
            "model": "gemini-2.5-flash",
            "api_key": "none",
            "max_tokens": 1_000,
            "context_window": 1_000_000,
            "max_retries": 0,
            **settings,
        }
    )
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
    model = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
    return module.BedrockConverse(
        **{
            "model": model,
            "client": client,
            "region_name": "us-east-1",
            "max_tokens": 1_000,
            **settings,
        }
    )


_MODELS: dict[str, Callable[[Wire, dict[str, Any]], Any]] = {
    "openai": _openai,
    "responses": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock": _bedrock,
}
