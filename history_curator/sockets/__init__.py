"""What both adapters share: the budget of a model, one curated call, the event, the record."""

from __future__ import annotations

from history_curator._drive import Ask, Body, adrive, drive
from history_curator.sockets._branches import Branch, Branches
from history_curator.sockets._budget import (
    Budget,
    Window,
    answer_is_apart,
    budget_of,
    is_share,
    room_for_answer,
    share_of,
)
from history_curator.sockets._cache import MOST_MARKS, mark_prefix, mark_view
from history_curator.sockets._call import RETRIES, SHRINK, CuratedCall, is_too_long
from history_curator.sockets._counts import Counts, counts_of
from history_curator.sockets._load import ConfigSource, load_settings, rebuilt
from history_curator.sockets._record import Retention, entries_of, prune_connection
from history_curator.sockets._rules import Asked, rules_for

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
    "Counts",
    "CuratedCall",
    "Retention",
    "Window",
    "adrive",
    "answer_is_apart",
    "budget_of",
    "counts_of",
    "drive",
    "entries_of",
    "is_share",
    "is_too_long",
    "load_settings",
    "mark_prefix",
    "mark_view",
    "prune_connection",
    "rebuilt",
    "room_for_answer",
    "rules_for",
    "share_of",
]
