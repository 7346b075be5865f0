"""Every chat engine over a real client: sync, async and streaming, with text that is retrieved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)

from history_curator.tokens import get_counter
from llamaindex_history_curator import CuratedLLM, CuratedMemory
from tests.llamaindex.factories import assistant, texts, user
from tests.llamaindex.wires import Request, Step, Wire

LIMIT = 700
TURNS = 14
MODES = ("chat", "achat", "stream", "astream")
COUNTER = get_counter("o200k_base")


@pytest.fixture(scope="module")
def index() -> VectorStoreIndex:
    documents = [Document(text=f"Fact {n}: " + "the sky is blue. " * 30) for n in range(3)]
    return VectorStoreIndex.from_documents(documents, embed_model=MockEmbedding(embed_dim=8))


def _condense(index: VectorStoreIndex, mode: str, **parts: Any) -> Any:
    query = index.as_query_engine(llm=parts["llm"], streaming="stream" in mode)
    return CondenseQuestionChatEngine.from_defaults(query_engine=query, **parts)


ENGINES: dict[str, Callable[..., Any]] = {
    "simple": lambda _, mode, **parts: SimpleChatEngine.from_defaults(**parts),
    "context": lambda index, mode, **parts: ContextChatEngine.from_defaults(
        retriever=index.as_retriever(), **parts
    ),
    "condense_question": _condense,
    "condense_plus_context": lambda index, mode, **parts: (
        CondensePlusContextChatEngine.from_defaults(retriever=index.as_retriever(), **parts)
    ),
    "best": lambda index, mode, **parts: index.as_chat_engine(chat_mode="best", **parts),
}


def question(number: int) -> str:
    return f"question {number}: " + "why is it so " * (5 + number % 7 * 8)


async def ask(engine: Any, mode: str, asked: Any) -> None:
    if mode == "chat":
        await asyncio.to_thread(engine.chat, asked)
    elif mode == "achat":
        await engine.achat(asked)
    elif mode == "stream":
        await asyncio.to_thread(lambda: list(engine.stream_chat(asked).response_gen))
    else:
        response = await engine.astream_chat(asked)
        [part async for part in response.async_response_gen()]


async def settle(memory: CuratedMemory, count: int) -> None:
    """Streaming engines write the answer from the background."""
    for _ in range(1_000):
        if len(memory.chat_store.store.get(memory.chat_store_key, ())) >= count:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"the record has {len(memory.get_all())} messages, not {count}")


def cost(body: Request) -> int:
    said = [str(message["content"]) for message in body["messages"]]
    return 3 + sum(COUNTER.count(text) + 4 for text in said)


async def converse(name: str, mode: str, index: VectorStoreIndex, limit: int) -> None:
    wire = Wire("openai", lambda body: Step("because " * (10 + len(wire.requests) % 5 * 20)))
    memory = CuratedMemory.from_defaults(token_limit=limit)
    llm = CuratedLLM(wire.llm, token_limit=limit, shorten_context=True)
    engine = ENGINES[name](index, mode, llm=llm, memory=memory)
    for number in range(TURNS):
        before = len(wire.requests)
        await ask(engine, mode, question(number))
        await settle(memory, 2 * number + 2)
        said = [str(body["messages"][-1]["content"]) for body in wire.requests[before:]]
        assert name == "condense_question" or said[-1] == question(number), name
    assert wire.refused == [], name
    assert max(map(cost, wire.requests)) <= limit, name
    assert name == "simple" or "the sky is blue" in str(wire.last), name
    record = texts(memory.get_all())
    assert record[::2] == [question(number) for number in range(TURNS)], name
    assert len(record) == 2 * TURNS, name
    assert all(answer and answer.strip() for answer in record[1::2]), name
    engine.reset()
    assert memory.get_all() == [], name
    await ask(engine, mode, "after")
    await settle(memory, 2)
    assert texts(memory.get_all())[0] == "after", name


@pytest.mark.parametrize("limit", [LIMIT, 320], ids=["roomy", "less than what is retrieved"])
@pytest.mark.parametrize("mode", MODES)
async def test_every_request_is_within_the_limit(
    mode: str, limit: int, index: VectorStoreIndex
) -> None:
    # Side by side, because LlamaIndex's streams sleep a tenth of a second at a time.
    await asyncio.gather(*(converse(name, mode, index, limit) for name in ENGINES))


async def test_a_given_history_replaces_the_record() -> None:
    memory = CuratedMemory.from_defaults([user("old"), assistant("answer")], token_limit=LIMIT)
    engine = SimpleChatEngine.from_defaults(llm=Wire("openai").llm, memory=memory)
    await engine.achat("next", chat_history=[user("given"), assistant("yes")])
    assert texts(memory.get_all())[:3] == ["given", "yes", "next"]
    for number in range(40):
        memory.put_messages([user(question(number)), assistant("because " * 20)])
    with pytest.warns(UserWarning, match="begin with a view"):
        engine.chat("again", chat_history=memory.get())
    assert len(memory.get_all()) == 4 + 80 + 2  # a view replaces nothing
