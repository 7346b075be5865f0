"""Earlier place of `history_curator.record.outbox`."""

from history_curator.record.outbox import DEFECTS, WriteBehind  # alias until all rooms have landed

__all__ = ["DEFECTS", "WriteBehind"]
