"""Every chat engine, a hundred turns, sync, async and streaming, over a real small index."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from pydantic import PrivateAttr

from llamaindex_history_curator import CuratedLLM, CuratedMemory
from tests.llamaindex.factories import assistant, texts, user
from tests.llamaindex.models import RecordingLLM, cost, problems

LIMIT = 700
TURNS = 40
MODES = ("chat", "achat", "stream", "astream")


class WatchedMemory(CuratedMemory):
    """Remembers every view it gave."""

    _views: list[list[ChatMessage]] = PrivateAttr(default_factory=list)

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002
        view = super().get(input, **kwargs)
        self._views.append(view)
        return view

    async def aget(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002
        view = await super().aget(input, **kwargs)
        self._views.append(view)
        return view

    @property
    def views(self) -> list[list[ChatMessage]]:
        return self._views


@pytest.fixture(scope="module")
def index() -> VectorStoreIndex:
    documents = [Document(text=f"Fact {number}: the sky is blue.") for number in range(3)]
    return VectorStoreIndex.from_documents(documents, embed_model=MockEmbedding(embed_dim=8))


def _simple(index: VectorStoreIndex, **parts: Any) -> Any:
    return SimpleChatEngine.from_defaults(system_prompt="be brief", **parts)


def _context(index: VectorStoreIndex, **parts: Any) -> Any:
    return ContextChatEngine.from_defaults(retriever=index.as_retriever(), **parts)


def _condense(index: VectorStoreIndex, **parts: Any) -> Any:
    query = index.as_query_engine(llm=parts["llm"])
    return CondenseQuestionChatEngine.from_defaults(query_engine=query, **parts)


def _condense_streaming(index: VectorStoreIndex, **parts: Any) -> Any:
    query = index.as_query_engine(llm=parts["llm"], streaming=True)
    return CondenseQuestionChatEngine.from_defaults(query_engine=query, **parts)


def _condense_plus(index: VectorStoreIndex, **parts: Any) -> Any:
    return CondensePlusContextChatEngine.from_defaults(retriever=index.as_retriever(), **parts)


def _best(index: VectorStoreIndex, **parts: Any) -> Any:
    return index.as_chat_engine(chat_mode="best", **parts)


ENGINES: dict[str, Callable[..., Any]] = {
    "simple": _simple,
    "context": _context,
    "condense_question": _condense,
    "condense_plus_context": _condense_plus,
    "as_chat_engine": _best,
}


def question(number: int) -> str:
    return f"question {number}: " + "why is it so " * (5 + number % 7 * 8)


def answering() -> RecordingLLM:
    return RecordingLLM(lambda number, messages: assistant("because " * (10 + number % 5 * 20)))


async def ask(engine: Any, mode: str, text: str) -> None:
    if mode == "chat":
        await asyncio.to_thread(engine.chat, text)
    elif mode == "achat":
        await engine.achat(text)
    elif mode == "stream":

        def consume() -> None:
            for _ in engine.stream_chat(text).response_gen:
                pass

        await asyncio.to_thread(consume)
    else:
        response = await engine.astream_chat(text)
        async for _ in response.async_response_gen():
            pass


@pytest.mark.parametrize("mode", MODES)
async def test_forty_turns(mode: str, index: VectorStoreIndex) -> None:
    # Side by side, because LlamaIndex's streams sleep a tenth of a second at a time.
    await asyncio.gather(*(converse(name, mode, index) for name in ENGINES))


async def converse(name: str, mode: str, index: VectorStoreIndex) -> None:
    memory = WatchedMemory.from_defaults(token_limit=LIMIT)
    make = ENGINES[name]
    if name == "condense_question" and "stream" in mode:
        make = _condense_streaming
    engine = make(index, llm=answering(), memory=memory)
    for number in range(TURNS):
        await ask(engine, mode, question(number))
        await _settle(memory, 2 * number + 2)
    assert len(memory.views) >= TURNS, name
    for view in memory.views:
        assert cost(view) <= LIMIT, name
        assert problems(view, "history") == [], name
    record = texts(memory.get_all())
    assert record[::2] == [question(number) for number in range(TURNS)], name
    assert all(answer and answer.strip() for answer in record[1::2]), name
    assert len(record) == 2 * TURNS, name


async def test_retrieved_text_is_within_the_limit_of_a_curated_llm() -> None:
    documents = [Document(text=f"Fact {n}: " + "the sky is blue. " * 35) for n in range(3)]
    index = VectorStoreIndex.from_documents(documents, embed_model=MockEmbedding(embed_dim=8))

    async def sent(name: str, mode: str, *, curated: bool) -> int:
        llm, memory = answering(), CuratedMemory.from_defaults(token_limit=1_200)
        around = CuratedLLM(llm, token_limit=1_200) if curated else llm
        engine = ENGINES[name](index, llm=around, memory=memory)
        for number in range(12):
            await ask(engine, mode, question(number))
            await _settle(memory, 2 * number + 2)
        assert all(problems(messages) == [] for messages in llm.sent)
        assert "the sky is blue" in str(llm.sent[-1])
        return max(llm.costs)

    engines = [(name, mode) for name in ("context", "condense_plus_context") for mode in MODES]
    costs = await asyncio.gather(*(sent(*one, curated=True) for one in engines))
    assert max(costs) <= 1_200
    assert await sent("context", "achat", curated=False) > 1_500  # what the memory cannot see


async def test_a_given_history_replaces_the_record() -> None:
    memory = CuratedMemory.from_defaults([user("old"), assistant("answer")], token_limit=LIMIT)
    engine = SimpleChatEngine.from_defaults(llm=answering(), memory=memory)
    await engine.achat("next", chat_history=[user("given"), assistant("yes")])
    assert texts(memory.get_all())[:3] == ["given", "yes", "next"]


async def _settle(memory: CuratedMemory, count: int) -> None:
    """Streaming engines write the answer from the background."""
    stored = memory.chat_store.store[memory.chat_store_key]
    for _ in range(1_000):
        if len(stored) >= count:
            return
        await asyncio.sleep(0.001)
    raise AssertionError(f"the record has {len(memory.get_all())} messages, not {count}")


@pytest.mark.parametrize("mode", MODES)
async def test_a_reset_engine_starts_again(mode: str, index: VectorStoreIndex) -> None:
    for name, make in ENGINES.items():
        if name == "condense_question" and "stream" in mode:
            make = _condense_streaming  # noqa: PLW2901
        memory = CuratedMemory.from_defaults(token_limit=LIMIT)
        engine = make(index, llm=answering(), memory=memory)
        await ask(engine, mode, "before")
        await _settle(memory, 2)
        engine.reset()
        assert memory.get_all() == [], name
        await ask(engine, mode, "after")
        await _settle(memory, 2)
        assert texts(memory.get_all())[0] == "after", name
