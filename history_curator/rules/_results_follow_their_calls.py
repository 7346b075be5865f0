"""P6: a call and its results are never apart."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from history_curator.formats import answers_in_kind, spoken
from history_curator.entries import ConversationEntry, ToolCall
from history_curator.rules import _features as has
from history_curator.rules._invariant import (
    SYSTEM,
    TOOL,
    Entries,
    Errors,
    Finding,
    Invariant,
    edit,
    remembered,
)
from history_curator.timeline import Pairing, flatten


class ResultsFollowTheirCalls(Invariant):
    """Every entry with calls is followed at once by exactly one result per call, in call order.

    OpenAI: ``messages with role 'tool' must be a response to a preceeding message with
    'tool_calls'``, ``An assistant message with 'tool_calls' must be followed by tool messages
    responding to each 'tool_call_id'``, ``Duplicate value for 'tool_call_id'``; Anthropic:
    ``tool_use ids were found without tool_result blocks immediately after``; Gemini counts the
    parts; Bedrock: ``Expected toolResult blocks``; Mistral: ``Not the same number of function
    calls and responses``.

    Repair: the real result moves up to its call; a marked placeholder with an error status
    stands in for one that does not exist; of duplicates the last real one stays; what answers no
    call is dropped. Ids may be reused, so results pair with the latest call before them. In a list
    that mixes formats, a result is written in the format of its call.

    Args:
        ordered: also ask for call order among the results of one entry.

    Examples:
        >>> from history_curator.testing import parse_entries, show
        >>> show(ResultsFollowTheirCalls().repair(parse_entries("U A(c1,c2) U T(c1)")))
        'U A(c1,c2) T(c1) T*(c2) U'
    """

    code = "P6"
    about = has.CALLS | has.RESULT
    within = True
    errors: ClassVar[Errors] = {
        "orphan": {
            "openai": "messages with role 'tool' must be a response to a preceeding message with "
            "'tool_calls'.",
            "anthropic": "unexpected `tool_use_id` found in `tool_result` blocks",
            "gemini": "Please ensure that function response turn comes immediately after a "
            "function call turn.",
            "bedrock": "The number of toolResult blocks exceeds the number of toolUse blocks of "
            "previous turn.",
            "mistral": "Unexpected tool call id in tool results",
        },
        "unanswered": {
            "openai": "An assistant message with 'tool_calls' must be followed by tool messages "
            "responding to each 'tool_call_id'.",
            "anthropic": "`tool_use` ids were found without `tool_result` blocks immediately after",
            "gemini": "Please ensure that the number of function response parts is equal to the "
            "number of function call parts of the function call turn.",
            "bedrock": "Expected toolResult blocks for the following Ids",
            "mistral": "Not the same number of function calls and responses",
        },
        "duplicate": {
            "openai": "Duplicate value for 'tool_call_id'",
            "anthropic": "each tool_use must have a single result",
            "bedrock": "The number of toolResult blocks exceeds the number of toolUse blocks of "
            "previous turn.",
            "mistral": "Duplicate tool call id in tool results",
        },
        "order": {},
        "format": {
            "openai": "An assistant message with 'tool_calls' must be followed by tool messages "
            "responding to each 'tool_call_id'.",
            "anthropic": 'messages: Unexpected role "tool". Allowed roles are "user" or '
            '"assistant"',
        },
    }

    def __init__(self, *, ordered: bool = True) -> None:
        self.ordered = ordered

    def look_across(self, entries: Entries) -> list[Finding]:
        """Walk from call to call, expecting its results right behind it."""
        found: list[Finding] = []
        count = len(entries)
        index = 0
        while index < count:
            entry = entries[index]
            calls = entry.tool_calls
            index += 1
            if calls:
                start, foreign = index, False
                for call in calls:
                    if index >= count:
                        break
                    result = entries[index]
                    if result.role is not TOOL or result.tool_call_id != call.id:
                        break
                    if call.extra is not None or result.span is not None:
                        foreign = foreign or not _in_kind(call, result)
                    index += 1
                if (
                    foreign
                    or index - start < len(calls)
                    or (index < count and entries[index].role is TOOL)
                ):
                    index = start
                    while index < count and entries[index].role is TOOL:
                        index += 1
                    found += self._compare(entries, start - 1, index)
            elif entry.role is TOOL:
                message = f"the result of {entry.tool_call_id!r} follows no call"
                found.append((index - 1, "orphan", message))
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Pair, then flatten: placeholders for what is missing, nothing that answers no call."""
        if not self.look_across(entries):
            return list(entries)
        pairing = Pairing(entries)
        before = _predecessors(entries, pairing)
        placed: dict[int, ConversationEntry] = {}
        for unit in pairing.units:
            last = unit.head.root
            head = placed[id(unit.head)] = _spoken(unit.head, unit.entries[1:])
            for call, result in zip(head.tool_calls or (), unit.results, strict=False):
                if result is None:
                    continue
                if before.get(id(result)) is not last:
                    placed[id(result)] = _placed(result, call.id, *_MOVED)
                elif result.tool_call_id != call.id:
                    placed[id(result)] = _placed(result, call.id, *_NAMED)
                elif not answers_in_kind(call, result):
                    placed[id(result)] = _placed(result, call.id, *_TURNED)
                last = result.root
        out = flatten(pairing.units, pairing.system)
        return [placed.get(id(entry), entry) for entry in out]

    def _compare(self, entries: Entries, at: int, end: int) -> list[Finding]:
        calls = entries[at].tool_calls or ()
        wanted = Counter(call.id for call in calls)
        found: list[Finding] = []
        seen: Counter[str | None] = Counter()
        for index in range(at + 1, end):
            given = entries[index].tool_call_id
            seen[given] += 1
            if given is None or given not in wanted:
                message = f"the result of {given!r} answers none of the calls before it"
                found.append((index, "orphan", message))
            elif seen[given] > wanted[given]:
                found.append((index, "duplicate", f"a second result for the call {given!r}"))
            else:
                call = next(call for call in calls if call.id == given)
                if not _in_kind(call, entries[index]):
                    message = f"the result of {given!r} is in another format than its call"
                    found.append((index, "format", message))
        for name, times in wanted.items():
            if seen[name] < times:
                message = f"the call {name!r} has no result right after it"
                found.append((at, "unanswered", message))
        if not found and self.ordered:
            found.append((at + 1, "order", "the results are not in the order of their calls"))
        return found


