"""Find the entries that match a question: BM25 over their words, spread to their neighbours."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import log
from typing import Any, Protocol, runtime_checkable

from history_curator.entries import ConversationEntry
from history_curator.errors import ConfigurationError
from history_curator.quoting import entry_text
from history_curator.tokens import TokenCounter

logger = logging.getLogger("history_curator")

K1, B = 1.2, 0.75
"""How soon further occurrences of a term stop to count; how much a long text is held against it."""
NEIGHBOURS = (0.5, 0.3, 0.2, 0.15, 0.1)
"""Shares of a match that the texts one, two … places beside it get."""
REPLY = 0.7
"""Share of the next text where the match ends in a question, which it likely answers."""
CHUNK, MOST_CHARS, LONGEST_LINE = 800, 200_000, 2_000
"""Characters of a scored chunk; of a text, and of a line of a passage, that are looked at."""

_STOPWORDS = """
a about an and any are as at be been being but by can could did do does done for from had has have
he her here him his how i if in into is it its may me might my no not of on or our shall she should
so some such than that the their them then there these they this those to us was we were what when
where which who whom why will with would you your
"""
STOPWORDS = frozenset(_STOPWORDS.split())
_WORD = re.compile(r"\b\w\w+\b")
_PIECE = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z])|\d{2,}")
_VOWEL = re.compile("[aeiouy]")


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case; compound identifiers also give their pieces."""
    found: list[str] = []
    for word in _WORD.findall(text):
        if len(word) > 64:  # base64, hashes of blobs: no question has them
            continue
        lower = word.lower()
        if lower not in STOPWORDS:
            found.append(lower)
        if "_" in word or not (word.islower() or word.istitle() or word.isupper()):
            pieces = [piece.lower() for piece in _PIECE.findall(word)]
            found.extend(each for each in pieces if each != lower and each not in STOPWORDS)
    return found


def stem_word(word: str) -> str:
    """Return a word without its common English endings."""
    if len(word) < 4 or not word.isalpha():
        return word
    if word.endswith(("ies", "ied")):
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base != word and len(base) > 2 and _VOWEL.search(base):
            word = base[:-1] if base[-1] == base[-2] and base[-1] not in "lsz" else base
            break
    return word.rstrip("e") if len(word) > 3 else word


def split_terms(text: str) -> list[str]:
    """Return the stemmed words of a text, in order, repeats included."""
    return [stem_word(word) for word in split_words(text)]


def count_terms(text: str) -> tuple[int, Counter[str]]:
    """Return how many terms a text has, and how often it has each."""
    terms = split_terms(text)
    return len(terms), Counter(terms)


