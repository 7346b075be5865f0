"""The report: what happened to every entry, and why."""

from __future__ import annotations

from history_curator.report._decision import Decision
from history_curator.report._report import CurationReport, Step

__all__ = ["CurationReport", "Decision", "Step"]
