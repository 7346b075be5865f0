"""What both adapters share: the budget of a model, one curated call, the event, the record."""

from __future__ import annotations

from history_curator._drive import Ask, Body, adrive, drive
from history_curator.integrations._budget import (
    Budget,
    Window,
    answer_is_apart,
    budget_of,
    is_share,
    share_of,
)
from history_curator.integrations._cache import MOST_MARKS, mark_prefix, mark_view
from history_curator.integrations._call import RETRIES, SHRINK, CuratedCall, is_too_long
from history_curator.integrations._counts import actions_of
from history_curator.integrations._load import (
    Asked,
    ConfigSource,
    as_managers,
    load_settings,
    rebuilt,
    rules_for,
)
from history_curator.integrations._written import written_once
from history_curator.record.branches import Branch, Branches
from history_curator.record.prune import prune_connection
from history_curator.record.retention import Retention, entries_of

__all__ = [
    "MOST_MARKS",
    "RETRIES",
    "SHRINK",
    "Ask",
    "Asked",
    "Body",
    "Branch",
    "Branches",
    "Budget",
    "ConfigSource",
    "CuratedCall",
    "Retention",
    "Window",
    "actions_of",
    "adrive",
    "answer_is_apart",
    "as_managers",
    "budget_of",
    "drive",
    "entries_of",
    "is_share",
    "is_too_long",
    "load_settings",
    "mark_prefix",
    "mark_view",
    "prune_connection",
    "rebuilt",
    "rules_for",
    "share_of",
    "written_once",
]
