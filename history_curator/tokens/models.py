"""Model name -> encoding, ratio and image formula; tokens of images, documents, sound and film."""

from __future__ import annotations

import math
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any


@dataclass(frozen=True, slots=True)
class ImageSquares:
    """Tokens of an image: a base, and so much for each square of so many pixels, up to a limit.

    OpenAI's tiles are of an image that is first made to fit 2048², its short side 768.

    Examples:
        >>> tiles = ImageSquares(512, each=170, base=85, unknown=8, is_scaled=True)
        >>> tiles.count(1024, 1024), tiles.count(1024, 1024, "low")
        (765, 85)
    """

    side: int
    each: float = 1
    base: int = 0
    unknown: int = 4
    """Squares of an image of unknown size."""
    most: float = math.inf
    is_scaled: bool = False

    def count(self, width: int | None, height: int | None, detail: str | None = None) -> int:
        """Return the tokens of an image of so many pixels."""
        if detail == "low" and self.base:
            return self.base
        squares: float = self.unknown
        if width and height:
            scale = min(1.0, 2048 / max(width, height)) if self.is_scaled else 1.0
            scale *= min(1.0, 768 / (min(width, height) * scale)) if self.is_scaled else 1.0
            across, down = round(width * scale, 6), round(height * scale, 6)
            squares = math.ceil(across / self.side) * math.ceil(down / self.side)
        return self.base + math.ceil(min(squares, self.most) * self.each)


_tiles = partial(ImageSquares, 512, unknown=8, is_scaled=True)
_patches = partial(ImageSquares, 32, unknown=1536, most=1536)
DEFAULT_IMAGE = _tiles(170, 85)
_CLAUDE_IMAGE = ImageSquares(28, unknown=1568, most=1568)
_GEMINI_IMAGE = ImageSquares(768, 258)


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """Models that count alike: those whose own name begins with the pattern.

    The tiktoken encoding is exact for OpenAI and the nearest one for others, whose counts are it
    times the factor; the framing of tools is undocumented and has a factor of its own.
    """

    name: str
    pattern: str
    encoding: str
    factor: float = 1.0
    tool_factor: float = 1.0
    image: ImageSquares = DEFAULT_IMAGE


_O200K = "o200k_base"
# First match wins. Factors other than 1 are conservative: measured on mixed prose, code and JSON.
FAMILIES: tuple[ModelFamily, ...] = (
    ModelFamily("gpt-oss", r"gpt-oss", "o200k_harmony", tool_factor=1.05),
    ModelFamily("gpt-4o-mini", r"gpt-4o-mini", _O200K, 1.0, 1.05, _tiles(5667, 2833)),
    ModelFamily("gpt-4.1-mini", r"gpt-4\.1-mini", _O200K, 1.0, 1.05, _patches(1.62)),
    ModelFamily("gpt-4.1-nano", r"gpt-4\.1-nano", _O200K, 1.0, 1.05, _patches(2.46)),
    ModelFamily("gpt-5-mini", r"gpt-5[\d.]*-mini", _O200K, 1.0, 1.05, _patches(1.62)),
    ModelFamily("gpt-5-nano", r"gpt-5[\d.]*-nano", _O200K, 1.0, 1.05, _patches(2.46)),
    ModelFamily("gpt-5", r"gpt-5", _O200K, 1.0, 1.05, _tiles(140, 70)),
    ModelFamily("gpt-4o", r"(?:chatgpt|gpt)-4(?:o|\.1|\.5)", _O200K, tool_factor=1.05),
    ModelFamily("o4-mini", r"o4-mini", _O200K, 1.0, 1.05, _patches(1.72)),
    ModelFamily("o-series", r"o[134](?:$|-)", _O200K, 1.0, 1.05, _tiles(150, 75)),
    ModelFamily("gpt-4", r"gpt-(?:4|3\.?5)", "cl100k_base", tool_factor=1.05),
    ModelFamily("claude",  # up to Claude 4.6; later models have another tokenizer
                r"claude-(?:instant|[0-4](?:[.-]|$)|(?:opus|sonnet|haiku)-"
                r"(?:[0-3]|4(?:$|[.-][0-6](?!\d)|-2\d{3}|@)))", _O200K, 1.25, image=_CLAUDE_IMAGE),
    ModelFamily("claude-new", r"claude", _O200K, 1.6, image=_CLAUDE_IMAGE),
    ModelFamily("gemini", r"(?:gemini|gemma)", _O200K, 1.15, image=_GEMINI_IMAGE),
    ModelFamily("mistral", r"(?:open-)?(?:mi[sx]tral|codestral|ministral|pixtral|magistral)",
                _O200K, 1.3),
    ModelFamily("llama", r"(?:meta-)?llama", _O200K, 1.2),
    ModelFamily("qwen", r"q(?:wen|wq)", _O200K, 1.2),
    ModelFamily("deepseek", r"deepseek", _O200K, 1.2),
    ModelFamily("grok", r"grok", _O200K, 1.2),
    ModelFamily("command", r"command", _O200K, 1.2),
    ModelFamily("nova", r"nova-", _O200K, 1.3),
)  # fmt: skip


