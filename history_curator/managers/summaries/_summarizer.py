"""A summariser is any callable from text to text; models of both frameworks are adapted here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from inspect import isawaitable, iscoroutinefunction
from typing import Any

from history_curator.errors import ConfigurationError, a_type


@dataclass(frozen=True, slots=True)
class Summarizer:
    """One model or function, called the way the caller runs.

    Attributes:
        sync: takes a prompt and returns the answer, or None for an async-only function.
        asynchronous: the same, awaited, or None for a sync-only function.
        name: for warnings.
    """

    sync: Callable[[str], Any] | None
    asynchronous: Callable[[str], Awaitable[Any]] | None
    name: str

    def ask(self, prompt: str) -> str:
        """Return the answer to a prompt; what has to be awaited runs in a thread of its own."""
        answer = (self.sync or self.asynchronous)(prompt)  # type: ignore[misc]
        if isawaitable(answer):
            # Its own thread, as the caller's may run an event loop already.
            with ThreadPoolExecutor(1) as thread:
                context = copy_context()
                answer = thread.submit(context.run, asyncio.run, _awaited(answer)).result()
        return _text_of(answer)

    async def aask(self, prompt: str) -> str:
        """Return the answer to a prompt without blocking the loop."""
        if self.asynchronous is not None:
            return _text_of(await self.asynchronous(prompt))
        assert self.sync is not None
        answer = await asyncio.to_thread(self.sync, prompt)
        return _text_of(await answer if isawaitable(answer) else answer)


def resolve_summarizer(summarizer: Any) -> Summarizer:
    """Return the summariser behind a function, a LangChain runnable or a LlamaIndex LLM.

    Examples:
        >>> resolve_summarizer(str.upper).ask("short")
        'SHORT'
    """
    name = getattr(summarizer, "__name__", type(summarizer).__name__)
    for sync, asynchronous in (("invoke", "ainvoke"), ("complete", "acomplete")):
        if callable(getattr(summarizer, sync, None)):
            return Summarizer(
                getattr(summarizer, sync), getattr(summarizer, asynchronous, None), name
            )
    if not callable(summarizer):
        raise ConfigurationError(
            f"summarizer is a {name}. Fix: a function from text to text, a LangChain chat model "
            "or a LlamaIndex LLM."
        )
    call = getattr(summarizer, "__call__", None)  # noqa: B004 - for objects with an async call
    if iscoroutinefunction(summarizer) or iscoroutinefunction(call):
        return Summarizer(None, summarizer, name)
    return Summarizer(summarizer, None, name)


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


def _text_of(answer: Any) -> str:
    """Return the text of what a model returned: a string, a message, or a completion."""
    text = getattr(answer, "content", None)
    if text is None:
        text = getattr(answer, "text", answer)
    if isinstance(text, list):
        text = "".join(
            block if isinstance(block, str) else str(block.get("text") or "")
            for block in text
            if isinstance(block, (str, dict))
        )
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"the summariser returned no text, but {a_type(answer)}")
    return text.strip()
