"""An agent whose running tool loop is curated: every call fits, nothing of the run is lost.

Run: python examples/llamaindex_agent.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

from history_curator import count_tokens
from llamaindex_history_curator import CuratedFunctionAgent, CuratedMemory

STEPS = 30
LIMIT = 8_000


def read_page(number: int) -> str:
    """Read one page of a long manual."""
    return f"Page {number}. " + "All work and no play makes Jack a dull boy. " * 300


async def main() -> None:
    """Read thirty long pages with a small window."""
    sizes: list[int] = []

    def respond(messages: Sequence[ChatMessage], **kwargs: Any) -> ChatMessage:
        sizes.append(count_tokens(list(messages)))
        if len(sizes) > STEPS:
            return ChatMessage(role="assistant", content="I have read it all.")
        call = ToolCallBlock(
            tool_call_id=f"c{len(sizes)}",
            tool_name="read_page",
            tool_kwargs={"number": len(sizes)},
        )
        return ChatMessage(role="assistant", blocks=[call])

    memory = CuratedMemory.from_defaults(token_limit=LIMIT)
    agent = CuratedFunctionAgent(
        llm=MockFunctionCallingLLM(response_generator=respond),
        tools=[read_page],
        token_limit=LIMIT,
    )
    answer = await agent.run("Read the manual.", memory=memory, max_iterations=STEPS + 5)
    record = memory.get_all()
    print(answer)
    print(f"{len(sizes)} model calls, at most {max(sizes):,} tokens each (limit {LIMIT:,})")
    print(f"record: {len(record)} messages, {count_tokens(record):,} tokens")


if __name__ == "__main__":
    asyncio.run(main())
