"""Messages as the adapter of an LLM takes them.

LlamaIndex's adapters differ in what they convert: some raise on a block or a role they do not
know, some send it as it is, some leave it out without a word.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from operator import is_
from typing import Any

from llama_index.core.base.llms.types import (
    CacheControl,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms import LLM

from llamaindex_history_curator._cache import RESULTS, takes_points
from llamaindex_history_curator._calls import read_calls, write_block
from llamaindex_history_curator._models import provider_of
from llamaindex_history_curator._rewrite import RESULT_ID_KEYS, citable_text

_CALLS = ("tool_calls", "function_call")
_PLAIN = {MessageRole.SYSTEM, MessageRole.USER, MessageRole.ASSISTANT, MessageRole.TOOL}
_ANSWERS = {MessageRole.ASSISTANT, MessageRole.MODEL, MessageRole.CHATBOT}
_ODD = frozenset((*_CALLS, "thought_signatures"))
_OBJECTS = ("anthropic", "bedrock", "gemini")
"""Providers that want the arguments of a call as an object, not as text."""


class Wire:
    """Writes messages in the words an LLM's adapter has for them.

    A message that needs nothing is the same object. Nothing is left out but what the adapter
    would refuse or drop and the provider could not use: a cache point, a citation of an answer.

    Args:
        provider: whose rules hold.
        llm: who is asked; None where a memory does not know.
    """

    def __init__(self, provider: str, llm: LLM | None = None) -> None:
        self._provider = provider
        self._known = llm is not None or provider not in ("core", "portable")
        self._marks = provider in ("anthropic", "bedrock") if llm is None else takes_points(llm)
        self._responses = llm is not None and "responses" in llm.class_name().lower()
        self._joins = provider_of(llm) == "gemini"

    def __call__(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the messages, one for one."""
        written = [self.one(message) for message in messages]
        return _joinable(written) if self._joins else written

    def one(self, message: ChatMessage) -> ChatMessage:
        """Return one message."""
        blocks, keywords = message.blocks, message.additional_kwargs
        if (
            message.role in _PLAIN
            and len(blocks) == 1
            and type(blocks[0]) is TextBlock
            and (not keywords or (_ODD.isdisjoint(keywords) and "tool_call_id" in keywords))
        ):
            return message
        return self._written(message)

    def _written(self, message: ChatMessage) -> ChatMessage:
        keywords = message.additional_kwargs
        blocks = self._blocks(message)
        changes: dict[str, Any] = {}
        if blocks is not message.blocks:
            changes["blocks"] = blocks
        role = self._role(message)
        if role is not message.role:
            changes["role"] = role
        if keywords:
            kept = self._keywords(message, role, blocks)
            if kept is not keywords:
                changes["additional_kwargs"] = kept
        return message.model_copy(update=changes) if changes else message

    def _role(self, message: ChatMessage) -> MessageRole:
        role = message.role
        if self._provider == "gemini" and message.additional_kwargs.get("thought_signatures"):
            # Its adapter answers as the assistant, and sends signatures of the model alone.
            return MessageRole.MODEL if role is MessageRole.ASSISTANT else role
        if role in _PLAIN:
            return role
        if role is MessageRole.DEVELOPER:
            return role if self._provider == "openai" else MessageRole.SYSTEM
        if role is MessageRole.FUNCTION:
            return MessageRole.TOOL
        return MessageRole.ASSISTANT  # chatbot, model

    def _blocks(self, message: ChatMessage) -> list[Any]:
        blocks, out = message.blocks, list[Any]()
        for block in blocks:
            written = self._block(block, out, message)
            if written is not None:
                out.append(written)
        called = any(isinstance(block, ToolCallBlock) for block in blocks)
        if not called and not _is_empty(message.additional_kwargs) and not self._is_own(message):
            out += map(self._call, map(write_block, read_calls(message)))
        return blocks if len(out) == len(blocks) and all(map(is_, out, blocks)) else out

    def _block(self, block: Any, before: Sequence[Any], message: ChatMessage) -> Any:
        if isinstance(block, TextBlock):
            is_spare = not block.text and len(message.blocks) > 1
            return None if is_spare and self._provider in _OBJECTS else block
        if isinstance(block, ToolCallBlock):
            return self._call(block)
        if isinstance(block, CachePoint):
            return self._mark(block, before, message.role)
        if not isinstance(block, (CitableBlock, CitationBlock)):
            return block
        if self._provider == "anthropic" or not self._known:
            plain = isinstance(block, CitableBlock) and all(
                isinstance(part, TextBlock) and part.text for part in block.content
            )
            if plain or isinstance(block, CitationBlock):
                return block
        return TextBlock(text=citable_text(block)) if isinstance(block, CitableBlock) else None

    def _mark(
        self, block: CachePoint, before: Sequence[Any], role: MessageRole
    ) -> CachePoint | None:
        if not self._known:
            return block
        if not self._marks or not before or role in RESULTS:
            return None
        if self._provider == "bedrock" and block.cache_control.type != "default":
            return CachePoint(cache_control=CacheControl(type="default"))
        return block

    def _call(self, block: ToolCallBlock) -> ToolCallBlock:
        if self._provider not in _OBJECTS or not isinstance(block.tool_kwargs, str):
            return block
        try:
            arguments = json.loads(block.tool_kwargs or "{}")
        except ValueError:
            arguments = {"arguments": block.tool_kwargs}
        if not isinstance(arguments, dict):
            arguments = {"arguments": arguments}
        return block.model_copy(update={"tool_kwargs": arguments})

    def _is_own(self, message: ChatMessage) -> bool:
        """Whether Gemini's adapter wrote these calls: their signatures have no other place."""
        wires = message.additional_kwargs.get("tool_calls") or ()
        return self._provider == "gemini" and any(
            (wire.get("thought_signature") if isinstance(wire, dict) else
             getattr(wire, "thought_signature", None)) for wire in wires
        )  # fmt: skip

    def _keywords(
        self, message: ChatMessage, role: MessageRole, blocks: Sequence[Any]
    ) -> dict[str, Any]:
        keywords = message.additional_kwargs
        kept = keywords
        if role is MessageRole.TOOL and not keywords.get("tool_call_id"):
            found = next(
                (keywords[key] for key in (*RESULT_ID_KEYS, "name") if keywords.get(key)), None
            )
            if found is not None:
                kept = {**kept, "tool_call_id": found}
        called = any(isinstance(block, ToolCallBlock) for block in blocks)
        if called and not _is_empty(kept) and (blocks is not message.blocks or self._responses):
            # Said by the blocks. Responses would send the others as they are, in any shape.
            kept = {key: value for key, value in kept.items() if key not in _CALLS}
        return kept


def _joinable(messages: list[ChatMessage]) -> list[ChatMessage]:
    """Return messages of which neighbours of one role may be joined.

    Gemini's adapter does that by writing what follows into the blocks of the first, which would be
    a message of the record with words of the recap in it. It gets copies of these.
    """
    out = list(messages)
    for at, (message, after) in enumerate(pairwise(messages)):
        alike = (message.role in _ANSWERS) == (after.role in _ANSWERS)
        apart = message.role is MessageRole.TOOL or (at == 0 and message.role is MessageRole.SYSTEM)
        if alike and not apart:
            fields = {
                "blocks": [*message.blocks],
                "additional_kwargs": {**message.additional_kwargs},
            }
            out[at] = message.model_copy(update=fields)
    return out


def _is_empty(keywords: dict[str, Any]) -> bool:
    return not any(keywords.get(key) for key in _CALLS)
