"""What every provider asks of a conversation, a claim per module, and those about its ends in one.

Each invariant finds its violations and repairs them; a profile is a list of invariants.
"""

from __future__ import annotations

from history_curator.rules._answers_are_whole import AnswersAreWhole
from history_curator.rules._arguments_are_objects import ArgumentsAreObjects
from history_curator.rules._both_ends import (
    RequestEndsOnUserOrTool,
    SomeUserSpeaks,
    UserSpeaksFirst,
)
from history_curator.rules._call_ids_are_unique import CallIdsAreUnique
from history_curator.rules._images_fit import ImagesFit
from history_curator.rules._invariant import Invariant, Violation
from history_curator.rules._items_are_unique import ItemsAreUnique
from history_curator.rules._messages_are_well_formed import MessagesAreWellFormed
from history_curator.rules._nothing_is_blank import NothingIsBlank
from history_curator.rules._one_system_entry_leads import LaterSystem, OneSystemEntryLeads
from history_curator.rules._reasoning_stays_bound import (
    ReasoningBoundError,
    ReasoningMode,
    ReasoningStaysBound,
)
from history_curator.rules._results_follow_their_calls import ResultsFollowTheirCalls
from history_curator.rules._roles_alternate import RolesAlternate
from history_curator.rules._server_tools_stay_whole import ServerToolsStayWhole
from history_curator.rules._tool_names_are_accepted import ToolNamesAreAccepted

# isort: split
from history_curator.rules._check import check_conversation, repair_conversation
from history_curator.rules._profile import ProviderProfile, Tail
from history_curator.rules._providers import PROVIDERS, get_profile

__all__ = [
    "PROVIDERS",
    "AnswersAreWhole",
    "ArgumentsAreObjects",
    "CallIdsAreUnique",
    "ImagesFit",
    "Invariant",
    "ItemsAreUnique",
    "LaterSystem",
    "MessagesAreWellFormed",
    "NothingIsBlank",
    "OneSystemEntryLeads",
    "ProviderProfile",
    "ReasoningBoundError",
    "ReasoningMode",
    "ReasoningStaysBound",
    "RequestEndsOnUserOrTool",
    "ResultsFollowTheirCalls",
    "RolesAlternate",
    "ServerToolsStayWhole",
    "SomeUserSpeaks",
    "Tail",
    "ToolNamesAreAccepted",
    "UserSpeaksFirst",
    "Violation",
    "check_conversation",
    "get_profile",
    "repair_conversation",
]
