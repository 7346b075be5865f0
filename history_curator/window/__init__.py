"""The window: which part of a conversation is shown, and how it fits and conforms."""

from history_curator.window.build_view import STEP, View, ViewBuilder, WindowOptions, fit_entries
from history_curator.window.cutoff import COMPACT_TO

__all__ = ["COMPACT_TO", "STEP", "View", "ViewBuilder", "WindowOptions", "fit_entries"]
