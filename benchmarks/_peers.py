"""Every peer's own call, with the options its documentation shows.

Each function returns a view function: the whole history so far in, whatever the peer makes of it
out. Exact counters count what ours counts; the memoised one counts no message twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks._conversation import BUDGET
from history_curator.tokens.tiktoken_counter import load_encoding

_MORE_THAN_KEPT = 200
View = Callable[[list[Any]], Any]
Count = Callable[[Sequence[Any]], int]


def encode() -> Callable[[str], list[int]]:
    """The tokenizer everybody gets."""
    encoding = load_encoding("o200k_base")
    if encoding is None:
        raise SystemExit("benchmarks need the o200k_base encoding; see TIKTOKEN_CACHE_DIR")
    return encoding


def _count_message(message: Any, tokens: Callable[[str], list[int]]) -> int:
    total = 4 + len(tokens(message.content))
    if message.name:
        total += 1 + len(tokens(message.name))
    for call in getattr(message, "tool_calls", ()):
        total += 3 + len(tokens(call["name"])) + len(tokens(json.dumps(call["args"])))
    return total


def exact_counter() -> Count:
    """Counts a list of LangChain messages with tiktoken."""
    tokens = encode()
    return lambda messages: 3 + sum(_count_message(one, tokens) for one in messages)


def memoised_counter() -> Count:
    """The same, remembering every message object: the fair, strong baseline."""
    tokens = encode()
    known: dict[int, tuple[Any, int]] = {}

    def count(messages: Sequence[Any]) -> int:
        total = 3
        for one in messages:
            found = known.get(id(one))
            if found is None:
                found = known[id(one)] = (one, _count_message(one, tokens))
            total += found[1]
        return total

    return count


def approximate_counter() -> Count:
    """langchain-core's estimate from characters."""
    from langchain_core.messages.utils import count_tokens_approximately

    return count_tokens_approximately


COUNTERS: dict[str, Callable[[], Count]] = {
    "exact": exact_counter,
    "approximate": approximate_counter,
    "memoised exact": memoised_counter,
}


def trim_messages(count: Count) -> View:
    """langchain-core's ``trim_messages``."""
    from langchain_core.messages import trim_messages as trim

    return partial(
        trim,
        max_tokens=BUDGET,
        token_counter=count,
        strategy="last",
        start_on="human",
        end_on=("human", "tool"),
        include_system=True,
    )


def clear_tool_uses(count: Count) -> View:
    """What langchain's ``ContextEditingMiddleware`` does to a request, without its deep copy."""
    from langchain.agents.middleware.context_editing import ClearToolUsesEdit

    edit = ClearToolUsesEdit(trigger=BUDGET)

    def view(messages: list[Any]) -> list[Any]:
        edited = list(messages)
        edit.apply(edited, count_tokens=count)
        return edited

    return view


def summarization_cutoff(count: Count) -> View:
    """How langchain's ``SummarizationMiddleware`` decides what to summarise; no model is called."""
    from langchain.agents.middleware.summarization import SummarizationMiddleware
    from langchain_core.language_models import GenericFakeChatModel

    middleware = SummarizationMiddleware(
        GenericFakeChatModel(messages=iter(())),
        trigger=("tokens", BUDGET),
        keep=("tokens", BUDGET // 2),
        token_counter=count,
    )

    def view(messages: list[Any]) -> int | None:
        total = middleware.token_counter(messages)
        if not middleware._should_summarize(messages, total):
            return None
        return middleware._determine_cutoff_index(messages)

    return view


def langmem_preparation(count: Count) -> View:
    """How langmem's ``summarize_messages`` decides what to summarise; no model is called."""
    from langmem.short_term.summarization import _preprocess_messages

    def view(messages: list[Any]) -> Any:
        return _preprocess_messages(
            messages=messages,
            running_summary=None,
            max_tokens=BUDGET,
            max_tokens_before_summary=None,
            max_summary_tokens=256,
            token_counter=count,
        )

    return view


def chat_memory_buffer() -> View:
    """LlamaIndex's ``ChatMemoryBuffer``, filled with the history before it is asked."""
    from llama_index.core.memory import ChatMemoryBuffer

    tokens = encode()

    def view(messages: list[Any]) -> Any:
        memory = ChatMemoryBuffer.from_defaults(
            chat_history=messages, token_limit=BUDGET, tokenizer_fn=tokens
        )
        return memory.get()

    return view


class LlamaIndexMemory:
    """LlamaIndex's ``Memory``: it keeps the history itself, so messages are put one by one."""

    def __init__(self) -> None:
        from llama_index.core.memory import Memory

        self._loop = asyncio.new_event_loop()
        self._memory = Memory.from_defaults(token_limit=BUDGET, tokenizer_fn=encode())

    def fill(self, messages: list[Any]) -> None:
        """Put the end of the history so far, more than it keeps, in its favour all at once."""
        for start in range(max(0, len(messages) - _MORE_THAN_KEPT), len(messages), 40):
            batch = messages[start : min(start + 40, len(messages))]
            self._loop.run_until_complete(self._memory.aput_messages(batch))

    def step(self, message: Any) -> Any:
        """Put one message and ask for the view."""
        return self._loop.run_until_complete(self._step(message))

    def view(self, messages: list[Any]) -> Any:
        """Ask for the view again."""
        return self._loop.run_until_complete(self._memory.aget())

    async def _step(self, message: Any) -> Any:
        await self._memory.aput(message)
        return await self._memory.aget()

    def close(self) -> None:
        """Let go of the database and the loop."""
        self._loop.run_until_complete(self._memory.sql_store._async_engine.dispose())
        self._loop.close()


def litellm_trim() -> View:
    """litellm's ``litellm.utils.trim_messages``, on dicts."""
    from litellm.utils import trim_messages as trim

    return partial(trim, model="gpt-4o", max_tokens=BUDGET)


LANGCHAIN: dict[str, tuple[str, Callable[[Count], View]]] = {
    "trim_messages": ("langchain_core.messages.trim_messages", trim_messages),
    "ClearToolUsesEdit": ("ContextEditingMiddleware: ClearToolUsesEdit.apply", clear_tool_uses),
    "SummarizationMiddleware": ("SummarizationMiddleware: its cutoff", summarization_cutoff),
    "langmem": ("langmem summarize_messages: its preparation", langmem_preparation),
}
