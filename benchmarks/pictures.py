"""The pictures and the table of the front page, drawn from a replay.

    python -m benchmarks.pictures

Writes ``docs/pictures/session.svg`` (one session, call by call), ``docs/pictures/views.svg`` (what
each call shows of the record), ``docs/generated/front.md`` (the tables, see `benchmarks.front`),
``docs/pictures/frontier.svg`` and the lines between the ``front`` marks of the README.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10
from typing import Any

from benchmarks import front
from benchmarks.data import GENERATED, ROOT, load
from history_curator.lab import SessionPage, sample_conversation

INK, SOFT, LINE = "#171b22", "#586172", "#d9dee6"
CACHED, NEW, NOTE, GONE, COMPACTED = "#3a6fb0", "#d08a2d", "#7647b8", "#e8ebf0", "#b3324a"
COLOURS = {"curator": "#3a56d4", "newest that fit": "#c2542d", "everything": "#6b7280"}
BUDGET = 32_000


def round_top(most: float) -> float:
    """Return a round number a little above, so that an axis ends on it."""
    size = 10.0 ** floor(log10(most))
    steps = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)
    return next(size * step for step in steps if size * step >= most)


def svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """Return a picture with a title."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{INK}">'
        f'<title>{escape(title)}</title><rect width="{width}" height="{height}" rx="10" '
        f'fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def text(x: float, y: float, label: str, *, colour: str = INK, more: str = "") -> str:
    """Return a label."""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" {more}>{escape(label)}</text>'


def panel(
    lines: Mapping[str, Sequence[float]], top: float, head: str, unit: str, limit: float | None
) -> list[str]:
    """Return a set of lines over the calls, each named at its end."""
    left, width, height = 70, 560, 150
    most = round_top(max(max(line) for line in lines.values()) * 1.02)
    parts = [text(left, top - 8, head, more='font-weight="600"')]
    for step in range(5):
        y = top + height - height * step / 4
        value = most * step / 4
        shown = f"{value / 1000:.0f}k" if unit == "k" else f"{value:.2f}"
        parts.append(f'<path d="M{left} {y:.1f}h{width}" stroke="{LINE}"/>')
        parts.append(text(left - 8, y + 4, shown, colour=SOFT, more='text-anchor="end"'))
    if limit:
        y = top + height - height * limit / most
        parts.append(f'<path d="M{left} {y:.1f}h{width}" stroke="{SOFT}" stroke-dasharray="4 3"/>')
    ends: list[float] = []
    for name, line in sorted(lines.items(), key=lambda item: -item[1][-1]):
        points = " ".join(
            f"{left + width * at / max(1, len(line) - 1):.1f},{top + height - height * y / most:.1f}"
            for at, y in enumerate(line)
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="1.8"/>'
        )
        end = top + height - height * line[-1] / most
        while any(abs(end - other) < 15 for other in ends):
            end += 15
        ends.append(end)
        parts.append(text(left + width + 8, end + 4, name, colour=COLOURS[name]))
    return parts


def draw_session(data: Mapping[str, Any], name: str) -> str:
    """Return the tokens and the cost of each call of a session, under each policy."""
    tokens, costs = {}, {}
    for policy in data["policies"]:
        views = policy["views"]
        tokens[policy["name"]] = [view["tokens"] for view in views]
        total, line = 0.0, []
        for view in views:
            total += view["cost"]
            line.append(total)
        costs[policy["name"]] = line
    title = f"{name}, {len(data['calls'])} calls, budget {BUDGET:,} tokens"
    parts = [text(20, 26, title, more='font-weight="600" font-size="15"')]
    parts += panel(tokens, 66, "tokens sent with each call", "k", BUDGET)
    parts += panel(costs, 268, "cost so far, millions of input tokens at full price", "", None)
    parts.append(text(70, 446, f"call 1 … {len(data['calls'])}; {data['pricing']} prices",
                      colour=SOFT))  # fmt: skip
    return svg(780, 460, title, parts)


