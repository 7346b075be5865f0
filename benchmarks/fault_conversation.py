"""A stored conversation in terms of short marks, and the steps at which writing it can break."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any

from history_curator.config import RetentionConfig
from tests.stores.conversations import Conversation
from tests.stores.servers import Server

RETENTION = RetentionConfig(persist_tool_invocations="trimmed", preserve_turns=1)
"""So that adding the second question also edits the first turn where the store can do that."""
MARKS = ("q0", "c0", "r0", "a0", "q1")
"""A question, a call, its result, the answer, and the next question."""
_DRIVER_CALLS = (
    ("sqlalchemy.engine.base", "Connection", "_commit_impl"),
    ("sqlalchemy.engine.default", "DefaultDialect", "do_execute"),
    ("sqlalchemy.engine.default", "DefaultDialect", "do_executemany"),
    ("psycopg", "Cursor", "execute"),
    ("psycopg", "Cursor", "executemany"),
    ("psycopg", "Connection", "commit"),
    ("redis.connection", "AbstractConnection", "send_packed_command"),
    ("redis.connection", "AbstractConnection", "read_response"),
    ("os", "", "fsync"),
    ("os", "", "replace"),
    ("os", "", "rename"),
)
"""A write can be interrupted before and after everything a driver sends or commits."""


class Steps:
    """Counts steps from now on, and does something at one of them.

    Args:
        at: the step, from 1.
        action: what to do then.
    """

    def __init__(self, at: int, action: Callable[[], None]) -> None:
        self.at = at
        self.count = 0
        self.on = False
        self._action = action

    def install(self) -> Steps:
        """Have every driver that is here report its steps, in this process only."""
        for module, owner, name in _DRIVER_CALLS:
            try:
                found: Any = import_module(module)
            except ImportError:
                continue
            place = getattr(found, owner) if owner else found
            setattr(place, name, self._reporting(getattr(place, name)))
        return self

    def _reporting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            self._step()
            try:
                return function(*args, **kwargs)
            finally:
                self._step()

        return run

    def _step(self) -> None:
        if not self.on:
            return
        self.count += 1
        if self.count == self.at:
            self._action()


class Talk(Conversation):
    """One conversation of marks, opened by a process of its own."""

    def __init__(self, store: str, server: Server, key: str) -> None:
        opened = Conversation.open(store, server, key, max_tokens=20_000, retention=RETENTION)
        super().__init__(opened.adapter)

    def say(self, marks: Sequence[str]) -> None:
        """Add messages."""
        self.add([self._message(mark) for mark in marks])

    def heard(self) -> list[str]:
        """Return the marks of everything that is stored."""
        return [self._mark(message) for message in self.record()]

    def _message(self, mark: str) -> Any:
        if self.is_langchain:
            from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

            if mark.startswith("c"):
                return AIMessage("", tool_calls=[{"name": "f", "args": {"x": 1}, "id": mark}])
            if mark.startswith("r"):
                return ToolMessage("row " * 50, tool_call_id=f"c{mark[1:]}", name="f")
            return AIMessage(mark) if mark.startswith("a") else HumanMessage(mark)
        from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock

        if mark.startswith("c"):
            call = ToolCallBlock(tool_call_id=mark, tool_name="f", tool_kwargs={"x": 1})
            return ChatMessage(role="assistant", blocks=[call])
        if mark.startswith("r"):
            extra = {"tool_call_id": f"c{mark[1:]}", "name": "f"}
            return ChatMessage("row " * 50, role="tool", additional_kwargs=extra)
        return ChatMessage(mark, role="assistant" if mark.startswith("a") else "user")

    def _mark(self, message: Any) -> str:
        if self.is_langchain:
            if message.type == "tool":
                return f"r{message.tool_call_id[1:]}"
            calls = getattr(message, "tool_calls", None)
            return str(calls[0]["id"]) if calls else str(message.content)
        if message.role.value == "tool":
            return f"r{message.additional_kwargs['tool_call_id'][1:]}"
        for block in message.blocks:
            if block.block_type == "tool_call":
                return str(block.tool_call_id)
        return str(message.content)
