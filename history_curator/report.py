"""The report: one decision per entry, made when it is read; and the difference of two views."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from history_curator.caching import CachePlan, find_cache_rules, plan_cache
from history_curator.decisions import Decision, DecisionBuilder, rebuild
from history_curator.entries import ConversationEntry, MessageRole, write_private
from history_curator.managers import Step
from history_curator.report_page import render_frame, render_html
from history_curator.window.identifiers import find_identifiers, rank_identifiers

if TYPE_CHECKING:
    from history_curator.tokens import TokenCounter

__all__ = ["CurationReport", "Decision", "LeftUnit", "Step", "ViewDiff", "rebuild"]

_VOLATILE = {"recollection", "placeholder"}
_GIST_CHARS = 80
_NAMED_IDENTIFIERS = 20


@dataclass(frozen=True, slots=True)
class LeftUnit:
    """A unit that an earlier view showed and this one does not.

    Attributes:
        entries: positions in the record: one message, or a call with all its results.
        kind: ``exchange`` for a call with its results, otherwise who spoke.
        tokens: how large it was in the earlier view.
        gist: the calls, or the beginning of the text, in a line.
        handles: the names by which the recall tool returns the originals.
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
    """The changes from one view of a conversation to a later one.

    Attributes:
        left: the units that are gone, in order.
        joined: positions in the record that are shown now and were not before.
        changed: earlier and later decisions about entries that both views show differently.
        identifiers: names, paths and ids of the units gone or changed that the view no longer
            shows anywhere.
    """

    left: tuple[LeftUnit, ...]
    joined: tuple[int, ...]
    changed: tuple[tuple[Decision, Decision], ...]
    identifiers: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """Tokens of the units that left."""
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
            more = len(self.identifiers) - _NAMED_IDENTIFIERS
            named = ", ".join(self.identifiers[:_NAMED_IDENTIFIERS])
            lines.append(f"No longer shown: {named}" + (f" and {more:,} more" if more > 0 else ""))
        return "\n".join(lines)