def _in_kind(call: ToolCall, result: ConversationEntry) -> bool:
    return answers_in_kind(call, result) and spoken(call, result) is call


def _spoken(head: ConversationEntry, results: Entries) -> ConversationEntry:
    """An entry with calls that its results answer: functions where they are of another kind."""
    given = head.tool_calls or ()
    calls = tuple(map(spoken, given, results))
    turned = tuple(call is as_given for call, as_given in zip(calls, given, strict=True))
    if all(turned):
        return head
    action, reason = _TURNED
    return remembered(
        head, ("spoken", turned), lambda: edit(head, tool_calls=calls, action=action, reason=reason)
    )


def _predecessors(entries: Entries, pairing: Pairing) -> dict[int, ConversationEntry]:
    """For each result that stays, the recorded entry before it, not counting what is dropped."""
    gone = {id(entries[index]) for index in pairing.replaced}
    before: dict[int, ConversationEntry] = {}
    last: ConversationEntry | None = None
    for index, entry in enumerate(entries):
        if index in pairing.orphans or id(entry) in gone or entry.role is SYSTEM:
            continue
        if last is not None and entry.role is TOOL:
            before[id(entry)] = last.root
        last = entry
    return before


_MOVED = "moved", "a result has to follow its call at once, in call order"
_NAMED = "repaired", "the result did not name the call it answers"
_TURNED = "repaired", "a result and its call have to be of one kind"


def _placed(entry: ConversationEntry, call_id: str, action: str, reason: str) -> ConversationEntry:
    return remembered(
        entry,
        ("placed", call_id),
        lambda: edit(entry, tool_call_id=call_id, action=action, reason=reason),
    )
