"""What a manager is, and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from history_curator.entries import ConversationEntry
Timeline = list

if TYPE_CHECKING:
    from history_curator.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class CurationContext:
    """What a manager may need to know beyond the entries.

    Attributes:
        counter: counts tokens exactly as the budget does.
        max_tokens: tokens left for messages (tools, reserve and priming already taken off),
            or None when there is no budget.
        session: the `HistorySession`, or whatever the caller passed.
        preserve_system: system entries are never left out.
        preserve_last_n: the last n entries are never left out.
        tail: ``"request"`` when the view is about to be sent, ``"history"`` when the caller will
            append to it.
        record: the recorded entries, before any manager.
        recall_tool: whether placeholders should name the handle that the recall tool takes; a text is
            its name.
        compact_to: how full a jump of the cut leaves the view, as the curator was told.
        recap: whether the curator tells what was said and done before the cut.
        query: what the user asks now, where it is not among the entries yet.
        key: what the caller calls the conversation, if anything.
        timeline_of: returns entries as units that remember what was worked out about them.
    """

    counter: TokenCounter
    max_tokens: int | None = None
    session: Any = None
    preserve_system: bool = True
    preserve_last_n: int | None = None
    tail: Literal["request", "history"] = "request"
    record: Sequence[ConversationEntry] = ()
    recall_tool: bool | str = False
    compact_to: float | None = None
    recap: bool = True
    query: str | None = None
    key: Hashable = None
    timeline_of: Callable[[Sequence[ConversationEntry]], Timeline] = field(
        default=Timeline, repr=False, compare=False
    )
    reasons: dict[int, str] = field(default_factory=dict, repr=False, compare=False)
    warnings: list[str] = field(default_factory=list, repr=False, compare=False)
    compactions: list[str] = field(default_factory=list, repr=False, compare=False)

    def explain(self, entry: ConversationEntry, reason: str) -> None:
        """Say why an entry is being left out; the report shows it."""
        self.reasons[id(entry.root)] = reason

    def jump(self, manager: object) -> None:
        """Say that what this manager shows does not go on from the request before.

        The report says then that the view compacted; otherwise it promises the next one its prefix.
        """
        self.compactions.append(type(manager).__name__)

    def warn(self, warning: str) -> None:
        """Say something the report should show, such as a summary that failed."""
        self.warnings.append(warning)


@runtime_checkable
class HistoryManager(Protocol):
    """Anything with ``curate(entries, *, context)``; no base class.

    The contract has three rules: return something smaller or the input unchanged, never change
    an entry in place (use `ConversationEntry.evolve`), and keep exchanges whole. The seal mends
    what a manager gets wrong, so a simple manager such as ``entries[-10:]`` is a good one.

    One whose ``curate(messages, *, session)`` takes a session instead of a context is given
    OpenAI-style messages, whatever the conversation is made of, and returns such messages.

    A manager that calls a model may define ``async acurate(entries, *, context)`` as well.
    """

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> Sequence[ConversationEntry]:
        """Return the entries to keep, some of them edited copies."""
