"""What an agent may ask the recall tool, in a form both frameworks turn into a tool schema."""

from __future__ import annotations

from pydantic import BaseModel, Field

RECALL_DESCRIPTION = (
    "Get back earlier parts of this conversation that were shortened, cleared or left out. "
    'Give `handle` (as written in a placeholder, such as "r1a2b3c4d5e6f7081"), optionally with `lines` '
    '("40-80"), or give `query` (a few words) to search everything said and every tool result so '
    "far. Works for this conversation only."
)


class RecallRequest(BaseModel):
    """Arguments of the recall tool: a handle (with optional lines), or a query.

    Examples:
        >>> RecallRequest(handle="r1a2b3c4d5e6f7081", lines="40-80").lines
        '40-80'
    """

    handle: str | None = Field(
        default=None, description="The handle written in a placeholder, copied exactly."
    )
    lines: str | None = Field(
        default=None, description='Which lines of the original, from 1: "40-80", "40-" or "40".'
    )
    query: str | None = Field(
        default=None, description="Words to look for when no handle is known."
    )
