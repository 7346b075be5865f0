"""OpenAI's items: what was answered together with reasoning, once the reasoning has left.

The Responses API knows its items by id and asks for the reasoning each one came with. Without it
a call or a text is sent as if it were new, without its id, and what the provider ran by itself
(a search, an interpreter) is not sent at all. LangChain keeps these ids in three places: in the
blocks of the content, in their ``extras``, or beside the content and as the message's own id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_OWN = ("msg_", "fc_", "ctc_")
"""Ids of what the model said or called."""

_SERVED = ("ws_", "fs_", "ci_", "mcp_", "mcpl_", "mcpr_", "ig_", "cu_", "ts_", "tso_")
"""Ids of what the provider ran."""


def free_blocks(content: Sequence[Any]) -> list[Any]:
    """The blocks of a message without the ids, and without what the provider ran."""
    return [_freed(block) for block in content if not _is_served(block)]


def free_aside(extra: dict[str, Any]) -> dict[str, Any]:
    """What stands beside the content, likewise."""
    served = extra.get("tool_outputs")
    gone = {"__openai_function_call_ids__"}
    if isinstance(served, list) and any(map(_is_served, served)):
        gone.add("tool_outputs")
    return {key: value for key, value in extra.items() if key not in gone}


def is_item(message_id: str | None) -> bool:
    """Whether the id of a message is that of an item."""
    return bool(message_id) and str(message_id).startswith(_OWN)


def _is_served(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    name = block.get("id")
    if name is None and block.get("type") == "server_tool_result":
        name = block.get("tool_call_id")
    return str(name or "").startswith(_SERVED)


def _freed(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    extras = block.get("extras")
    if isinstance(extras, dict) and str(extras.get("item_id") or "").startswith(_OWN):
        rest = {key: value for key, value in extras.items() if key != "item_id"}
        block = {**block, "extras": rest}
    if str(block.get("id") or "").startswith(_OWN):
        return {key: value for key, value in block.items() if key != "id"}
    return block
