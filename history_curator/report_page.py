"""One self-contained HTML page: the decisions of one view, or every call of a session.

Message text is untrusted. It enters the page as escaped JSON in a data block, reaches the screen
through ``textContent`` only, and a content security policy lets the page's own script run (by
hash) and nothing load at all.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

_PAGES = Path(__file__).parent / "pages"
# Above this many characters the data is compressed; the browser unpacks it in a few milliseconds.
_LARGE = 256_000
# Base 85 takes a sixteenth less space than base 64, but its alphabet has characters HTML reads.
_HARMLESS = str.maketrans("<>&", ",.:")


def render_html(report: Any) -> str:
    """Return a complete HTML document that shows a report, or the mapping its ``to_dict`` returns.

    Guaranteed: the page makes no request, runs nothing found in a message, and is the same
    string for the same report.

    Examples:
        >>> decision = {"index": 0, "role": "user", "action": "dropped", "before": "<script>"}
        >>> page = render_html({"original_count": 1, "curated_count": 0, "decisions": [decision]})
        >>> "<script>" in page.split('id="report">')[1].split("</script>")[0]
        False
    """
    data: Mapping[str, Any] = report if isinstance(report, Mapping) else report.to_dict()
    original, curated = data.get("original_count"), data.get("curated_count")
    headline = f"{_number(original)} messages on record, {_number(curated)} in the view"
    if original == curated and set(data.get("actions") or {"kept"}) <= {"kept"}:
        headline = f"All {_number(original)} messages sent as they are"
    facts = [
        f"{label}{data[key]}"
        for key, label in (("strategy", ""), ("provider", "rules: "), ("counter", "counted by "))
        if data.get(key)
    ]
    if data.get("mode") == "shadow":
        facts.append("shadow mode: the full history was sent")
    budget, used = data.get("max_tokens"), _number(data.get("tokens"))
    bar = f"{used} of {budget:,} tokens used" if budget else f"{used} tokens, no budget"
    summary = _fill("view.html", {"STATS": _stats(data), "BUDGET_LABEL": escape(bar)})
    return _page(_compact(data), headline, " · ".join(facts), summary)


def render_session(data: Mapping[str, Any]) -> str:
    """Return a complete HTML document for every call of a session.

    Guaranteed as for `render_html`. ``data`` is collected by `history_curator.lab.SessionPage`.
    """
    names = " and ".join(policy["name"] for policy in data["policies"])
    return _page(
        data,
        f"{len(data['calls']):,} calls of a session under {names}",
        f"{len(data['entries']):,} messages · rules: {data['provider']} · counted by "
        f"{data['counter']} · {data['pricing']} prices",
        _asset("session.html"),
        keys="<span><kbd>,</kbd> <kbd>.</kbd> call back, on</span>"
        "<span><kbd>[</kbd> <kbd>]</kbd> compaction back, on</span>",
    )


def as_frame(page: str, *, height: int = 640, title: str = "Curation report") -> str:
    """Return a page inside a sandboxed frame, for a notebook cell.

    The frame keeps the page's styles and keys out of the notebook, and the notebook's page out of
    reach of the frame.
    """
    return (
        f'<iframe title="{escape(title)}" sandbox="allow-scripts" '
        f'style="width:100%;height:{int(height)}px;border:1px solid #8884;border-radius:8px" '
        f'srcdoc="{escape(page)}"></iframe>'
    )


def _page(
    data: Mapping[str, Any], headline: str, subline: str, summary: str, keys: str = ""
) -> str:
    style = _asset("page.css")
    script = "".join(map(_asset, ("page.js", "view.js", "session.js", "boot.js")))
    embedded, encoding = _embed(data)
    warnings = "".join(f"<li>{escape(str(line))}</li>" for line in data.get("warnings") or ())
    if warnings:
        warnings = f'<ul class="warnings" aria-label="Warnings">{warnings}</ul>'
    return _fill("page.html", {
        "CSP": f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "img-src 'none'; connect-src 'none'; base-uri 'none'; form-action 'none'",
        "TITLE": escape(f"{headline} · History Curator"),
        "HEADLINE": escape(headline),
        "SUBLINE": escape(subline),
        "SUMMARY": summary,
        "WARNINGS": warnings,
        "KEYS": keys,
        "STYLE": style,
        "SCRIPT": script,
        "ENCODING": encoding,
        "DATA": embedded,
    })  # fmt: skip


def _hash(text: str) -> str:
    """Return a source of a content security policy under which only this very text runs."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _fill(name: str, values: Mapping[str, str]) -> str:
    """Return a template with its ``@@NAMES@@`` replaced, once."""
    return "".join(values.get(piece, piece) for piece in _asset(name).split("@@"))


@lru_cache(maxsize=16)
def _asset(name: str) -> str:
    return (_PAGES / name).read_text(encoding="utf-8")


def _embed(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return data that cannot end the block it sits in, and the block's attribute for it."""
    text = json.dumps(data, ensure_ascii=False, default=str, separators=(",", ":"))
    if len(text) > _LARGE:
        packed = gzip.compress(text.encode("utf-8", "replace"), mtime=0)
        dense = base64.b85encode(packed, pad=True).decode().translate(_HARMLESS)
        return dense, f' data-bytes="{len(packed)}"'
    plain = json.dumps(data, ensure_ascii=True, default=str, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"), ""


def _compact(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report without the fields that the page does not show."""
    decisions = []
    tools: dict[str, str] = {}
    for decision in data.get("decisions") or ():
        shown = {key: value for key, value in decision.items() if key != "change" and value}
        shown.update({key: decision.get(key) for key in ("index", "position")})
        if decision.get("after") is not None and decision.get("after") == decision.get("before"):
            shown.pop("after", None)
            shown["same"] = True
        tools.update({call["id"]: call["name"] for call in decision.get("tool_calls") or ()})
        if not shown.get("name") and decision.get("tool_call_id") in tools:
            shown["name"] = tools[decision["tool_call_id"]]
        decisions.append(shown)
    return {**data, "decisions": decisions}


def _stats(data: Mapping[str, Any]) -> str:
    before, now, budget = data.get("tokens_before"), data.get("tokens"), data.get("max_tokens")
    if not isinstance(before, int):
        before = sum(each.get("tokens_before") or 0 for each in data.get("decisions") or ())
    used = "no budget"
    if isinstance(now, int) and budget:
        used = f"{100 * now // budget}% of {budget:,}"
    changed = sum(n for action, n in (data.get("actions") or {}).items() if action != "kept")
    prefix = data.get("prefix_tokens") or 0
    share = f"{100 * prefix // now}% of the view" if now else "nothing sent"
    cards = [
        ("Tokens on record", _number(before), ""),
        ("Tokens sent", _number(now), used),
        ("Messages in the view", _number(data.get("curated_count")),
         f"of {_number(data.get('original_count'))}"),
        ("Changed by decisions", _number(changed), ""),
        ("Stable prefix", _number(prefix), share),
    ]  # fmt: skip
    return "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)} <small>{escape(note)}</small></dd></div>"
        for label, value, note in cards
    )


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"
