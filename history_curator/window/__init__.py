"""The window: which part of a conversation is shown, and how it fits and conforms."""

from history_curator.window.build_view import NO_RULES as NO_RULES
from history_curator.window.build_view import STEP as STEP
from history_curator.window.build_view import Block as Block
from history_curator.window.build_view import View as View
from history_curator.window.build_view import ViewBuilder as ViewBuilder
from history_curator.window.cutoff import COMPACT_TO as COMPACT_TO
from history_curator.window.rendering import WindowOptions as WindowOptions