def find_family(model: str) -> ModelFamily | None:
    """Return the family a model belongs to, or None for a model of no known family.

    Examples:
        >>> find_family("openai/gpt-4o").encoding
        'o200k_base'
        >>> find_family("us.anthropic.claude-sonnet-4-20250514-v1:0").factor
        1.25
    """
    name = model.strip().lower().replace("@", "-")[:200]
    # Owners stand in front: openai/…, anthropic:…, us.anthropic.…, models/…, ft:…
    for start in (0, *(separator.end() for separator in re.finditer("[/:.]", name))):
        for family in FAMILIES:
            if re.match(family.pattern, name[start:]):
                return family
    return None


def window_margin(window: int) -> int:
    """Return the tokens of a window to leave free: counters and providers differ by a few percent."""
    return window - int(window * 0.95)


# Tokens of media that only a link or an id describes.
MEDIA_TOKENS: Mapping[str, int] = {"audio": 1_000, "video": 5_000, "file": 2_000}
# The most Anthropic documents for a page, its text and its picture. A page of plain text is smaller
# than 10,000 bytes.
_PDF_PAGE, _PDF_PAGE_BYTES = 3_000, 10_000
# Compressed sound at 128 kbit/s and 32 tokens a second, film at 1 Mbit/s and 300, office documents.
_BYTES_PER_TOKEN = {"audio": 500, "video": 400, "file": 6}
_PDF_PAGES = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_TEXTS = ("title", "context", "filename", "name", "text", "content")
_DATA = ("data", "file_data", "base64", "bytes")
_HOLDERS = ("source", "file", "document", "inlineData", "inline_data", "input_audio", "audio")


