"""Short names for LangChain messages, so that a conversation reads on one line."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage


def system(text: str = "s") -> SystemMessage:
    return SystemMessage(text)


def human(text: Any = "q", **fields: Any) -> HumanMessage:
    return HumanMessage(text, **fields)


def ai(*ids: str, text: str = "", args: dict[str, Any] | None = None, name: str = "t") -> AIMessage:
    return AIMessage(
        text, tool_calls=[{"name": name, "args": args or {}, "id": call_id} for call_id in ids]
    )


def answer(text: str = "ok") -> AIMessage:
    return AIMessage(text)


def tool(call_id: str, text: str = "r", name: str = "t", **fields: Any) -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id, name=name, **fields)
