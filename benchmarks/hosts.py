"""Where people run it: recorded sessions, servers that keep nothing, threads, and inputs that hurt.

Run as a module it measures these alone: ``python -m benchmarks.hosts --write``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from statistics import median
from time import perf_counter, process_time, sleep
from typing import Any

from benchmarks import _ours, _peers
from benchmarks._conversation import as_langchain, coding_sessions, conversation
from benchmarks._extremes import SHAPES, users
from benchmarks._measure import cpu, cpu_each, note
from benchmarks._settings import QUICK, Settings
from benchmarks._table import Row, Target, target_table
from history_curator import (
    BudgetUnsatisfiableError,
    Curator,
    PassthroughManager,
    PinManager,
    TiktokenCounter,
)

BUDGETS = (8_000, 32_000, 128_000)
SERVER_BUDGET = 8_000
REQUEST = 40
ASKED = 50
ROOMY = 256 * 2**20
"""What the default of `cache_bytes` is compared with."""
THREADS = 8
MOST = 10.0
"""How many times tokenising it an input may cost."""


def run(settings: Settings) -> list[Row]:
    """Measure, and return the rows."""
    return [
        *recorded(settings),
        *server(settings),
        *passing(settings),
        *threads(),
        *extremes(settings),
    ]


def _grow(view: Callable[[list[Any]], Any], messages: Sequence[Any]) -> None:
    history: list[Any] = []
    for message in messages:
        history.append(message)
        with suppress(BudgetUnsatisfiableError):  # one question is larger than the smallest budget
            view(history)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inside for text in _texts(each)]


def _spoken(message: dict[str, Any]) -> list[str]:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return [message.get("content") or "", *(text for call in calls for text in _texts(call))]


def recorded(settings: Settings) -> list[Row]:
    """Sessions of coding agents, one view a message; nothing where they are absent."""
    sessions = coding_sessions(settings.recorded) if settings.recorded else []
    found: list[Row] = []
    for budget in BUDGETS if sessions else ():
        times: dict[str, list[float]] = {"ours": [], "trim": [], "floor": [], "warm": []}
        characters = 0
        for messages in sessions:
            langchain, counter = as_langchain(messages), _ours.fresh_counter()
            curator = Curator(max_tokens=budget, counter=counter)
            trim = _trim(budget)
            ours = cpu(lambda c=curator, m=messages: _grow(c.curate, m))
            theirs = cpu(lambda t=trim, m=langchain: _grow(t, m))
            characters += counter.characters
            times["ours"].append(ours)
            times["trim"].append(theirs)
            try:
                again = cpu_each(lambda c=curator, m=list(messages): c.curate(m), 0.02)
                length = len(curator.curate(messages).messages)
            except BudgetUnsatisfiableError:
                times["floor"].append(_floor(messages, 1))
                continue
            times["floor"].append(_floor(messages, length))
            peer = cpu_each(lambda t=trim, m=langchain: t(m), 0.02)
            times["warm"].append(peer / again)
        note(f"  recorded, {budget:,}: {sum(times['ours']) * 1e3:,.0f} ms CPU")
        present = sum(len(text) for one in sessions for each in one for text in _spoken(each))
        at = f"recorded sessions, budget {budget:,}"
        found += [
            Row(at, "memoised `trim_messages` / ours", sum(times["trim"]) / sum(times["ours"]),
                target=Target(">=", 0.8), part="hosts"),
            Row(at, "ours / tokenising once and copying each view",
                sum(times["ours"]) / sum(times["floor"]), target=Target("<=", 3), part="hosts"),
            Row(at, "characters tokenised / present", characters / present,
                target=Target("<=", 1.05), part="hosts"),
            Row(f"{at}, one warm view", "memoised `trim_messages` / ours", median(times["warm"]),
                target=Target(">=", 1.5), part="hosts"),
        ]  # fmt: skip
    return found


def _trim(budget: int) -> Callable[[list[Any]], Any]:
    return partial(_peers.trim_messages(_peers.memoised_counter()), max_tokens=budget)


def _floor(messages: Sequence[Any], length: int) -> float:
    """What nobody can avoid who counts exactly and returns a list of that length."""
    tokens = _peers.encode()

    def work() -> None:
        for at, message in enumerate(messages):
            for text in _spoken(message):
                len(tokens(text))
            list(messages[max(0, at - length) : at + 1])

    return cpu(work)


def server(settings: Settings) -> list[Row]:
    """A server that decodes its history anew for every request, N conversations in turn.

    Every request brings one new message to a conversation that was seen without it.
    """
    many = max(2, settings.cold // 10)
    counts = (1, max(2, many // 10), many)
    each = {count: _requests(count) for count in counts}
    rows = [
        Row(f"stateless server, {REQUEST} fresh messages, {count:,} conversations",
            "ours / a suffix walk memoised by text", mine / theirs, target=Target("<=", 3), part="hosts")
        for count, (mine, theirs) in each.items()
    ]  # fmt: skip
    roomy, _ = _requests(many, cache_bytes=ROOMY)
    rows += [
        Row(f"stateless server, {many:,} conversations", "the same with one",
            each[many][0] / each[1][0], target=Target("<=", 1.5), part="hosts"),
        Row(f"stateless server, {many:,} conversations, `cache_bytes` of {ROOMY >> 20} MB",
            "one conversation with the default", roomy / each[1][0], target=Target("<=", 1.5),
            part="hosts"),
    ]  # fmt: skip
    return rows


def _requests(count: int, **options: Any) -> tuple[float, float]:
    """CPU seconds of one request among so many conversations: ours, and a suffix walk's."""
    base = list(conversation(REQUEST + 1))
    mine = theirs = 0.0
    asked = 0
    for server in range(ASKED if count == 1 else 1):
        texts = [json.dumps([_told(one, server + at) for one in base]) for at in range(count)]
        curator = Curator(max_tokens=SERVER_BUDGET, counter=_ours.fresh_counter(), **options)
        walk = _suffix_walk()
        for text in texts:
            curator.curate(json.loads(text)[:REQUEST])
            walk(json.loads(text)[:REQUEST])
        for text in texts[:: max(1, count // ASKED)]:
            mine += cpu_fast(curator.curate, json.loads(text))
            theirs += cpu_fast(walk, json.loads(text))
            asked += 1
    note(f"  server, {count}: {mine / asked * 1e6:,.0f} µs CPU a request")
    return mine / asked, theirs / asked


def cpu_fast(call: Callable[[list[Any]], Any], messages: list[Any]) -> float:
    """CPU seconds of one call, without collecting garbage first."""
    start = process_time()
    call(messages)
    return process_time() - start


def _told(message: dict[str, Any], at: int) -> dict[str, Any]:
    return {**message, "content": f"{at}: {message['content'] or ''}"}


def _suffix_walk() -> Callable[[list[Any]], list[Any]]:
    """From the newest message back as long as it fits; counts are remembered by text."""
    tokens, known = _peers.encode(), dict[str, int]()

    def count(message: dict[str, Any]) -> int:
        total = 4
        for text in _spoken(message):
            if text not in known:
                known[text] = len(tokens(text))
            total += known[text]
        return total

    def walk(messages: list[Any]) -> list[Any]:
        left, at = SERVER_BUDGET - count(messages[0]), len(messages)
        while at > 1 and (left := left - count(messages[at - 1])) >= 0:
            at -= 1
        return [messages[0], *messages[at:]]

    return walk


def passing(settings: Settings) -> list[Row]:
    """A manager that changes nothing, in a short history and in a long one."""
    took = {}
    for n in (settings.views[0], settings.cold):
        curator = Curator(PassthroughManager(), max_tokens=16_000, counter=_ours.fresh_counter())
        messages = list(conversation(n))
        took[n] = cpu_each(lambda c=curator, m=messages: c.curate(m), 0.05)
    short, long = took
    return [
        Row(f"warm view with `PassthroughManager`, n = {long:,}", f"the same with n = {short:,}",
            took[long] / took[short], target=Target("<=", 2), part="hosts")
    ]  # fmt: skip


class _Slow(TiktokenCounter):
    """A tokenizer that lets other threads run while it works."""

    __slots__ = ()

    def _count_text(self, text: str) -> int:
        sleep(0.004)
        return len(text) // 4 + 1


def threads() -> list[Row]:
    """Conversations that share a curator, one a thread."""
    talks = [[_told(one, at) for one in conversation(24)] for at in range(THREADS)]

    def took(workers: int) -> float:
        curator = Curator(max_tokens=16_000, counter=_Slow("o200k_base"))
        start = perf_counter()
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda talk: _grow(curator.curate, talk), talks))
        return perf_counter() - start

    one_by_one, together = took(1), took(THREADS)
    return [
        Row(f"{THREADS} threads on one curator, {THREADS} conversations",
            "one thread, with a tokenizer that releases the lock", one_by_one / together,
            target=Target(">=", 4), part="hosts")
    ]  # fmt: skip


