"""What every provider asks of a conversation, one claim per module.

Each invariant finds its violations and repairs them; a profile is a list of invariants.
"""

from __future__ import annotations

from history_curator.invariants._arguments_are_objects import ArgumentsAreObjects
from history_curator.invariants._call_ids_are_unique import CallIdsAreUnique
from history_curator.invariants._images_fit import ImagesFit
from history_curator.invariants._invariant import Invariant, Violation
from history_curator.invariants._messages_are_well_formed import MessagesAreWellFormed
from history_curator.invariants._nothing_is_blank import NothingIsBlank
from history_curator.invariants._one_system_entry_leads import OneSystemEntryLeads
from history_curator.invariants._reasoning_stays_bound import (
    ReasoningBoundError,
    ReasoningMode,
    ReasoningStaysBound,
)
from history_curator.invariants._request_ends_on_user_or_tool import RequestEndsOnUserOrTool
from history_curator.invariants._results_follow_their_calls import ResultsFollowTheirCalls
from history_curator.invariants._roles_alternate import RolesAlternate
from history_curator.invariants._some_user_speaks import SomeUserSpeaks
from history_curator.invariants._tool_names_are_accepted import ToolNamesAreAccepted
from history_curator.invariants._user_speaks_first import UserSpeaksFirst

__all__ = [
    "ArgumentsAreObjects",
    "CallIdsAreUnique",
    "ImagesFit",
    "Invariant",
    "MessagesAreWellFormed",
    "NothingIsBlank",
    "OneSystemEntryLeads",
    "ReasoningBoundError",
    "ReasoningMode",
    "ReasoningStaysBound",
    "RequestEndsOnUserOrTool",
    "ResultsFollowTheirCalls",
    "RolesAlternate",
    "SomeUserSpeaks",
    "ToolNamesAreAccepted",
    "UserSpeaksFirst",
    "Violation",
]
