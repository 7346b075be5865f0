"""Managers that shorten: results and texts over a limit, old results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConfigurationError
from history_curator.managers.base import BuiltInManager, CurationContext, Entries, check_options
from history_curator.tokens import Keep, TokenCounter, shorten, shorten_tokens
from history_curator.units import pair


def _replace_text(
    entry: ConversationEntry, text: str, action: str, reason: str
) -> ConversationEntry:
    """Return an entry with another text; a cleared one shows no media either."""
    parts = None if action == "cleared" else entry.parts
    if text == entry.content and parts is entry.parts:
        return entry
    length = entry.original_length or len(entry.content or "")
    fate = {"truncated": True, "original_length": length, "action": action, "reason": reason}
    return entry.evolve(content=text, parts=parts, **fate)


@dataclass(frozen=True, slots=True)
class ToolResultTruncator(BuiltInManager):
    """Shortens tool results to a number of characters or tokens, the marker included.

    The limit is 2,000 characters when none is given. Pinned results, images and all else stay.
    `keep` names the part that survives, and `suffix` marks the missing one.

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
        check_options(self, max_length=0, max_tokens=0, keep=("head", "tail", "both"))
        if self.max_length is not None and self.max_tokens is not None:
            problem = "ToolResultTruncator takes max_length or max_tokens, not both"
            raise ConfigurationError(f"{problem}. Fix: use two truncators in a row.")

    def select_entries(self, entries: Entries, context: CurationContext) -> list[ConversationEntry]:
        return [self._truncate(entry, context.counter) for entry in entries]

    def _truncate(self, entry: ConversationEntry, counter: TokenCounter) -> ConversationEntry:
        text = entry.content
        if entry.role is not MessageRole.TOOL or not text or entry.pinned:
            return entry
        if self.max_tokens is None:
            most = 2_000 if self.max_length is None else self.max_length
            short, limit = shorten(text, most, self.keep, self.suffix), f"{most:,} characters"
        else:
            short = shorten_tokens(text, self.max_tokens, counter, self.keep, self.suffix)
            limit = f"{self.max_tokens:,} tokens"
        return _replace_text(entry, short, "truncated", f"tool result over {limit}")


@dataclass(frozen=True, slots=True)
class RoleTruncator(BuiltInManager):
    """Shortens text to a number of characters by who said it.

    None leaves a role alone; setting `user` opts in to cutting the user's words. System text is
    never shortened.

    Examples:
        >>> said = [ConversationEntry(MessageRole.ASSISTANT, "because " * 100)]
        >>> view = RoleTruncator(assistant=150).curate(said, context=CurationContext())
        >>> len(view[0].content)
        150
    """

    user: int | None = None
    assistant: int | None = None
    tool: int | None = None

    def __post_init__(self) -> None:
        check_options(self, user=0, assistant=0, tool=0)

    def select_entries(self, entries: Entries, context: CurationContext) -> list[ConversationEntry]:
        return list(map(self._truncate, entries))

    def _truncate(self, entry: ConversationEntry) -> ConversationEntry:
        limit: int | None = getattr(self, entry.role.value, None)
        text = entry.content
        if limit is None or not text or entry.pinned:
            return entry
        short = shorten(text, limit, "head", "... [truncated]")
        reason = f"{entry.role.value} text over {limit:,} characters"
        return _replace_text(entry, short, "truncated", reason)


@dataclass(frozen=True, slots=True)
class ToolResultClearer(BuiltInManager):
    """Replaces all but the newest tool results by a placeholder.

    Shorter and pinned results stay; so do those of `exclude_tools`, which do not count in `keep`.
    Clearing one a call makes the prompt cache miss on every call; a `batch` of ten, on every tenth.

    Examples:
        >>> ToolResultClearer(keep=5, exclude_tools=("read_policy",), batch=10).keep
        5
    """

    keep: int = 3
    exclude_tools: Sequence[str] = ()
    placeholder: str = "[Old tool result cleared]"
    batch: int = 1

    def __post_init__(self) -> None:
        check_options(self, keep=0, batch=1)
        names = [self.exclude_tools] if isinstance(self.exclude_tools, str) else self.exclude_tools
        object.__setattr__(self, "exclude_tools", tuple(names))

    def select_entries(self, entries: Entries, context: CurationContext) -> list[ConversationEntry]:
        answered = [
            result
            for unit in pair(entries)
            for slot, result in enumerate(unit.results)
            if result is not None
            and not result.pinned
            and result.tool_name not in self.exclude_tools
            and (unit.head.tool_calls or ())[slot].name not in self.exclude_tools
        ]
        old = max(0, len(answered) - self.keep) // self.batch * self.batch
        reason = f"older than the newest {self.keep} tool results"
        cleared = {
            id(result): _replace_text(result, self.placeholder, "cleared", reason)
            for result in answered[:old]
            if len(result.content or "") > len(self.placeholder) or result.has_media
        }
        return [cleared.get(id(entry), entry) for entry in entries]
