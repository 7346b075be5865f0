"""Soft words: other words that mean about the same, from static vectors that come as a package.

``wordllama`` carries 32,000 vectors in its wheel, one for each piece of a word. Its two files are
read directly: `SoftVectors` is made of them once for a process. A conversation keeps a `Vocabulary`,
about twenty bytes for each different word, and asks it which of its words are near those of a
question.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.managers.relevance._english import ABOUT_THE_TALK, STOPWORDS
from history_curator.managers.relevance._text import numbered, numpy, stems, words

NEAR_ENOUGH = 0.35
"""Cosine, after the mean is taken off, from which a word counts as near."""
STRENGTH = 0.5
"""What a near word counts, times its cosine, against the word itself."""
MOST = 60
"""Near words named for each word of a question; of those that occur the nearest are taken."""
ENOUGH = 6
"""A question with more words than these finds what it is about without near ones."""
DIMENSIONS = 128
"""How many of the directions in which words differ most are kept."""

_ROWS = 256
"""Rows multiplied at a time: few enough that no thread is woken for it."""

_HINT = "Fix: pip install 'history-curator[vectors]' (wordllama, which carries its weights)."


class SoftVectors:
    """The vectors of pieces of words, one row each, less what all words have in common."""

    def __init__(self, vectors: Any, tokenizer: Any) -> None:
        np = numpy()
        self._tokenizer = tokenizer
        known = tokenizer.get_vocab()
        whole = [
            number
            for piece, number in sorted(known.items())
            if piece.startswith("▁") and _is_word(piece[1:].lower())
        ]
        rows = np.asarray(vectors, dtype=np.float32)
        mean = rows[whole].mean(axis=0)
        spread = rows[whole] - mean
        # The last directions of `eigh` are those of the largest spread.
        _, directions = np.linalg.eigh(spread.T @ spread)
        self.rows = (rows - mean) @ directions[:, -DIMENSIONS:]

    def pieces(self, found: Sequence[str]) -> list[list[int]]:
        """Return the numbers of the pieces of each word."""
        encode = self._tokenizer.encode
        return [encode(word, add_special_tokens=False).ids for word in found]


class Vocabulary:
    """The different words of one conversation. It only grows."""

    def __init__(self, vectors: SoftVectors) -> None:
        self._vectors = vectors
        self._known: Any = numpy().zeros(0, dtype="u4")
        self._numbers: array[int] = array("I")
        self._pieces: array[int] = array("H")
        self._starts: array[int] = array("I")
        self._lengths: array[float] = array("f")

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        held = (self._numbers, self._pieces, self._starts, self._lengths)
        return int(self._known.nbytes) + sum(each.itemsize * len(each) for each in held)

    def add(self, texts: Iterable[str]) -> None:
        """Take over the words of these texts that are new; each stem by the word met first."""
        np = numpy()
        found = list(dict.fromkeys(w for text in texts for w in words(text) if _is_word(w)))
        first: dict[int, str] = {}
        for number, word in zip(numbered(stems(found)), found, strict=True):
            first.setdefault(number, word)
        numbers = np.fromiter(first, dtype=np.uint32, count=len(first))
        new = ~np.isin(numbers, self._known, assume_unique=True)
        fresh = [first[number] for number in numbers[new].tolist()]
        if not fresh:
            return
        for pieces in self._vectors.pieces(fresh):
            self._starts.append(len(self._pieces))
            self._pieces.extend(pieces)
            row = self._vectors.rows[pieces].sum(axis=0)
            self._lengths.append(float(np.linalg.norm(row)) or 1.0)
        self._numbers.extend(numbers[new].tolist())
        self._known = np.union1d(self._known, numbers[new])

    def near(self, question: str) -> Mapping[str, Sequence[tuple[int, float]]]:
        """Return, for the words of a question, the numbers of words that mean about the same.

        None for a question that says enough, so that it finds what its own words find.
        """
        np = numpy()
        asked = asked_words(question)
        if not asked or says_enough(asked) or not len(self):
            return {}
        rows = self._vectors.rows
        wanted = np.stack([rows[p].sum(axis=0) for p in self._vectors.pieces(list(asked.values()))])
        wanted /= np.maximum(np.linalg.norm(wanted, axis=1, keepdims=True), 1e-9)
        pieces = np.frombuffer(self._pieces, dtype=np.uint16)
        each = np.concatenate(
            [
                rows[pieces[start : start + _ROWS]] @ wanted.T
                for start in range(0, len(pieces), _ROWS)
            ]
        )
        cosines = np.add.reduceat(each, np.frombuffer(self._starts, dtype=np.uint32), axis=0)
        cosines /= np.frombuffer(self._lengths, dtype=np.float32)[:, None]
        return {
            stem: self._nearest(cosines[:, at], number)
            for at, (stem, number) in enumerate(zip(asked, numbered(asked), strict=True))
        }

    def _nearest(self, cosines: Any, own: int) -> list[tuple[int, float]]:
        np = numpy()
        near = np.flatnonzero(cosines >= NEAR_ENOUGH)
        near = near[np.argsort(-cosines[near], kind="stable")][:MOST]
        numbers = [self._numbers[at] for at in near.tolist()]
        factors = (STRENGTH * cosines[near]).tolist()
        return [each for each in zip(numbers, factors, strict=True) if each[0] != own]


def asked_words(question: str) -> dict[str, str]:
    """Return, by their stems, the words by which a question says what it is about."""
    asked: dict[str, str] = {}
    for word, stem in zip(found := words(question), stems(found), strict=True):
        if _is_word(word) and word not in ABOUT_THE_TALK:
            asked.setdefault(stem, word)
    return asked


def says_enough(asked: Mapping[str, str]) -> bool:
    """Whether these words find what is asked about without others that mean about the same.

    The more words a question has, the more a text that matters has in common with it, and the more
    often another word that is near one of them is so by chance.

    Examples:
        >>> says_enough(asked_words("What vehicle did Ann purchase?"))
        False
        >>> says_enough(
        ...     asked_words("How do tests, forms, caching, login, charts, fonts and menus fit?")
        ... )
        True
    """
    return len(asked) > ENOUGH


def has_vectors() -> bool:
    """Whether the package that carries the vectors is installed."""
    return find_spec("wordllama") is not None


@lru_cache(maxsize=1)
def soft_vectors() -> SoftVectors:
    """Return the vectors of the installed package, read once.

    Raises:
        ConfigurationError: when the package is not installed, or its files are elsewhere.
    """
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise ConfigurationError(f"Soft words need vectors. {_HINT}")
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    home = Path(next(iter(found.submodule_search_locations)))
    weights = home / "weights" / "l2_supercat_256.safetensors"
    tokenizer = home / "tokenizers" / "l2_supercat_tokenizer_config.json"
    if not (weights.is_file() and tokenizer.is_file()):
        raise ConfigurationError(f"wordllama is installed without its files. {_HINT}")
    (vectors,) = load_file(weights).values()
    return SoftVectors(vectors, Tokenizer.from_file(str(tokenizer)))


def _is_word(word: str) -> bool:
    """Numbers are near all numbers, empty words near all empty words, identifiers near anything."""
    return len(word) > 2 and word.isalpha() and word not in STOPWORDS
