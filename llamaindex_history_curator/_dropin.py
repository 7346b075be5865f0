"""Arguments of `ChatMemoryBuffer` and `Memory`, in our words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count as numbers
from typing import Any
from uuid import uuid4

from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from history_curator.errors import ConfigurationError
from history_curator.tokens._base import CachingCounter
from llamaindex_history_curator._registry import find_store
from llamaindex_history_curator._store import ChatStore, check_store

_NO_EQUAL = {
    "image_token_size_estimate": "images are counted by their size; pass a counter of your own",
    "audio_token_size_estimate": "pass a counter: TiktokenCounter(media={'audio': …})",
    "video_token_size_estimate": "pass a counter: TiktokenCounter(media={'video': …})",
    "document_token_size_estimate": "pass a counter: TiktokenCounter(media={'file': …})",
    "summarize_prompt": "pass managers=[SummarizingManager(…)]",
    "count_initial_tokens": "they always count",
}
_TABLE = "llama_index_memory"

_serial = numbers(1)


class TokenizerCounter(CachingCounter):
    """Counts with a tokenizer of LlamaIndex: a function from a text to its tokens.

    Example:
        >>> TokenizerCounter(str.split).count("four words of text")
        4
    """

    __slots__ = ("_tokenize",)

    def __init__(self, tokenize: Callable[[str], Sequence[Any]]) -> None:
        # Counts are cached under the name: two functions of one name must not be mixed up.
        label = getattr(tokenize, "__qualname__", type(tokenize).__name__)
        super().__init__(f"{label}#{next(_serial)}")
        self._tokenize = tokenize

    def _count_text(self, text: str) -> int:
        return len(self._tokenize(text))


def check_no_equal(owner: str, given: dict[str, Any]) -> None:
    """Refuse arguments of other memories that mean nothing here.

    Raises:
        ConfigurationError: saying what there is instead.
    """
    for name in given:
        if name in _NO_EQUAL:
            raise ConfigurationError(
                f"{owner}: {name} has no meaning here. Fix: leave it out; {_NO_EQUAL[name]}."
            )


def counter_of(counter: Any, tokenizer_fn: Callable[[str], Sequence[Any]] | None) -> Any:
    """Return what counts."""
    if tokenizer_fn is None:
        return counter
    if counter is not None:
        raise ConfigurationError(
            "counter and tokenizer_fn are both given. Fix: leave one of them out."
        )
    return TokenizerCounter(tokenizer_fn)


def low_water_of(token_flush_size: int, token_limit: int) -> float:
    """Return how full a view is after a cut that takes out so many tokens at once, as `Memory` does.

    Raises:
        ConfigurationError: when that leaves nothing, or takes out nothing.
    """
    if not 0 < token_flush_size < token_limit:
        raise ConfigurationError(
            f"token_flush_size is {token_flush_size}. Fix: above 0, below the token_limit of "
            f"{token_limit}, or leave it out."
        )
    return 1.0 - token_flush_size / token_limit


def store_of(chat_store: ChatStore | str | None, database: dict[str, Any]) -> ChatStore:
    """Return the chat store, opened from the arguments of `Memory` where it is not given."""
    given = {name: value for name, value in database.items() if value is not None}
    if isinstance(chat_store, str):
        found = find_store({"name": chat_store})
        if found is None:
            raise ConfigurationError(
                f"chat_store: nobody registered {chat_store!r}. Fix: register_store({chat_store!r}"
                ", …) first."
            )
        return found
    if chat_store is None:
        return (
            SQLAlchemyChatStore(**{"table_name": _TABLE, **given}) if given else SimpleChatStore()
        )
    if given:
        raise ConfigurationError(
            f"chat_store is given together with {', '.join(given)}. Fix: leave one of them out."
        )
    return check_store(chat_store)


def key_of(chat_store_key: str, session_id: str | None, database: dict[str, Any]) -> str:
    """Return which conversation of the store.

    Like `Memory`, a database without a name for the conversation gets one of its own, so that no
    two people share one.
    """
    if session_id is None:
        if chat_store_key == DEFAULT_CHAT_STORE_KEY and any(database.values()):
            return str(uuid4())
        return chat_store_key
    if chat_store_key not in (DEFAULT_CHAT_STORE_KEY, session_id):
        raise ConfigurationError(
            "chat_store_key and session_id are both given, and differ. Fix: leave one of them out."
        )
    return session_id
