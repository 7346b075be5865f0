"""`CurationReport`: one decision per entry, worked out when somebody looks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from history_curator.entries import ConversationEntry, write_private
from history_curator.entry_json import entry_from_dict
from history_curator.report._deciding import Deciding, Decision, Step
from history_curator.report._diff import ViewDiff, diff_views

if TYPE_CHECKING:
    from history_curator.caching import CachePlan
    from history_curator.tokens import TokenCounter

_VOLATILE = {"recollection", "placeholder"}


class CurationReport:
    """What was sent, what was not, and why.

    The numbers are exact. Decisions, and the tokens of what was left out, are worked out on first
    access, so a report nobody reads costs nothing.

    Attributes:
        tokens: what the view costs: messages, tools and priming, without the reserve.
        max_tokens: the budget, or None.
        overhead: tool schemas, reserve and priming.
        prefix_entries, prefix_tokens: how much of the view the next call will repeat byte for
            byte, unless the cut compactions.
        cut: position in the record of the first entry behind the cut; 0 when nothing was cut.
        compacted: whether this view does not simply go on from that of the request before, as it is
            in the same budget with the same tools and reserve: the cut moved, or something before
            it changed (a late or second result, a system message).
        original_count, curated_count: entries in the record and in the view.
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
        orphans: dict[int, str] | None = None,
        warnings: Sequence[str] = (),
        mode: str = "enforce",
    ) -> None:
        self._record = record
        self._count_entry = count_entry
        self._view = view
        self._steps = steps
        self._counter = counter
        self._orphans = orphans or {}
        self.tokens = tokens
        self.max_tokens = max_tokens
        self.overhead = overhead
        self.provider = provider
        self.strategy = strategy
        self._stable_entries = stable_entries
        self.cut = cut
        self.compacted = compacted
        self.warnings = tuple(warnings)
        self.mode = mode
        self.original_count = len(record)
        self.curated_count = len(view)

    def __getstate__(self) -> dict[str, Any]:
        # Managers give their reasons by the identity of entries, which a copy does not have.
        return {
            **self.__dict__,
            "decisions": self.decisions,
            "_count_entry": self._counter.count_entry,
        }

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
        return sum(map(self._count_entry, self._view[: self.prefix_entries]))

    @cached_property
    def cache_plan(self) -> CachePlan:
        """Where breakpoints for the provider's prompt cache pay in this view."""
        from history_curator.caching import plan_cache, sheet_for

        sizes = [self._count_entry(entry) for entry in self._view]
        family = {"openai": "openai", "gemini": "gemini"}.get(self.provider, "anthropic")
        model = getattr(self._counter, "model", None) or self._counter.name.rpartition(":")[2]
        return plan_cache(
            self._view,
            sizes,
            prefix_entries=self.prefix_entries,
            pricing=sheet_for(model) or family,
            tools_tokens=max(self.tokens - sum(sizes), 0),
        )

    @cached_property
    def tokens_before(self) -> int:
        """Tokens of the whole record, counted on demand."""
        return sum(map(self._count_entry, self._record))

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """One decision per recorded entry, in order, with inserted ones at their place."""
        count = self._count_entry
        return tuple(Deciding(self._record, self._view, self._steps, count, self._orphans).run())

    @cached_property
    def actions(self) -> dict[str, int]:
        """How often each action was taken."""
        return dict(Counter(decision.action for decision in self.decisions))

    @cached_property
    def reasoning_stripped(self) -> int:
        """How many entries lost reasoning that an edit before them had unbound."""
        return sum(each.reason.startswith("reasoning stripped") for each in self.decisions)

    def original_text(self, index: int) -> str:
        """The recorded text of an entry."""
        return self._record[index].content or ""

    def to_dict(self, *, texts: bool = True) -> dict[str, Any]:
        """Return plain data; with `texts`, each decision carries the text before and after."""
        decisions = []
        for decision in self.decisions:
            data = decision.to_dict()
            if texts:
                entry = None if decision.index is None else self._record[decision.index]
                shown = None if decision.position is None else self._view[decision.position]
                data["before"] = None if entry is None else entry.content
                data["after"] = None if shown is None else shown.content
                said = shown or entry
                data["tool_call_id"] = said and said.tool_call_id
                data["tool_calls"] = [
                    {"id": call.id, "name": call.name, "arguments": call.arguments}
                    for call in (said and said.tool_calls) or ()
                ]
            decisions.append(data)
        return {**self.summary(), "decisions": decisions}

    def summary(self) -> dict[str, Any]:
        """Return the numbers without the decisions."""
        return {
            "original_count": self.original_count,
            "curated_count": self.curated_count,
            "tokens": self.tokens,
            "max_tokens": self.max_tokens,
            "overhead": self.overhead,
            "prefix_entries": self.prefix_entries,
            "prefix_tokens": self.prefix_tokens,
            "cut": self.cut,
            "compacted": self.compacted,
            "provider": self.provider,
            "counter": self.counter,
            "strategy": self.strategy,
            "mode": self.mode,
            "actions": dict(self.actions),
            "reasoning_stripped": self.reasoning_stripped,
            "warnings": list(self.warnings),
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the report as one JSON object, without the texts of the record."""
        return json.dumps(self.to_dict(texts=False), ensure_ascii=False, indent=indent, default=str)

    def to_jsonl(self) -> str:
        """Return one JSON object per line: the summary, then each decision."""
        lines = [self.summary(), *(decision.to_dict() for decision in self.decisions)]
        return "\n".join(json.dumps(line, ensure_ascii=False, default=str) for line in lines) + "\n"

    def rebuild(self, messages: Sequence[Any]) -> list[Any]:
        """Return the view again, from the record and this report's decisions alone."""
        decisions = [decision.to_dict() for decision in self.decisions]
        return rebuild(messages, decisions, self.provider)

    def diff(self, previous: CurationReport) -> ViewDiff:
        """Return what left, joined and changed since an earlier view of the same conversation."""
        return diff_views(previous.decisions, self.decisions, self._record, self._view)

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
        table = (map(str.ljust, row, widths) for row in rows)
        lines = [self._in_a_line(), *("  ".join(row).rstrip() for row in table)]
        hidden = len(self.decisions) - len(decisions)
        if hidden:
            lines.insert(2, f"({hidden} earlier decisions not shown)")
        lines.extend(f"warning: {warning}" for warning in self.warnings)
        return "\n".join(lines)

    def _in_a_line(self) -> str:
        budget = "" if self.max_tokens is None else f" of {self.max_tokens}"
        actions = ", ".join(f"{count} {action}" for action, count in sorted(self.actions.items()))
        return (
            f"{self.curated_count} of {self.original_count} entries, "
            f"{self.tokens}{budget} tokens ({self.counter}, {self.provider}); "
            f"stable prefix {self.prefix_entries} entries, {self.prefix_tokens} tokens; "
            f"{actions or 'nothing to decide'}"
        )

    def _repr_html_(self) -> str:
        from history_curator.report._html import render_frame

        return render_frame(self)

    def to_html(self, path: str | Path) -> Path:
        """Write a self-contained page and return its path."""
        from history_curator.report._html import render_html

        return write_private(path, render_html(self))

    def __repr__(self) -> str:
        budget = "no budget" if self.max_tokens is None else f"of {self.max_tokens}"
        return (
            f"<CurationReport {self.curated_count} of {self.original_count} entries, "
            f"{self.tokens} tokens {budget}>"
        )


def rebuild(
    messages: Sequence[Any], decisions: Sequence[dict[str, Any]], provider: str | None = None
) -> list[Any]:
    """Return the view that a report describes, from the recorded messages.

    Args:
        messages: the record, as it was given to the curator.
        decisions: `Decision.to_dict` of every decision, as `to_json` writes them.
        provider: the profile of the curation; it tells formats apart where messages do not.
    """
    from history_curator.formats import find_format, read_entries, ungroup_items

    format = find_format(messages, provider)
    entries = read_entries(messages, format)
    view: dict[int, ConversationEntry] = {}
    for decision in decisions:
        place, index, change = decision["position"], decision["index"], decision["change"]
        absorbed_away = decision["action"] == "merged" and change is None
        if place is None or absorbed_away:
            continue
        if change is None:
            view[place] = entries[index]
        elif index is None:
            view[place] = entry_from_dict(change)
        else:
            edited = entry_from_dict(change)
            recorded = entries[index]
            view[place] = edited.evolve(
                source=recorded.source, span=recorded.span, original=recorded
            )
    return ungroup_items(format.write([view[place] for place in sorted(view)]))
