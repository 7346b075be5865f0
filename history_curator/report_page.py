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


def render_html(report: Any) -> str:
    """Return a complete HTML document that shows a report, or the mapping its ``to_dict`` returns.

    Guaranteed: the page makes no request, runs nothing found in a message, and is the same
    string for the same report.

    Examples:
        >>> from history_curator import Curator
        >>> said = [{"role": "user", "content": "<script>"}]
        >>> page = render_html(Curator().curate(said).report)
        >>> "<script>" in page.split('id="report">')[1].split("</script>")[0]
        False
    """
    data: dict[str, Any] = dict(report if isinstance(report, Mapping) else report.to_dict())
    tools = {call["id"]: call["name"] for row in data["decisions"] for call in row["tool_calls"]}
    rows = [_compact(row, tools) for row in data["decisions"]]
    in_view = [row for row in rows if row["position"] is not None and row["action"] != "merged"]
    given = len({row["message"] for row in rows if row["message"] is not None})
    inserted = sum(row["message"] is None for row in in_view)
    sent = inserted + len({row["message"] for row in in_view} - {None})
    data.update(decisions=rows, given=given, sent=sent)
    is_whole = set(data["actions"]) <= {"kept"}
    outcome = "sent as recorded" if is_whole else f"{sent:,} in the view"
    managers = "the budget alone" if data["strategy"] == "budget" else data["strategy"]
    facts = [
        f"decided by {managers}",
        f"rules: {data['provider']}",
        f"counted by {data['counter']}",
    ]
    if data["mode"] == "shadow":
        facts.append("shadow mode: the full history was sent")
    tokens, budget = data["tokens"], data["max_tokens"]
    values = {
        "STATS": _write_stats(data),
        "BUDGET_LABEL": f"{tokens:,} of {budget:,} tokens used" if budget else "no budget",
    }
    headline = f"{given:,} message{'' if given == 1 else 's'} on record, {outcome}"
    return _write_page(data, headline, " · ".join(facts), _fill("view.html", values))


def render_session(data: Mapping[str, Any]) -> str:
    """Return a complete HTML document for every call of a session.

    Guaranteed as for `render_html`. ``data`` is collected by `history_curator.lab.SessionPage`.
    """
    names = " and ".join(policy["name"] for policy in data["policies"])
    messages = len({entry["message"] for entry in data["entries"]})
    return _write_page(
        data,
        f"{len(data['calls']):,} calls of a session under {names}",
        f"{messages:,} messages · rules: {data['provider']} · counted by {data['counter']} · "
        f"{data['pricing']} prices",
        _asset("session.html"),
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


def _write_page(data: Mapping[str, Any], headline: str, subline: str, summary: str) -> str:
    style = _asset("page.css")
    script = "".join(map(_asset, ("page.js", "view.js", "session.js", "boot.js")))
    embedded, encoding = _embed(data)
    warnings = "".join(f"<li>{escape(str(line))}</li>" for line in data.get("warnings") or ())
    return _fill("page.html", {
        "CSP": f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "img-src 'none'; connect-src 'none'; base-uri 'none'; form-action 'none'",
        "HEADLINE": escape(headline),
        "SUBLINE": escape(subline),
        "SUMMARY": summary,
        "WARNINGS": warnings and f'<ul class="warnings" aria-label="Warnings">{warnings}</ul>',
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
        return base64.b64encode(packed).decode(), ' data-encoding="gzip"'
    plain = json.dumps(data, ensure_ascii=True, default=str, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"), ""


def _compact(decision: Mapping[str, Any], tools: Mapping[str, str]) -> dict[str, Any]:
    """Return a decision without the fields that the page does not show, and the name of its tool."""
    name = decision["name"] or tools.get(decision["tool_call_id"] or "")
    row = {key: value for key, value in {**decision, "name": name}.items() if value}
    row.update({key: decision[key] for key in ("index", "position", "message")})
    if decision["after"] is not None and decision["after"] == decision["before"]:
        row.pop("after", None)
        row["same"] = True
    return row


def _write_stats(data: Mapping[str, Any]) -> str:
    tokens, budget, prefix = data["tokens"], data["max_tokens"], data["prefix_tokens"]
    changed = sum(n for action, n in data["actions"].items() if action != "kept")
    cards = [
        ("Tokens on record", data["tokens_before"], ""),
        ("Tokens sent", tokens, f"{tokens / budget:.0%} of {budget:,}" if budget else "no budget"),
        ("Messages in the view", data["sent"], f"of {data['given']:,}"),
        ("Changed by decisions", changed, ""),
        ("Stable prefix", prefix, f"{prefix / max(1, tokens):.0%} of the view"),
    ]
    return "".join(
        f"<div><dt>{label}</dt><dd>{number:,} <small>{note}</small></dd></div>"
        for label, number, note in cards
    )
