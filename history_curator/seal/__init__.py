"""Sealing: whatever the managers did, the view fits, conforms, and keeps what must be kept."""

from __future__ import annotations

from history_curator.seal._fit import Fit
from history_curator.seal._ladder import Ladder
from history_curator.seal._seal import Sealed, seal

__all__ = ["Fit", "Ladder", "Sealed", "seal"]
