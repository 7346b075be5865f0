"""The vocabularies that the package splintr brings along, for machines without tiktoken's data.

Where tiktoken's data is at hand tiktoken counts: it lets other threads run meanwhile.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

Encode = Callable[[str], "list[int]"]

_PROBE = (
    "The quick brown fox, it's said, couldn't have compacted; they'd've WE'LL I'M he'S.",
    "Die Donaudampfschifffahrtsgesellschaft überraschte naïve Zuhörer. ¿Cuándo? “déjà vu”…",
    "Вчера вечером инженеры. اكتشف المهندسون ١٢٣٤. אתמול בערב. कल शाम १२३४ เมื่อวานเย็น ភាសាខ្មែរ",
    "昨天晚上工程师们发现冷却系统出现故障。昨夜、技術者たちは不具合を発見。어제 저녁 ＡＢＣ１２３",
    "👩‍👩‍👧‍👦 👍🏽 🇩🇪🇯🇵 e\u0301a\u0308\u0323 \u1100\u1161\u11a8 \U0001e5d0 \ua7cb\ua7da \U00031350",
    "def f(xs: list[int]) -> int:\n    '''Doc.'''\n\treturn sum(x**2 for x in xs if x != 0x1F)\r\n\r\n\n",
    "0 12 123 1234 12345 1,234.56 ½ ² Ⅷ 𝟘𝟙𝟚 <|endoftext|> <|im_start|> camelCaseHTTPServer2 ǅ ʰ ßẞ",
    "a" + " " * 300 + "b" + "\n" * 90 + "\t" * 70 + "c \n d\t\t e  \r\n" + " \n \n\n  \r\r\n " + "   ",
    *(f"a{space}b{space}{space}C1{space} \n{space}" for space in "\x0b\x1c\x85\xa0\u180e\u2028\u3000"),
)  # fmt: skip
_DIGESTS = {
    "cl100k_base": "cc4bf681f239392a1a9c15f118bd26b60446c8d9f28bbeeba216775e3debf3a6",
    "o200k_base": "4dd1e4d5ce7fbf2c7248d6b92a63b3a8a62a0777b9a4b1530be3b780b6745e14",
}
"""SHA-256 of tiktoken's tokens of the probe."""


def load_bundled(encoding: str) -> Encode | None:
    """Return a function from text to tiktoken's tokens; None where splintr cannot give them.

    The tokens are tiktoken's, but for ``'ſ`` (U+017F), which tiktoken takes for a contraction:
    a text that holds it counts a token too many for each.
    """
    name = "o200k_base" if encoding == "o200k_harmony" else encoding
    if name not in _DIGESTS:
        return None
    try:
        import splintr

        encode = _tolerant(splintr.Tokenizer.from_pretrained(name).encode_ordinary)
        return encode if fingerprint(encode) == _DIGESTS[name] else None
    except BaseException as error:  # A panic of the Rust side is a BaseException of its own.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            return None
        raise


def fingerprint(encode: Encode) -> str:
    """Return the SHA-256 of the tokens of the probe."""
    return hashlib.sha256(json.dumps([list(encode(text)) for text in _PROBE]).encode()).hexdigest()


def _tolerant(fast: Encode) -> Encode:
    def encode(text: str) -> list[int]:
        try:
            tokens = fast(text)
        except UnicodeEncodeError:  # Lone surrogates; tiktoken replaces them, too.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            tokens = fast(text)
        return tokens + [0] * text.count("'\u017f") if "'\u017f" in text else tokens

    return encode
