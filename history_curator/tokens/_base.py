"""Everything counters share: the caches, and the arithmetic of entries and tool schemas."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from history_curator.entries import ContentPart, ConversationEntry, Reasoning
from history_curator.errors import ConfigurationError
from history_curator.tokens._media import MEDIA, ImageFormula, image_detail, media_tokens, tiles
from history_curator.tokens._pieces import PIECE, pieces
from history_curator.tokens._schemas import count_schemas

_MESSAGE, _ROLE, _NAME, _CALL = 3, 1, 1, 3
_SHORT, _NAME_LENGTH, _DIGEST = 2_048, 64, 16
_LONG_ID = 64
"""The longest id a provider documents; the framing of a call covers it."""
BESIDE = frozenset(("refusal", "annotations", "audio"))
"""What a message may carry beside its text that counts."""


class CachingCounter:
    """A counter over one function, text to tokens, with bounded caches.

    Attributes:
        calls: how often the tokenizer ran.
        characters: how many characters it was given.
    """

    __slots__ = (
        "_chars",
        "_fresh",
        "_image",
        "_max_chars",
        "_max_entries",
        "_media",
        "_name",
        "_old",
        "calls",
        "characters",
        "factor",
        "tool_factor",
    )

    priming = 3

    def __init__(
        self,
        name: str,
        *,
        factor: float = 1.0,
        tool_factor: float = 1.0,
        image: ImageFormula | None = None,
        media: Mapping[str, int] | None = None,
        max_entries: int = 100_000,
        max_chars: int = 32_000_000,
    ) -> None:
        for field, value in (("factor", factor), ("tool_factor", tool_factor)):
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
                raise ConfigurationError(
                    f"{field}: must be a positive number, got {value!r}. "
                    "Fix: 1.0 counts exactly as the encoding does."
                )
        self._name = name
        self.factor = float(factor)
        self.tool_factor = float(tool_factor)
        self._image: ImageFormula = image or tiles(85, 170)
        self._media = dict(media or {})
        self._max_entries = max(2, max_entries) // 2
        self._max_chars = max(2, max_chars) // 2
        # Two generations: a lookup is one dict access, eviction drops the older half at once.
        self._fresh: dict[str | bytes, int] = {}
        self._old: dict[str | bytes, int] = {}
        self._chars = 0
        self.calls = 0
        self.characters = 0

    @property
    def name(self) -> str:
        """The stable name counts are cached under."""
        return self._name

    def count(self, text: str) -> int:
        """Return the tokens of a text, from the cache where it was counted before."""
        return math.ceil(self._raw(text) * self.factor)

    def measure(self, text: str) -> int:
        """Return the tokens of a text without remembering them."""
        return math.ceil(self._passing(text) * self.factor)

    def exceeds(self, text: str, limit: int) -> bool:
        """Return whether a text has more than ``limit`` tokens.

        True is certain. Of a long text little more than ``limit`` tokens' worth is tokenised.
        """
        if len(text) <= max(_SHORT, limit) or _key(text) in self._fresh:
            return self.count(text) > limit
        total = slack = 0
        bound = limit / self.factor
        for piece, exact in pieces(text, max(_SHORT, min(PIECE, limit * 2))):
            total += self._run(piece)
            slack += not exact
            if total - slack > bound:
                return True
        if not slack:
            self._remember(_key(text), total)
        return self.count(text) > limit

    def count_entry(self, entry: ConversationEntry) -> int:
        """Return the tokens of one message.

        3 per message, 1 for the role, its text, its name, each call's name and arguments (with
        3 for framing), reasoning, media, and what is sent beside the text: a refusal, a
        transcript, annotations. The framing of a call covers its id and what else it carries; an
        id of more than 64 characters, which no provider documents, is counted in full on both
        sides, and so is anything else of that length.
        """
        return self._keep(entry, None)

    def count_known(self, entry: ConversationEntry, text: int) -> int:
        """Return the tokens of an entry whose text is known to have so many."""
        if entry.content and self.factor == 1.0:
            self._remember(_key(entry.content), text)  # it is counted again once it is written
        return self._keep(entry, text)

    def _keep(self, entry: ConversationEntry, text: int | None) -> int:
        tokens = math.ceil(self._entry_tokens(entry, text) * self.factor)
        if entry.parts is not None:
            tokens += sum(map(self._part_tokens, entry.parts))
        return tokens

    def count_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> int:
        """Return the tokens of tool schemas: OpenAI, Anthropic or plain function dicts."""
        if not tools:
            return 0
        return math.ceil(count_schemas(tools, self._raw) * self.factor * self.tool_factor)

    def _entry_tokens(self, entry: ConversationEntry, text: int | None) -> float:
        # The text of an edited copy is counted on the copy alone: nobody else has it.
        raw = self._raw if entry.original is None else self._passing
        total: float = _MESSAGE + _ROLE
        if text is not None:
            total += text
        elif entry.content:
            total += raw(entry.content)
        if entry.name:
            total += _NAME + raw(entry.name)
        if entry.tool_calls:
            calls = 0
            for call in entry.tool_calls:
                calls += _CALL + raw(call.name) + raw(call.arguments)
                if len(call.id) > _LONG_ID:
                    calls += raw(call.id)
                if call.extra is not None:
                    calls += self._carried(call.extra)
            total += calls * self.tool_factor
        if entry.tool_call_id is not None and len(entry.tool_call_id) > _LONG_ID:
            total += raw(entry.tool_call_id)
        if entry.reasoning:
            total += sum(map(self._reasoning_tokens, entry.reasoning))
        if entry.source.__class__ is dict and not BESIDE.isdisjoint(entry.source):
            total += self._beside(entry)
        return total

    def _carried(self, extra: Mapping[str, Any]) -> int:
        """What a call carries that is neither its name nor its arguments, where it is long."""
        kept = {**(extra.get("chat") or {}), **(extra.get("responses") or {})}
        texts = map(_as_text, [*(kept.pop("body", None) or {}).values(), *kept.values()])
        return sum(self._raw(text) for text in texts if len(text) > _LONG_ID)

    def _beside(self, entry: ConversationEntry) -> int:
        """What a message carries beside its text."""
        source, total = entry.source, 0
        refusal, audio = source.get("refusal"), source.get("audio")
        if isinstance(refusal, str) and refusal != entry.root.content:
            total += self._raw(refusal)
        if source.get("annotations") and isinstance(source["annotations"], (list, tuple)):
            total += self._raw(_as_text(source["annotations"]))
        if isinstance(audio, Mapping):
            spoken = audio.get("transcript")
            total += self._raw(spoken) if isinstance(spoken, str) else MEDIA["audio"]
        return total

    def _reasoning_tokens(self, block: Reasoning) -> int:
        if block.text:
            return self._raw(block.text)
        if not block.encrypted:
            return 0
        # Opaque base64: four characters carry three bytes, about three quarters of a token.
        return len(_opaque(block.raw)) * 3 // 16

    def _part_tokens(self, part: ContentPart) -> int:
        if part.kind == "text":
            raw = part.raw
            noted = raw.get("annotations") if isinstance(raw, Mapping) else None
            return self.count(_as_text(noted)) if noted else 0
        if part.tokens is not None:
            return part.tokens
        if part.kind == "image":
            return self._image(part.width, part.height, detail=image_detail(part.raw))
        if part.kind == "other":
            return self.count(_as_text(part.raw))
        return media_tokens(part.kind, part.raw, self.count, self._media)

    def _raw(self, text: str) -> int:
        key = _key(text)
        tokens = self._fresh.get(key)
        if tokens is None:
            tokens = self._old.get(key)
            if tokens is None:
                tokens = self._tokenise(text)
            self._remember(key, tokens)
        return tokens

    def _passing(self, text: str) -> int:
        known = self._fresh.get(_key(text))
        return self._tokenise(text) if known is None else known

    def _remember(self, key: str | bytes, tokens: int) -> None:
        size = len(key)
        if len(self._fresh) >= self._max_entries or self._chars + size > self._max_chars:
            self._old, self._fresh, self._chars = self._fresh, {}, 0
        self._fresh[key] = tokens
        self._chars += size

    def _tokenise(self, text: str) -> int:
        if len(text) <= PIECE:
            return self._run(text)
        return sum(self._run(piece) for piece, _ in pieces(text))

    def _run(self, text: str) -> int:
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


def counting(image: ImageFormula | None, media: Mapping[str, int] | None) -> list[str]:
    """Return what the name of a counter says of the media it counts otherwise."""
    said = []
    if image is not None:
        name = getattr(image, "__qualname__", "<")
        # What is made on the spot has no name that tells it from another.
        said.append(f"image={image!r}" if "<" in name else f"image={image.__module__}.{name}")
    if media:
        said.append(f"media={sorted(media.items())}")
    return said


def _key(text: str) -> str | bytes:
    """Return what a text is remembered by: itself where it is short, else a digest of it.

    A count outlives the text, so a text that somebody decodes anew is not tokenised again.
    """
    if len(text) <= _NAME_LENGTH:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


def _opaque(raw: Any) -> str:
    if isinstance(raw, Mapping):
        for key in ("encrypted_content", "data", "signature"):
            if isinstance(raw.get(key), str):
                return str(raw[key])
    return raw if isinstance(raw, str) else _as_text(raw)


def _as_text(raw: Any) -> str:
    if isinstance(raw, str):
        return raw
    try:
        return "" if raw is None else json.dumps(raw, default=str, ensure_ascii=False)
    except (TypeError, ValueError):  # keys that JSON has no words for
        return repr(raw)
