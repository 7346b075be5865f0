"""A source an answer may cite, as text."""

from __future__ import annotations

from llama_index.core.base.llms.types import CitableBlock, TextBlock


def citable_text(block: CitableBlock) -> str:
    """Return what a citable block says: what it is called, where it is from, its text."""
    texts = [part.text for part in block.content if isinstance(part, TextBlock)]
    return "\n".join(part for part in (block.title, block.source, *texts) if part)
