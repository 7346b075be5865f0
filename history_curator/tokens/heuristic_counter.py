"""Estimates without a tokenizer: words by their pairs of letters, other scripts by the letter."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from string import ascii_lowercase
from unicodedata import normalize

from history_curator.tokens.base import MessageCounter

# The shape of a modern pre-tokenizer: words (the space before them is part of them), groups of three
# digits, punctuation with the newlines after it, whitespace, control characters, other scripts.
_LOWER, _UPPER = "a-z\u00df-\u00f6\u00f8-\u017f\u1ea0-\u1ef9", "A-Z\u00c0-\u00d6\u00d8-\u00de"
_PIECE = re.compile(
    rf" ?[{_UPPER}]?[{_LOWER}]+(?:'(?:[stmd]|re|ve|ll)\b)?| ?[{_UPPER}]+|[0-9]{{1,3}}| ?[!-/:-@\[-`{{-~]+[\r\n]*"
    r"|(?! [^\x00-\x7f])[ \t\r\n\f\v]+|[\x00-\x1f\x7f]"
    rf"| ?(?:(?![{_UPPER}{_LOWER}])[^\x00-\x7f])+"
)
_WORD = re.compile(rf" ?[{_UPPER}{_LOWER}]+(?:'[a-z]+)?")
_WHOLE_SIGNS = "→’‘“”—–…•│─├└✓✅°·"

# Tenths of a token that a lower-case letter costs after another one, a row of 26 for each letter:
# fitted to words of conversations and of code, and to random ones.
_LATIN_TENTHS = (
    "7110952626301092701033560616661766245058078245157636173607702703470761401778371574065706747"
    "7267427357737260023275750108340007340371676117606635817645216862637881841278565389336378636"
    "1696076716765507856136762725110308975120016310839562477637675566773767573866585776166728566"
    "5668826667649076307871862790798332577080485078827753722694646873818211306154564257800248736"
    "4432752636210012703103054708750773367068027031267637768789977994679847670866590751064709252"
    "4087421356707383816821836672378001769381867079109855825911317760932232629387011828000778766"
    "1797087807778838668777765707650864266564069546755547575756973997687598757795477998699979977"
    "667994589997837771867586667779787587644"
)
_PAIRS = [first + second for first in ascii_lowercase for second in ascii_lowercase]
_LATIN = {pair: int(tenths) / 10 for pair, tenths in zip(_PAIRS, _LATIN_TENTHS, strict=True)}
# Code point:hundredths of a token that a letter costs from there on: half as much again as in prose
# measured with o200k_base; where there was no prose, as among random letters.
_SCRIPTS = (
    "80:200 A0:130 180:220 370:80 400:50 530:60 590:70 600:60 700:250 900:70 E00:70 E80:220 "
    "1000:90 10A0:70 1100:230 1200:260 1380:320 1780:100 1800:320 1E00:220 2000:130 2040:220 "
    "2340:300 2440:220 2500:90 2600:220 26C0:300 2700:220 27C0:300 2B00:220 2B40:300 3000:120 "
    "3100:240 4E00:110 A000:300 AC00:110 D7A4:300 FE00:220 FE10:300 FF00:170 FF40:220 10000:420 "
    "1F000:310 1F1E0:210 1F200:300 1F300:220 1F540:300 1F600:210 1F6C0:320 20000:420"
)
_STARTS = [int(row.partition(":")[0], 16) for row in _SCRIPTS.split()]
_COSTS = [int(row.partition(":")[2]) / 100 for row in _SCRIPTS.split()]


class HeuristicCounter(MessageCounter):
    """Counts without a tokenizer: no data to load, near the real count and seldom below it.

    Measured against o200k_base: conversations in English, with code and JSON, are 2 to 9 % over;
    encoded data and words of random Latin letters are at most 5 % under; prose in other scripts is
    up to twice as much as it is. The factor multiplies every count.

    Examples:
        >>> HeuristicCounter().count("hello world")
        3
    """

    def __init__(self, *, factor: float = 1.0) -> None:
        name = "heuristic" if factor == 1.0 else f"heuristic ×{factor:g}"
        super().__init__(name, factor=factor)

    def _count_text(self, text: str) -> int:
        return estimate_tokens(text)


def estimate_tokens(text: str) -> int:
    """Return an estimate of a text's tokens; see `HeuristicCounter`.

    A piece of ordinary text is most often one token. The more of a text looks drawn at random, the
    more of what its other pieces may cost beyond that is added.
    """
    total = unusual = usual_more = unusual_more = 0.0
    for piece, times in Counter(_PIECE.findall(text)).items():
        cost = _cost_piece(piece)
        total += times
        if cost > max(1.8, 0.36 * len(piece)) or (cost > 1.2 and not piece.isascii()):
            unusual += cost * times
            unusual_more += (cost - 1) * times
        else:
            usual_more += (cost - 1) * times
    randomness = 4 * unusual / max(1.0, total + usual_more + unusual_more)
    total += usual_more * min(1.0, 0.1 + randomness)
    total += unusual_more * min(1.0, 0.4 + randomness) + math.sqrt(unusual) * min(1.0, randomness)
    return math.ceil(total)


def _cost_piece(piece: str) -> float:
    if _WORD.fullmatch(piece):
        return _cost_word(piece)
    if piece[-1] > "\x7f":
        letters = piece.lstrip(" ")
        return 1.0 if letters in _WHOLE_SIGNS else max(1.0, sum(map(_cost_letter, letters)))
    if piece[-1].isdigit():
        return 1.0
    signs = piece.strip()
    if signs:  # repeated signs share tokens
        changes = sum(one != other for one, other in pairwise(signs))
        return 1.0 + 0.1 * (len(signs) > 1) + 0.67 * max(0.0, changes - 1 + len(signs) / 32)
    changes = sum(one != other for one, other in pairwise(piece))
    return 1.0 + len(piece) / 32 + (changes / 2 if changes > 2 else 0)


@lru_cache(maxsize=32_768)
def _cost_word(word: str) -> float:
    """Return the tokens of a word: the more unusual its pairs of letters, the more."""
    word = word.partition("'")[0]
    letters = [normalize("NFD", letter)[0] for letter in word.lower().lstrip()]
    accented = [letter for letter in word.lower() if letter > "\x7f"]
    accents = sum(0.6 if "\xdf" < letter < "\u0100" else 1.05 for letter in accented)
    letters = [letter if "a" <= letter <= "z" else "x" for letter in letters]
    inside = sum(_LATIN[first + second] for first, second in pairwise(letters))
    # Other languages build longer words than English, of pairs that are common in it.
    least = 0.45 * (len(letters) - 6)
    if len(letters) > 1 and word.isupper():
        return max(1.2, 0.95 + max(least, 1.25 * inside)) + accents
    is_title = word.lstrip()[0].isupper()
    inside *= 1.16 if is_title else 1.08
    first_letter = (0.65 if word[0] == " " else 0.8) + 0.2 * is_title
    return max(1.0, first_letter + max(least, inside)) + accents


@lru_cache(maxsize=8_192)
def _cost_letter(letter: str) -> float:
    return _COSTS[bisect_right(_STARTS, ord(letter)) - 1]
