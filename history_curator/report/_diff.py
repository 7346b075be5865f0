"""What left the view between two calls, and what later calls needed of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.report._deciding import Decision

_GIST, _NAMES = 80, 20


@dataclass(frozen=True, slots=True)
class LeftUnit:
    """A unit that the view before showed and this one does not.

    Attributes:
        entries: positions in the record: one message, or a call with all its results.
        kind: ``exchange`` for a call with its results, otherwise who spoke.
        tokens: how large it was in the view before.
        gist: what it was, in a line: the calls, or the beginning of the text.
        handles: what the recall tool takes to return the originals.
        reason: why it left, as the later view's decision says.
    """

    entries: tuple[int, ...]
    kind: str
    tokens: int
    gist: str
    handles: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ViewDiff:
    """What changed from one view of a conversation to a later one.

    Attributes:
        left: the units that are gone, in order.
        joined: positions in the record that are shown now and were not before.
        changed: decisions about entries that are shown in both views, before and now, where
            something else was done to them.
        identifiers: names, paths and ids in the units gone or changed that nothing in the view
            shows any more.
    """

    left: tuple[LeftUnit, ...]
    joined: tuple[int, ...]
    changed: tuple[tuple[Decision, Decision], ...]
    identifiers: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """How large what left was."""
        return sum(unit.tokens for unit in self.left)

    def needed(self, later: Iterable[ConversationEntry]) -> tuple[str, ...]:
        """Return the identifiers gone that calls among later entries name, as first used."""
        gone, found = set(self.identifiers), dict[str, None]()
        for entry in later:
            for call in entry.tool_calls or ():
                found.update(dict.fromkeys(each for each in gone if each in call.arguments))
                gone.difference_update(found)
        return tuple(found)

    def __str__(self) -> str:
        if not self.left:
            return f"Nothing left the view; {len(self.joined)} entries joined it."
        lines = [f"{len(self.left)} units left the view ({self.tokens:,} tokens):"]
        lines += [f"  {unit.kind}, {unit.tokens:,} tokens: {unit.gist}" for unit in self.left]
        if self.identifiers:
            more = len(self.identifiers) - _NAMES
            named = ", ".join(self.identifiers[:_NAMES]) + (
                f" and {more:,} more" if more > 0 else ""
            )
            lines.append(f"No longer shown: {named}")
        return "\n".join(lines)


def diff_views(
    before: Sequence[Decision],
    now: Sequence[Decision],
    record: Sequence[ConversationEntry],
    view: Sequence[ConversationEntry],
) -> ViewDiff:
    """Return what changed between two views of one conversation. A pure function.

    The later one's record begins with the earlier one's; `view` is what the later one shows.
    """
    shown = {each.index: each for each in before if _visible(each)}
    still = {each.index: each for each in now if _visible(each)}
    gone = [index for index in shown if index is not None and index not in still]
    reasons = {each.index: each.reason for each in now if each.reason}
    left = tuple(_units(sorted(gone), shown, record, reasons))
    changed = tuple(
        (shown[index], each)
        for index, each in still.items()
        if index in shown and _differs(shown[index], each)
    )
    joined = tuple(sorted(i for i in still if i is not None and i not in shown))
    touched = sorted({*gone, *(each.index for _, each in changed if each.index is not None)})
    return ViewDiff(left, joined, changed, _identifiers(touched, record, view))


def _visible(decision: Decision) -> bool:
    return decision.index is not None and decision.position is not None


def _differs(before: Decision, now: Decision) -> bool:
    return before.action != now.action or before.change != now.change


def _units(
    gone: Sequence[int],
    shown: dict[int | None, Decision],
    record: Sequence[ConversationEntry],
    reasons: dict[int | None, str],
) -> Iterable[LeftUnit]:
    """Yield the units gone: a call takes the results that follow it along."""
    group: list[int] = []
    for index in [*gone, None]:
        joins = (
            index is not None
            and group
            and record[index].role is MessageRole.TOOL
            and record[group[0]].tool_calls
        )
        if group and not joins:
            first = record[group[0]]
            handles = (shown[each].handle or record[each].handle for each in group)
            yield LeftUnit(
                entries=tuple(group),
                kind="exchange" if first.tool_calls else first.role.value,
                tokens=sum(shown[each].tokens_after for each in group),
                gist=_gist(first),
                handles=tuple(handle for handle in handles if handle),
                reason=reasons.get(group[0], ""),
            )
            group = []
        if index is not None:
            group.append(index)


def _gist(entry: ConversationEntry) -> str:
    said = ", ".join(f"{call.name}({call.arguments})" for call in entry.tool_calls or ())
    text = " ".join((said or entry.content or "").split())
    return text if len(text) <= _GIST else text[: _GIST - 1] + "…"


def _identifiers(
    touched: Sequence[int], record: Sequence[ConversationEntry], view: Sequence[ConversationEntry]
) -> tuple[str, ...]:
    from history_curator.window._identifiers import identifiers_of, rank_identifiers

    if not touched:
        return ()
    text = "\n".join(
        "\n".join([entry.content or "", *(call.arguments for call in entry.tool_calls or ())])
        for entry in view
    )
    ranked = rank_identifiers([identifiers_of(record[index]) for index in touched])
    return tuple(name for name in ranked if name not in text)
