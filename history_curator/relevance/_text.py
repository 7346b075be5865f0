"""From text to the terms that are matched: words, lower case, stemmed, without the empty ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from history_curator.errors import ConfigurationError

__all__ = ["INSTALL_HINT", "MAX_WORD", "STOPWORDS", "numpy", "terms", "words"]

INSTALL_HINT = "Fix: pip install 'history-curator[relevance]' (bm25s, PyStemmer, numpy)."

MAX_WORD = 64
"""Longer runs of word characters (base64, hashes of blobs) say nothing a question would ask."""

_EMPTY = """
a about an and any are as at be been being but by can could did do does done for from had has have
he her here him his how i if in into is it its may me might my no not of on or our shall she should
so some such than that the their them then there these they this those to us was we were what when
where which who whom why will with would you your
"""
STOPWORDS = frozenset(_EMPTY.split())
"""Words that say nothing about what a text is about, question words among them."""

_WORD = re.compile(r"\b\w\w+\b")
_PIECE = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z])|\d{2,}")


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; compound identifiers also give their pieces.

    Example:
        >>> words("Where is getUserName in db_utils?")
        ['getusername', 'get', 'user', 'name', 'db_utils', 'db', 'utils']
    """
    found: list[str] = []
    for word in _WORD.findall(text):
        if len(word) > MAX_WORD:
            continue
        lower = word.lower()
        if lower not in STOPWORDS:
            found.append(lower)
        if "_" in word or not (word.islower() or word.istitle() or word.isupper()):
            pieces = [piece.lower() for piece in _PIECE.findall(word)]
            found.extend(p for p in pieces if p != lower and p not in STOPWORDS)
    return found


def terms(text: str) -> list[str]:
    """Return the stemmed words of a text, in order, repeats included."""
    stem = _stemmer()
    return [_stem_word(stem, word) for word in words(text)]


def numpy() -> Any:
    """Return numpy, or say what to install."""
    try:
        import numpy as np
    except ImportError as error:
        raise ConfigurationError(f"Relevance needs numpy. {INSTALL_HINT}") from error
    return np


@lru_cache(maxsize=1)
def _stemmer() -> Callable[[str], str]:
    try:
        import Stemmer
    except ImportError as error:
        raise ConfigurationError(f"Relevance needs PyStemmer. {INSTALL_HINT}") from error
    stem: Callable[[str], str] = Stemmer.Stemmer("english").stemWord
    return stem


@lru_cache(maxsize=100_000)
def _stem_word(stem: Callable[[str], str], word: str) -> str:
    return stem(word)
