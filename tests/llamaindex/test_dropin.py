"""In the place of `ChatMemoryBuffer` and `Memory`: their arguments, their blocks, one budget."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import (
    BaseMemoryBlock,
    ChatMemoryBuffer,
    FactExtractionMemoryBlock,
    InsertMethod,
    Memory,
    SimpleComposableMemory,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from llama_index.core.memory.types import BaseChatStoreMemory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import VectorStoreQueryResult
from pydantic import Field

from history_curator import ConfigurationError
from llamaindex_history_curator import CuratedMemory
from tests.llamaindex.factories import assistant, call, orphans, result, roles, system, texts, user
from tests.llamaindex.models import RecordingLLM, cost, problems


def turns(count: int, words: int = 20, start: int = 0) -> list[ChatMessage]:
    return [
        message
        for number in range(start, start + count)
        for message in (user(f"q{number} " + "x " * words), assistant(f"a{number} " + "y " * words))
    ]


class TestArguments:
    def test_those_of_the_buffer_in_its_order(self) -> None:
        given = ([user("1")], None, SimpleChatStore(), "s", 500, str.split)
        theirs = ChatMemoryBuffer.from_defaults(*given)
        ours = CuratedMemory.from_defaults(*given)
        assert texts(ours.get()) == texts(theirs.get())
        assert (ours.chat_store_key, ours.token_limit) == ("s", 500)
        assert len(ours.tokenizer_fn("four words of text")) == 4
        assert isinstance(ours, BaseChatStoreMemory)

    def test_a_tokenizer_counts(self) -> None:
        for tokenize in (list, str.split):
            memory = CuratedMemory.from_defaults(turns(20), token_limit=400, tokenizer_fn=tokenize)
            said = sum(len(tokenize(str(text))) + 4 for text in texts(memory.get()))
            assert 100 < said <= 400

    def test_those_of_memory_by_name(self, tmp_path: Path) -> None:
        uri = f"sqlite+aiosqlite:///{tmp_path / 'chats.db'}"
        common: dict[str, Any] = {"session_id": "s", "token_limit": 500, "async_database_uri": uri}
        theirs = Memory.from_defaults(**common)
        theirs.put(user("1"))
        ours = CuratedMemory.from_defaults(**common)
        assert ours.session_id == "s"
        assert texts(ours.get()) == ["1"]
        ours.put(assistant("2"))
        assert texts(theirs.get()) == ["1", "2"]

    def test_as_much_leaves_at_once_as_memory_lets_go(self) -> None:
        made = CuratedMemory.from_defaults(token_limit=1_000, token_flush_size=200)
        assert made.curator.compact_to == pytest.approx(0.8)
        assert CuratedMemory.from_dict(made.to_dict()).curator.compact_to == pytest.approx(0.8)

    def test_the_constructor_takes_what_theirs_take(self) -> None:
        made = CuratedMemory(session_id="s", token_limit=40, tokenizer_fn=str.split)
        assert (made.session_id, made.token_limit) == ("s", 40)
        assert made.curator.counter.count("four words of text") == 4
        with pytest.raises(ConfigurationError, match="differ"):
            CuratedMemory(session_id="s", chat_store_key="t")

    def test_a_database_without_a_session_is_nobody_elses(self, tmp_path: Path) -> None:
        uri = f"sqlite+aiosqlite:///{tmp_path / 'chats.db'}"
        first = CuratedMemory.from_defaults(async_database_uri=uri)
        first.put(user("1"))
        assert CuratedMemory.from_defaults(async_database_uri=uri).get() == []

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"token_flush_size": 900, "token_limit": 900}, "below the token_limit"),
            ({"image_token_size_estimate": 9}, "counter"),
            ({"chat_history": "session"}, "session_id="),
            ({"tokenizer_fn": str.split, "counter": "gpt-4o"}, "both given"),
            ({"session_id": "a", "chat_store_key": "b"}, "differ"),
            ({"chat_store": SimpleChatStore(), "table_name": "t"}, "together"),
            ({"memory_blocks": [StaticMemoryBlock(static_content="a")] * 2}, "name"),
            ({"memory_blocks": [StaticMemoryBlock(static_content="a")],
              "chat_history_token_ratio": 7}, "at most 1"),
        ],
    )  # fmt: skip
    def test_what_means_nothing_is_refused(self, given: dict[str, Any], told: str) -> None:
        with pytest.raises(ConfigurationError, match=f"{told}"):
            CuratedMemory.from_defaults(**given)

    def test_as_part_of_a_composed_memory(self) -> None:
        primary = CuratedMemory.from_defaults(turns(40), token_limit=300)
        second = CuratedMemory.from_defaults([user("old"), assistant("news")], token_limit=300)
        both = SimpleComposableMemory.from_defaults(
            primary_memory=primary, secondary_memory_sources=[second]
        )
        found = both.get("now?")
        assert "news" in str(found[0].content)
        both.put(user("now?"))
        assert len(primary.get_all()) == 81


class TestRoomForTheEngine:
    @pytest.mark.parametrize("mode", ["context", "condense_plus_context"])
    def test_what_is_retrieved_stays_within_what_is_reserved(self, mode: Any) -> None:
        index = VectorStoreIndex.from_documents(
            [Document(text=f"Fact {n}: " + "the sky is blue " * 40) for n in range(2)],
            embed_model=MockEmbedding(embed_dim=8),
        )
        llm = RecordingLLM(lambda number, messages: assistant("because " * 30))
        memory = CuratedMemory.from_defaults(token_limit=1_200, reserve=550)
        engine = index.as_chat_engine(chat_mode=mode, llm=llm, memory=memory)
        for number in range(20):
            engine.chat(f"question {number} " + "why " * 20)
        assert 900 < max(llm.costs) <= 1_200


class Echo(BaseMemoryBlock[str]):
    """Says a text, and keeps what it is given."""

    name: str = "echo"
    text: str = "echo"
    kept: list[Any] = Field(default_factory=list)

    async def _aget(self, messages: Any = None, **given: Any) -> Any:
        return self.text

    async def _aput(self, messages: list[ChatMessage]) -> None:
        self.kept.append(texts(messages))
        for message in messages:
            message.blocks.clear()

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        return content[: len(content) // 2]


class Speaking(Echo):
    """Says messages."""

    name: str = "speaking"

    async def _aget(self, messages: Any = None, **given: Any) -> Any:
        return [call("old", q="x"), user("once upon a time")]


class TextStore(SimpleVectorStore):
    """Keeps the nodes themselves, and finds the newest."""

    stores_text: bool = True
    nodes: list[Any] = Field(default_factory=list)

    async def async_add(self, nodes: Any, **given: Any) -> list[str]:
        self.nodes += nodes
        return [node.node_id for node in nodes]

    async def aquery(self, query: Any, **given: Any) -> VectorStoreQueryResult:
        return VectorStoreQueryResult(nodes=self.nodes[-1:], similarities=[1.0], ids=["a"])


class TestBlocks:
    def test_they_say_something_in_the_system_message(self) -> None:
        memory = CuratedMemory.from_defaults(
            [system("rules"), user("hi")],
            memory_blocks=[StaticMemoryBlock(name="who", static_content="Her name is Ada.")],
        )
        view = memory.get()
        assert roles(view) == ["system", "user"]
        assert "Her name is Ada." in str(view[0].content)
        assert "rules" in str(view[0].content)
        assert texts(memory.get_all()) == ["rules", "hi"]

    async def test_or_in_the_question_also_when_nothing_was_said(self) -> None:
        block = StaticMemoryBlock(name="who", static_content="Her name is Ada.")
        memory = CuratedMemory.from_defaults(
            turns(2), memory_blocks=[block], insert_method=InsertMethod.USER
        )
        view = await memory.aget()
        assert "Ada" in str(view[-2].content)
        empty = CuratedMemory.from_defaults(memory_blocks=[block])
        assert "Ada" in str(empty.get()[0].content)

    def test_blocks_and_view_share_one_budget(self) -> None:
        memory = CuratedMemory.from_defaults(
            turns(60), token_limit=800,
            memory_blocks=[StaticMemoryBlock(name="a", static_content="fact " * 150)],
        )  # fmt: skip
        view = memory.get()
        assert cost(view) <= 800
        assert "fact " * 149 in str(view[0].content)
        assert len(view) > 3
        assert problems(view, "history") == []

    def test_the_highest_number_gives_way_first_and_zero_never(self) -> None:
        blocks = [
            Echo(name="kept", text="kept " * 100, priority=0),
            Echo(name="first", text="first " * 100, priority=1),
            Echo(name="last", text="last " * 300, priority=9),
        ]
        memory = CuratedMemory.from_defaults(turns(60), token_limit=900, memory_blocks=blocks)
        view = memory.get()
        shown = str(view[0].content)
        assert cost(view) <= 900
        assert (shown.count("kept"), shown.count("first")) == (100 + 2, 100 + 2)
        assert shown.count("last") < 200

    def test_room_that_the_conversation_does_not_need_is_theirs(self) -> None:
        block = Echo(text="fact " * 500, priority=1)
        memory = CuratedMemory.from_defaults([user("hi")], token_limit=800, memory_blocks=[block])
        assert str(memory.get()[0].content).count("fact") == 500

    def test_blocks_that_leave_no_room_are_left_out(self, caplog: pytest.LogCaptureFixture) -> None:
        memory = CuratedMemory.from_defaults(
            turns(9), token_limit=300, memory_blocks=[Echo(text="fact " * 400)]
        )
        assert cost(memory.get()) <= 300
        assert "leave no room" in caplog.text

    def test_messages_of_a_block_keep_the_rules(self) -> None:
        memory = CuratedMemory.from_defaults(
            [system("rules"), user("hi")], memory_blocks=[Speaking()]
        )
        view = memory.get()
        assert "once upon a time" in str(view)
        assert orphans(view) == []
        assert problems(view, "history") == []

    async def test_they_are_given_what_leaves_the_view_once(self) -> None:
        block = Echo(kept=[])
        memory = CuratedMemory.from_defaults(token_limit=400, memory_blocks=[block])
        for message in turns(10):
            memory.put(message)
        for message in turns(20, start=10):
            await memory.aput(message)
        given = [text for batch in block.kept for text in batch]
        said = texts(memory.get_all())
        assert 20 < len(given) < 60
        assert given == said[: len(given)]
        assert None not in said

    async def test_and_once_only_when_the_database_is_opened_again(self, tmp_path: Path) -> None:
        uri = f"sqlite+aiosqlite:///{tmp_path / 'chats.db'}"
        blocks = Echo(kept=[]), Echo(kept=[])
        for place, block in enumerate(blocks):
            memory = CuratedMemory.from_defaults(
                session_id="s", async_database_uri=uri, token_limit=400, memory_blocks=[block]
            )
            await memory.aput_messages(turns(30, start=30 * place))
        first, second = ([t for batch in block.kept for t in batch] for block in blocks)
        assert set(first).isdisjoint(second)
        assert [*first, *second] == texts(await memory.aget_all())[: len(first) + len(second)]

    async def test_facts_are_extracted_and_survive_json(self) -> None:
        llm = RecordingLLM(lambda number, messages: assistant("<fact>She likes tea.</fact>"))
        memory = CuratedMemory.from_defaults(
            token_limit=300, memory_blocks=[FactExtractionMemoryBlock(llm=llm)]
        )
        for message in turns(20):
            await memory.aput(message)
        assert "She likes tea." in str((await memory.aget())[0].content)
        data = json.loads(json.dumps(memory.to_dict()))
        data["live"] = "another process"
        with pytest.warns(UserWarning, match="ExtractedFacts.*memory_blocks="):
            CuratedMemory.from_dict(data)
        again = CuratedMemory.from_dict(
            data, memory_blocks=[FactExtractionMemoryBlock(llm=RecordingLLM())]
        )
        assert "She likes tea." in str(again.get()[0].content)

    def test_vectors_find_what_left(self) -> None:
        block = VectorMemoryBlock(
            vector_store=TextStore(),
            embed_model=MockEmbedding(embed_dim=8),
            similarity_top_k=1,
        )
        memory = CuratedMemory.from_defaults(token_limit=500, session_id="s", memory_blocks=[block])
        for message in turns(30):
            memory.put(message)
        view = memory.get("and?")
        assert cost([*view, user("and?")]) <= 500
        assert "<RetrievedMessages>" in str(view[0].content)

    def test_a_tool_loop_beside_a_block_stays_whole(self) -> None:
        said = [user("task")]
        for number in range(40):
            said += [call(f"c{number}"), result(f"c{number}", "w " * 40)]
        memory = CuratedMemory.from_defaults(
            said, token_limit=600, memory_blocks=[Echo(text="fact " * 100)]
        )
        view = memory.get()
        assert orphans(view) == []
        assert cost(view) <= 600

    def test_inside_a_running_loop_too(self) -> None:
        async def main() -> list[ChatMessage]:
            memory = CuratedMemory.from_defaults(token_limit=400, memory_blocks=[Echo(kept=[])])
            for message in turns(20):
                memory.put(message)
            return memory.get()

        assert cost(asyncio.run(main())) <= 400
