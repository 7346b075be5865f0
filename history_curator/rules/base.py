"""A rule, the violations it finds, and the loop that repairs until no rule finds any."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from history_curator.entries import ContentPart, ConversationEntry, MessageRole

SYSTEM, USER = MessageRole.SYSTEM, MessageRole.USER
ASSISTANT, TOOL = MessageRole.ASSISTANT, MessageRole.TOOL

Entries = Sequence[ConversationEntry]
Errors = Mapping[str, Mapping[str, str]]
Finding = tuple[int | None, str, str]

MAX_ROUNDS = 4
"""One round repairs everything under the profiles that ship; more are for rules of your own."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a conversation breaks a rule.

    Attributes:
        index: position of the culprit in the conversation; None when something is missing.
        rule: code of the rule, ``P1`` to ``P13``.
        message: the problem, in words for a person.
        error: the provider's answer, where known.

    Examples:
        >>> Violation(3, "P6", "the result answers no call")
        Violation(index=3, rule='P6', message='the result answers no call', error=None)
    """

    index: int | None
    rule: str
    message: str
    error: str | None = None


class Rule:
    """One demand of a provider, with its check and its repair.

    A subclass overrides `check_entry`, `check_view` or both, and `repair`, which has to leave
    no violation for them to find.

    Attributes:
        code: ``P1`` to ``P13``.
        requests_only: a history that the caller appends to need not follow the rule.
        within_units: `check_view` can judge one unit (an exchange or a single entry) alone.
        errors: by kind of violation, the answer of each provider.

    Examples:
        >>> from history_curator.testing import parse_entries
        >>> class NoSystem(Rule):
        ...     code = "X1"
        ...
        ...     def check_entry(self, entry):
        ...         return [("system", "a system message")] if entry.role is SYSTEM else []
        ...
        ...     def repair(self, entries):
        ...         return [entry for entry in entries if not self.check_entry(entry)]
        >>> [violation.index for violation in NoSystem().find(parse_entries("S U"))]
        [0]
    """

    code: ClassVar[str]
    requests_only: ClassVar[bool] = False
    within_units: ClassVar[bool] = False
    errors: ClassVar[Errors] = {}

    def check_entry(self, entry: ConversationEntry) -> list[tuple[str, str]]:
        """Judge one entry alone: a kind and a message for each violation."""
        return []

    def check_view(self, entries: Entries) -> list[Finding]:
        """Judge the sequence: an index, a kind and a message for each violation."""
        return []

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Return entries in which the rule finds no violation."""
        raise NotImplementedError

    def find(self, entries: Entries, provider: str = "core") -> list[Violation]:
        """Return every violation in order of position, with the error text of a provider."""
        found: list[Finding] = [
            (index, kind, message)
            for index, entry in enumerate(entries)
            for kind, message in self.check_entry(entry)
        ]
        found += self.check_view(entries)
        return sort_by_index(
            [
                Violation(index, self.code, message, self._error_text(kind, provider))
                for index, kind, message in found
            ]
        )

    def _error_text(self, kind: str, provider: str) -> str | None:
        """Return the provider's answer to a kind of violation, else that of another provider."""
        texts = self.errors.get(kind, {})
        return texts.get(provider) or next(iter(texts.values()), None)


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

    Args:
        rules: in the order of repair.
        entries: a view, or one unit.
        is_valid: whether no rule objects to an entry alone.
        in_unit: the entries are one unit, so only rules `within_units` check the sequence.
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
    """Return an edited copy; the copy of an invented entry has no original, as none was recorded."""
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


def join_part_texts(parts: Sequence[ContentPart]) -> str | None:
    """Return the text of content parts, joined as the readers join it."""
    return "\n".join(part.text for part in parts if part.kind == "text" and part.text) or None


def join_runs(
    entries: Entries,
    belongs_together: Callable[[ConversationEntry, ConversationEntry], bool],
    reason: str,
) -> list[ConversationEntry]:
    """Return the entries with every run joined; the reason may name its length and role."""
    runs: list[list[ConversationEntry]] = []
    for entry in entries:
        if runs and belongs_together(runs[-1][-1], entry):
            runs[-1].append(entry)
        else:
            runs.append([entry])
    return [join_entries(run, reason.format(len(run), run[0].role.value)) for run in runs]


def join_entries(run: Sequence[ConversationEntry], reason: str) -> ConversationEntry:
    """Return a run as one entry that has every word, image and thought of it.

    It is an edited copy of the entry that carries calls, else of the first; a run of one is that
    entry itself. Its metadata lists the other recorded entries under ``"merged"``.
    """
    if len(run) == 1:
        return run[0]
    base = next((entry for entry in run if entry.tool_calls), run[0])
    parts: tuple[ContentPart, ...] | None = None
    if any(entry.parts for entry in run):
        parts = tuple(part for entry in run for part in _parts_of(entry))
        content = join_part_texts(parts)
    else:
        content = "\n\n".join(entry.content for entry in run if entry.content) or None
    merged = [entry.root for entry in run if entry is not base]
    merged += [root for entry in run for root in (entry.metadata or {}).get("merged", ())]
    return copy_edited(
        base,
        content=content,
        parts=parts,
        reasoning=tuple(block for entry in run for block in entry.reasoning or ()) or None,
        pinned=any(entry.pinned for entry in run),
        truncated=any(entry.truncated for entry in run),
        barrier=any(entry.barrier for entry in run),
        origin=None if any(entry.origin is None for entry in run) else base.origin,
        metadata={**(base.metadata or {}), "merged": merged},
        action="merged",
        reason=reason,
    )


def _parts_of(entry: ConversationEntry) -> tuple[ContentPart, ...]:
    if entry.parts:
        return entry.parts
    return (ContentPart("text", entry.content),) if entry.content else ()


def has_lone_surrogates(entry: ConversationEntry) -> bool:
    """Return whether a text, an author, arguments or an unsigned thought cannot be encoded."""
    return (
        _is_unencodable(entry.content)
        or _is_unencodable(entry.name)
        or any(_is_unencodable(call.arguments) for call in entry.tool_calls or ())
        or any(each.raw is None and _is_unencodable(each.text) for each in entry.reasoning or ())
    )


def without_lone_surrogates(entry: ConversationEntry) -> ConversationEntry:
    """Return an entry with U+FFFD in place of each half of a character."""
    changes: dict[str, Any] = {
        "content": entry.content and _mend_text(entry.content),
        "name": entry.name and _mend_text(entry.name),
        "parts": entry.parts and tuple(map(_mend_block, entry.parts)),
        "tool_calls": entry.tool_calls
        and tuple(replace(each, arguments=_mend_text(each.arguments)) for each in entry.tool_calls),
        "reasoning": entry.reasoning
        and tuple(each if each.raw is not None else _mend_block(each) for each in entry.reasoning),
    }
    return copy_repaired(entry, "half a character cannot be encoded, and became U+FFFD", **changes)


def _mend_block(block: Any) -> Any:
    return replace(block, text=_mend_text(block.text)) if block.text else block


def _is_unencodable(text: str | None) -> bool:
    if text is None or text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _mend_text(text: str) -> str:
    """Return a text with U+FFFD for each half; two halves that belong together become one."""
    if not _is_unencodable(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
