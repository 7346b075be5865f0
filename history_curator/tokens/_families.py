"""Which encoding, factor and image formula stand in for which model."""

from __future__ import annotations

import re
from dataclasses import dataclass

from history_curator.tokens.models import ImageFormula, claude, gemini, patches, tiles

_GPT_4O = tiles(85, 170)


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """Models that count alike.

    Attributes:
        name: the family.
        pattern: regular expression found at the start of a model's own name.
        encoding: the tiktoken encoding, exact for OpenAI and the nearest one for others.
        factor: what the encoding's counts are multiplied with.
        tool_factor: a further factor for tool schemas and calls, whose framing is undocumented.
        image: tokens of an image by its size.
    """

    name: str
    pattern: str
    encoding: str
    factor: float = 1.0
    tool_factor: float = 1.0
    image: ImageFormula = _GPT_4O


# First match wins. Factors other than 1 are conservative: measured on mixed prose, code and JSON.
FAMILIES: tuple[ModelFamily, ...] = (
    ModelFamily("gpt-oss", r"gpt-oss", "o200k_harmony", tool_factor=1.05),
    ModelFamily("gpt-4o-mini", r"gpt-4o-mini", "o200k_base", 1.0, 1.05, tiles(2833, 5667)),
    ModelFamily("gpt-4.1-mini", r"gpt-4\.1-mini", "o200k_base", 1.0, 1.05, patches(1.62)),
    ModelFamily("gpt-4.1-nano", r"gpt-4\.1-nano", "o200k_base", 1.0, 1.05, patches(2.46)),
    ModelFamily("gpt-5-mini", r"gpt-5[\d.]*-mini", "o200k_base", 1.0, 1.05, patches(1.62)),
    ModelFamily("gpt-5-nano", r"gpt-5[\d.]*-nano", "o200k_base", 1.0, 1.05, patches(2.46)),
    ModelFamily("gpt-5", r"gpt-5", "o200k_base", 1.0, 1.05, tiles(70, 140)),
    ModelFamily("gpt-4o", r"(?:chatgpt|gpt)-4(?:o|\.1|\.5)", "o200k_base", tool_factor=1.05),
    ModelFamily("o4-mini", r"o4-mini", "o200k_base", 1.0, 1.05, patches(1.72)),
    ModelFamily("o-series", r"o[134](?:$|-)", "o200k_base", 1.0, 1.05, tiles(75, 150)),
    ModelFamily("gpt-4", r"gpt-(?:4|3\.?5)", "cl100k_base", tool_factor=1.05),
    ModelFamily(
        "claude",
        r"claude-(?:instant|[0-4](?:[.-]|$)|(?:opus|sonnet|haiku)-(?:[0-3]|4(?:$|[.-][0-6](?!\d)|-2\d{3}|@)))",
        "o200k_base",
        1.25,
        image=claude,
    ),
    ModelFamily("claude-new", r"claude", "o200k_base", 1.6, image=claude),
    ModelFamily("gemini", r"(?:gemini|gemma)", "o200k_base", 1.15, image=gemini),
    ModelFamily("mistral", r"(?:open-)?(?:mi[sx]tral|codestral|ministral|pixtral|magistral)",
                "o200k_base", 1.3),
    ModelFamily("llama", r"(?:meta-)?llama", "o200k_base", 1.2),
    ModelFamily("qwen", r"q(?:wen|wq)", "o200k_base", 1.2),
    ModelFamily("deepseek", r"deepseek", "o200k_base", 1.2),
    ModelFamily("grok", r"grok", "o200k_base", 1.2),
    ModelFamily("command", r"command", "o200k_base", 1.2),
    ModelFamily("nova", r"nova-", "o200k_base", 1.3),
)  # fmt: skip

# Models come with their owner in front: openai/…, anthropic:…, us.anthropic.…, models/…, ft:…
_SEPARATOR = re.compile(r"[/:.]")


def find_family(model: str) -> ModelFamily | None:
    """Return the family a model belongs to, or None for a model nobody told us about.

    Examples:
        >>> find_family("openai/gpt-4o").encoding
        'o200k_base'
        >>> find_family("us.anthropic.claude-sonnet-4-20250514-v1:0").factor
        1.25
    """
    return _find(model)[0]


def kinship(asked: str, answered: str) -> str:
    """Return what a model that answered is to the one that is asked, by their names.

    A date or a version behind a name is part of the same model where the other name has none.

    Returns:
        ``"same"``, ``"version"`` of the same family, ``"other"`` family; ``"same"`` as well where
        a name tells nothing, such as that of a deployment, or one that means the latest.

    Examples:
        >>> kinship("openai/gpt-4o", "gpt-4o-2024-08-06"), kinship("gpt-4o", "claude-opus-4-6")
        ('same', 'other')
        >>> kinship("mistral-large-2512", "mistral-large-2411")
        'version'
    """
    (family, one), (other, two) = _find(asked), _find(answered)
    if family is None or other is None or one.endswith("latest") or two.endswith("latest"):
        return "same"
    if one.startswith(two) or two.startswith(one):
        return "same"
    return "version" if family.name == other.name else "other"


def _find(model: str) -> tuple[ModelFamily | None, str]:
    """The family, and the name from where it begins."""
    name = model.strip().lower().replace("@", "-")
    starts = [0, *(found.end() for found in _SEPARATOR.finditer(name))]
    for start in starts:
        for family in FAMILIES:
            if re.match(family.pattern, name[start:]):
                return family, name[start:]
    return None, name
