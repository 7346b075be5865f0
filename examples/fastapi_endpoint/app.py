"""Two chat endpoints.

``POST /api/query`` keeps nothing: the client sends the history along, the endpoint passes on what
is fit to send. ``POST /api/threads/{thread}`` keeps the history in a store, streams the answer,
and lets older turns forget their tool details.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.messages.utils import message_chunk_to_message
from langchain_core.output_parsers import StrOutputParser
from sqlalchemy import Engine, create_engine

from examples.fastapi_endpoint.offline import OfflineChatModel, look_up_service
from history_curator import (
    HistoryLimits,
    HistoryValidationError,
    RetentionConfig,
    sanitize_history,
)
from history_curator.boundary import SanitizedHistory
from history_curator.record import list_tools_used
from langchain_history_curator import CuratedChatMessageHistory, HistoryCurator

LIMITS = HistoryLimits.from_env(base=HistoryLimits.stateless())
RETENTION = RetentionConfig(preserve_turns=2, persist_tool_invocations="trimmed")
MAX_TOKENS = 8_000
STORE = os.environ.get("CHAT_STORE", "sqlite:///chat.db")
STATUS = {"payload": 400, "prompt": 422}


def chat_model() -> BaseChatModel:
    """Return the model of ``CHAT_MODEL``, such as ``openai:gpt-4o-mini``; offline without."""
    name = os.environ.get("CHAT_MODEL")
    if not name:
        return OfflineChatModel()
    from langchain.chat_models import init_chat_model

    return init_chat_model(name)


MODEL = chat_model()
CHAIN = HistoryCurator(max_tokens=MAX_TOKENS) | MODEL | StrOutputParser()

app = FastAPI(title="History Curator endpoint")


class TooLargeError(Exception):
    """The request body is larger than the limit."""


@app.exception_handler(TooLargeError)
def too_large(request: Request, error: TooLargeError) -> JSONResponse:
    """Say how large a request may be."""
    detail = f"The request exceeds {LIMITS.max_payload_bytes} bytes. Send less of the history."
    return JSONResponse({"field": "payload", "detail": detail}, status_code=413)


@app.exception_handler(HistoryValidationError)
def invalid(request: Request, error: HistoryValidationError) -> JSONResponse:
    """Say which field is wrong."""
    status = STATUS.get(error.field, 422)
    return JSONResponse({"field": error.field, "detail": error.message}, status_code=status)


async def read_body(request: Request) -> bytes:
    """Return the body, without ever holding more than the limit."""
    most = LIMITS.max_payload_bytes
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if most is not None and len(body) > most:
            raise TooLargeError
    return bytes(body)


async def read_request(request: Request) -> SanitizedHistory:
    """Return what may be sent on of a request, which must hold a prompt."""
    sanitized = sanitize_history(await read_body(request), LIMITS)
    if sanitized.prompt is None:
        raise HistoryValidationError("prompt", 'Send an object such as {"prompt": "..."}')
    return sanitized


@app.post("/api/query")
async def query(request: Request) -> dict[str, Any]:
    """Answer a prompt in the light of the history that came with it."""
    sanitized = await read_request(request)
    return {
        "answer": await CHAIN.ainvoke(sanitized.messages),
        "messages_sent": len(sanitized.messages),
        "dropped": [{"index": at, "reason": why} for at, why in sanitized.dropped.items()],
        "warnings": [str(warning) for warning in sanitized.warnings],
    }


@cache
def open_database(url: str) -> Engine:
    """Return the connections to a database, which all requests share."""
    return create_engine(url)


def open_thread(thread: str) -> CuratedChatMessageHistory:
    """Return a stored conversation."""
    from langchain_community.chat_message_histories import SQLChatMessageHistory

    store = SQLChatMessageHistory(thread, connection=open_database(STORE))
    return CuratedChatMessageHistory(store, max_tokens=MAX_TOKENS, retention=RETENTION)


@app.post("/api/threads/{thread}")
async def ask(thread: str, request: Request) -> StreamingResponse:
    """Stream the answer to a prompt; the history is kept here."""
    prompt = (await read_request(request)).prompt
    assert prompt is not None
    return StreamingResponse(events(thread, prompt), media_type="text/event-stream")


async def events(thread: str, prompt: str) -> AsyncIterator[str]:
    """Yield the words of the answer, then what was done for it, without its details."""
    history = open_thread(thread)
    await history.aadd_messages([HumanMessage(prompt)])
    model = MODEL.bind_tools([look_up_service])
    used: list[dict[str, str]] = []
    while True:
        answer = AIMessageChunk("")
        async for chunk in model.astream(await history.aget_messages()):
            answer += chunk
            if chunk.content:
                yield event("delta", {"text": chunk.content})
        await history.aadd_messages([message_chunk_to_message(answer)])
        if not answer.tool_calls:
            break
        results = list(run_tools(answer))
        used += list_tools_used(results)
        await history.aadd_messages(results)
    yield event("done", {"tools_used": used})


def run_tools(answer: AIMessageChunk) -> Iterator[ToolMessage]:
    """Yield the result of every call."""
    for call in answer.tool_calls:
        yield look_up_service.invoke({**call, "type": "tool_call"})


def event(name: str, data: dict[str, Any]) -> str:
    """Return one server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
