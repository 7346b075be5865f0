"""Wire formats: messages of any format become entries, and entries become messages again."""

from __future__ import annotations

from history_curator.formats._bedrock import BedrockFormat
from history_curator.formats._chat import ROLES, sendable, write_message
from history_curator.formats._dicts import DictFormat, whole_source
from history_curator.formats._entries import EntryFormat
from history_curator.formats._fields import arguments_text, parse_json, parse_object
from history_curator.formats._formats import format_of
from history_curator.formats._gemini import GeminiFormat
from history_curator.formats._parts import image_size, join_text, read_part, text_first, write_part
from history_curator.formats._protocol import (
    MessageFormat,
    Gathered,
    GatheringFormat,
    copied,
    differ,
    freeze,
)
from history_curator.formats._one_message import (
    entry_to_provider_message,
    provider_message_to_entry,
)
from history_curator.formats._provider import (
    is_same_model,
    model_of,
    provider_for,
    takes_later_system,
)
from history_curator.formats._registry import (
    adapter_of,
    adapters,
    detect,
    gathered,
    read_entries,
    read_placed,
    register_format,
    scattered,
)
from history_curator.formats._reread import reread, says_the_same
from history_curator.formats._response_answers import (
    ANONYMOUS,
    item_ids,
    sent_parts,
    spoken,
    unfollowed,
)
from history_curator.formats._responses import RESPONSE_ITEMS, ResponsesFormat
from history_curator.formats._wire import (
    Wire,
    answers_in_kind,
    keeps_objects,
    names_its_calls,
    wire_of,
)

__all__ = [
    "ANONYMOUS",
    "RESPONSE_ITEMS",
    "ROLES",
    "BedrockFormat",
    "MessageFormat",
    "DictFormat",
    "EntryFormat",
    "Gathered",
    "GatheringFormat",
    "GeminiFormat",
    "ResponsesFormat",
    "Wire",
    "adapter_of",
    "adapters",
    "answers_in_kind",
    "arguments_text",
    "copied",
    "detect",
    "differ",
    "entry_to_provider_message",
    "format_of",
    "freeze",
    "gathered",
    "image_size",
    "is_same_model",
    "item_ids",
    "join_text",
    "keeps_objects",
    "model_of",
    "names_its_calls",
    "parse_json",
    "parse_object",
    "provider_for",
    "provider_message_to_entry",
    "read_entries",
    "read_part",
    "read_placed",
    "register_format",
    "reread",
    "says_the_same",
    "scattered",
    "sendable",
    "sent_parts",
    "spoken",
    "takes_later_system",
    "text_first",
    "unfollowed",
    "whole_source",
    "wire_of",
    "write_message",
    "write_part",
]

find_format, group_items, ungroup_items = detect, gathered, scattered