class CurationReport:
    """The messages that were sent, those that were not, and the reasons.

    The numbers are exact. Decisions, and the tokens of messages left out, are worked out on first
    access, so an unread report is free.

    Attributes:
        tokens: the cost of the view: messages, tools and priming, without the reserve.
        max_tokens: the budget, or None.
        overhead: tool schemas, reserve and priming.
        prefix_entries, prefix_tokens: how much of the view the next call will repeat byte for
            byte, unless the cutoff moves.
        cut: position in the record of the first entry behind the cutoff; 0 when all is shown.
        compacted: whether this view does not simply go on from that of the request before, as it
            is in the same budget with the same tools and reserve: the cutoff moved, or something
            before it changed (a late or second result, a system message).
        original_count, curated_count: entries in the record and in the view.
        count_entry: counts an entry as the budget does.

    Examples:
        >>> from history_curator import Curator
        >>> report = Curator(max_tokens=1_000).curate([{"role": "user", "content": "hi"}]).report
        >>> report.decisions[0].action, report.prefix_entries
        ('kept', 1)
    """

    def __init__(
        self,
        *,
        record: Sequence[ConversationEntry],
        view: Sequence[ConversationEntry],
        steps: Sequence[Step],
        counter: TokenCounter,
        count_entry: Callable[[ConversationEntry], int],
        tokens: int,
        max_tokens: int | None,
        overhead: int,
        provider: str,
        strategy: str,
        stable_entries: int,
        cut: int = 0,
        compacted: bool = False,
        orphans: Mapping[int, str] | None = None,
        warnings: Sequence[str] = (),
        mode: str = "enforce",
    ) -> None:
        self._record, self._view, self._steps = record, view, steps
        self._counter, self._stable_entries = counter, stable_entries
        self._orphans = orphans or {}
        self.count_entry = count_entry
        self.tokens, self.max_tokens, self.overhead = tokens, max_tokens, overhead
        self.provider, self.strategy, self.mode = provider, strategy, mode
        self.cut, self.compacted, self.warnings = cut, compacted, tuple(warnings)
        self.original_count, self.curated_count = len(record), len(view)

    def __getstate__(self) -> dict[str, Any]:
        # Managers give their reasons by the identity of entries, which a copy does not have.
        count_entry = self._counter.count_entry
        return {**self.__dict__, "decisions": self.decisions, "count_entry": count_entry}

    @property
    def counter(self) -> str:
        """Name of the token counter."""
        return self._counter.name

    @cached_property
    def prefix_entries(self) -> int:
        """Entries of the stable prefix: it ends where one was put in for this call alone."""
        last = len(self._view) - 1
        for position, entry in enumerate(self._view[: self._stable_entries]):
            if entry.origin in _VOLATILE or (entry.origin == "user" and position == last):
                return position
        return self._stable_entries

    @cached_property
    def prefix_tokens(self) -> int:
        """Tokens of the stable prefix."""
        return sum(map(self.count_entry, self._view[: self.prefix_entries]))

    @cached_property
    def cache_plan(self) -> CachePlan:
        """Where breakpoints for the provider's prompt cache pay in this view."""
        sizes = list(map(self.count_entry, self._view))
        model = getattr(self._counter, "model", None) or self._counter.name.rpartition(":")[2]
        return plan_cache(
            self._view,
            sizes,
            prefix_entries=self.prefix_entries,
            model=model if find_cache_rules(model) else self.provider,
            tools_tokens=max(self.tokens - sum(sizes), 0),
        )

    @cached_property
    def tokens_before(self) -> int:
        """Tokens of the whole record, counted on demand."""
        return sum(map(self.count_entry, self._record))

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """One decision per recorded entry, in order, with inserted ones at their place."""
        builder = DecisionBuilder(
            self._record, self._view, self._steps, self._orphans, self.count_entry
        )
        return tuple(builder.build())

    @cached_property
    def actions(self) -> dict[str, int]:
        """How often each action was taken."""
        return dict(Counter(decision.action for decision in self.decisions))

    @cached_property
    def reasoning_stripped(self) -> int:
        """How many entries lost reasoning that an edit before them had unbound."""
        return sum(each.reason.startswith("reasoning stripped") for each in self.decisions)

    def original_text(self, index: int) -> str:
        """Return the recorded text of an entry."""
        return self._record[index].content or ""

    def to_dict(self, *, texts: bool = True) -> dict[str, Any]:
        """Return plain data; with `texts`, each decision carries the text before and after."""
        decisions = [decision.to_dict() for decision in self.decisions]
        for data in decisions if texts else ():
            recorded = None if data["index"] is None else self._record[data["index"]]
            shown = None if data["position"] is None else self._view[data["position"]]
            data["before"] = recorded and recorded.content
            data["after"] = shown and shown.content
            entry = shown or recorded
            data["tool_call_id"] = entry and entry.tool_call_id
            data["tool_calls"] = [
                {"id": call.id, "name": call.name, "arguments": call.arguments}
                for call in (entry and entry.tool_calls) or ()
            ]
        return {**self.summary(), "decisions": decisions}

    def summary(self) -> dict[str, Any]:
        """Return the numbers without the decisions."""
        names = (
            "original_count", "curated_count", "tokens", "max_tokens", "overhead",
            "prefix_entries", "prefix_tokens", "cut", "compacted", "provider", "counter",
            "strategy", "mode", "reasoning_stripped",
        )  # fmt: skip
        numbers = {name: getattr(self, name) for name in names}
        return {**numbers, "actions": dict(self.actions), "warnings": list(self.warnings)}

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the report as one JSON object, without the texts of the record."""
        return json.dumps(self.to_dict(texts=False), ensure_ascii=False, indent=indent, default=str)

    def to_jsonl(self) -> str:
        """Return one JSON object per line: the summary, then each decision."""
        lines = [self.summary(), *(decision.to_dict() for decision in self.decisions)]
        return "\n".join(json.dumps(line, ensure_ascii=False, default=str) for line in lines) + "\n"

    def rebuild(self, messages: Sequence[Any]) -> list[Any]:
        """Return the view again, from the record and this report's decisions alone."""
        return rebuild(messages, [each.to_dict() for each in self.decisions], self.provider)

    def diff(self, previous: CurationReport) -> ViewDiff:
        """Return what left, joined and changed since an earlier view of the same conversation."""
        before, now = (
            {
                each.index: each
                for each in report.decisions
                if each.index is not None and each.position is not None
            }
            for report in (previous, self)
        )
        gone = sorted(before.keys() - now.keys())
        both = [(before[index], each) for index, each in now.items() if index in before]
        changed = tuple(
            (old, new) for old, new in both if (old.action, old.change) != (new.action, new.change)
        )
        touched = sorted({*gone, *(new.index for _, new in changed if new.index is not None)})
        return ViewDiff(
            tuple(self._group_units(gone, before)),
            tuple(sorted(now.keys() - before.keys())),
            changed,
            self._find_missing_identifiers(touched),
        )

    def _group_units(
        self, gone: Sequence[int], before: Mapping[int, Decision]
    ) -> Iterable[LeftUnit]:
        """Yield the units gone: results go with the call they follow."""
        groups: list[list[int]] = []
        for index in gone:
            is_result = self._record[index].role is MessageRole.TOOL
            if groups and is_result and self._record[groups[-1][0]].tool_calls:
                groups[-1].append(index)
            else:
                groups.append([index])
        reasons = {each.index: each.reason for each in self.decisions if each.reason}
        for group in groups:
            first = self._record[group[0]]
            handles = (before[index].handle or self._record[index].handle for index in group)
            yield LeftUnit(
                entries=tuple(group),
                kind="exchange" if first.tool_calls else first.role.value,
                tokens=sum(before[index].tokens_after for index in group),
                gist=_describe_entry(first),
                handles=tuple(filter(None, handles)),
                reason=reasons.get(group[0], ""),
            )

    def _find_missing_identifiers(self, indexes: Sequence[int]) -> tuple[str, ...]:
        """Return identifiers of recorded entries that the view does not show, best first."""
        if not indexes:
            return ()
        text = "\n".join(
            "\n".join([entry.content or "", *(call.arguments for call in entry.tool_calls or ())])
            for entry in self._view
        )
        ranked = rank_identifiers([find_identifiers(self._record[index]) for index in indexes])
        return tuple(name for name in ranked if name not in text)

    def explain(self, *, limit: int | None = None) -> str:
        """Return a table for a terminal, one line per decision; the newest `limit`, if given."""
        decisions = self.decisions if limit is None else self.decisions[-limit:]
        rows = [("#", "role", "action", "tokens", "why", "by")]
        for each in decisions:
            number = "+" if each.index is None else str(each.index)
            before, after = each.tokens_before, each.tokens_after
            tokens = str(before) if before == after else f"{before}→{after}"
            rows.append((number, each.role, each.action, tokens, each.reason, each.manager))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        lines = [self._summarize_in_a_line(), *table]
        hidden = len(self.decisions) - len(decisions)
        if hidden:
            lines.insert(2, f"({hidden} earlier decisions not shown)")
        lines.extend(f"warning: {warning}" for warning in self.warnings)
        return "\n".join(lines)

    def _summarize_in_a_line(self) -> str:
        budget = "" if self.max_tokens is None else f" of {self.max_tokens}"
        actions = ", ".join(f"{count} {action}" for action, count in sorted(self.actions.items()))
        return (
            f"{self.curated_count} of {self.original_count} entries, "
            f"{self.tokens}{budget} tokens ({self.counter}, {self.provider}); "
            f"stable prefix {self.prefix_entries} entries, {self.prefix_tokens} tokens; "
            f"{actions or 'nothing to decide'}"
        )

    def _repr_html_(self) -> str:
        return render_frame(self)

    def to_html(self, path: str | Path) -> Path:
        """Write a self-contained page and return its path."""
        return write_private(path, render_html(self))

    def __repr__(self) -> str:
        budget = "no budget" if self.max_tokens is None else f"of {self.max_tokens}"
        return (
            f"<CurationReport {self.curated_count} of {self.original_count} entries, "
            f"{self.tokens} tokens {budget}>"
        )


def _describe_entry(entry: ConversationEntry) -> str:
    calls = ", ".join(f"{call.name}({call.arguments})" for call in entry.tool_calls or ())
    text = " ".join((calls or entry.content or "").split())
    return text if len(text) <= _GIST_CHARS else text[: _GIST_CHARS - 1] + "…"
