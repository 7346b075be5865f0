"""What images, documents, sound and film cost: formulas, text where there is one, else their size."""

from __future__ import annotations

import math
import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

MEDIA: Mapping[str, int] = {"audio": 1_000, "video": 5_000, "file": 2_000}
"""Tokens assumed for media of which nothing is known, such as a link or the id of a file."""

_PAGE = 3_000
"""Tokens of a page of PDF, its text and its picture: the most Anthropic documents."""
_BYTES_A_PAGE = 10_000
"""Where the pages of a PDF cannot be counted: those of plain text are smaller than that."""
# Bytes a token: compressed sound at 128 kbit/s and 32 tokens a second, film at 1 Mbit/s and 300,
# office documents, which are compressed text.
_BYTES_A_TOKEN = {"audio": 500, "video": 400, "file": 6}
_PAGES = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_COUNT = re.compile(rb"/Count\s+(\d{1,6})")
_TEXTUAL = re.compile(
    r"text/|application/(?:[\w.+-]*(?:json|xml|yaml|csv|markdown|javascript)|x-sh|sql|toml)"
)
_TEXT_NAME = re.compile(r"\.(?:txt|md|csv|tsv|json|xml|html?|ya?ml|py|js|ts|log)$", re.IGNORECASE)
_TEXT_FORMATS = {"txt", "md", "csv", "html", "json", "xml"}
_HOLDERS = ("source", "file", "document", "inlineData", "inline_data", "input_audio", "audio")
_DATA = ("data", "file_data", "base64", "bytes")
_KINDS = ("media_type", "mime_type", "mimeType", "document_mimetype", "format")
_TITLES = ("title", "context", "filename", "name")
_DEPTH = 4


class ImageFormula(Protocol):
    """Tokens of an image of ``width`` × ``height`` pixels; the worst case when unknown."""

    def __call__(self, width: int | None, height: int | None, *, detail: str | None = None) -> int:
        """Return the tokens."""


@dataclass(frozen=True, slots=True)
class tiles:  # noqa: N801 - reads as a function, is a class so that counters can be pickled
    """OpenAI's 512-pixel tiles: fit into 2048², short side to 768, base + tokens per tile.

    Examples:
        >>> tiles(85, 170)(1024, 1024)
        765
        >>> tiles(85, 170)(1024, 1024, detail="low")
        85
    """

    base: int
    tile: int

    def __call__(self, width: int | None, height: int | None, *, detail: str | None = None) -> int:
        """Return the tokens."""
        if detail == "low":
            return self.base
        if not width or not height:
            return self.base + self.tile * 8
        scale = min(1.0, 2048 / max(width, height))
        scale *= min(1.0, 768 / (min(width, height) * scale))
        across = max(1, math.ceil(round(width * scale, 6) / 512))
        down = max(1, math.ceil(round(height * scale, 6) / 512))
        return self.base + self.tile * across * down


@dataclass(frozen=True, slots=True)
class patches:  # noqa: N801 - see `tiles`
    """OpenAI's 32-pixel patches, at most 1536 of them, times a factor of the model.

    Examples:
        >>> patches(1.0)(1024, 1024)
        1024
    """

    factor: float
    most: int = 1536

    def __call__(self, width: int | None, height: int | None, *, detail: str | None = None) -> int:
        """Return the tokens."""
        if not width or not height:
            return math.ceil(self.most * self.factor)
        count = math.ceil(width / 32) * math.ceil(height / 32)
        return math.ceil(min(count, self.most) * self.factor)


def claude(width: int | None, height: int | None, *, detail: str | None = None) -> int:
    """Return what an image costs with Claude: 28-pixel patches, at most about 1568."""
    if not width or not height:
        return 1568
    return min(1568, math.ceil(width / 28) * math.ceil(height / 28))


def gemini(width: int | None, height: int | None, *, detail: str | None = None) -> int:
    """Return what an image costs with Gemini: 258, or 258 per 768-pixel tile when larger."""
    if not width or not height:
        return 258 * 4
    if max(width, height) <= 384:
        return 258
    return 258 * math.ceil(width / 768) * math.ceil(height / 768)


