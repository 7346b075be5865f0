"""The report: what happened to every entry, and why."""

from __future__ import annotations

from history_curator.report._deciding import Decision, Step
from history_curator.report._diff import LeftUnit, ViewDiff
from history_curator.report._report import CurationReport

__all__ = ["CurationReport", "Decision", "LeftUnit", "Step", "ViewDiff"]