def count_media(kind: str, raw: Any, count: Callable[[str], int]) -> int:
    """Return the tokens of a block that is neither text nor an image.

    The text of a document counts as text. Pages of a PDF, sound and film are guessed from their
    data, high rather than low.
    """
    fields = list(_text_fields(raw))
    total = sum(count(str(value)) for name, value in fields if name in _TEXTS)
    given = next((value for name, value in fields if name in _DATA), None)
    if given is None:
        has_text = any(name in ("text", "content") for name, _ in fields)
        return total + (0 if has_text else MEDIA_TOKENS[kind])
    data = _decode(given)
    if data.startswith(b"%PDF"):
        pages = len(_PDF_PAGES.findall(data)) or -(-len(data) // _PDF_PAGE_BYTES)
        return total + _PDF_PAGE * pages
    if kind == "file":
        with suppress(UnicodeDecodeError):
            return total + count(data.decode())
    return total + max(MEDIA_TOKENS[kind], len(data) // _BYTES_PER_TOKEN[kind])


def _text_fields(holder: Any, depth: int = 0) -> Iterator[tuple[str, str | bytes]]:
    """Yield the texts and bytes in a block, the outermost first."""
    inner = []
    for name in (*_TEXTS, *_DATA, *_HOLDERS):
        value = read_field(holder, name)
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, (str, bytes)) and each:
                yield name, each
            elif each is not None and name in (*_HOLDERS, "content") and depth < 4:
                inner.append(each)
    for each in inner:
        yield from _text_fields(each, depth + 1)


def _decode(data: str | bytes) -> bytes:
    """Return the bytes of base64, of a data URL, or of a text that is neither."""
    if isinstance(data, str) and data.startswith("data:"):
        data = data.partition(",")[2]
    try:
        return b64decode(data, validate=True)
    except ValueError:
        return data.encode("utf-8", "replace") if isinstance(data, str) else data


def read_field(holder: Any, name: str) -> Any:
    """Return an item of a mapping, or an attribute of another object; None where there is none."""
    if holder.__class__ is dict or isinstance(holder, Mapping):
        return holder.get(name)
    return getattr(holder, name, None)


def image_detail(raw: Any) -> str | None:
    """Return the ``detail`` an OpenAI image block asks for."""
    detail = read_field(read_field(raw, "image_url"), "detail") or read_field(raw, "detail")
    return detail if isinstance(detail, str) else None


# First match wins: a host with rules of its own (Bedrock) stands before the models it serves.
_PROVIDERS = (
    (r"bedrock|converse|\b(?:[a-z]{2,6}\.)?(?:anthropic|amazon|meta|cohere|ai21)\.\w", "bedrock"),
    (r"anthropic|claude", "anthropic"),
    (r"gemini|google|vertex|genai", "gemini"),
    (r"mistral|mixtral|ministral|codestral|pixtral|magistral", "mistral"),
    (r"ollama|llama_?cpp|hugging_?face|vllm|mlx|lmstudio|gemma|qwen|llama-?\d", "portable"),
    (r"openai[\W_]*responses", "openai-responses"),
    (r"azure_?(?:openai|chatopenai|ai)|openai|chatgpt|\bgpt-|\bo[1-9](?:-|$)", "openai"),
)
# A module path such as "langchain_anthropic.chat_models" is not a Bedrock model id.
_MODULE_ROOT = re.compile(r"\b(?:langchain|llama_index|llamaindex)[_.]")
# What hosts put around the name of a model: a folder, a region and a vendor, a day, a version.
_AROUND = re.compile(
    r".*/|^(?:[a-z]{2,6}\.)?[a-z0-9]+\.(?=[a-z])|[-@]\d{8}\b.*$|-v\d+(?::\d+)?$|-latest$"
)
_CLAUDE = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:-(\d{1,2}))?(?!\d)")


def provider_for(class_or_model_name: str) -> str:
    """Return the profile for a model's name, or for the dotted name of a class that calls it.

    An unknown name gets ``core``, which both OpenAI and Anthropic accept. Open-weight servers get
    ``portable``: their chat templates are the strictest.
    """
    name = class_or_model_name.strip().lower()
    if _MODULE_ROOT.search(name):
        name = _MODULE_ROOT.sub("", name).replace(".", " ").replace("llms ", "")
    return next((provider for pattern, provider in _PROVIDERS if re.search(pattern, name)), "core")


def model_of(source: Any) -> str | None:
    """Return the model that gave an answer, from the fields where frameworks and logs name it."""
    for beside in (None, "response_metadata", "raw", "additional_kwargs", "message"):
        holder = source if beside is None else read_field(source, beside)
        for name in ("model_name", "model", "model_id"):
            value = read_field(holder, name)
            if isinstance(value, str) and value:
                return value
    return None


def is_same_model(one: str, other: str) -> bool:
    """Return whether two names are of one model, whoever hosts it."""
    return one == other or _bare_name(one) == _bare_name(other)


def takes_later_system(model: str) -> bool:
    """Return whether a model takes system messages within a conversation: Claude from 4.8 on."""
    found = _CLAUDE.match(_bare_name(model))
    return found is not None and (int(found[1]), int(found[2] or 0)) >= (4, 8)


def _bare_name(name: str) -> str:
    return _AROUND.sub("", _AROUND.sub("", name.strip().lower()[:400])).replace(".", "-")
