"""What LlamaIndex's own memories do wrong, each beside what ours does with the same messages.

``str.split`` is the tokenizer of the peers, as it is the easiest one to follow.
"""

from __future__ import annotations

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer, ChatSummaryMemoryBuffer, Memory
from llama_index.core.storage.chat_store import SimpleChatStore

from llamaindex_history_curator import CuratedMemory
from llamaindex_history_curator.models import TokenizerCounter
from tests.llamaindex.factories import (
    assistant,
    call,
    dumped,
    orphans,
    result,
    roles,
    system,
    texts,
    user,
)
from tests.llamaindex.models import RecordingLLM, cost, entries, problems

WORDS = TokenizerCounter(str.split)


def buffer(*messages: ChatMessage, limit: int) -> ChatMemoryBuffer:
    return ChatMemoryBuffer.from_defaults(list(messages), token_limit=limit, tokenizer_fn=str.split)


def ours(*messages: ChatMessage, limit: int) -> CuratedMemory:
    return CuratedMemory.from_defaults(list(messages), token_limit=limit, counter=WORDS)


def queue(*messages: ChatMessage, limit: int) -> Memory:
    memory = Memory.from_defaults(
        session_id="s", token_limit=limit, tokenizer_fn=str.split, token_flush_size=limit // 10
    )
    if messages:
        memory.put_messages(list(messages))
    return memory


def fits(view: list[ChatMessage], limit: int) -> bool:
    return sum(map(WORDS.count_entry, entries(list(view)))) + WORDS.priming <= limit


class TestChatMemoryBuffer:
    def test_a_big_result_is_sent_without_its_call(self) -> None:
        said = user("q"), call("1"), result("1", "w " * 100)
        assert roles(buffer(*said, limit=50).get()) == ["tool"]
        view = ours(*said, limit=50).get()
        assert roles(view) == ["user", "assistant", "tool"]
        assert fits(view, 50)

    def test_after_a_long_loop_only_an_orphan_is_left(self) -> None:
        said = [user("task")]
        for number in range(50):
            said += [call(str(number)), result(str(number), "w " * 20)]
        assert roles(buffer(*said, limit=300).get()) == ["tool"]
        view = ours(*said, limit=300).get()
        assert view[0].content == "task"
        assert orphans(view) == []
        assert fits(view, 300)

    def test_call_arguments_are_not_counted(self) -> None:
        said = user("q"), call("1", text=None, q="w " * 5_000), result("1", "r"), assistant("a")
        peer = buffer(*said, limit=50)
        assert len(peer.get()) == 4
        assert peer._token_count_for_messages(peer.get()) == 4
        view = ours(*said, limit=50).get()
        assert fits(view, 50)
        assert problems(view, "history") == []

    def test_the_system_message_is_dropped(self) -> None:
        said = system("rules"), *[user("q q q q"), assistant("a a a a")] * 2
        assert "system" not in roles(buffer(*said, limit=12).get())
        assert roles(ours(*said, limit=40).get())[0] == "system"

    def test_a_long_start_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="Initial token count exceeds token limit"):
            buffer(user("q"), limit=50).get(initial_token_count=51)
        assert texts(ours(user("q"), limit=50).get(initial_token_count=51)) == ["q"]


class TestChatSummaryMemoryBuffer:
    SAID = (user("one " * 20), assistant("two " * 20), user("the question " * 30))

    def test_a_read_rewrites_the_record_and_the_question_is_gone(self) -> None:
        peer = ChatSummaryMemoryBuffer.from_defaults(
            list(self.SAID),
            llm=RecordingLLM(lambda number, messages: assistant("SUMMARY")),
            token_limit=30,
            tokenizer_fn=str.split,
        )
        view = peer.get()
        assert roles(view) == ["system"]
        assert len(peer.get_all()) == 1

    def test_ours_reads_without_writing_and_keeps_it(self) -> None:
        memory = ours(*self.SAID, limit=80)
        assert memory.get()[-1].content == self.SAID[-1].content
        assert dumped(memory.get_all()) == dumped(self.SAID)


class TestMemory:
    def test_the_system_message_is_evicted(self) -> None:
        said = [system("rules")]
        for number in range(10):
            said += [user(f"q{number} " + "w " * 20), assistant(f"a{number} " + "w " * 20)]
        assert "system" not in roles(queue(*said, limit=200).get())
        view = ours(*said, limit=200).get()
        assert view[0].content == "rules"
        assert fits(view, 200)


class TestFramework:
    def test_the_simple_stores_own_serialiser_fails(self) -> None:
        store = SimpleChatStore()
        store.add_message("chat_history", user("hi"))
        with pytest.raises(Exception, match="serializ"):
            store.model_dump_json()
        memory = CuratedMemory.from_defaults(chat_store=store)
        assert texts(CuratedMemory.from_string(memory.to_string()).get_all()) == ["hi"]

    async def test_no_memory_curates_a_running_loop(self) -> None:
        def page(n: int) -> str:
            """Return a page."""
            return "word " * 5_000

        llm = RecordingLLM(
            lambda number, messages: (
                call(f"c{number}", name="page", n=number) if number < 3 else assistant("done")
            )
        )
        memory = Memory.from_defaults(token_limit=4_000)
        await FunctionAgent(llm=llm, tools=[page]).run("go", memory=memory)
        first, second, third, fourth = map(cost, llm.sent)
        assert first < 100
        assert 5_000 < second < 10_000 < third < 15_000 < fourth
