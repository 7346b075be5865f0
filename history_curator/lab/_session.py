"""A session call by call under one policy or two, to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from history_curator.caching import PriceSheet, get_prices
from history_curator.errors import ConfigurationError
from history_curator.lab._conversation import LabConversation, ReadConversation
from history_curator.lab._measure import requests
from history_curator.lab._needs import find_needs, shown_in, unmet
from history_curator.lab._policies import Policy, as_policies
from history_curator.entries import ConversationEntry, write_private
from history_curator.rules import ProviderProfile, get_profile
from history_curator.tokens import TokenCounter, get_counter


class SessionPage:
    """Every call of a recorded conversation, as the policies would have made it, on one page.

    At the end of a notebook cell it shows itself; `to_html` writes it. The page has a slider over
    the calls, marks where the cut compacted, cached and new tokens, the cost so far, what changed
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
        profile = get_profile(provider)
        self.data: dict[str, Any] = {
            "kind": "session",
            "provider": provider,
            "counter": counting.name,
            "pricing": sheet.name,
            "entries": _entries(record, counting),
            "calls": _calls(record),
            "policies": [
                {"name": name, **_replayed(record, policy, counting, sheet, profile)}
                for name, policy in chosen.items()
            ],
        }

    def to_html(self, path: str | Path) -> Path:
        """Write a self-contained page and return its path."""
        from history_curator.report_page import render_session

        return write_private(path, render_session(self.data))

    def _repr_html_(self) -> str:
        from history_curator.report_page import as_frame, render_session

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


def _replayed(
    record: ReadConversation,
    policy: Policy,
    counter: TokenCounter,
    sheet: PriceSheet,
    profile: ProviderProfile,
) -> dict[str, Any]:
    """Return a conversation call by call: views as what they keep and what they add."""
    forms, needs = _Forms(record, counter), find_needs(record)
    views, lost = [], []
    view, budget = policy.start(record, counter), policy.max_tokens
    calls = requests(record, view, counter, _calls(record), max_tokens=budget, profile=profile)
    for number, request in enumerate(calls):
        sent = request.sent
        had, has = shown_in(request.before, record), shown_in(sent, record)
        shown = {
            "keep": request.kept,
            "add": [forms.reference(entry) for entry in sent[request.kept :]],
            "tokens": request.tokens,
            "cached": request.cached,
            "cost": round(sheet.cost(request.tokens, request.cached, request.idle), 7),
            "compacted": not had.keys() <= has.keys(),
        }
        faults = ["over the budget"] if request.over else []
        if faults := faults + [each.message for each in request.broken[:3]]:
            shown["fault"] = "; ".join(faults)[:300]
        if request.failure is not None:
            shown |= {"compacted": bool(request.before), "failed": str(request.failure)[:200]}
        views.append(shown)
        lost += [
            {"call": number, "kind": need.kind, "value": need.value, "sources": need.sources}
            for need in unmet(needs.get(request.at, ()), sent, record)
        ]
    return {"max_tokens": budget, "forms": forms.all, "views": views, "lost": lost}


class _Forms:
    """What a policy sent that is not on record: edited messages and notes, each once."""

    def __init__(self, record: ReadConversation, counter: TokenCounter) -> None:
        self.all: list[dict[str, Any]] = []
        self._index_of, self._counter = record.index_of, counter
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
