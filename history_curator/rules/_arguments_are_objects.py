"""P9: arguments are a JSON object."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar

from history_curator.formats import keeps_objects, parse_object
from history_curator.entries import ConversationEntry, ToolCall
from history_curator.rules import _features as has
from history_curator.rules._exchanges import results_of
from history_curator.rules._invariant import (
    Entries,
    Errors,
    Invariant,
    edit,
    is_blank,
    remembered,
)

_SHOWN = 200


class ArgumentsAreObjects(Invariant):
    """The arguments of every call are the text of a JSON object.

    Anthropic: ``tool_use.input: Input should be a valid dictionary``; Gemini, Bedrock and the
    open templates parse the arguments and fail on anything else. Output cut off at a token limit
    is where most malformed arguments come from.

    Repair: the arguments become ``{}``. A placeholder result of such a call says what the model
    had written; a real result is left as it is.

    Args:
        texts: also look at arguments that are sent as text, which OpenAI does not read.

    Examples:
        >>> from history_curator.entries import ConversationEntry, MessageRole, ToolCall
        >>> call = ToolCall("c1", "look", '{"at": "th')
        >>> asked = ConversationEntry(MessageRole.ASSISTANT, tool_calls=(call,))
        >>> ArgumentsAreObjects().repair([asked])[0].tool_calls[0].arguments
        '{}'
    """

    code = "P9"
    about = has.CALLS
    errors: ClassVar[Errors] = {
        "arguments": {
            "anthropic": "tool_use.input: Input should be a valid dictionary",
            "bedrock": "The value at toolUse.input is not a JSON object",
        }
    }

    def __init__(self, *, texts: bool = True) -> None:
        self.texts = texts

    def look_at(self, entry: ConversationEntry) -> list[tuple[str, str]]:
        """Parse the arguments of every call."""
        return [
            ("arguments", f"the arguments of {call.name!r} are not a JSON object")
            for call in entry.tool_calls or ()
            if not self._accepts(call)
        ]

    def _accepts(self, call: ToolCall) -> bool:
        return _is_object(call) or not (self.texts or keeps_objects(call))

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Empty the arguments and let a placeholder tell. Expects results behind their calls."""
        out = list(entries)
        for index, entry in enumerate(entries):
            if not self.look_at(entry):
                continue
            for call, place in zip(entry.tool_calls or (), results_of(entries, index), strict=True):
                if place is None or self._accepts(call) or is_blank(call.arguments):
                    continue
                if entries[place].origin == "placeholder":
                    out[place] = _telling(entries[place], call)
            out[index] = remembered(entry, ("arguments", self.texts), partial(self._emptied, entry))
        return out

    def _emptied(self, entry: ConversationEntry) -> ConversationEntry:
        calls = tuple(
            call if self._accepts(call) else replace(call, arguments="{}")
            for call in entry.tool_calls or ()
        )
        return edit(
            entry,
            tool_calls=calls,
            action=entry.action or "repaired",
            reason=entry.reason or "the arguments of a call were not a JSON object",
        )


def _is_object(call: ToolCall) -> bool:
    return call.arguments == "{}" or parse_object(call.arguments) is not None


def _telling(entry: ConversationEntry, call: ToolCall) -> ConversationEntry:
    written = call.arguments[:_SHOWN] + ("…" if len(call.arguments) > _SHOWN else "")
    return replace(
        entry,
        content=f"[The call was not executed: its arguments are not a JSON object: {written}]",
        status="error",
        reason="the arguments of the call were not a JSON object",
    )
