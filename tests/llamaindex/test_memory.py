"""`CuratedMemory`: a complete record, a view that fits and is never invalid."""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.schema import QueryBundle
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from history_curator import (
    ConfigurationError,
    ConversionError,
    RetentionConfig,
    SlidingWindowManager,
)
from llamaindex_history_curator import CuratedMemory, recall_tool
from tests.llamaindex.factories import (
    assistant,
    call,
    dumped,
    result,
    roles,
    system,
    texts,
    turns,
    user,
)
from tests.llamaindex.models import cost, problems


def memory(*messages: ChatMessage, limit: int = 500, **options: object) -> CuratedMemory:
    return CuratedMemory.from_defaults(list(messages), token_limit=limit, **options)


class TwoSteps(SimpleChatStore):
    """Replaces a conversation like Redis does."""

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        self.delete_messages(key)
        for message in messages:
            self.add_message(key, message)


class RowStore(SQLAlchemyChatStore):
    """Must not be rewritten."""

    async def set_messages(self, *given: object, **options: object) -> None:
        if given[1]:
            raise AssertionError("the conversation was rewritten")


class TestView:
    def test_it_fits_and_keeps_system_and_question(self) -> None:
        kept = memory(system("rules"), *turns(50), user("now?"), limit=300)
        view = kept.get()
        assert cost(view) <= 300
        assert view[0].content == "rules"
        assert view[-1].content == "now?"
        assert problems(view) == []
        assert len(kept.get_all()) == 102

    def test_it_may_end_on_the_answer_because_the_caller_appends(self) -> None:
        assert roles(memory(user(), assistant()).get()) == ["user", "assistant"]

    def test_an_empty_memory_gives_nothing_and_is_still_true(self) -> None:
        empty = memory()
        assert empty.get() == []
        assert empty.get(input="hello") == []
        assert bool(empty) is True
        assert (empty or None) is empty

    async def test_an_async_manager_works_in_aget(self) -> None:
        class Slow:
            async def acurate(self, entries, *, context):  # type: ignore[no-untyped-def]
                await asyncio.sleep(0)
                return entries[-1:]

        kept = memory(*turns(5), user("last"), managers=[Slow()])
        assert texts(await kept.aget()) == ["last"]
        with pytest.raises(ConfigurationError, match="async"):
            kept.get()


