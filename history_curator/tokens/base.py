"""The TokenCounter protocol, and the arithmetic of messages, media and tool schemas."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, Protocol, runtime_checkable

from history_curator.entries import ContentPart, ConversationEntry
from history_curator.errors import ConfigurationError
from history_curator.tokens.estimate import read_usage
from history_curator.tokens.models import DEFAULT_IMAGE, ImageSquares, count_media, image_detail
from history_curator.tokens.truncate import MAX_CHARS, split_for_tokenizer

_MESSAGE, _NAME, _CALL = 4, 1, 3
# The longest id a provider documents; the framing of a call covers it.
_LONG_ID = 64
# Characters of encrypted thinking a token, as measured against what providers reported, rounded down.
_OPENAI_CHARS, _CLAUDE_CHARS = 12, 5

Count = Callable[[str], int]


@runtime_checkable
class TokenCounter(Protocol):
    """Counts tokens of texts, entries and tool schemas; no base class needed.

    Two counters with the same ``name`` count alike. Counting is pure, thread-safe, never raises on
    any text, and errs on the high side. A counter may also offer ``exceeds(text, limit)``.
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
        # Two generations: a lookup is one dict access, eviction drops the older half at once.
        self._recent: dict[str | bytes, int] = {}
        self._older: dict[str | bytes, int] = {}
        self.calls = self.characters = 0

    @property
    def name(self) -> str:
        """A stable name for the arithmetic."""
        return self._name

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        return math.ceil(self._count_once(text) * self.factor)

    def exceeds(self, text: str, limit: int) -> bool:
        """Return whether a text has more than ``limit`` tokens, tokenising little more than those."""
        if len(text) > max(2_048, limit) and _digest(text) not in self._recent:
            total = inexact_cuts = 0
            for piece, is_exact in split_for_tokenizer(text, max(2_048, min(MAX_CHARS, limit * 2))):
                total += self._tokenise(piece)
                inexact_cuts += not is_exact
                if (total - inexact_cuts) * self.factor > limit:
                    return True
            if not inexact_cuts:
                self._remember(_digest(text), total)
        return self.count(text) > limit

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
        """Return the tokens of tool schemas, all of their text; see `count_schemas`."""
        if not tools:
            return 0
        return math.ceil(count_schemas(tools, self._count_once) * self.factor * self.tool_factor)

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
        tokens = self._recent.get(key)
        if tokens is None:
            tokens = self._older.get(key)
            if tokens is None:
                pieces = split_for_tokenizer(text) if len(text) > MAX_CHARS else ((text, True),)
                tokens = sum(self._tokenise(piece) for piece, _ in pieces)
            self._remember(key, tokens)
        return tokens

    def _remember(self, key: str | bytes, tokens: int) -> None:
        if len(self._recent) >= self.max_texts // 2:
            self._older, self._recent = self._recent, {}
        self._recent[key] = tokens

    def _tokenise(self, text: str) -> int:
        self.calls += 1
        self.characters += len(text)
        return self._count_text(text)

    def _count_text(self, text: str) -> int:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.name == other.name

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"


def to_text(raw: Any) -> str:
    """Return a text as it is, and everything else as JSON."""
    if raw is None or isinstance(raw, str):
        return raw or ""
    try:
        return _to_json(raw)
    except (TypeError, ValueError):  # odd keys, or a cycle
        return repr(raw)


def _digest(text: str) -> str | bytes:
    if len(text) <= 64:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


_FUNCTION, _PROPERTIES, _PROPERTY, _ENUM, _ENUM_ITEM, _TOOLS_END = 7, 3, 3, -3, 3, 12
_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema")
_NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_NOT_SHOWN = ("strict", "cache_control")  # for the provider, not for the model


def count_schemas(tools: Sequence[Mapping[str, Any]], count: Count) -> int:
    """Return the tokens of tool schemas, by OpenAI's published arithmetic.

    A schema inside a schema counts like a property. Tools without a schema count as their JSON.
    """
    total = 0
    for index, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            raise ConfigurationError(
                f"tools[{index}]: expected a mapping, got {type(tool).__name__}. "
                "Fix: pass tool schemas as dicts, not callables or tool objects."
            )
        try:
            total += sum(_count_tool(function, count) for function in _functions(tool))
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"tools[{index}]: cannot be written as JSON ({error}). "
                "Fix: pass a schema that does not hold itself."
            ) from error
    return total + _TOOLS_END if total else 0


def _functions(tool: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the functions of a tool; Gemini lists several in one."""
    for key in ("function", "toolSpec", "function_declarations", "functionDeclarations"):
        inside = tool.get(key)
        functions: Sequence[Any] = inside if isinstance(inside, (list, tuple)) else (inside,)
        if inside is not None and all(isinstance(each, Mapping) for each in functions):
            yield from functions
            tool = {name: tool[name] for name in tool if name not in (key, *_NOT_SHOWN)}
            if tool.get("type", "function") == "function":
                tool.pop("type", None)
    if tool:
        yield tool


def _count_tool(tool: Mapping[str, Any], count: Count) -> int:
    name = tool.get("name")
    schema_key = next((key for key in _SCHEMAS if isinstance(tool.get(key), Mapping)), None)
    if not isinstance(name, str) or (schema_key is None and "description" not in tool):
        return _FUNCTION + count(_to_json(tool))
    total = _FUNCTION + count(f"{name}:{_describe(tool)}")
    for key, value in tool.items():
        is_counted = key in ("name", "description", schema_key, *_NOT_SHOWN)
        if not is_counted and (key, value) != ("type", "function"):
            total += count(f"{key}:{_to_json(value)}")
    schema = {} if schema_key is None else tool[schema_key]
    if schema.keys() == {"json"} and isinstance(schema["json"], Mapping):  # Bedrock
        schema = schema["json"]
    if schema.get("type", "object") != "object":
        total += count(_to_word(schema["type"]))
    return total + count(_describe(schema)) + _count_schema(schema, count, 0)


def _count_schema(schema: Mapping[str, Any], count: Count, depth: int) -> int:
    """Return the tokens of everything in a schema but its own type and description."""
    if depth > 32:
        return count(_to_json(schema))
    total = 0
    for key, value in schema.items():
        items = value if isinstance(value, (list, tuple)) else [value]
        if key in ("type", "description"):
            continue
        if key == "enum" and items is value and value:
            total += _ENUM + sum(_ENUM_ITEM + count(_to_word(item)) for item in value)
        elif key in _NAMED_SCHEMAS and isinstance(value, Mapping):
            if value:
                total += _PROPERTIES if key == "properties" else count(key)
            for name, inner in value.items():
                total += _PROPERTY + _count_inner(inner, count, depth, f"{name}:")
        elif any(isinstance(item, Mapping) for item in items):
            total += count(key) + sum(_count_inner(item, count, depth) for item in items)
        else:
            total += count(f"{key}:{_to_word(value)}")
    return total


def _count_inner(schema: Any, count: Count, depth: int, label: str = "") -> int:
    if not isinstance(schema, Mapping):
        return count(f"{label}{_to_word(schema)}")
    total = count(f"{label}{_to_word(schema.get('type', 'any'))}:{_describe(schema)}")
    return total + _count_schema(schema, count, depth + 1)


def _describe(schema: Mapping[str, Any]) -> str:
    description = schema.get("description")
    return "" if description is None else str(description).removesuffix(".")


def _to_word(value: Any) -> str:
    return value if isinstance(value, str) else _to_json(value)


def _to_json(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)
