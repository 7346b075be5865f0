"""One self-contained page: for a curation its decisions, for a session every call of it.

Message text is untrusted. It enters the page as escaped JSON in a data block, reaches the screen
through ``textContent`` only, and a content security policy lets nothing run but the page's own
script (by hash) and lets nothing load at all.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

# Above this many characters the data is compressed; the browser unpacks it in a few milliseconds.
_LARGE = 256_000
# Base 85 takes a sixteenth less room than base 64, but its alphabet has what HTML reads.
_HARMLESS = str.maketrans("<>&", ",.:")


def render_html(report: Any, *, title: str | None = None) -> str:
    """Return a complete HTML document that shows ``report``.

    Guaranteed: the page makes no request, runs nothing found in a message, and is the same
    string for the same report.

    Args:
        report: a `CurationReport`, or the mapping its ``to_dict`` returns.
        title: the document's title; by default what the report says about itself.

    Examples:
        >>> page = render_html(
        ...     {
        ...         "original_count": 1,
        ...         "curated_count": 0,
        ...         "decisions": [
        ...             {"index": 0, "role": "user", "action": "dropped", "before": "<script>"}
        ...         ],
        ...     }
        ... )
        >>> "<script>" in page.split('id="report">')[1].split("</script>")[0]
        False
    """
    data: Mapping[str, Any] = report if isinstance(report, Mapping) else report.to_dict()
    summary = _fill("view.html", {
        "STATS": _stats(data),
        "BUDGET_LABEL": html.escape(_budget_label(data), quote=True),
    })  # fmt: skip
    return _page(
        _compact(data),
        title=title,
        headline=_headline(data),
        subline=_subline(data),
        summary=summary,
        warnings=_warnings(data),
    )


def render_session(data: Mapping[str, Any], *, title: str | None = None) -> str:
    """Return a complete HTML document for every call of a session.

    Guaranteed as for `render_html`. ``data`` is what `history_curator.lab.SessionPage` collects.
    """
    names = " and ".join(policy["name"] for policy in data["policies"])
    return _page(
        data,
        title=title,
        headline=f"{len(data['calls']):,} calls of a session under {names}",
        subline=(
            f"{len(data['entries']):,} messages · rules: {data['provider']} · counted by "
            f"{data['counter']} · {data['pricing']} prices"
        ),
        summary=asset("session.html"),
        warnings=_warnings(data),
        keys="<span><kbd>,</kbd> <kbd>.</kbd> call back, on</span>"
        "<span><kbd>[</kbd> <kbd>]</kbd> jump back, on</span>",
    )


def _page(
    data: Mapping[str, Any],
    *,
    title: str | None,
    headline: str,
    subline: str,
    summary: str,
    warnings: str,
    keys: str = "",
) -> str:
    style = asset("page.css")
    script = "".join(map(asset, ("page.js", "view.js", "session.js", "boot.js")))
    embedded, encoding = _embed(data)
    return _fill("page.html", {
        "CSP": policy(style, script),
        "TITLE": html.escape(title or f"{headline} · History Curator"),
        "HEADLINE": html.escape(headline),
        "SUBLINE": html.escape(subline),
        "SUMMARY": summary,
        "WARNINGS": warnings,
        "KEYS": keys,
        "STYLE": style,
        "SCRIPT": script,
        "ENCODING": encoding,
        "DATA": embedded,
    })  # fmt: skip


def _fill(name: str, values: Mapping[str, str]) -> str:
    """Return a template with its ``@@NAMES@@`` replaced, once."""
    return "".join(values.get(piece, piece) for piece in asset(name).split("@@"))


def render_frame(report: Any, *, height: int = 640) -> str:
    """Return the page inside a sandboxed frame, for a notebook cell."""
    return as_frame(render_html(report), height=height)


def as_frame(page: str, *, height: int = 640, title: str = "Curation report") -> str:
    """Return a page inside a sandboxed frame.

    The frame keeps the page's styles and keys out of the notebook, and the notebook's page out of
    reach of the frame.
    """
    return (
        f'<iframe title="{html.escape(title, quote=True)}" sandbox="allow-scripts" '
        f'style="width:100%;height:{int(height)}px;border:1px solid #8884;border-radius:8px" '
        f'srcdoc="{html.escape(page, quote=True)}"></iframe>'
    )


@lru_cache(maxsize=16)
def asset(name: str) -> str:
    return (files("history_curator.report") / "page" / name).read_text(encoding="utf-8")


def policy(style: str, script: str = "") -> str:
    """Return a content security policy that lets nothing load, and nothing run but the script."""
    style_hash, script_hash = (
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in (style, script)
    )
    run = script_hash if script else "'none'"
    return (
        f"default-src 'none'; script-src {run}; "
        f"style-src {style_hash}; img-src 'none'; connect-src 'none'; base-uri 'none'; "
        "form-action 'none'"
    )


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
    """Return a report without what the page does not show."""
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


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"


def _share(part: int, whole: int) -> str:
    """Return a share as it is read: 100% is all of it."""
    return f"{100 * part // whole}%"


def _tokens_before(data: Mapping[str, Any]) -> int:
    given = data.get("tokens_before")
    if isinstance(given, int):
        return given
    return sum(decision.get("tokens_before") or 0 for decision in data.get("decisions") or ())


def _headline(data: Mapping[str, Any]) -> str:
    original, curated = data.get("original_count"), data.get("curated_count")
    if original == curated and set(data.get("actions") or {"kept"}) <= {"kept"}:
        return f"All {_number(original)} messages sent as they are"
    return f"{_number(original)} messages on record, {_number(curated)} in the view"


def _subline(data: Mapping[str, Any]) -> str:
    facts = [
        f"{label} {data[key]}"
        for key, label in (("strategy", ""), ("provider", "rules:"), ("counter", "counted by"))
        if data.get(key)
    ]
    if data.get("mode") == "shadow":
        facts.append("shadow mode: the full history was sent")
    return " · ".join(fact.strip() for fact in facts)


def _stats(data: Mapping[str, Any]) -> str:
    before, now, budget = _tokens_before(data), data.get("tokens"), data.get("max_tokens")
    used = (
        f"{_share(now, budget)} of {budget:,}" if isinstance(now, int) and budget else "no budget"
    )
    changed = sum(n for action, n in (data.get("actions") or {}).items() if action != "kept")
    prefix = data.get("prefix_tokens") or 0
    share = f"{_share(prefix, now)} of the view" if now else "nothing sent"
    cards = [
        ("Tokens on record", _number(before), ""),
        ("Tokens sent", _number(now), used),
        ("Messages in the view", _number(data.get("curated_count")),
         f"of {_number(data.get('original_count'))}"),
        ("Changed by decisions", _number(changed), ""),
        ("Stable prefix", _number(prefix), share),
    ]  # fmt: skip
    return "".join(
        f"<div><dt>{html.escape(label)}</dt><dd>{html.escape(value)} "
        f"<small>{html.escape(note)}</small></dd></div>"
        for label, value, note in cards
    )


def _budget_label(data: Mapping[str, Any]) -> str:
    budget = data.get("max_tokens")
    used = _number(data.get("tokens"))
    return f"{used} of {budget:,} tokens used" if budget else f"{used} tokens, no budget"


def _warnings(data: Mapping[str, Any]) -> str:
    lines = "".join(f"<li>{html.escape(str(line))}</li>" for line in data.get("warnings") or ())
    return f'<ul class="warnings" aria-label="Warnings">{lines}</ul>' if lines else ""
