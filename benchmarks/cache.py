"""What breakpoints are worth: ``python -m benchmarks.cache`` (``--write`` for docs/generated).

The default curator's views of real Claude Code sessions are sent, at the times of the logs, to an
emulator of Anthropic's cache, marked in three ways. The logs do not hold the system prompt and the
tools; a text of the size the provider reported stands in for them. Tokens are characters / 4.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks._logs import logs
from history_curator import Curator
from history_curator.caching import (
    CacheEmulator,
    PriceSheet,
    apply_anthropic,
    cache_control,
    plan_of,
    sheet_for,
)
from history_curator.doctor._contents import look_into
from history_curator.doctor._read import find_logs, read_logs
from history_curator.doctor._session import Session
from history_curator.errors import HistoryCuratorError
from history_curator.tokens import Calibration, get_counter

PAGE = Path(__file__).resolve().parents[1] / "docs" / "generated" / "cache.md"
MARK = cache_control(300)
Marking = Callable[[Any, dict[str, Any], PriceSheet], Mapping[str, Any]]


def one_at_the_end(curation: Any, request: dict[str, Any], sheet: PriceSheet) -> Mapping[str, Any]:
    """One breakpoint, on the last block."""
    return {**request, "cache_control": MARK}


def own_of_langchain(
    curation: Any, request: dict[str, Any], sheet: PriceSheet
) -> Mapping[str, Any]:
    """What langchain-anthropic's middleware marks: tools, system, the last block."""
    tools = [*request["tools"][:-1], {**request["tools"][-1], "cache_control": MARK}]
    system = [{"type": "text", "text": request["system"], "cache_control": MARK}]
    return {**request, "tools": tools, "system": system, "cache_control": MARK}


def planned(curation: Any, request: dict[str, Any], sheet: PriceSheet) -> Mapping[str, Any]:
    """The core's plan."""
    plan = plan_of(curation, pricing=sheet)
    made = apply_anthropic(curation.messages, plan, tools=request["tools"])
    system = [{"type": "text", "text": request["system"], "cache_control": MARK}]
    return {**made, "system": system}


MARKINGS: dict[str, Marking] = {
    "one at the end": one_at_the_end,
    "langchain-anthropic's middleware": own_of_langchain,
    "the plan": planned,
}


def send(session: Session, hidden: int, budget: int) -> dict[str, tuple[int, int, int, float]]:
    """Return reads, writes, plain input and cost of a session, by marking."""
    sheet = sheet_for(session.calls[0].model)
    assert sheet is not None
    caches = {name: CacheEmulator(sheet, count=lambda text: len(text) // 4) for name in MARKINGS}
    found = dict.fromkeys(MARKINGS, (0, 0, 0, 0.0))
    curator = Curator(max_tokens=budget, provider="anthropic")
    base = {"tools": [{"name": "t", "description": "x" * 2 * hidden}], "system": "y" * 2 * hidden}
    for call in session.calls:
        try:
            curation = curator.curate(session.messages[: call.position])
        except HistoryCuratorError:
            continue
        for name, marking in MARKINGS.items():
            request = marking(curation, {**base, "messages": curation.messages}, sheet)
            used = caches[name].send(request, at=call.start or 0.0)
            read, write, plain, cost = found[name]
            found[name] = (
                read + used["cache_read_input_tokens"],
                write + used["cache_creation_input_tokens"],
                plain + used["input_tokens"],
                cost + caches[name].cost(used),
            )
    return found


def measure(sessions: int, budgets: tuple[int, ...]) -> str:
    """Return the table."""
    counter = get_counter("o200k_base")
    lines = ["| budget | breakpoints | read | written | plain | cost |",
             "|---:|---|---:|---:|---:|---:|"]  # fmt: skip
    with logs() as folder:
        found, _ = read_logs(find_logs([folder]))
    chosen = sorted(found, key=lambda each: -len(each.calls))[::2][:sessions]
    contents = [look_into(each, counter, Calibration(counter)) for each in chosen]
    calls = sum(len(each.calls) for each in chosen)
    for budget in budgets:
        totals = dict.fromkeys(MARKINGS, (0, 0, 0, 0.0))
        for session, inside in zip(chosen, contents, strict=True):
            hidden = round(inside.hidden / inside.ratio)
            for name, sums in send(session, hidden, budget).items():
                totals[name] = tuple(map(sum, zip(totals[name], sums, strict=True)))  # type: ignore[assignment]
        first = totals["one at the end"][3]
        for name, (read, write, plain, cost) in totals.items():
            sent = read + write + plain
            lines.append(
                f"| {budget:,} | {name} | {read / sent:.1%} | {write / sent:.1%} | "
                f"{plain / sent:.1%} | {cost / first:.2f} |"
            )
    title = f"{len(chosen)} sessions, {calls:,} calls; cost of one breakpoint at the end = 1."
    return "\n".join([title, "", *lines]) + "\n"


def main() -> int:
    """Measure, print, and write when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=12)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    given = parser.parse_args()
    text = measure(given.sessions, (16_000, 32_000, 64_000))
    print(text)
    if given.write:
        PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
