"""The doctor: what recorded sessions cost, where caches were lost, what else could have been done.

Reads logs people already have; sends nothing anywhere.
"""

from __future__ import annotations

from history_curator.doctor._contents import Loss
from history_curator.doctor._diagnosis import Diagnosis, ToolShare, diagnose
from history_curator.doctor._simulate import Bust
from history_curator.doctor._what_if import WhatIf

__all__ = ["Bust", "Diagnosis", "Loss", "ToolShare", "WhatIf", "diagnose"]
