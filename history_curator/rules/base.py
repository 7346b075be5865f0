"""A rule, the violations it finds, and the loop that repairs until no rule finds any."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from history_curator.entries import ContentPart, ConversationEntry, MessageRole, ToolCall
from history_curator.formats import MessageGroup, find_cache_marks, is_answered_in_kind

SYSTEM, USER = MessageRole.SYSTEM, MessageRole.USER
ASSISTANT, TOOL = MessageRole.ASSISTANT, MessageRole.TOOL

Tail = Literal["request", "history"]
Entries = Sequence[ConversationEntry]
Finding = tuple[int | None, str]

MAX_ROUNDS = 4
"""One round repairs everything under the profiles that ship; more are for rules of your own."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a conversation breaks a rule, and the problem in words for a person.

    The index is that of the culprit, None when something is missing; ``docs/providers.md`` lists
    the codes of rules, such as ``P6``.
    """

    index: int | None
    rule: str
    message: str


class Rule:
    """One demand of a provider: a subclass has `check_entry` and `mend`, or `check_view` and `repair`.

    Attributes:
        code: such as ``P6``; rules about one subject share it. ``docs/providers.md`` lists them.
        requests_only: a history that the caller appends to need not follow the rule.
        within_units: `check_view` can judge one unit (an exchange or a single entry) alone.

    Examples:
        >>> from history_curator.testing import parse_entries
        >>> class NoSystem(Rule):
        ...     code = "X1"
        ...
        ...     def check_entry(self, entry):
        ...         return ["a system message"] if entry.role is SYSTEM else []
        ...
        ...     def mend(self, entry):
        ...         return None
        >>> [violation.index for violation in NoSystem().find(parse_entries("S U"))]
        [0]
    """

    code: ClassVar[str]
    requests_only: ClassVar[bool] = False
    within_units: ClassVar[bool] = False

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        """Judge one entry alone: a message for each violation."""
        return []

    def check_view(self, entries: Entries) -> list[Finding]:
        """Judge the sequence: an index and a message for each violation."""
        return []

    def mend(self, entry: ConversationEntry) -> ConversationEntry | None:
        """Return an entry that `check_entry` objected to as it is accepted; None leaves it out."""
        raise NotImplementedError

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Return entries in which the rule finds no violation."""
        mended = [self.mend(entry) if self.check_entry(entry) else entry for entry in entries]
        return [entry for entry in mended if entry is not None]

    def find(self, entries: Entries) -> list[Violation]:
        """Return every violation in order of position; those without a position come last."""
        found: list[Finding] = [
            (index, message)
            for index, entry in enumerate(entries)
            for message in self.check_entry(entry)
        ]
        found += self.check_view(entries)
        return sort_by_index([Violation(index, self.code, message) for index, message in found])


def sort_by_index(found: list[Violation]) -> list[Violation]:
    """Return violations in order of position; those without a position come last."""
    return sorted(found, key=lambda each: (each.index is None, each.index))


def repair_entries(
    rules: Sequence[Rule],
    entries: Entries,
    is_valid: Callable[[ConversationEntry], bool],
    *,
    in_unit: bool = False,
) -> Entries:
    """Return entries in which no rule finds a violation; the given object when there was none.

    With `in_unit` the entries are one unit, so only rules `within_units` check the sequence.
    """
    for _ in range(MAX_ROUNDS):
        before = entries
        suspects = [entry for entry in entries if not is_valid(entry)]
        for rule in rules:
            if any(map(rule.check_entry, suspects)) or (
                (rule.within_units or not in_unit) and rule.check_view(entries)
            ):
                entries = rule.repair(entries)
                suspects = [entry for entry in entries if not is_valid(entry)]
        if entries is before:
            break
    return entries


def copy_edited(entry: ConversationEntry, **changes: Any) -> ConversationEntry:
    """Return an edited copy; the copy of an invented entry has no original."""
    if entry.source is None and entry.origin is not None:
        return replace(entry, **changes)
    return entry.evolve(**changes)