class TestRoomForTheCaller:
    def test_initial_tokens_are_left_free(self) -> None:
        kept = memory(*turns(30), user("now?"), limit=400)
        assert cost(kept.get(initial_token_count=200)) <= 200

    def test_the_coming_question_is_left_room(self) -> None:
        kept = memory(*turns(30), limit=400)
        question = "z " * 150
        assert cost([*kept.get(input=question), user(question)]) <= 400

    def test_a_question_already_in_the_record_is_not_counted_twice(self) -> None:
        question = "z " * 90
        kept = memory(user(question), limit=110)
        assert texts(kept.get(input=question)) == [question]

    @pytest.mark.parametrize("asked", [QueryBundle("z " * 150), user("z " * 150), 5, ["a"], None])
    async def test_a_question_may_be_anything(self, asked: Any) -> None:
        kept = memory(*turns(30), limit=400)
        view = await kept.aget(input=asked)
        assert texts(view) == texts(kept.get(input=asked))
        assert cost(view) <= 400 - (150 if isinstance(asked, (QueryBundle, ChatMessage)) else 0)

    @pytest.mark.parametrize("initial", [0, 10_000])
    def test_it_degrades_to_the_latest_turn_instead_of_raising(
        self, initial: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        big = "big " * 400
        kept = memory(system("rules"), *turns(10), user(big), limit=100)
        with caplog.at_level(logging.WARNING):
            view = kept.get(initial_token_count=initial)
        assert texts(view) == ["rules", big]
        assert "what must stay" in caplog.text


class TestRecord:
    def test_what_is_returned_can_be_edited_without_harm(self) -> None:
        kept = memory(user("one"), call("c1", q=[1]), result("c1"))
        before = dumped(kept.get_all())
        for message in [*kept.get(), *kept.get_all()]:
            for block in message.blocks:
                if isinstance(block, TextBlock):
                    block.text = "changed"
                else:
                    block.tool_kwargs["q"].append(2)
            message.additional_kwargs["tool_call_id"] = "changed"
            message.blocks.append(TextBlock(text="more"))
        assert dumped(kept.get_all()) == before

    def test_many_threads_lose_nothing(self) -> None:
        kept = memory(limit=300)

        def work(worker: int) -> None:
            for number in range(25):
                kept.put(user(f"{worker}-{number}"))
                assert problems(kept.get(), "history") == []

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        said = texts(kept.get_all())
        assert len(said) == len(set(said)) == 200
        for worker in range(8):
            own = [text for text in said if text and text.startswith(f"{worker}-")]
            assert own == [f"{worker}-{number}" for number in range(25)]


class TestSet:
    @pytest.mark.parametrize("given", ["text", {"role": "user", "content": "x"}, None])
    async def test_what_is_no_message_is_refused_when_it_is_put(self, given: Any) -> None:
        kept = memory()
        with pytest.raises(ConversionError, match=r"messages\[0\].*ChatMessage.*Fix"):
            kept.put(given)
        with pytest.raises(ConversionError, match="Fix"):
            await kept.aset([given])
        with pytest.raises(ConversionError, match=r"messages\[0\].*ChatMessage"):
            recall_tool([given])(query="hi")
        assert kept.get() == []


class TestRetention:
    SAID = (
        user("weather?"),
        call("c1", city="Oslo"),
        result("c1", "rain " * 50),
        assistant("Rain."),
        user("thanks"),
    )

    def test_older_turns_are_stored_trimmed(self) -> None:
        kept = memory(
            retention=RetentionConfig(preserve_turns=1, persist_tool_invocations="trimmed")
        )
        for message in self.SAID:
            kept.put(message)
        stored = kept.get_all()
        assert stored[2].content == '{"name": "look", "status": "success"}'
        assert stored[1].blocks[0].tool_kwargs == {}
        assert stored[2].additional_kwargs["tool_call_id"] == "c1"

    def test_the_view_shows_older_turns_as_text_while_the_store_keeps_all(self) -> None:
        kept = memory(retention=RetentionConfig(preserve_turns=1))
        kept.put_messages(list(self.SAID))
        assert texts(kept.get()) == ["weather?", "Rain.", "thanks"]
        assert len(kept.get_all()) == 5

    TRIMMED = RetentionConfig(
        preserve_turns=1, persist_tool_invocations="trimmed", prune_tools_for_llm=False
    )

    def test_rows_of_a_sql_store_are_edited_in_place(self, tmp_path: Path) -> None:
        store = RowStore("chat", f"sqlite+aiosqlite:///{tmp_path / 'chat.db'}")
        kept = memory(chat_store=store, retention=self.TRIMMED)
        for message in self.SAID:
            kept.put(message)
        stored = kept.get_all()
        assert texts(stored)[2] == '{"name": "look", "status": "success"}'
        assert len(stored) == 5

    def test_a_store_that_deletes_and_adds_keeps_everything(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        for _ in range(2):
            kept = memory(chat_store=TwoSteps(), retention=self.TRIMMED)
        kept.put_messages(list(self.SAID))
        assert kept.get_all()[2].content == "rain " * 50
        assert kept.get()[2].content == '{"name": "look", "status": "success"}'
        assert sum("TwoSteps" in line for line in caplog.messages) == 1


class TestCopies:
    @pytest.mark.parametrize("through", ["json", "pickle", "pydantic"])
    def test_in_one_process_a_saved_memory_is_the_same_memory(self, through: str) -> None:
        kept = memory(user("1"), assistant("2"), managers=[SlidingWindowManager(5)])
        again = {
            "json": lambda: CuratedMemory.from_json(kept.to_json()),
            "pickle": lambda: pickle.loads(pickle.dumps(kept)),
            "pydantic": lambda: CuratedMemory.model_validate(kept.model_dump()),
        }[through]()
        assert again is kept
