"""A session call by call under one policy or two, to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from history_curator.caching import PriceSheet, get_prices
from history_curator.errors import ConfigurationError, HistoryCuratorError
from history_curator.lab._conversation import LabConversation, ReadConversation, searchable
from history_curator.lab._measure import faults_in, repeated, shown_in
from history_curator.lab._needs import Need, find_needs, is_met
from history_curator.lab._policies import Policy, as_policies
from history_curator.model import ConversationEntry, write_private
from history_curator.rules import get_profile
from history_curator.tokens import TokenCounter, get_counter


class SessionPage:
    """Every call of a recorded conversation, as the policies would have made it, on one page.

    At the end of a notebook cell it shows itself; `to_html` writes it. The page has a slider over
    the calls, marks where the cut jumped, cached and new tokens, the cost so far, what changed
    between two calls, a second policy beside the first, and what left the view and was needed
    later.

    Examples:
        >>> from history_curator import Curator
        >>> from history_curator.lab import sample_conversation
        >>> SessionPage(sample_conversation(), {"curator": Curator(max_tokens=8_000)})
        <SessionPage 24 calls under curator>
    """

    def __init__(
        self,
        messages: Sequence[Any],
        policies: Mapping[str, Any] | Sequence[str],
        *,
        max_tokens: int | None = None,
        tools: Sequence[Any] | None = None,
        pricing: str | PriceSheet | Mapping[str, Any] = "anthropic",
        provider: str = "core",
        counter: Any = "o200k_base",
    ) -> None:
        """Replay the conversation; arguments are those of `replay`, for one or two policies."""
        chosen = as_policies(policies, max_tokens)
        if len(chosen) > 2:
            raise ConfigurationError(
                f"a page shows one policy or two, not {len(chosen)}. "
                "Fix: leave some out, or compare them all with replay."
            )
        record = LabConversation("session", messages, tools=tools).read()
        counting, sheet = get_counter(counter), get_prices(pricing)
        replay = _Replay(record, counting, sheet, provider)
        self.data: dict[str, Any] = {
            "kind": "session",
            "provider": provider,
            "counter": counting.name,
            "pricing": sheet.name,
            "entries": _entries(record, counting),
            "calls": _calls(record),
            "policies": [{"name": name, **replay.under(policy)} for name, policy in chosen.items()],
        }

    def to_html(self, path: str | Path) -> Path:
        """Write a self-contained page and return its path."""
        from history_curator.report._html import render_session

        return write_private(path, render_session(self.data))

    def _repr_html_(self) -> str:
        from history_curator.report._html import as_frame, render_session

        return as_frame(render_session(self.data), height=720, title="Session")

    def __repr__(self) -> str:
        names = " and ".join(each["name"] for each in self.data["policies"])
        return f"<SessionPage {len(self.data['calls'])} calls under {names}>"


def _calls(record: ReadConversation) -> list[int]:
    """Return how much had been said before each call, the one still to be made included."""
    calls = list(record.calls)
    ends_on_call = bool(calls) and calls[-1] == len(record.entries) - 1
    return calls if ends_on_call else [*calls, len(record.entries)]


def _entries(record: ReadConversation, counter: TokenCounter) -> list[dict[str, Any]]:
    tools = {call.id: call.name for entry in record.entries for call in entry.tool_calls or ()}
    return [_entry(entry, counter, tools) for entry in record.entries]


def _entry(
    entry: ConversationEntry, counter: TokenCounter, tools: Mapping[str, str]
) -> dict[str, Any]:
    calls = [
        {"id": call.id, "name": call.name, "arguments": call.arguments}
        for call in entry.tool_calls or ()
    ]
    data = {
        "role": entry.role.value,
        "tokens": counter.count_entry(entry),
        "text": entry.content or "",
        "name": entry.tool_name or entry.name or tools.get(entry.tool_call_id or ""),
        "calls": calls,
    }
    return {key: value for key, value in data.items() if value not in (None, [], "")}


class _Replay:
    """A conversation call by call: views as what they keep and what they add."""

    def __init__(
        self, record: ReadConversation, counter: TokenCounter, sheet: PriceSheet, provider: str
    ) -> None:
        self._record, self._counter, self._sheet = record, counter, sheet
        self._profile = get_profile(provider)
        self._needs = find_needs(record)
        self._index_of = {id(entry): index for index, entry in enumerate(record.entries)}
        tools = counter.count_tools(record.tools) if record.tools else 0
        self._overhead = counter.priming + record.hidden + tools

    def under(self, policy: Policy) -> dict[str, Any]:
        view = policy.start(self._record, self._counter)
        forms = _Forms(self._index_of, self._counter)
        views, lost = [], []
        before: Sequence[ConversationEntry] = ()
        answered = 0
        for number, at in enumerate(_calls(self._record)):
            try:
                sent: Sequence[ConversationEntry] = view(at, None)
            except (HistoryCuratorError, ValueError) as error:
                views.append({"keep": 0, "add": [], "tokens": 0, "cached": 0, "cost": 0.0,
                              "jumped": bool(before), "failed": str(error)[:200]})  # fmt: skip
                before, sent = (), ()
            else:
                idle = self._record.idle(answered, at) if answered else None
                views.append(self._call(before, sent, idle, policy.max_tokens, forms))
                before = sent
            answered = at
            lost += self._lost(number, self._needs.get(at, ()), sent)
        return {
            "max_tokens": policy.max_tokens, "forms": forms.all, "views": views, "lost": lost,
        }  # fmt: skip

    def _call(
        self,
        before: Sequence[ConversationEntry],
        sent: Sequence[ConversationEntry],
        idle: float | None,
        max_tokens: int | None,
        forms: _Forms,
    ) -> dict[str, Any]:
        sizes = [self._counter.count_entry(entry) for entry in sent]
        keep = repeated(before, sent)
        total = sum(sizes) + self._overhead
        cached = sum(sizes[:keep]) + (self._overhead - self._counter.priming if before else 0)
        had, has = shown_in(before, self._index_of), shown_in(sent, self._index_of)
        call = {
            "keep": keep,
            "add": [forms.reference(entry) for entry in sent[keep:]],
            "tokens": total,
            "cached": cached,
            "cost": round(self._sheet.cost(total, cached, idle), 7),
            "jumped": not had.keys() <= has.keys(),
        }
        over, broken = faults_in(sent, total - self._record.hidden, max_tokens, self._profile)
        faults = ["over the budget"] if over else []
        if faults := faults + [each.message for each in broken[:3]]:
            call["fault"] = "; ".join(faults)[:300]
        return call

    def _lost(
        self, number: int, needs: Sequence[Need], sent: Sequence[ConversationEntry]
    ) -> list[dict[str, Any]]:
        if not needs:
            return []
        shown = shown_in(sent, self._index_of)
        inserted = "\n".join(
            searchable(entry) for entry in sent if id(entry.root) not in self._index_of
        )
        return [
            {"call": number, "kind": need.kind, "value": need.value, "sources": need.sources}
            for need in needs
            if not is_met(need, shown, self._record, inserted)
        ]


class _Forms:
    """What a policy sent that is not on record: edited messages and notes, each once."""

    def __init__(self, index_of: Mapping[int, int], counter: TokenCounter) -> None:
        self.all: list[dict[str, Any]] = []
        self._index_of, self._counter = index_of, counter
        self._known: dict[tuple[Any, ...], int] = {}

    def reference(self, entry: ConversationEntry) -> int:
        """Return the index of a recorded entry, or -1, -2, … for one that is none."""
        index = self._index_of.get(id(entry))
        if index is not None:
            return index
        root = self._index_of.get(id(entry.root))
        key = (root, entry.role, entry.content, entry.action)
        if key not in self._known:
            self.all.append({
                "index": root, "role": entry.role.value, "text": entry.content or "",
                "action": entry.action or ("truncated" if root is not None else "inserted"),
                "reason": entry.reason or "", "origin": entry.origin,
                "tokens": self._counter.count_entry(entry),
            })  # fmt: skip
            self._known[key] = -len(self.all)
        return self._known[key]