def draw_views(data: Mapping[str, Any]) -> str:
    """Return a row a call, a column a message: repeated, new, in the note, or out of view."""
    policy = data["policies"][0]
    calls, total = data["calls"], len(data["entries"])
    left, top, height = 120, 64, 12
    width = min(11.0, 560 / total)
    parts = [
        text(20, 26, "What each call shows of the record", more='font-weight="600" font-size="15"')
    ]
    for x, colour, label in ((120, CACHED, "repeats the call before"), (290, NEW, "new"),
                            (350, NOTE, "the recap"), (440, GONE, "on record, out of view")):  # fmt: skip
        parts.append(f'<rect x="{x}" y="38" width="11" height="11" fill="{colour}"/>')
        parts.append(text(x + 16, 48, label, colour=SOFT))
    view: list[int] = []
    for number, call in enumerate(policy["views"]):
        y = top + number * (height + 2)
        repeated = call["keep"]
        view = [*view[:repeated], *call["add"]]
        colours = {}
        note = ""
        for place, ref in enumerate(view):
            form = policy["forms"][-1 - ref] if ref < 0 else None
            index = form["index"] if form else ref
            if index is None:
                note = CACHED if place < repeated else NOTE
            else:
                colours[index] = CACHED if place < repeated else NEW
        label = f"call {number + 1}" + ("  compacted" if call["compacted"] else "")
        parts.append(text(left - 34, y + 10, label, colour=COMPACTED if call["compacted"] else SOFT,
                          more='text-anchor="end" font-size="11"'))  # fmt: skip
        if note:
            parts.append(f'<rect x="{left - 26}" y="{y}" width="18" height="{height}" '
                         f'fill="{NOTE}" opacity="{1 if note == NOTE else 0.45}"/>')  # fmt: skip
        parts += [
            f'<rect x="{left + index * width:.1f}" y="{y}" width="{width - 1:.1f}" '
            f'height="{height}" fill="{colours.get(index, GONE)}"/>'
            for index in range(calls[number])
        ]  # fmt: skip
    bottom = top + len(calls) * (height + 2) + 18
    parts.append(text(left, bottom, f"message 1 … {total} of the record →", colour=SOFT))
    return svg(720, bottom + 14, "What each call shows of the record", parts)


def pages(messages: Sequence[Any], budget: int) -> dict[str, Any]:
    """Return one session under the three policies of the picture; a page holds two at a time."""
    first = SessionPage(messages, ["curator", "newest that fit"], max_tokens=budget)
    second = SessionPage(messages, {"everything": "no curation"}, max_tokens=budget)
    return {**first.data, "policies": first.data["policies"] + second.data["policies"]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the pictures and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take one session of so many")
    parser.add_argument("--only", choices=("pictures", "tables"), help="the other stays as it is")
    options = parser.parse_args(arguments)
    sessions = load("coding_sessions")
    if options.only != "tables":
        long = [row for row in sessions if 250 < len(row["messages"]) < 400]
        chosen = max(long, key=lambda row: row["stats"]["tokens_o200k"])
        drawn = draw_session(pages(chosen["messages"], BUDGET), "A recorded coding session")
        folder = ROOT / "docs" / "pictures"
        (folder / "session.svg").write_text(drawn, encoding="utf-8")
        demo = pages(sample_conversation(), 12_000)
        (folder / "views.svg").write_text(draw_views(demo), encoding="utf-8")
    if options.only != "pictures":
        write_tables(front.repair(sessions[:: options.every]))


def write_tables(sessions: Sequence[dict[str, Any]]) -> None:
    """Write the table of the README, and both budgets for the page of benchmarks."""
    texts = []
    for budget in front.BUDGETS:
        results = front.measure(sessions, budget)
        texts.append("\n".join([*front.table(results), "", front.describe(results, budget)]))
        print(texts[-1], flush=True)
        if budget == BUDGET:
            axes = results.to_frame().plot.scatter("cost", "missed", c="none")
            for name, each in results.policies.items():
                place, face = (each.cost, each.missed), "C0" if each.sound else "none"
                axes.scatter(*place, facecolor=face, edgecolor="C0")
                axes.annotate(name, place)
            axes.figure.savefig(ROOT / "docs/pictures/frontier.svg", metadata={"Date": None})
    (GENERATED / "front.md").write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    readme = ROOT / "README.md"
    more = "[All numbers and the method](https://history-curator.github.io/history-curator/benchmarks/)."
    block = f"<!-- front -->\n{texts[0]} {more}\n<!-- /front -->"
    found = readme.read_text(encoding="utf-8")
    found = re.sub(r"<!-- front -->.*?<!-- /front -->", lambda _: block, found, flags=re.DOTALL)
    readme.write_text(found, encoding="utf-8")


if __name__ == "__main__":
    main()
