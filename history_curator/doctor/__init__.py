"""The doctor: what recorded sessions cost, where caches were lost, what else could have been done.

Reads logs that people already have; it opens no connection but to an object store or a cluster that
was named.
"""

from __future__ import annotations

from history_curator.doctor.costs import Bust, CostlyCall
from history_curator.doctor.diagnose import BUDGETS, PEERS, Diagnosis, ToolShare, WhatIf, diagnose
from history_curator.doctor.gate import Verdict, judge

__all__ = [
    "BUDGETS", "PEERS", "Bust", "CostlyCall", "Diagnosis", "ToolShare", "Verdict", "WhatIf", "diagnose",
    "judge",
]  # fmt: skip
