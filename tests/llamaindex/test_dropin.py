"""In the place of `ChatMemoryBuffer` and `Memory`: their arguments, their blocks, one budget."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import (
    ChatMemoryBuffer,
    Memory,
)
from llama_index.core.memory.types import BaseChatStoreMemory
from llama_index.core.storage.chat_store import SimpleChatStore

from history_curator import ConfigurationError
from llamaindex_history_curator import CuratedMemory
from tests.llamaindex.factories import assistant, texts, user


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
        assert copy.deepcopy(made).curator.compact_to == pytest.approx(0.8)

    def test_a_database_without_a_session_is_nobody_elses(self, tmp_path: Path) -> None:
        uri = f"sqlite+aiosqlite:///{tmp_path / 'chats.db'}"
        first = CuratedMemory.from_defaults(async_database_uri=uri)
        first.put(user("1"))
        assert CuratedMemory.from_defaults(async_database_uri=uri).get() == []

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"token_flush_size": 900, "token_limit": 900}, "compact_to"),
            ({"image_token_size_estimate": 9}, "leave it out"),
            ({"chat_history": "session"}, "session_id="),
            ({"memory_blocks": []}, "managers="),
        ],
    )
    def test_what_means_nothing_is_refused(self, given: dict[str, Any], told: str) -> None:
        with pytest.raises(ConfigurationError, match=f"{told}"):
            CuratedMemory.from_defaults(**given)
