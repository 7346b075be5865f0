"""The pages that people read first have short sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIRST_READ = [ROOT / "README.md", ROOT / "docs" / "index.md", ROOT / "docs" / "tutorial.md"]
MOST_WORDS = 30


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a page, without code, tables, links and generated parts."""
    text = re.sub(r"<!--.*?-->.*?<!-- /.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    lines = [line for line in text.splitlines() if not re.match(r"\s*(\||#|!\[|--8<--)", line)]
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", "\n".join(lines))
    return [
        sentence
        for paragraph in paragraphs
        for sentence in re.split(r"(?<=[.!?:])\s+", " ".join(paragraph.split()))
    ]


@pytest.mark.parametrize("page", FIRST_READ, ids=lambda page: page.name)
def test_sentences_of_the_first_pages_are_short(page: Path) -> None:
    long = [
        sentence
        for sentence in sentences_of(page.read_text(encoding="utf-8"))
        if len(sentence.split()) > MOST_WORDS
    ]
    assert not long