@runtime_checkable
class Scorer(Protocol):
    """Anything that says how well each of some texts matches a question."""

    def score(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one score for each text, zero for no match at all."""


class Bm25Scorer:
    """BM25 over stemmed words: no model, no network, deterministic.

    It remembers the terms of texts, so that a growing conversation costs only its new ones. Safe to
    share between threads and conversations.

    Examples:
        >>> scores = Bm25Scorer().score("dogs?", ["my dog is called Rex", "it rains"])
        >>> [round(score, 2) for score in scores]
        [0.26, 0.0]
    """

    def __init__(self) -> None:
        self._count_terms = lru_cache(16_384)(count_terms)

    def __reduce__(self) -> tuple[Any, ...]:
        return Bm25Scorer, ()  # texts stay in this process

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        counted = list(map(self._count_terms, texts))
        scores = [0.0] * len(counted)
        mean_length = sum([length for length, _ in counted]) / (len(counted) or 1) or 1.0
        for term in dict.fromkeys(split_terms(question)):
            found = [(at, each) for at, each in enumerate(counted) if term in each[1]]
            rarity = log(1 + (len(counted) - len(found) + 0.5) / (len(found) + 0.5))
            for index, (length, counts) in found:
                norm = K1 * (1 - B + B * length / mean_length)
                scores[index] += rarity * counts[term] / (counts[term] + norm)
        return scores


def score_entries(
    entries: Sequence[ConversationEntry], query: Mapping[str, float], scorer: Scorer
) -> tuple[list[float], str]:
    """Return how much each entry matters for a query, and a warning when BM25 had to take over.

    A long entry is worth its best chunk. An answer often does not repeat the words of its question,
    so every match gives a share to its neighbours. A query says how much each of its texts counts.
    """
    owners, texts = list[int](), list[str]()
    for index, entry in enumerate(entries):
        chunks = split_chunks(f"{entry.name or entry.tool_name or ''} {entry_text(entry)}")
        owners += [index] * len(chunks)
        texts += chunks
    warning = ""
    try:
        found = _sum_scores(texts, query, scorer)
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - anything an embedding model may raise
        warning = f"{type(scorer).__name__} failed ({type(error).__name__}); "
        warning += "earlier parts were found by their words instead."
        logger.warning("%s", warning)
        found = _sum_scores(texts, query, Bm25Scorer())
    scores = [0.0] * len(entries)
    for index, score in zip(owners, found, strict=True):
        scores[index] = max(scores[index], score)
    asks = ["?" in (entry.content or "")[-200:] for entry in entries]
    return spread_scores(scores, asks), warning


def split_chunks(text: str) -> list[str]:
    """Return a text in chunks of whole lines, of about `CHUNK` characters where it is long."""
    if len(text) <= 2 * CHUNK:
        return [text]
    chunks = [""]
    for line in text[:MOST_CHARS].splitlines(keepends=True):
        for start in range(0, len(line), CHUNK):
            if len(chunks[-1]) + len(line) - start > CHUNK and chunks[-1]:
                chunks.append("")
            chunks[-1] += line[start : start + CHUNK]
    return chunks


def _sum_scores(texts: Sequence[str], query: Mapping[str, float], scorer: Scorer) -> list[float]:
    totals = [0.0] * len(texts)
    for question, weight in query.items():
        scores = scorer.score(question, texts)
        if len(scores) != len(texts):
            raise ValueError(f"the scorer returned {len(scores)} scores for {len(texts)} texts")
        for index, score in enumerate(scores):
            totals[index] += weight * float(score)
    return totals


def spread_scores(scores: Sequence[float], asks: Sequence[bool]) -> list[float]:
    """Return scores in which every text also has a share of its neighbours' scores."""
    out = list(scores)
    for index, score in enumerate(scores):
        if score <= 0:
            continue
        for distance, share in enumerate(NEIGHBOURS[:index], 1):
            out[index - distance] += share * score
        for distance, share in enumerate(NEIGHBOURS[: len(out) - index - 1], 1):
            out[index + distance] += score * (REPLY if distance == 1 and asks[index] else share)
    return out


def rank_positions(scores: Sequence[float], sizes: Sequence[int]) -> list[int]:
    """Return the positions with a score, best first: relevance against length in characters."""
    chunks = [min(size, CHUNK) for size in sizes]
    # Exponent 0 would weigh no length, 1 relevance per character.
    value = [score / (size + 32) ** 0.4 for score, size in zip(scores, chunks, strict=True)]
    found = [index for index, score in enumerate(scores) if score > 0]
    return sorted(found, key=lambda index: -value[index])


def find_passage(
    lines: Sequence[str], query: str, max_tokens: int, counter: TokenCounter
) -> tuple[int, int]:
    """Return where the stretch of lines that matches a query best starts and ends.

    It has at least one line and, beyond that, at most so many tokens.
    """
    wanted = set(split_terms(query))
    hits = [len(wanted.intersection(split_terms(line[:LONGEST_LINE]))) for line in lines]
    best = hits.index(max(hits))
    left = max_tokens - counter.count(lines[best])
    first, last = best, best + 1
    while left > 0 and (first > 0 or last < len(lines)):
        is_upward = first > 0 and (last >= len(lines) or best - first < last - best)
        left -= counter.count(lines[first - 1] if is_upward else lines[last]) + 1
        if left >= 0:
            first, last = (first - 1, last) if is_upward else (first, last + 1)
    return first, last
