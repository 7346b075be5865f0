"""The forms messages take on disk: dicts, LangChain dumps, LlamaIndex dumps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from history_curator.formats import RESPONSE_ITEMS, format_of
from history_curator.errors import ConversionError

_PLAIN = {"dicts", "responses", "gemini", "bedrock"}
_LANGCHAIN_TYPES = {"human", "ai", "system", "tool", "function", "chat", "remove"}


@dataclass(frozen=True, slots=True)
class Shape:
    """How messages of one dump become objects and come back.

    ``kind`` is ``dicts`` (Chat Completions or Anthropic), ``responses``, ``gemini`` or ``bedrock``
    (requests as these APIs take them), ``langchain`` (``dumpd``), ``langchain-dict``
    (``messages_to_dict``), ``langchain-flat`` (``model_dump``) or ``llamaindex``
    (``model_dump``).
    """

    kind: str = "dicts"

    @property
    def is_plain(self) -> bool:
        """Whether messages stay the dicts they are."""
        return self.kind in _PLAIN

    def system(self, content: Any) -> Any:
        """Return a system message of this kind."""
        if self.kind == "llamaindex":
            core = _module("llama_index.core.llms", "llama-index-core")
            return core.ChatMessage(role="system", content=content)
        if self.kind.startswith("langchain"):
            core = _module("langchain_core.messages", "langchain-core")
            return core.SystemMessage(content=content)
        if self.kind == "gemini":
            parts = content.get("parts") if isinstance(content, Mapping) else content
            if isinstance(parts, (str, Mapping)):
                parts = [{"text": parts} if isinstance(parts, str) else parts]
            return {"role": "system", "parts": list(parts or ())}
        if self.kind == "bedrock" and isinstance(content, str):
            content = [{"text": content}]
        return {"role": "system", "content": content}

    def can_lift(self, content: Any) -> bool:
        """Return whether what stands beside the messages is a system message."""
        kinds = (str, list, Mapping) if self.kind == "gemini" else (str, list)
        return bool(content) and isinstance(content, kinds)

    def said_by_system(self, message: Any, given: Any) -> Any:
        """Return what goes back beside the messages, in the form in which it was given."""
        if self.kind == "gemini":
            parts = message["parts"]
            if isinstance(given, str) and len(parts) == 1:
                return parts[0].get("text", "")
            return {**given, "parts": parts} if isinstance(given, Mapping) else parts
        return message["content"] if isinstance(message, Mapping) else message.content

    def is_system(self, message: Any) -> bool:
        """Return whether a loaded message is a system message."""
        if self.is_plain:
            return isinstance(message, Mapping) and message.get("role") in ("system", "developer")
        role = message.role if self.kind == "llamaindex" else message.type
        return str(getattr(role, "value", role)) in ("system", "developer")

    def load(self, rows: Sequence[Any]) -> list[Any]:
        """Return messages from what was parsed."""
        if self.is_plain:
            return list(rows)
        return [self._load(row, index) for index, row in enumerate(rows)]

    def _load(self, row: Any, index: int) -> Any:
        try:
            if self.kind == "llamaindex":
                return _module("llama_index.core.llms", "llama-index-core").ChatMessage(**row)
            if self.kind == "langchain":
                row = {**row["kwargs"], "type": _type_of(row)}
            core = _module("langchain_core.messages", "langchain-core")
            if self.kind == "langchain-dict":
                return core.messages_from_dict([row])[0]
            fields = {key: value for key, value in row.items() if key != "type"}
            return core.messages_from_dict([{"type": row["type"], "data": fields}])[0]
        except (KeyError, TypeError, ValueError) as error:
            raise ConversionError(
                f"not a {self.kind} message: {error}.", index=index,
                fix="write it with the framework's own dump function.",
            ) from error  # fmt: skip

    def dump(self, messages: Sequence[Any]) -> list[Any]:
        """Return what goes into the file."""
        return [self._dump(message) for message in messages]

    def _dump(self, message: Any) -> Any:
        if self.is_plain:
            return message
        if self.kind == "langchain":
            return _module("langchain_core.load", "langchain-core").dumpd(message)
        if self.kind == "langchain-dict":
            core = _module("langchain_core.messages", "langchain-core")
            return core.messages_to_dict([message])[0]
        return message.model_dump(mode="json")


def shape_of(rows: Sequence[Any]) -> Shape:
    """Return the shape of parsed messages, from the first one that tells."""
    for row in rows:
        if not isinstance(row, Mapping):
            continue
        if "lc" in row and "kwargs" in row:
            return Shape("langchain")
        if row.get("type") in _LANGCHAIN_TYPES and "role" not in row:
            return Shape("langchain-dict" if "data" in row else "langchain-flat")
        if "role" in row and isinstance(row.get("blocks"), list):
            return Shape("llamaindex")
    return Shape(format_of(rows))


def is_response_item(row: Any) -> bool:
    """Return whether a parsed object is an item of a Responses input."""
    return isinstance(row, Mapping) and row.get("type") in RESPONSE_ITEMS


def _type_of(row: Mapping[str, Any]) -> str:
    given = row["kwargs"].get("type")
    if given:
        return str(given)
    return str(row["id"][-1]).removesuffix("Message").removesuffix("MessageChunk").lower()


def _module(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ConversionError(
            f"these messages were dumped by {package}, which is not installed.",
            fix=f"pip install {package}",
        ) from error
