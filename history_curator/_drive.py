"""Earlier names of `history_curator.run_steps`."""

from history_curator.run_steps import Call as Ask
from history_curator.run_steps import Steps as Body
from history_curator.run_steps import run_async as adrive
from history_curator.run_steps import run_sync as drive

__all__ = ["Ask", "Body", "adrive", "drive"]