def copy_repaired(entry: ConversationEntry, reason: str, **changes: Any) -> ConversationEntry:
    """Return an edited copy marked as repaired, unless an earlier edit marked it already."""
    return copy_edited(
        entry, action=entry.action or "repaired", reason=entry.reason or reason, **changes
    )


def is_blank(text: str | None) -> bool:
    """Return whether a text is missing, empty or white space."""
    return not text or text.isspace()


def is_unencodable(text: str | None) -> bool:
    """Return whether a text has half a character, a lone surrogate, which no client can encode."""
    if text is None or text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def join_part_texts(parts: Sequence[ContentPart]) -> str | None:
    """Return the text of parts, joined as the readers join it."""
    return "\n".join(part.text for part in parts if part.kind == "text" and part.text) or None


# Most views are in order for reasons that are cheap to see. What follows sees them in one pass.


def is_plain_text(entry: ConversationEntry) -> bool:
    """Return whether an entry is a text and nothing else, which every provider takes by itself."""
    text, source = entry.content, entry.source
    if not text or text.isspace() or entry.role is TOOL or is_unencodable(text):
        return False
    if entry.metadata or (isinstance(source, Mapping) and "tool_calls" in source):
        return False
    rare = entry.parts, entry.tool_calls, entry.reasoning, entry.repairs, entry.role_name
    return entry.name is None and rare == (None, None, None, None, None)


PLAIN_NEIGHBOURS = {
    (None, SYSTEM), (None, USER), (SYSTEM, USER), (USER, ASSISTANT), (TOOL, ASSISTANT),
    (ASSISTANT, USER),
}  # fmt: skip
"""Who may follow whom under every profile; a result follows its call."""


def is_plain_view(
    entries: Entries,
    tail: Tail,
    is_valid: Callable[[ConversationEntry], bool],
    neighbours: Container[tuple[MessageRole | None, MessageRole]],
) -> bool:
    """Return whether a view is in order for a reason that is cheap to see.

    Text only, in an order of `neighbours`, and every call is answered in order. Other views may
    be in order as well.
    """
    before: MessageRole | None = None
    waiting: list[ToolCall] = []
    ids: set[str] = set()
    for entry in entries:
        role, parts = entry.role, entry.parts
        if not is_valid(entry) or (parts is not None and any(p.kind != "text" for p in parts)):
            return False
        if (parts or entry.span) and find_cache_marks(entry):
            return False
        if role is TOOL:
            if not waiting or not _is_plain_answer(waiting.pop(), entry):
                return False
        elif (
            waiting
            or (before, role) not in neighbours
            or (role is USER and is_blank(entry.content))
            or (role is ASSISTANT and _may_be_item(entry))
        ):
            return False
        elif calls := entry.tool_calls:
            waiting = list(reversed(calls))
            for call in calls:
                if call.id in ids or (call.extra is not None and _is_rare(call)):
                    return False
                ids.add(call.id)
        before = role
    last = (USER, TOOL) if tail == "request" else (USER, TOOL, ASSISTANT)
    return not waiting and before in last


def fits_call(call: ToolCall, result: ConversationEntry) -> bool:
    """Return whether a result is written in the format of its call."""
    return (call.extra is None and result.span is None) or is_answered_in_kind(call, result)


def _is_plain_answer(call: ToolCall, result: ConversationEntry) -> bool:
    is_named = result.tool_name is None or result.tool_name == call.name
    return is_named and result.tool_call_id == call.id and fits_call(call, result)


def _is_rare(call: ToolCall) -> bool:
    extra = call.extra or {}
    return not extra.keys() <= {"chat", "anthropic"} or "caller" in (extra.get("anthropic") or ())


def _may_be_item(entry: ConversationEntry) -> bool:
    """Return whether an answer may be an item of OpenAI Responses, which has an id."""
    source = entry.root.source
    if source.__class__ is dict:
        return "type" in source
    return isinstance(source, (Mapping, MessageGroup))
