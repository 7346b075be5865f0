"""Find the entries that match a question: BM25 over their words, spread to their neighbours."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from math import log
from typing import Protocol, runtime_checkable

from history_curator.entries import ConversationEntry, MessageRole, neutralise
from history_curator.errors import ConfigurationError

logger = logging.getLogger("history_curator")

NEIGHBOURS = (0.5, 0.3, 0.2, 0.15, 0.1)
"""Shares of a match that the texts one, two … places beside it get."""
REPLY = 0.7
"""Share of the next text where the match ends in a question, which it likely answers."""
DENSITY = 0.4
"""How much length weighs against a text: 0 not at all, 1 takes relevance per character."""
LONGEST_WORD = 64
"""Longer runs of word characters (base64, hashes of blobs) match no question."""
MEMO_CHARS = 8_000_000
"""Characters of terms that a scorer remembers at most."""

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
        if len(word) > LONGEST_WORD:
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


@runtime_checkable
class Scorer(Protocol):
    """Anything that says how well each of some texts matches a question."""

    def score(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one score for each text, zero for no match at all."""


class Bm25Scorer:
    """BM25 over stemmed words: no model, no network, deterministic.

    The terms of a text are remembered by the text itself, so that a growing conversation costs
    only its new texts. Safe to share between threads and conversations.

    Args:
        k1: how soon further occurrences of a term stop to count.
        b: how much a long text is held against it.

    Examples:
        >>> scores = Bm25Scorer().score("dogs?", ["my dog is called Rex", "it rains"])
        >>> [round(score, 2) for score in scores]
        [0.26, 0.0]
    """

    def __init__(self, *, k1: float = 1.2, b: float = 0.75) -> None:
        self.k1 = k1
        self.b = b
        self._memo: dict[str, tuple[int, str]] = {}
        self._memo_chars = 0

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        indexed = [self._memo.get(text) or self._index_text(text) for text in texts]
        scores = [0.0] * len(indexed)
        mean_length = sum(length for length, _ in indexed) / (len(indexed) or 1) or 1.0
        for term in dict.fromkeys(split_terms(question)):
            wanted = f" {term} "
            found = [index for index, (_, terms) in enumerate(indexed) if wanted in terms]
            rarity = log(1 + (len(indexed) - len(found) + 0.5) / (len(found) + 0.5))
            for index in found:
                length, terms = indexed[index]
                count = terms.count(wanted)
                norm = self.k1 * (1 - self.b + self.b * length / mean_length)
                scores[index] += rarity * count / (count + norm)
        return scores

    def _index_text(self, text: str) -> tuple[int, str]:
        terms = split_terms(text)
        indexed = len(terms), f" {'  '.join(terms)} "
        self._memo_chars += len(indexed[1])
        if self._memo_chars > MEMO_CHARS:
            self._memo, self._memo_chars = {}, len(indexed[1])
        self._memo[text] = indexed
        return indexed


def score_entries(
    entries: Sequence[ConversationEntry], query: Mapping[str, float], scorer: Scorer
) -> tuple[list[float], str]:
    """Return how much each entry matters for a query, and a warning when BM25 had to take over.

    An answer often does not repeat the words of its question, so every match gives a share of its
    score to its neighbours. A query maps texts to how much each of them counts.
    """
    texts = [f"{each.name or each.tool_name or ''} {entry_text(each)}" for each in entries]
    warning = ""
    try:
        scores = _sum_scores(texts, query, scorer)
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - anything an embedding model may raise
        failure = f"{type(scorer).__name__} failed ({type(error).__name__})"
        warning = f"{failure}; earlier parts were found by their words instead."
        logger.warning("%s", warning)
        scores = _sum_scores(texts, query, Bm25Scorer())
    asks = ["?" in (entry.content or "")[-200:] for entry in entries]
    return spread_scores(scores, asks), warning


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
    value = [score / (size + 32) ** DENSITY for score, size in zip(scores, sizes, strict=True)]
    found = [index for index, score in enumerate(scores) if score > 0]
    return sorted(found, key=lambda index: -value[index])


_ROLE = re.compile(
    r"(?:system|developer|user|human|assistant|ai|model|tool|result)\b", re.IGNORECASE
)
_ODD = re.compile(r"[^\w .@'’/-]")


def name_speaker(entry: ConversationEntry) -> str:
    """Return who speaks: the given name, the tool, or the role.

    Characters that do not belong in a name become question marks, so that no name ends a label,
    and a name cannot pose as a role.
    """
    if entry.role is MessageRole.TOOL:
        return f"result of {_ODD.sub('?', entry.tool_name[:80])}" if entry.tool_name else "result"
    name = _ODD.sub("?", (entry.name or "")[:80]).strip()
    return name if name and not _ROLE.match(name) else entry.role.value


def entry_text(entry: ConversationEntry) -> str:
    """Return everything an entry says as text: its content, its calls, a note for media."""
    if not entry.tool_calls and not entry.parts:
        return entry.content or ""
    pieces = [entry.content] if entry.content else []
    pieces.extend(f"{call.name}({call.arguments})" for call in entry.tool_calls or ())
    pieces.extend(f"[{part.kind}]" for part in entry.parts or () if part.kind != "text")
    return "\n".join(pieces)


_LINE_ENDS = r"\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_SUSPECT = re.compile(rf"[\[<{_LINE_ENDS}]|r[0-9a-f]{{16}}", re.IGNORECASE)
"""Without any of these no text reads like ours; most have none."""


def match_openings(names: Sequence[str] = ()) -> re.Pattern[str]:
    """Return a pattern of lines that read like the start of another quote, by any name."""
    roles = "system|developer|user|human|assistant|ai|tool|result(?: of [^\\s:]+)?"
    known = "|".join([roles, *sorted(set(map(re.escape, names)))])
    return re.compile(
        rf"(?<=[{_LINE_ENDS}])(?=[ \t]*(?:\[\d+\][ \t]*)?(?:{known})[ \t]*:)", re.IGNORECASE
    )


_OPENINGS = match_openings()


def quote_entry(entry: ConversationEntry, openings: re.Pattern[str] = _OPENINGS) -> str:
    """Return an entry word for word, with its speaker; ``quoted:`` marks a line that looks like ours."""
    text = entry_text(entry)
    if _SUSPECT.search(text):
        text = openings.sub("quoted: ", neutralise(text))
    return f"{name_speaker(entry)}: {text}"
