"""Reading: messages of any dialect become entries."""

from __future__ import annotations

from history_curator.read._detect import detect, read_entries, register_dialect
from history_curator.read._dicts import DictDialect
from history_curator.read._entries import EntryDialect

__all__ = ["DictDialect", "EntryDialect", "detect", "read_entries", "register_dialect"]
