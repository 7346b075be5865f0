"""Managers that shorten: results and texts over a limit, old results, repeated results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConfigurationError
from history_curator.managers.base import (
    CurationContext,
    Entries,
    check_choice,
    check_count,
)
from history_curator.tokens import Keep, shorten, shorten_tokens
from history_curator.units import pair


def _replace_text(
    entry: ConversationEntry, text: str, action: str, reason: str
) -> ConversationEntry:
    """Return an entry with another text; a cleared one shows no media either."""
    return entry.evolve(
        content=text,
        parts=None if action == "cleared" else entry.parts,
        truncated=True,
        original_length=entry.original_length or len(entry.content or ""),
        action=action,
        reason=reason,
    )


@dataclass(frozen=True, slots=True)
class ToolResultTruncator:
    """Shortens tool results to a number of characters or tokens.

    A shortened result, its marker included, is within the limit, so it is never shortened twice;
    pinned results, images and everything else of the message stay.

    Args:
        max_length: characters per result; 2,000 when neither limit is given.
        max_tokens: tokens per result, instead of `max_length`.
        keep: the part that survives: ``head``, ``tail`` or ``both``.
        suffix: marks the place of the missing part.

    Examples:
        >>> said = [ConversationEntry(MessageRole.TOOL, "x" * 5_000, tool_call_id="c")]
        >>> view = ToolResultTruncator(max_length=100).curate(said, context=CurationContext())
        >>> len(view[0].content)
        100
    """

    max_length: int | None = None
    max_tokens: int | None = None
    keep: Keep = "head"
    suffix: str = "\n... [truncated]"

    def __post_init__(self) -> None:
        check_count(self, "max_length", self.max_length)
        check_count(self, "max_tokens", self.max_tokens)
        check_choice(self, "keep", self.keep, ("head", "tail", "both"))
        if self.max_length is not None and self.max_tokens is not None:
            raise ConfigurationError(
                "ToolResultTruncator takes max_length or max_tokens, not both. "
                "Fix: use two truncators in a row."
            )

    def curate(self, entries: Entries, *, context: CurationContext) -> list[ConversationEntry]:
        return [
            self._truncate(entry, context)
            if entry.role is MessageRole.TOOL and entry.content and not entry.pinned
            else entry
            for entry in entries
        ]

    def _truncate(self, entry: ConversationEntry, context: CurationContext) -> ConversationEntry:
        text, tokens, mark = entry.content or "", self.max_tokens, self.suffix
        if tokens is not None:
            short = shorten_tokens(text, tokens, context.counter, keep=self.keep, marker=mark)
            reason = f"tool result over {tokens:,} tokens"
        else:
            limit = 2_000 if self.max_length is None else self.max_length
            short = shorten(text, limit, keep=self.keep, marker=mark)
            reason = f"tool result over {limit:,} characters"
        return entry if short == text else _replace_text(entry, short, "truncated", reason)


@dataclass(frozen=True, slots=True)
class RoleTruncator:
    """Shortens text by who said it; None leaves a role alone, and system text is never shortened.

    A shortened text, its marker included, is within the limit, so it is never shortened twice.

    Args:
        user: characters per user entry. Setting it opts in to cutting the user's words.
        assistant: characters per assistant entry.
        tool: characters per tool result.
        keep: the part that survives: ``head``, ``tail`` or ``both``.
        suffix: marks the place of the missing part.

    Examples:
        >>> said = [ConversationEntry(MessageRole.ASSISTANT, "because " * 100)]
        >>> view = RoleTruncator(assistant=150).curate(said, context=CurationContext())
        >>> len(view[0].content)
        150
    """

    user: int | None = None
    assistant: int | None = None
    tool: int | None = None
    keep: Keep = "head"
    suffix: str = "... [truncated]"

    def __post_init__(self) -> None:
        for role in ("user", "assistant", "tool"):
            check_count(self, role, getattr(self, role))
        check_choice(self, "keep", self.keep, ("head", "tail", "both"))

    def curate(self, entries: Entries, *, context: CurationContext) -> list[ConversationEntry]:
        return [self._truncate(entry) for entry in entries]

    def _truncate(self, entry: ConversationEntry) -> ConversationEntry:
        limit: int | None = getattr(self, entry.role.value, None)
        text = entry.content
        if limit is None or not text or len(text) <= limit or entry.pinned:
            return entry
        short = shorten(text, limit, keep=self.keep, marker=self.suffix)
        reason = f"{entry.role.value} text over {limit:,} characters"
        return _replace_text(entry, short, "truncated", reason)


@dataclass(frozen=True, slots=True)
class ToolResultClearer:
    """Replaces all but the newest tool results by a placeholder.

    Results no longer than the placeholder, pinned ones and those of excluded tools stay.

    Args:
        keep: how many of the newest results stay.
        exclude_tools: names of tools whose results are never cleared, nor counted in `keep`.
        clear_inputs: also empty the arguments of the calls whose results are cleared.
        placeholder: the text the model sees instead.
        batch: clear this many at a time. Clearing one per call changes the prefix on every call
            and makes the prompt cache miss; a batch of ten changes it on every tenth.

    Examples:
        >>> ToolResultClearer(keep=5, exclude_tools=("read_policy",), batch=10).keep
        5
    """

    keep: int = 3
    exclude_tools: Sequence[str] = ()
    clear_inputs: bool = False
    placeholder: str = "[Old tool result cleared]"
    batch: int = 1

    def __post_init__(self) -> None:
        check_count(self, "keep", self.keep)
        check_count(self, "batch", self.batch, least=1)
        names = [self.exclude_tools] if isinstance(self.exclude_tools, str) else self.exclude_tools
        object.__setattr__(self, "exclude_tools", tuple(names))

    def curate(self, entries: Entries, *, context: CurationContext) -> list[ConversationEntry]:
        answered = [
            (unit.head, slot, result)
            for unit in pair(entries)
            for slot, result in enumerate(unit.results)
            if result is not None
            and not result.pinned
            and result.tool_name not in self.exclude_tools
            and (unit.head.tool_calls or ())[slot].name not in self.exclude_tools
        ]
        old = max(0, len(answered) - self.keep) // self.batch * self.batch
        edited: dict[int, ConversationEntry] = {}
        for head, slot, result in answered[:old]:
            edited[id(result.root)] = self._clear(result)
            if self.clear_inputs:
                edited[id(head.root)] = _clear_input(edited.get(id(head.root), head), slot)
        return [edited.get(id(entry.root), entry) for entry in entries]

    def _clear(self, entry: ConversationEntry) -> ConversationEntry:
        if len(entry.content or "") <= len(self.placeholder) and not entry.has_media:
            return entry
        reason = f"older than the newest {self.keep} tool results"
        return _replace_text(entry, self.placeholder, "cleared", reason)


def _clear_input(head: ConversationEntry, slot: int) -> ConversationEntry:
    calls = [*(head.tool_calls or ())]
    if head.pinned or calls[slot].arguments == "{}":
        return head
    calls[slot] = replace(calls[slot], arguments="{}")
    reason = "its result was cleared, and its input with it"
    return head.evolve(tool_calls=tuple(calls), action="cleared", reason=reason)


@dataclass(frozen=True, slots=True)
class DuplicateResultManager:
    """Replaces a tool result by a reference when a later identical call returned the same.

    The same means: same tool, same arguments, same text. The latest one stays. Results no longer
    than the reference, results with media and pinned ones stay as well.

    Args:
        reference: the text the model sees instead of the earlier result.

    Examples:
        >>> DuplicateResultManager(reference="[see below]").reference
        '[see below]'
    """

    reference: str = "[Same result as a later call with the same arguments]"

    def curate(self, entries: Entries, *, context: CurationContext) -> list[ConversationEntry]:
        edited: dict[int, ConversationEntry] = {}
        seen: set[tuple[str, str, str]] = set()
        for unit in reversed(pair(entries)):
            calls = unit.head.tool_calls or ()
            for call, result in zip(reversed(calls), reversed(unit.results), strict=True):
                if result is None or result.has_media:
                    continue
                key = (call.name, call.arguments, result.content or "")
                if len(key[2]) <= len(self.reference):
                    continue
                if key in seen and not result.pinned:
                    edited[id(result.root)] = _replace_text(
                        result,
                        self.reference,
                        "cleared",
                        "a later identical call returned the same",
                    )
                seen.add(key)
        return [edited.get(id(entry.root), entry) for entry in entries]
