"""Summaries: who writes them, what they are asked, and how they are kept."""

from __future__ import annotations

from history_curator.managers.summaries._prompt import DEFAULT_PROMPT, build_prompt
from history_curator.managers.summaries._ride import Live, Ride, Sent, riding, riding_now
from history_curator.managers.summaries._rolling import RollingSummary, chunks, keeping_summaries
from history_curator.managers.summaries._summarizer import Summarizer, resolve_summarizer

__all__ = [
    "DEFAULT_PROMPT",
    "Live",
    "Ride",
    "RollingSummary",
    "Sent",
    "Summarizer",
    "build_prompt",
    "chunks",
    "keeping_summaries",
    "resolve_summarizer",
    "riding",
    "riding_now",
]
