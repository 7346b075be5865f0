"""The TokenCounter protocol, and the arithmetic of messages, media and tool schemas."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, Protocol, runtime_checkable

from history_curator.entries import ContentPart, ConversationEntry
from history_curator.errors import ConfigurationError
from history_curator.tokens.estimate import read_usage
from history_curator.tokens.models import DEFAULT_IMAGE, ImageSquares, count_media, image_detail
from history_curator.tokens.truncate import split_for_tokenizer

_MESSAGE, _NAME, _CALL = 4, 1, 3
# The longest id a provider documents; the framing of a call covers it.
_LONG_ID = 64
# Characters of encrypted thinking a token, as measured against what providers reported, rounded down.
_OPENAI_CHARS, _CLAUDE_CHARS = 12, 5


@runtime_checkable
class TokenCounter(Protocol):
    """Counts tokens of texts, entries and tool schemas; no base class needed.

    Two counters with the same ``name`` count alike. Counting is pure, thread-safe, never raises on
    any text, and errs on the high side.
    """

    @property
    def name(self) -> str:
        """A stable name for the arithmetic, such as ``o200k_base``."""

    @property
    def priming(self) -> int:
        """Tokens every request costs on top of its messages."""

    def count(self, text: str) -> int:
        """Return the tokens of a text."""

    def count_entry(self, entry: ConversationEntry) -> int:
        """Return the tokens of one message, its overhead included."""

    def count_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> int:
        """Return the tokens of the tool schemas sent along."""


class MessageCounter:
    """Counts messages and tools with a subclass's tokens of a text, each text tokenised once.

    `calls` and `characters` say how often the tokenizer ran, and on how much text; of `max_texts`
    texts the count is remembered, by a digest of 16 bytes.

    Examples:
        >>> class Words(MessageCounter):
        ...     def _count_text(self, text):
        ...         return len(text.split())
        >>> Words("words").count("three short words")
        3
    """

    priming = 3
    max_texts: ClassVar[int] = 100_000

    def __init__(
        self,
        name: str,
        *,
        factor: float = 1.0,
        tool_factor: float = 1.0,
        image: ImageSquares = DEFAULT_IMAGE,
    ) -> None:
        for field, value in (("factor", factor), ("tool_factor", tool_factor)):
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
                raise ConfigurationError(
                    f"{field}: must be a positive number, got {value!r}. "
                    "Fix: 1.0 counts exactly as the encoding does."
                )
        self._name = name
        self.factor, self.tool_factor = float(factor), float(tool_factor)
        self._image = image
        self._counts: OrderedDict[str | bytes, int] = OrderedDict()
        self.calls = self.characters = 0

    @property
    def name(self) -> str:
        """A stable name for the arithmetic."""
        return self._name

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        return math.ceil(self._count_once(text) * self.factor)

    def count_entry(self, entry: ConversationEntry) -> int:
        """Return the tokens of one message: 4, its text, name, calls, reasoning and media."""
        count, total = self._count_once, float(_MESSAGE)
        if entry.content:
            total += count(entry.content)
        if entry.name:
            total += _NAME + count(entry.name)
        calls = 0
        for call in entry.tool_calls or ():
            calls += _CALL + count(call.name) + count(call.arguments)
            calls += self._count_id(call.id)
        total += calls * self.tool_factor + self._count_id(entry.tool_call_id)
        if entry.reasoning:
            total += self._count_reasoning(entry)
        return math.ceil(total * self.factor) + sum(map(self._count_part, entry.parts or ()))

    def count_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> int:
        """Return the tokens of tool schemas, as JSON: providers write them shorter."""
        total = 0
        for index, tool in enumerate(tools or ()):
            if not isinstance(tool, Mapping):
                raise ConfigurationError(
                    f"tools[{index}]: expected a mapping, got {type(tool).__name__}. "
                    "Fix: pass tool schemas as dicts, not callables or tool objects."
                )
            try:
                total += self._count_once(_write_json(tool))
            except (TypeError, ValueError, RecursionError) as error:
                raise ConfigurationError(
                    f"tools[{index}]: cannot be written as JSON ({error}). Fix: pass a schema with "
                    "text keys that is nested less deep and does not hold itself."
                ) from error
        return math.ceil(total * self.factor * self.tool_factor)

    def _count_reasoning(self, entry: ConversationEntry) -> float:
        """Return the tokens of thinking: its text, or what the provider reported, or by its size."""
        readable, opaque = 0, 0.0
        for block in entry.reasoning or ():
            raw = block.raw if isinstance(block.raw, Mapping) else {"data": block.raw}
            if isinstance(raw.get("encrypted_content"), str):
                opaque += len(raw["encrypted_content"]) / _OPENAI_CHARS
            elif block.text or not block.encrypted:
                readable += self._count_once(block.text or "")
            else:
                data = raw.get("data") or raw.get("signature") or raw
                opaque += len(to_text(data)) / _CLAUDE_CHARS
        usage = read_usage(entry.root.source) if opaque else None
        if usage is not None and usage.reasoning:
            opaque = usage.reasoning / self.factor
        return readable + math.ceil(opaque)

    def _count_part(self, part: ContentPart) -> int:
        if part.kind == "text":
            return 0  # it is in the entry's text
        if part.tokens is not None:
            return part.tokens
        if part.kind == "image":
            return self._image.count(part.width, part.height, image_detail(part.raw))
        if part.kind == "other":
            return self.count(to_text(part.raw))
        return count_media(part.kind, part.raw, self.count)

    def _count_id(self, call_id: str | None) -> int:
        is_long = call_id is not None and len(call_id) > _LONG_ID
        return self._count_once(call_id or "") if is_long else 0

    def _count_once(self, text: str) -> int:
        key = _digest(text)
        tokens = self._counts.get(key)
        if tokens is None:
            tokens = sum(map(self._tokenise, split_for_tokenizer(text)))
            self._counts[key] = tokens
            if len(self._counts) > self.max_texts:
                self._counts.popitem(last=False)
        return tokens

    def _tokenise(self, text: str) -> int:
        self.calls += 1
        self.characters += len(text)
        return self._count_text(text)

    def _count_text(self, text: str) -> int:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_counts": OrderedDict()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.name == other.name

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"


def to_text(raw: Any) -> str:
    """Return a text as it is, and everything else as JSON without spaces."""
    if raw is None or isinstance(raw, str):
        return raw or ""
    try:
        return _write_json(raw)
    except (TypeError, ValueError):  # odd keys, or a cycle
        return repr(raw)


def _write_json(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))


def _digest(text: str) -> str | bytes:
    if len(text) <= 64:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
