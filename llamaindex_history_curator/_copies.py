"""Copies that share nothing editable with the original."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock

__all__ = ["copy_message"]


def copy_message(message: ChatMessage) -> ChatMessage:
    """Return a copy that shares nothing that can be edited in place.

    LlamaIndex rewrites ``block.text`` of the messages a memory returns, so what is stored and
    what is handed out must not be the same objects.
    """
    return message.model_copy(
        update={
            "blocks": [_copy_block(block) for block in message.blocks],
            "additional_kwargs": _copy_tree(message.additional_kwargs),
        }
    )


def _copy_block(block: Any) -> Any:
    if isinstance(block, ToolCallBlock):
        return block.model_copy(update={"tool_kwargs": _copy_tree(block.tool_kwargs)})
    return block.model_copy()


def _copy_tree(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy_tree(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy_tree(item) for item in value]
    return value
