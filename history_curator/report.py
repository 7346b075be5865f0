"""The report: one decision per entry, worked out when it is read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from history_curator.caching import CachePlan, find_cache_rules, plan_cache
from history_curator.entries import ConversationEntry, write_private
from history_curator.managers import Step
from history_curator.report_page import as_frame, render_html
from history_curator.tokens import TokenCounter
from history_curator.window import COMPACT_TO

__all__ = ["CurationReport", "Decision", "Step"]

_NUMBERS = (
    "original_count", "curated_count", "tokens", "tokens_before", "max_tokens", "overhead", "prefix_entries",
    "prefix_tokens", "cut", "compacted", "provider", "counter", "strategy", "mode",
)  # fmt: skip
_VOLATILE = {"recollection", "placeholder"}
_KEPT = ("kept", "kept as it is", "")
_BUDGET = Step("budget", (), {})
_LEFT_OUT = {"rules": "the provider's rules leave it out", "budget": "left out"}


@dataclass(frozen=True, slots=True)
class Decision:
    """The fate of one entry, and the reason.

    Attributes:
        index, position: position in the record and in the view, or None when it is not there.
        action: kept, truncated, cleared, dropped, merged, moved, inserted, summarised, repaired.
        manager: who decided: a manager's name, ``budget``, ``rules``; empty when nobody did.
        tokens_before, tokens_after: tokens as recorded and in the view, or 0.
        handle: the name by which the recall tool returns the original.
        origin: why an inserted entry was invented.
        message: the index of the message, which may hold several entries.
    """

    index: int | None
    position: int | None
    role: str
    action: str
    reason: str
    manager: str
    tokens_before: int
    tokens_after: int
    handle: str | None = None
    origin: str | None = None
    name: str | None = None
    message: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


@dataclass(eq=False, repr=False)
class CurationReport:
    """The messages that were sent, those that were not, and the reasons.

    The numbers are exact. Decisions, and the tokens of messages left out, are worked out on first
    access, so an unread report is free.

    Attributes:
        record, view: the recorded entries, and those that were sent.
        steps: the entries that each manager, the budget and the rules left.
        tokens: the cost of the view: messages, tools and priming, without the reserve.
        strategy: the managers that ran; ``budget`` without any.
        stable_entries: how many leading entries stay while the cutoff does.
        cut: index of the first entry behind the cutoff, of those managers left; 0 when all is shown.
        compacted: whether this view does not simply go on from that of the request before, as it
            is in the same budget with the same tools and reserve: the cutoff moved, or something
            before it changed (a late or second result, a system message).
        places: for each recorded entry the index of its message; empty where entries were given.
        mode: ``shadow`` when the full history was sent.

    Examples:
        >>> from history_curator import Curator
        >>> report = Curator(max_tokens=1_000).curate([{"role": "user", "content": "hi"}]).report
        >>> report.decisions[0].action, report.prefix_entries
        ('kept', 1)
    """

    record: Sequence[ConversationEntry]
    view: Sequence[ConversationEntry]
    steps: Sequence[Step]
    token_counter: TokenCounter
    count_entry: Callable[[ConversationEntry], int]
    tokens: int
    max_tokens: int | None
    overhead: int
    provider: str
    strategy: str
    stable_entries: int
    cut: int = 0
    compacted: bool = False
    orphans: Mapping[int, str] = field(default_factory=dict)
    mode: str = "enforce"
    warnings: Sequence[str] = ()
    places: Sequence[int] = ()
    compact_to: float = COMPACT_TO

    def __getstate__(self) -> dict[str, Any]:
        # Managers give their reasons by the identity of entries, which a copy does not have.
        count_entry = self.token_counter.count_entry
        return {**self.__dict__, "decisions": self.decisions, "count_entry": count_entry}

    def __post_init__(self) -> None:
        self.original_count, self.curated_count = len(self.record), len(self.view)

    @property
    def counter(self) -> str:
        """Name of the token counter."""
        return self.token_counter.name

    @cached_property
    def prefix_entries(self) -> int:
        """How many entries of the view the next one repeats byte for byte, unless the cutoff moves."""
        last = len(self.view) - 1
        for position, entry in enumerate(self.view[: self.stable_entries]):
            if entry.origin in _VOLATILE or (entry.origin == "user" and position == last):
                return position  # put in for this call alone
        return self.stable_entries

    @cached_property
    def prefix_tokens(self) -> int:
        """Tokens of the entries that the next view repeats."""
        return sum(map(self.count_entry, self.view[: self.prefix_entries]))

    @property
    def cache_plan(self) -> CachePlan:
        """Where breakpoints for the provider's prompt cache pay in this view."""
        model = getattr(self.token_counter, "model", None) or self.counter.rpartition(":")[2]
        return self.plan_cache(model if find_cache_rules(model) else self.provider)

    def plan_cache(self, model: str | None) -> CachePlan:
        """Return where breakpoints pay in this view by the rules of a model or a provider."""
        sizes = list(map(self.count_entry, self.view))
        tools_tokens = max(self.tokens - sum(sizes), 0)
        return plan_cache(
            self.view, sizes, prefix_entries=self.prefix_entries, model=model,
            tools_tokens=tools_tokens,
        )  # fmt: skip

    @cached_property
    def tokens_before(self) -> int:
        """Tokens of a request with the whole record, its tool schemas and priming as in `tokens`."""
        entries = sum(map(self.count_entry, self.record))
        return entries + self.tokens - sum(map(self.count_entry, self.view))

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """One decision per recorded entry, in order, with inserted ones at their place."""
        return tuple(_DecisionBuilder(self).build())

    @cached_property
    def actions(self) -> dict[str, int]:
        """How often each action was taken."""
        return dict(Counter(decision.action for decision in self.decisions))

    def to_dict(self, *, texts: bool = True) -> dict[str, Any]:
        """Return plain data; with `texts`, each decision carries the text before and after."""
        decisions = [decision.to_dict() for decision in self.decisions]
        for data in decisions if texts else ():
            recorded = None if data["index"] is None else self.record[data["index"]]
            shown = None if data["position"] is None else self.view[data["position"]]
            entry: Any = shown or recorded
            data["before"] = getattr(recorded, "content", None)
            data["after"] = getattr(shown, "content", None)
            data["tool_call_id"] = entry.tool_call_id
            calls = entry.tool_calls or ()
            data["tool_calls"] = [
                {"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls
            ]
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        more = {"actions": self.actions, "warnings": list(self.warnings), "decisions": decisions}
        return {**numbers, **more}

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the report as one JSON object, without the texts of the record."""
        return json.dumps(self.to_dict(texts=False), ensure_ascii=False, indent=indent, default=str)

    @property
    def headline(self) -> str:
        """The numbers of this view in one line."""
        budget = "" if self.max_tokens is None else f" of {self.max_tokens}"
        actions = ", ".join(f"{count} {action}" for action, count in sorted(self.actions.items()))
        return (
            f"{self.curated_count} entries sent, {self.original_count} on record; "
            f"{self.tokens}{budget} tokens ({self.counter}, {self.provider}), "
            f"{self.prefix_tokens} of them in a stable prefix; {actions or 'nothing to decide'}"
        )

    def explain(self) -> str:
        """Return a table for a terminal, one line per decision."""
        rows = [("#", "role", "action", "tokens", "why", "by")]
        for each in self.decisions:
            number = "+" if each.message is None else str(each.message)
            before, after = each.tokens_before, each.tokens_after
            tokens = str(before) if before == after else f"{before}→{after}"
            rows.append((number, each.role, each.action, tokens, each.reason, each.manager))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        warnings = (f"warning: {warning}" for warning in self.warnings)
        return "\n".join([self.headline, *table, *warnings])

    def to_html(self, path: str | Path) -> Path:
        """Write a self-contained page and return its path."""
        return write_private(path, render_html(self))

    def _repr_html_(self) -> str:
        return as_frame(render_html(self))

    def __repr__(self) -> str:
        entries = f"{self.curated_count} of {self.original_count} entries"
        return f"<CurationReport {entries}, {self.tokens} of {self.max_tokens} tokens>"


class _DecisionBuilder:
    """Compares the record with the view, and asks the steps which of them did it.

    An entry that was split in two has two decisions, both with its index.
    """

    def __init__(self, report: CurationReport) -> None:
        self.report = report
        self._roots = [(each, {id(entry.root) for entry in each.entries}) for each in report.steps]
        self._outputs = [(each.name, set(map(id, each.entries))) for each in report.steps]
        self._merged = {
            id(root): position
            for position, entry in enumerate(report.view)
            if entry.original
            for root in (entry.metadata or {}).get("merged", ())
        }

    def build(self) -> list[Decision]:
        """Return the decisions in the order of the record, inserted entries at their place."""
        positions_of = self._find_positions()
        inserted = self._decide_inserted(positions_of)
        decisions, latest = inserted.pop(-1, []), -1
        for index, positions in enumerate(positions_of):
            is_moved = bool(positions) and positions[0] < latest
            latest = max([latest, *positions])
            decisions += [self._decide_shown(index, each, is_moved) for each in positions]
            if not positions:
                decisions.append(self._decide_absent(index))
            decisions += inserted.pop(index, ())
        return decisions

    def _find_positions(self) -> list[list[int]]:
        """Return where each recorded entry is in the view; one object may be recorded twice."""
        free: dict[int, list[int]] = {}
        for position, entry in enumerate(self.report.view):
            free.setdefault(id(entry.root), []).append(position)
        remaining = Counter(id(entry.root) for entry in self.report.record)
        found = []
        for entry in self.report.record:
            key = id(entry.root)
            remaining[key] -= 1
            mine = free.get(key, [])
            taken = mine[:1] if remaining[key] else mine[:]
            del mine[: len(taken)]
            found.append(taken)
        return found

    def _decide_shown(self, index: int, position: int, is_moved: bool) -> Decision:
        recorded, entry = self.report.record[index], self.report.view[position]
        fate = _KEPT if entry is recorded else self._find_fate(entry, *_KEPT[:2])
        if is_moved and fate[0] == "kept":
            fate = ("moved", "moved up: to its call, or to the front", "rules")
        return self._decide(index, position, entry, fate)

    def _decide_absent(self, index: int) -> Decision:
        root = id(self.report.record[index].root)
        position = self._merged.get(root)
        step = next((step for step, present in self._roots if root not in present), _BUDGET)
        reason = _LEFT_OUT.get(step.name, f"left out by {step.name}")
        fate = ("dropped", step.reasons.get(root, reason), step.name)
        if position is not None:
            fate = ("merged", "merged into its neighbour", "rules")
        elif root in self.report.orphans:
            fate = ("dropped", self.report.orphans[root], "rules")
        return self._decide(index, position, None, fate)

    def _decide_inserted(self, positions_of: Sequence[Sequence[int]]) -> dict[int, list[Decision]]:
        """Return decisions about invented entries, by the index of the entry they follow."""
        indexes = {each: index for index, found in enumerate(positions_of) for each in found}
        decisions: dict[int, list[Decision]] = {}
        previous = -1
        for position, entry in enumerate(self.report.view):
            if position in indexes:
                previous = max(previous, indexes[position])
                continue
            fate = self._find_fate(entry, "inserted", "inserted")
            decision = self._decide(None, position, entry, fate)
            decisions.setdefault(previous, []).append(decision)
        return decisions

    def _decide(
        self,
        index: int | None,
        position: int | None,
        entry: ConversationEntry | None,
        fate: tuple[str, str, str],
    ) -> Decision:
        """Return the decision about a recorded or an inserted entry, as shown or absent."""
        report = self.report
        recorded = None if index is None else report.record[index]
        known: Any = recorded or entry
        return Decision(
            index,
            position,
            known.role.value,
            *fate,
            tokens_before=report.count_entry(recorded) if recorded else 0,
            tokens_after=report.count_entry(entry) if entry else 0,
            handle=getattr(entry, "handle", None),
            origin=getattr(entry, "origin", None),
            name=known.tool_name or known.name,
            message=index if index is None or not report.places else report.places[index],
        )

    def _find_fate(
        self, entry: ConversationEntry, action: str, reason: str
    ) -> tuple[str, str, str]:
        """Return the action, the reason, and the step in whose output this entry appears first."""
        editor = next((name for name, known in self._outputs if id(entry) in known), "rules")
        return entry.action or action, entry.reason or reason, editor
