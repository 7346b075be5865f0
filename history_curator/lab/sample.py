"""A conversation to try things on: an agent finds out why a checkout is slow.

Made up throughout; the same every time it is built. The messages are in ``sample.json``, which names
the kind of each tool result; the results are written here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from random import Random
from typing import Any

_SERVICES = ("checkout-api", "cart", "pricing", "inventory", "payments", "gateway")
_ROUTES = ("/v2/checkout", "/v2/checkout/quote", "/v2/cart", "/v2/stock", "/healthz")
_FILES = {
    "services/pricing/quote.py": ("def quote(cart: Cart) -> Quote:", "rates.lookup(item.sku)"),
    "services/pricing/rates.py": ("def lookup(sku: str) -> Rate:", "session.get(RATES_URL + sku)"),
    "services/pricing/client.py": ("class RatesClient:", "self._pool.acquire(timeout=30)"),
    "services/checkout/handlers.py": ("async def checkout(request):", "await price(cart)"),
    "tests/pricing/test_quote.py": ("def test_quote_of_many_items():", "assert calls == 1"),
}
_RELEASES = (
    ("8f21c0", 12, "pricing-team", 14),
    ("77ab19", 11, "rates-team", 3),
    ("5510de", 10, "pricing-team", 6),
    ("49c7e2", 7, "platform-team", 2),
)


def sample_conversation(seed: int = 20) -> list[dict[str, Any]]:
    """Return an agent's session as OpenAI-style messages: tools, parallel calls, long results.

    Examples:
        >>> sample_conversation()[1]["content"]
        "Checkout p95 went from 300 ms to 4 s after yesterday's release. Find out why and propose the smallest safe fix."
        >>> sample_conversation(1) == sample_conversation(1)
        True

    Args:
        seed: other numbers give other logs and metrics of the same story.
    """
    story = json.loads((files("history_curator.lab") / "sample.json").read_text(encoding="utf-8"))
    random, messages, calls = Random(seed), list[dict[str, Any]](), 0
    for turn in story:
        message = {"role": turn["role"], "content": turn["content"]}
        messages.append(message)
        for name, arguments, result in turn.get("uses", ()):
            calls += 1
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": f"call_{calls:03d}", "type": "function", "function": function}
            message.setdefault("tool_calls", []).append(call)
            text = result if isinstance(result, str) else _RESULTS[result[0]](random, *result[1:])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return messages


def _metrics(random: Random, series: str, points: int) -> str:
    rows = []
    for number in range(points):
        low, high = (3400, 4600) if number > points // 3 else (270, 340)
        time = f"{(12 + number // 12) % 24:02d}:{number * 5 % 60:02d}"
        rows.append({"t": time, "v": random.randint(low, high)})
    return json.dumps({"series": series, "unit": "ms", "points": rows})


def _logs(random: Random, service: str, lines: int) -> str:
    number, choice = random.randint, random.choice
    return "\n".join(
        f"2031-03-12T14:{number(5, 59):02d}:{number(0, 59):02d}.{number(0, 999):03d}Z "
        f"{choice(('WARN', 'WARN', 'ERROR'))} {service} trace={random.getrandbits(48):012x} "
        f"{choice(_ROUTES)} duration_ms={number(1000, 9000)} "
        f"wait=rates.lookup pool=4/4 queued={number(1, 40)} upstream={choice(_SERVICES)}"
        for _ in range(lines)
    )


def _releases(_: Random) -> str:
    return json.dumps([
        {"release": f"pricing-{sha}", "at": f"2031-03-{day}T13:56:00Z", "author": who, "changes": n}
        for sha, day, who, n in _RELEASES
    ])  # fmt: skip


def _diff(random: Random) -> str:
    source = _source(random, "services/pricing/quote.py", 90).splitlines()
    lines = [f"{'+' if number % 3 else '-'}    {line}" for number, line in enumerate(source)]
    lines[60:60] = ["-    rates = lookup_many([i.sku for i in cart])",
                    "+    rates = [rates.lookup(i.sku) for i in cart]"]  # fmt: skip
    head = "diff --git a/services/pricing/quote.py b/services/pricing/quote.py"
    return "\n".join([head, *lines])


def _source(_: Random, path: str, lines: int) -> str:
    head, body = _FILES[path]
    random = Random(path)  # the same file whenever it is read
    verbs = ("check", "load", "merge", "round", "apply", "guard", "trace")
    nouns = ("currency", "discount", "tax", "stock", "rate", "basket", "region")
    code = [
        f"    {random.choice(verbs)}_{random.choice(nouns)}(item, limit={random.randint(1, 90)})"
        for _ in range(lines)
    ]
    code[lines // 2] = f"    {body}"
    return "\n".join([head, *code])


def _grep(random: Random, hits: int) -> str:
    return "\n".join(
        f"{random.choice(list(_FILES))}:{random.randint(5, 240)}:    "
        f"rate = rates.lookup(item_{random.randint(1, 99)}.sku)"
        for _ in range(hits)
    )


def _tests(_: Random, passed: int) -> str:
    test = "tests/pricing/test_quote.py::test_"
    lines = [f"{test}case_{number:03d} PASSED" for number in range(passed)]
    lines += [f"{test}quote_of_many_items FAILED (assert 1 == 20)"] if passed < 142 else []
    return "\n".join([*lines, f"{passed} passed, {142 - passed} failed"])


_RESULTS: dict[str, Callable[..., str]] = {
    "metrics": _metrics, "logs": _logs, "releases": _releases, "diff": _diff, "source": _source,
    "grep": _grep, "tests": _tests,
}  # fmt: skip
