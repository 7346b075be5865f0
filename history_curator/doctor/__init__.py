"""The doctor: what recorded sessions cost, where caches were lost, what else could have been done.

Reads logs that people already have, and opens no connection.
"""

from __future__ import annotations

from history_curator.doctor.costs import Bust
from history_curator.doctor.diagnose import BUDGETS, PEERS, Diagnosis, ToolShare, WhatIf, diagnose

__all__ = ["BUDGETS", "PEERS", "Bust", "Diagnosis", "ToolShare", "WhatIf", "diagnose"]
