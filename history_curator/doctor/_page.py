"""The diagnosis as one self-contained page.

Names of tools and sessions come from logs and are not trusted: everything is escaped, the page has
no script, and its content security policy lets nothing run or load.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from history_curator.doctor._diagnosis import Diagnosis

__all__ = ["reasons", "render_page"]

_STYLE = """
:root{color-scheme:light dark;--bar:#3b6ea5;--soft:#8883}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}
th,td{padding:.25rem .5rem;text-align:right;border-bottom:1px solid var(--soft)}
th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere}
td.text{text-align:left;overflow-wrap:anywhere}
svg{width:8rem;height:.8rem}rect{fill:var(--bar)}
p.note{opacity:.75}
"""


def render_page(found: Diagnosis) -> str:
    """Return a complete HTML document; the same string for the same diagnosis."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    unit = found.cost["unit"]
    body = [
        f"<h1>{found.calls:,} calls in {found.sessions:,} sessions</h1>",
        f'<p class="note">{escape(_models(found))}. Costs in {escape(unit)}.</p>',
        _section("What was spent", ("", "tokens", "cost", "share"), _spending(found)),
        _section("What the prompts were made of", ("", "tokens", "share", ""), _kinds(found)),
        _section("By tool: calls and results", ("", "tokens", "share", "no longer used"),
                 _tools(found)),
        _section("Why the cache was lost", ("", "calls", "tokens", "cost"), _reasons(found)),
        _section("The dearest losses", ("session", "call", "why", "tokens", "cost"),
                 _busts(found)),
        _section("What left where the host summarised",
                 ("session", "call", "messages", "tokens", "needed later"), _losses(found)),
        _section("What if", ("policy", "budget", "cost", "of as it was", "regret"),
                 _policies(found)),
        "".join(f'<p class="note">{escape(problem)}</p>' for problem in found.problems),
    ]  # fmt: skip
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Doctor · History Curator</title><style>{_STYLE}</style></head><body>"
        + "".join(body)
        + "</body></html>\n"
    )


def reasons(found: Diagnosis) -> dict[str, tuple[int, int, float]]:
    """Return calls, tokens and cost by the reason the cache was lost, dearest first."""
    total: dict[str, tuple[int, int, float]] = {}
    for each in found.busts:
        calls, tokens, cost = total.get(each.reason, (0, 0, 0.0))
        total[each.reason] = (calls + 1, tokens + each.tokens, cost + each.cost)
    return dict(sorted(total.items(), key=lambda item: -item[1][2]))


def _models(found: Diagnosis) -> str:
    return ", ".join(f"{model} {calls:,}" for model, calls in found.models.items())


def _section(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = list(rows)
    if not cells:
        return ""
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells)
    return f"<h2>{escape(title)}</h2><table><tr>{head}</tr>{lines}</table>"


def _bar(share: float) -> str:
    width = max(0.0, min(1.0, share)) * 100
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{width:.1f}" height="10"/></svg>'
    )


def _spending(found: Diagnosis) -> Iterable[Sequence[str]]:
    names = {"cache_read": "read from the cache", "cache_write": "written to the cache",
             "input": "input at the plain price", "output": "answers"}  # fmt: skip
    total = found.cost["total"] or 1.0
    for key, name in names.items():
        cost = found.cost[key]
        yield (
            name,
            f"{found.usage[key]:,}",
            f"{cost:,.2f}",
            f"{cost / total:.0%} {_bar(cost / total)}",
        )
    yield "total", f"{sum(found.usage.values()):,}", f"{found.cost['total']:,.2f}", ""


def _kinds(found: Diagnosis) -> Iterable[Sequence[str]]:
    total = sum(found.kinds.values()) or 1
    for name, tokens in found.kinds.items():
        if tokens:
            yield escape(name), f"{tokens:,}", f"{tokens / total:.1%}", _bar(tokens / total)


def _tools(found: Diagnosis) -> Iterable[Sequence[str]]:
    for each in found.tools[:20]:
        unused = f"{each.unused / each.tokens:.0%}" if each.tokens else ""
        share = f"{each.share:.1%} {_bar(each.share)}"
        yield escape(each.name), f"{each.tokens:,}", share, unused


def _reasons(found: Diagnosis) -> Iterable[Sequence[str]]:
    for reason, (calls, tokens, cost) in reasons(found).items():
        yield escape(reason), f"{calls:,}", f"{tokens:,}", f"{cost:,.2f}"


def _busts(found: Diagnosis) -> Iterable[Sequence[str]]:
    for each in found.busts[:20]:
        yield (escape(each.session), str(each.call), escape(each.reason), f"{each.tokens:,}",
               f"{each.cost:,.2f}")  # fmt: skip


def _losses(found: Diagnosis) -> Iterable[Sequence[str]]:
    for each in found.losses[:50]:
        needed = ", ".join(value[:80] for value in each.needed[:8]) or "nothing"
        more = f" and {len(each.needed) - 8} more" if len(each.needed) > 8 else ""
        yield (escape(each.session), str(each.call), f"{each.messages:,}", f"{each.tokens:,}",
               escape(needed + more))  # fmt: skip


def _policies(found: Diagnosis) -> Iterable[Sequence[str]]:
    was = found.cost["total"] or 1.0
    for each in found.policies:
        budget = f"{each.budget:,}" if each.budget else ""
        cost = f"{each.cost:,.2f}"
        yield escape(each.policy), budget, cost, f"{each.cost / was:.0%}", f"{each.regret:.1%}"
