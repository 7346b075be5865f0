"""The page of one session: every call under one policy or two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from history_curator.entries import ConversationEntry, write_private
from history_curator.errors import ConfigurationError
from history_curator.lab.conversations import LabConversation, ReadConversation
from history_curator.lab.metrics import (
    PriceSheet,
    find_dependencies,
    get_prices,
    missing_dependencies,
    shown_entries,
)
from history_curator.lab.policies import Policy, as_policies
from history_curator.lab.replay import replay_calls
from history_curator.report_page import as_frame, render_session
from history_curator.rules import ProviderProfile, get_profile
from history_curator.tokens import TokenCounter, get_counter


class SessionPage:
    """Every call of a recorded conversation, as the policies would have made it, on one page.

    At the end of a notebook cell it shows itself; `to_html` writes it. The page has a slider over
    the calls, marks where the cutoff moved, cached and new tokens, the cost so far, the changes
    between two calls, a second policy beside the first, and messages that left the view and were
    needed later.

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
        pricing: str | PriceSheet = "anthropic",
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
        shared: dict[str, Any] = {
            "counter": counting,
            "sheet": sheet,
            "profile": get_profile(provider),
        }
        calls = list(record.calls)
        if not calls or calls[-1] != len(record.entries) - 1:
            calls.append(len(record.entries))  # the call that is still to be made
        tools_of = {c.id: c.name for entry in record.entries for c in entry.tool_calls or ()}
        self.data: dict[str, Any] = {
            "kind": "session",
            "provider": provider,
            "counter": counting.name,
            "pricing": sheet.name,
            "entries": [_entry_data(entry, counting, tools_of) for entry in record.entries],
            "calls": calls,
            "policies": [
                {"name": name, **_policy_data(record, calls, policy, **shared)}
                for name, policy in chosen.items()
            ],
        }

    def to_html(self, path: str | Path) -> Path:
        """Write a self-contained page and return its path."""
        return write_private(path, render_session(self.data))

    def _repr_html_(self) -> str:
        return as_frame(render_session(self.data), height=720, title="Session")

    def __repr__(self) -> str:
        names = " and ".join(each["name"] for each in self.data["policies"])
        return f"<SessionPage {len(self.data['calls'])} calls under {names}>"


def _entry_data(
    entry: ConversationEntry, counter: TokenCounter, tools: Mapping[str, str]
) -> dict[str, Any]:
    data = {
        "role": entry.role.value,
        "tokens": counter.count_entry(entry),
        "text": entry.content or "",
        "name": entry.tool_name or entry.name or tools.get(entry.tool_call_id or ""),
        "calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in entry.tool_calls or ()
        ],
    }
    return {key: value for key, value in data.items() if value not in (None, [], "")}


def _policy_data(
    record: ReadConversation,
    calls: Sequence[int],
    policy: Policy,
    *,
    counter: TokenCounter,
    sheet: PriceSheet,
    profile: ProviderProfile,
) -> dict[str, Any]:
    """Return each view as the entries it keeps and adds: recorded ones, or -1, -2, … of ``forms``."""
    forms: list[dict[str, Any]] = []
    form_numbers: dict[tuple[Any, ...], int] = {}

    def reference(entry: ConversationEntry) -> int:
        if id(entry) in record.index_of:
            return record.index_of[id(entry)]
        root = record.index_of.get(id(entry.root))
        key = (root, entry.role, entry.content, entry.action)
        if key not in form_numbers:
            forms.append({
                "index": root, "role": entry.role.value, "text": entry.content or "",
                "action": entry.action or ("inserted" if root is None else "truncated"),
                "reason": entry.reason or "", "origin": entry.origin,
                "tokens": counter.count_entry(entry),
            })  # fmt: skip
            form_numbers[key] = -len(forms)
        return form_numbers[key]

    dependencies = find_dependencies(record)
    views, lost = [], []
    for number, call in enumerate(replay_calls(record, policy, counter, calls, profile)):
        shown = shown_entries(call.sent, record).keys()
        view = {
            "keep": call.repeated,
            "add": [reference(entry) for entry in call.sent[call.repeated :]],
            "tokens": call.tokens,
            "cached": call.cached,
            "cost": round(sheet.cost(call.tokens, call.cached, call.idle), 7),
            "compacted": not shown_entries(call.before, record).keys() <= shown,
        }
        faults = ["over the budget"] * call.is_over + [v.message for v in call.violations[:3]]
        if faults:
            view["fault"] = "; ".join(faults)[:300]
        if call.failure is not None:
            view |= {"compacted": bool(call.before), "failed": str(call.failure)[:200]}
        views.append(view)
        lost += [
            {"call": number, "kind": each.kind, "value": each.value, "sources": each.sources}
            for each in missing_dependencies(dependencies.get(call.at, ()), call.sent, record)
        ]
    return {"max_tokens": policy.max_tokens, "forms": forms, "views": views, "lost": lost}
