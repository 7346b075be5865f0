"""From text to the terms that are matched: words, lower case, stemmed, without the empty ones."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from importlib.util import find_spec
from threading import local
from typing import Any
from zlib import crc32

from history_curator.errors import ConfigurationError
from history_curator.managers.relevance._english import IRREGULAR, STOPWORDS

INSTALL_HINT = "Fix: pip install 'history-curator[relevance]' (numpy, PyStemmer)."

MAX_WORD = 64
"""Longer runs of word characters (base64, hashes of blobs) say nothing a question would ask."""

_WORD = re.compile(r"\b\w\w+\b")
_PIECE = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z])|\d{2,}")


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; compound identifiers also give their pieces.

    Examples:
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


def stems(found: list[str]) -> list[str]:
    """Return the stem of every word; irregular forms have that of the word they belong to.

    Examples:
        >>> stems(["went", "going", "children"])
        ['go', 'go', 'child']
    """
    stemmed: list[str] = _stemmer().stemWords([IRREGULAR.get(word, word) for word in found])
    return stemmed


def terms(text: str) -> list[str]:
    """Return the stemmed words of a text, in order, repeats included."""
    return stems(words(text))


def numbered(found: Iterable[str]) -> array[int]:
    """Return the number under which each term is indexed: 32 bits of its spelling.

    Two terms of a conversation hardly ever share one, and then a text is ranked a little too high.
    """
    return array("I", [crc32(term.encode("utf-8", "surrogatepass")) for term in found])


def require() -> None:
    """Say what to install where something is missing, before anything is asked."""
    if not (find_spec("numpy") and find_spec("Stemmer")):
        raise ConfigurationError(f"Relevance needs numpy and PyStemmer. {INSTALL_HINT}")


def numpy() -> Any:
    """Return numpy, or say what to install."""
    try:
        import numpy as np
    except ImportError as error:
        raise ConfigurationError(f"Relevance needs numpy. {INSTALL_HINT}") from error
    return np


_THREAD = local()


def _stemmer() -> Any:
    """A stemmer for each thread: they are not made to be shared."""
    known = getattr(_THREAD, "stemmer", None)
    if known is None:
        try:
            import Stemmer
        except ImportError as error:
            raise ConfigurationError(f"Relevance needs PyStemmer. {INSTALL_HINT}") from error
        known = _THREAD.stemmer = Stemmer.Stemmer("english", 0)
    return known
