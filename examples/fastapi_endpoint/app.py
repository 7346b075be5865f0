"""Two chat endpoints.

``POST /api/query`` keeps nothing: the client sends the history along, the endpoint passes on what
is fit to send. ``POST /api/threads/{thread}`` keeps the history in a store, streams the answer,
and lets older turns forget their tool details. Any number of workers may share the store.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from functools import cache
from itertools import dropwhile, islice, takewhile
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.messages.utils import message_chunk_to_message
from langchain_core.output_parsers import StrOutputParser
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import sessionmaker

from examples.fastapi_endpoint.fleet import StoredSummaries, create_tables, hold_thread, run_to_end
from examples.fastapi_endpoint.offline import OfflineChatModel, look_up_service
from history_curator import (
    HistoryLimits,
    HistoryValidationError,
    RetentionConfig,
    SummarizingManager,
    sanitize_history,
)
from history_curator.boundary import SanitizedHistory
from history_curator.record import list_tools_used
from langchain_history_curator import CuratedChatMessageHistory, HistoryCurator

LIMITS = HistoryLimits.from_env(base=HistoryLimits.stateless())
RETENTION = RetentionConfig(preserve_turns=2, persist_tool_invocations="trimmed")
MAX_TOKENS = int(os.environ.get("CHAT_MAX_TOKENS", "8000"))
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
    if url.startswith("sqlite"):  # nobody else has it: a fleet makes its tables beforehand
        create_tables(url)
    return create_engine(url, pool_pre_ping=True)


def open_thread(thread: str, connection: Connection | None = None) -> CuratedChatMessageHistory:
    """Return a stored conversation; messages are written over the connection, where there is one."""
    from langchain_community.chat_message_histories import SQLChatMessageHistory

    database = open_database(STORE)
    store = SQLChatMessageHistory(thread, connection=database)
    if connection is not None:
        store.session_maker = sessionmaker(connection)
    summaries = SummarizingManager(MODEL, cache=StoredSummaries(database, thread))
    return CuratedChatMessageHistory(store, summaries, max_tokens=MAX_TOKENS, retention=RETENTION)


@app.get("/health")
def health(response: Response) -> dict[str, bool]:
    """Say whether the database answers: without it a worker should get no requests."""
    try:
        with open_database(STORE).connect() as connection:
            connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        response.status_code = 503
    return {"database": response.status_code != 503}


@app.post("/api/threads/{thread}")
async def ask(thread: str, request: Request) -> StreamingResponse:
    """Stream the answer to a prompt; the history is kept here.

    A client whose stream broke sends the same request with the same ``Idempotency-Key`` again.
    """
    prompt = (await read_request(request)).prompt
    assert prompt is not None
    key = request.headers.get("idempotency-key") or str(uuid4())
    parts = run_to_end(events(thread, prompt, key))
    return StreamingResponse(parts, media_type="text/event-stream")


async def events(thread: str, prompt: str, key: str) -> AsyncIterator[str]:
    """Yield the words of the answer, then what was done for it, without its details.

    The question has the key as its id. Where it is stored already, another worker was lost on the
    way to its answer: the turn goes on from the message that was stored last.
    """
    async with hold_thread(STORE, thread) as connection:
        history = await asyncio.to_thread(open_thread, thread, connection)
        turn = find_turn(await history.aget_record(), key)

        async def add(messages: list[BaseMessage]) -> None:
            await history.aadd_messages(messages)
            turn.extend(messages)

        if not turn:
            await add([HumanMessage(prompt, id=key)])
        elif is_answer(turn[-1]):
            yield event("delta", {"text": turn[-1].text})
        model = MODEL.bind_tools([look_up_service])
        while not is_answer(last := turn[-1]):
            if isinstance(last, AIMessage):
                await add(list(run_tools(last)))
                continue
            answer = AIMessageChunk("")
            async for chunk in model.astream(await history.aget_messages()):
                answer += chunk
                if chunk.content:
                    yield event("delta", {"text": chunk.content})
            await add([message_chunk_to_message(answer)])
        if history.pending:  # the database is down: what waits for it is lost with this request
            yield event("error", {"detail": "The answer was not stored. Send the request again."})
        else:
            yield event("done", {"tools_used": list_tools_used(turn)})


def find_turn(record: list[BaseMessage], key: str) -> list[BaseMessage]:
    """Return what is stored of a turn: the question with this id, and what came of it so far."""
    rest = dropwhile(lambda message: message.id != key, record)
    question = list(islice(rest, 1))
    return [*question, *takewhile(lambda message: message.type != "human", rest)]


def is_answer(message: BaseMessage) -> bool:
    """Return whether a turn ends here."""
    return isinstance(message, AIMessage) and not message.tool_calls


def run_tools(answer: AIMessage) -> Iterator[ToolMessage]:
    """Yield the result of every call."""
    for call in answer.tool_calls:
        yield look_up_service.invoke({**call, "type": "tool_call"})


def event(name: str, data: dict[str, Any]) -> str:
    """Return one server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
