from __future__ import annotations

import logging
import os

import pytest
from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=_QUIET)
settings.register_profile("ci", max_examples=60, deadline=None, suppress_health_check=_QUIET)
settings.register_profile(
    "nightly", max_examples=2_000, deadline=None, suppress_health_check=_QUIET
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def _audible_loggers() -> None:
    """Let our loggers be heard: some libraries configure logging for the whole process."""
    logging.disable(logging.NOTSET)
    logging.getLogger("history_curator").setLevel(logging.WARNING)
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.split(".")[0] == "history_curator" and isinstance(logger, logging.Logger):
            logger.disabled = False
            logger.propagate = True
            if "." in name:
                logger.setLevel(logging.NOTSET)
