"""The window: which part of a conversation is shown, and how it fits and conforms."""

from history_curator.window.block import Block
from history_curator.window.build_view import NO_RULES, STEP, View, ViewBuilder, WindowOptions
from history_curator.window.cutoff import COMPACT_TO

__all__ = [
    "COMPACT_TO",
    "NO_RULES",
    "STEP",
    "Block",
    "View",
    "ViewBuilder",
    "WindowOptions",
]
