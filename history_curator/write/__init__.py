"""Writing: entries become messages again, the same objects wherever nothing changed."""

from __future__ import annotations

from history_curator.write._dicts import stand_alone, write_dicts

__all__ = ["stand_alone", "write_dicts"]
