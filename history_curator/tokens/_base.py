from __future__ import annotations

from history_curator.tokens.base import MessageCounter as CachingCounter

__all__ = ["CachingCounter"]