def extremes(settings: Settings) -> list[Row]:
    """Inputs that nobody should have to hold, cold and warm, against tokenising them once."""
    share = settings.cold / 10_000
    cases: list[tuple[str, Any, int, tuple[Any, ...], str]] = [
        (name, shape, size, (), "core") for name, (shape, size) in SHAPES.items()
    ]
    cases += [
        ("exchanges in one turn", SHAPES["exchanges in one turn"][0], 10_000, (), profile)
        for profile in ("portable", "anthropic", "gemini", "bedrock", "mistral")
    ]
    pin = PinManager(bool, max_tokens=10**9)
    cases.append(("pinned messages", users, 20_000, (pin,), "core"))
    tokens = _peers.encode()
    found = []
    for name, shape, size, managers, profile in cases:
        messages = shape(max(2, int(size * share)))
        floor = cpu(lambda m=messages: [len(tokens(text)) for text in _texts(m)])
        for budget in (32_000, None):
            curator = Curator(
                *managers, max_tokens=budget, provider=profile, counter=_ours.fresh_counter()
            )
            cold = cpu(lambda c=curator, m=messages: _tried(c, m))
            warm = cpu(lambda c=curator, m=messages: _tried(c, m))
            note(f"  {name}, {profile}, {budget}: {cold / floor:.1f}, warm {warm / floor:.1f}")
            work = f"{len(messages):,} messages: {name}, {profile}, "
            work += f"budget {budget:,}" if budget else "no budget"
            found.append(
                Row(work, "tokenising it, the dearer of cold and warm", max(cold, warm) / floor,
                    target=Target("<=", MOST), part="extremes")
            )  # fmt: skip
    return found


def _tried(curator: Curator, messages: list[Any]) -> None:
    with suppress(BudgetUnsatisfiableError):
        curator.curate(messages)


def main(arguments: Sequence[str]) -> int:
    """Measure these alone, print, and write what the documentation includes."""
    from benchmarks.__main__ import GENERATED, _quiet

    _quiet()
    rows = run(QUICK)
    tables = {part: [row for row in rows if row.part == part] for part in ("hosts", "extremes")}
    text = "\n".join(
        f"<!-- --8<-- [start:{part}] -->\n{target_table(mine)}\n<!-- --8<-- [end:{part}] -->\n"
        for part, mine in tables.items()
    )
    print(text)
    if "--write" in arguments:
        (GENERATED / "hosts.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
