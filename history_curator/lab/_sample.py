"""A conversation to try things on: an agent finds out why a checkout is slow.

Made up throughout; the same every time it is built.
"""

from __future__ import annotations

import json
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
    return _Story(Random(seed)).tell()


class _Story:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._messages: list[dict[str, Any]] = []
        self._calls = 0

    def tell(self) -> list[dict[str, Any]]:
        self._say(
            "system",
            "You are the on-call engineer's assistant for the shop platform. "
            "Use the tools, quote what you find, change nothing without asking. "
            "Ticket under work: SHOP-4417.",
        )
        self._say(
            "user",
            "Checkout p95 went from 300 ms to 4 s after yesterday's release. "
            "Find out why and propose the smallest safe fix.",
        )
        self._look_at_symptoms()
        self._say("user", "Before you go on: is it every region or only eu-west?")
        self._compare_regions()
        self._read_the_code()
        self._say("user", "Makes sense. Draft the fix and run the pricing tests.")
        self._fix_it()
        self._say("user", "Good. Write the summary for SHOP-4417: cause, fix, how we know.")
        return self._messages

    def _look_at_symptoms(self) -> None:
        self._use(
            "I'll start with the metrics and the error logs side by side.",
            (
                "query_metrics",
                {"metric": "http_p95_ms", "service": "checkout-api", "window": "24h"},
                self._metrics("checkout-api", 60),
            ),
            (
                "search_logs",
                {"service": "checkout-api", "query": "level>=WARN", "limit": 120},
                self._logs("checkout-api", 120),
            ),
        )
        self._use(
            "The slow spans all sit in pricing. Looking there.",
            (
                "search_logs",
                {"service": "pricing", "query": "duration_ms>1000", "limit": 150},
                self._logs("pricing", 150),
            ),
        )
        self._use(None, ("list_releases", {"service": "pricing", "limit": 5}, self._releases()))
        self._say(
            "assistant",
            "p95 rises at 14:05, nine minutes after release pricing-8f21c0. "
            "Nearly every slow request waits in `rates.lookup`. Next I'd check regions "
            "and the diff.",
        )

    def _compare_regions(self) -> None:
        self._use(
            None,
            *(
                (
                    "query_metrics",
                    {
                        "metric": "http_p95_ms",
                        "service": "pricing",
                        "region": region,
                        "window": "6h",
                    },
                    self._metrics(f"pricing/{region}", 36),
                )
                for region in ("eu-west", "eu-north", "us-east")
            ),
        )
        self._say(
            "assistant",
            "Every region, within two minutes of its own rollout, so it is the "
            "release and not the network.",
        )
        self._say("user", "OK. Look at the diff then, and skip the mobile gateway.")

    def _read_the_code(self) -> None:
        self._use(None, ("git_diff", {"range": "pricing-77ab19..pricing-8f21c0"}, self._diff()))
        for path in (
            "services/pricing/quote.py",
            "services/pricing/rates.py",
            "services/pricing/client.py",
            "services/checkout/handlers.py",
        ):
            self._use(None, ("read_file", {"path": path}, self._source(path, 110)))
        self._use(
            "Checking how many callers rely on the old batch lookup.",
            ("grep", {"pattern": r"lookup\(", "path": "services"}, self._grep(70)),
        )
        for service in ("pricing", "payments", "inventory", "cart"):
            self._use(
                None,
                (
                    "search_logs",
                    {"service": service, "query": "pool exhausted", "limit": 80},
                    self._logs(service, 80),
                ),
            )
        self._say(
            "assistant",
            "Found it. `quote()` used to fetch all rates in one batch; since "
            "8f21c0 it calls `rates.lookup(sku)` once per item. The client's pool has four "
            "connections, so a cart of 20 items queues. The other services only show "
            "knock-on waits.",
        )

    def _fix_it(self) -> None:
        self._use(
            "Reading the file again before I touch it.",
            (
                "read_file",
                {"path": "services/pricing/quote.py"},
                self._source("services/pricing/quote.py", 110),
            ),
        )
        self._use(
            None,
            (
                "apply_patch",
                {
                    "path": "services/pricing/quote.py",
                    "patch": "-    rates = [rates.lookup(i.sku) for i in "
                    "cart]\n+    rates = rates.lookup_many("
                    "[i.sku for i in cart])",
                },
                '{"applied": true, "hunks": 1}',
            ),
        )
        self._use(None, ("run_tests", {"path": "tests/pricing"}, self._tests(140)))
        self._use(
            "One failure, in a test that counted single lookups. Fixing it.",
            (
                "read_file",
                {"path": "tests/pricing/test_quote.py"},
                self._source("tests/pricing/test_quote.py", 60),
            ),
            (
                "apply_patch",
                {
                    "path": "tests/pricing/test_quote.py",
                    "patch": "-    assert calls == 20\n+    assert calls == 1",
                },
                '{"applied": true, "hunks": 1}',
            ),
        )
        self._use(None, ("run_tests", {"path": "tests/pricing"}, self._tests(142)))
        self._say(
            "assistant",
            "All 142 pricing tests pass. The patch is two lines; with it a "
            "20-item quote makes one rates request instead of twenty.",
        )

    def _say(self, role: str, content: str) -> None:
        self._messages.append({"role": role, "content": content})

    def _use(self, text: str | None, *uses: tuple[str, dict[str, Any], str]) -> None:
        calls = []
        for name, arguments, _ in uses:
            self._calls += 1
            calls.append(
                {
                    "id": f"call_{self._calls:03d}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
            )
        self._messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        for call, (_, _, result) in zip(calls, uses, strict=True):
            self._messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    def _metrics(self, series: str, points: int) -> str:
        high = points // 3
        rows = [
            {
                "t": f"{(12 + at // 12) % 24:02d}:{at * 5 % 60:02d}",
                "v": self._random.randint(3400, 4600)
                if at > high
                else self._random.randint(270, 340),
            }
            for at in range(points)
        ]
        return json.dumps({"series": series, "unit": "ms", "points": rows})

    def _logs(self, service: str, lines: int) -> str:
        some = self._random
        return "\n".join(
            f"2031-03-12T14:{some.randint(5, 59):02d}:{some.randint(0, 59):02d}.{some.randint(0, 999):03d}Z "
            f"{some.choice(('WARN', 'WARN', 'ERROR'))} {service} trace={some.getrandbits(48):012x} "
            f"{some.choice(_ROUTES)} duration_ms={some.randint(1000, 9000)} "
            f"wait=rates.lookup pool=4/4 queued={some.randint(1, 40)} "
            f"upstream={some.choice(_SERVICES)}"
            for _ in range(lines)
        )

    def _releases(self) -> str:
        return json.dumps(
            [
                {
                    "release": f"pricing-{sha}",
                    "at": f"2031-03-{day}T13:56:00Z",
                    "author": who,
                    "changes": count,
                }
                for sha, day, who, count in (
                    ("8f21c0", 12, "pricing-team", 14),
                    ("77ab19", 11, "rates-team", 3),
                    ("5510de", 10, "pricing-team", 6),
                    ("49c7e2", 7, "platform-team", 2),
                )
            ]
        )

    def _diff(self) -> str:
        changed = [
            f"{'+' if at % 3 else '-'}    {line}"
            for at, line in enumerate(self._source("services/pricing/quote.py", 90).splitlines())
        ]
        return "diff --git a/services/pricing/quote.py b/services/pricing/quote.py\n" + "\n".join(
            [
                *changed[:60],
                "-    rates = lookup_many([i.sku for i in cart])",
                "+    rates = [rates.lookup(i.sku) for i in cart]",
                *changed[60:],
            ]
        )

    def _source(self, path: str, lines: int) -> str:
        head, body = _FILES[path]
        some = Random(path)
        verbs = ("check", "load", "merge", "round", "apply", "guard", "trace")
        nouns = ("currency", "discount", "tax", "stock", "rate", "basket", "region")
        made = [
            f"    {some.choice(verbs)}_{some.choice(nouns)}(item, limit={some.randint(1, 90)})"
            for _ in range(lines)
        ]
        made[lines // 2] = f"    {body}"
        return "\n".join([head, *made])

    def _grep(self, hits: int) -> str:
        some = self._random
        return "\n".join(
            f"{some.choice(list(_FILES))}:{some.randint(5, 240)}:    "
            f"rate = rates.lookup(item_{some.randint(1, 99)}.sku)"
            for _ in range(hits)
        )

    def _tests(self, passed: int) -> str:
        lines = [f"tests/pricing/test_quote.py::test_case_{at:03d} PASSED" for at in range(passed)]
        if passed < 142:
            lines.append(
                "tests/pricing/test_quote.py::test_quote_of_many_items FAILED (assert 1 == 20)"
            )
        return "\n".join([*lines, f"{passed} passed, {142 - passed} failed"])