def image_detail(raw: Any) -> str | None:
    """Return the ``detail`` an OpenAI image block asks for."""
    if not isinstance(raw, Mapping):
        return None
    inner = raw.get("image_url")
    detail = inner.get("detail") if isinstance(inner, Mapping) else raw.get("detail")
    return detail if isinstance(detail, str) else None


def media_tokens(kind: str, raw: Any, count: Callable[[str], int], given: Mapping[str, int]) -> int:
    """Return the tokens of a block that is neither text nor an image.

    The text of a document is counted as text, and so are its title and the like. The pages of a
    PDF, seconds of sound and film are guessed from their data, high rather than low, unless
    `given` says what such a block costs. Of a link nothing is known.
    """
    total, described = 0, ""
    content: str | bytes | None = None
    for holder in _holders(raw):
        total += sum(count(text) for name in _TITLES if (text := _text(holder, name)))
        plain = _plain(holder)
        if plain is not None:
            return total + count(plain)
        if content is None:  # what it is may be said further out than its data stand
            content, more = _data(holder)
            described = f"{described} {more}".lower()
    if content is None:
        return total + given.get(kind, MEDIA[kind])
    size = len(content) * 3 // 4 if isinstance(content, str) else len(content)
    textual = _TEXTUAL.search(described) or not _TEXT_FORMATS.isdisjoint(described.split())
    if kind == "file" and textual:
        return total + count(_decoded(content))
    if kind in given:
        return total + given[kind]
    if "pdf" in described:
        return total + _PAGE * _pages(content, size)
    return total + max(MEDIA[kind], size // _BYTES_A_TOKEN[kind])


def _holders(raw: Any, depth: int = 0) -> Iterator[Any]:
    if raw is None or isinstance(raw, (str, bytes)) or depth > _DEPTH:
        return
    yield raw
    for name in _HOLDERS:
        inner = _field(raw, name)
        if inner is not None and not isinstance(inner, (list, tuple)):
            yield from _holders(inner, depth + 1)


def _plain(holder: Any) -> str | None:
    """The text of a document that is given as such."""
    if _field(holder, "type") == "text" or _field(holder, "source_type") == "text":
        return _text(holder, "data") or _text(holder, "text")
    listed = _field(holder, "content")
    if isinstance(listed, str):
        return listed
    if isinstance(listed, (list, tuple)):
        return "\n".join(_text(block, "text") or "" for block in listed)
    return _text(holder, "text")


def _data(holder: Any) -> tuple[str | bytes | None, str]:
    """The data of a document, if they are here, and what is said about them."""
    described = " ".join(text for key in _KINDS if (text := _text(holder, key)))
    for key in ("filename", "name"):
        if _TEXT_NAME.search(_text(holder, key) or ""):
            described += " text/plain"
    for name in _DATA:
        value = _field(holder, name)
        if isinstance(value, (str, bytes, bytearray)) and value:
            if isinstance(value, str) and value.startswith("data:") and "," in value:
                head, value = value.split(",", 1)
                described = f"{head[5:]} {described}"
            return (value if isinstance(value, str) else bytes(value)), described
    return None, described


def _bytes(content: str | bytes) -> bytes | None:
    try:
        return b64decode(content, validate=True)
    except (Base64Error, ValueError):
        return None if isinstance(content, str) else content


def _decoded(content: str | bytes) -> str:
    data = _bytes(content)
    if data is None:
        return str(content)
    return data.decode("utf-8", "replace")


def _pages(content: str | bytes, size: int) -> int:
    data = _bytes(content) or b""
    listed = [int(each) for each in _COUNT.findall(data)]
    return max(len(_PAGES.findall(data)), *listed, 0) or -(-size // _BYTES_A_PAGE)


def _field(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _text(holder: Any, name: str) -> str | None:
    value = _field(holder, name)
    return value if isinstance(value, str) else None
