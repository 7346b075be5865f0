"""Summaries: who writes them, what they are asked, and how they are kept."""

from __future__ import annotations

from history_curator.summaries._prompt import DEFAULT_PROMPT, build_prompt
from history_curator.summaries._rolling import RollingSummary, chunks
from history_curator.summaries._summarizer import Summarizer, resolve_summarizer

__all__ = [
    "DEFAULT_PROMPT",
    "RollingSummary",
    "Summarizer",
    "build_prompt",
    "chunks",
    "resolve_summarizer",
]
