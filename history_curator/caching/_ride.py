"""A request that rides on the cache of the conversation it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from history_curator.entries import ConversationEntry, MessageRole

if TYPE_CHECKING:
    from history_curator.curator import Curation

__all__ = ["ride_cache"]


def ride_cache(view: Curation | Sequence[Any], instruction: str) -> list[Any]:
    """Return the messages of a view with one instruction behind them, in the view's format.

    Sent to the same model with the same system prompt and the same tools, everything but the
    instruction is read from the provider's cache: asking for a summary of a long conversation
    then costs a tenth of sending its text in a prompt of its own. To another model it is an
    ordinary request.

    The messages of the view are the same objects. Where its last message is the user's, the
    instruction is a message of its own behind it; providers that want roles to alternate read the
    two as one.

    Args:
        view: a curation, or its messages.
        instruction: what the model is asked to do with what it has read.

    Examples:
        >>> ride_cache([{"role": "user", "content": "hi"}], "Sum up what was said.")
        [{'role': 'user', 'content': 'hi'}, {'role': 'user', 'content': 'Sum up what was said.'}]
    """
    from history_curator.formats import detect

    messages = list(view if isinstance(view, Sequence) else view.messages)
    asked = ConversationEntry(MessageRole.USER, instruction, origin="note")
    return [*messages, *detect(messages).write([asked])]
