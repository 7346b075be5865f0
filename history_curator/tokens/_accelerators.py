"""Faster tokenizers, used only where they give exactly the tokens of tiktoken."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from history_curator.errors import ConfigurationError
from history_curator.tokens import _encodings

if TYPE_CHECKING:
    import tiktoken

__all__ = [
    "ACCELERATORS",
    "CORPUS",
    "Encode",
    "check_accelerator",
    "fingerprint",
    "load_accelerated",
]

Encode = Callable[[str], "list[int]"]

ACCELERATORS = {"splintr": ("cl100k_base", "o200k_base", "o200k_harmony")}
"""Accelerator to the encodings it brings a vocabulary for."""

FINGERPRINTS = {
    "cl100k_base": "af6e348b1020cb22130f45e9ffc2d346ed745e84872cee33d98bbc4f2736273f",
    "o200k_base": "a8521c57912c99f0649f2cefafb82aac8f461c79695e641f53a23cbae76dad4a",
    "o200k_harmony": "a8521c57912c99f0649f2cefafb82aac8f461c79695e641f53a23cbae76dad4a",
}
"""SHA-256 of tiktoken's tokens of the corpus: the reference where its data is not at hand."""

READS_OTHERWISE = {"o200k_base": "\u017f", "o200k_harmony": "\u017f"}
"""A character that splintr reads otherwise than tiktoken, to which ``'\u017f`` is a contraction
like ``'s``: texts that hold it are encoded by tiktoken."""

_lock = threading.Lock()
_loaded: dict[tuple[str, str], Encode | None] = {}


def _sweep(start: int, stop: int, step: int) -> str:
    """Every so many code points, as part of a word, after a space, between capitals, in digits."""
    return "".join(f"a{chr(at)}b {chr(at)}{chr(at)}A{chr(at)}1" for at in range(start, stop, step))


_SUFFIXES = (
    "s",
    "S",
    "t",
    "T",
    "re",
    "Re",
    "VE",
    "m",
    "ll",
    "lL",
    "d",
    "D",
    "\u017f",
    "\u212a",
    "x",
)
_SPACES = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u180e\u2000\u2003\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"
_WORDS = ("deal", "Some", "verbose", "STOP", "é", "漢", "9", " ", "")

CORPUS: tuple[str, ...] = (
    "",
    " ",
    "The quick brown fox, it's said, couldn't have jumped; they'd've WE'LL I'M he'S.",
    "Die Donaudampfschifffahrtsgesellschaft überraschte naïve Zuhörer. ¿Cuándo? Œuvre — “déjà vu”…",
    "Wczoraj żółty pies; příliš žluťoučký kůň; öğrencilerin çoğu; chúng tôi đã gửi báo cáo.",
    "Вчера вечером инженеры обнаружили неисправность. Χθες το βράδυ οι μηχανικοί.",
    "اكتشف المهندسون عطلاً في نظام التبريد، ١٢٣٤. אתמול בערב גילו. مهندسان خنک‌کننده ۱۲۳",
    "कल शाम इंजीनियरों ने १२३४ খুঁজে পেয়েছেন நேற்று மாலை เมื่อวานเย็นวิศวกร ကနေ့ ភាសាខ្មែរ",
    "昨天晚上工程师们发现冷却系统出现故障。昨夜、技術者たちは不具合を発見。어제 저녁 기술자들이 ＡＢＣ１２３",
    "👩‍👩‍👧‍👦 👍🏽 🇩🇪🇯🇵 ❤️‍🔥 🏳️‍🌈 ✅⚠️ 1️⃣ \U0001fae8\U0001fadc",
    "e\u0301a\u0308\u0323 \u0301lone \u1100\u1161\u11a8 a\u20dd\u0489 Z\u0351\u036b\u0343 n\u0303\u0303\u0303o",
    "def f(xs: list[int]) -> int:\n    '''Doc.'''\n\treturn sum(x**2 for x in xs if x != 0x1F)  # ok\n\n\n",
    "const f = async <T,>(u: string) => { if (!r.ok) throw new HTTPError(`${u}?_ts=1`); };\r\n\r\n",
    "SELECT u.id, COUNT(*) FROM users u WHERE o.at >= '2024-01-01' GROUP BY 1;--\n</div>\n///\n//\\\\\n",
    json.dumps({"id": "3f9c-4d", "n": [1, -2.5e10, None, True], "t": "\n\t\u2028é", "x": {"y": {}}}),
    json.dumps([{"key": f"value {n}", "n": n**7} for n in range(12)], indent=2, ensure_ascii=False),
    '2024-05-03T12:04:55.123Z ERROR [w-7] o.a.k.C - failed\n  File "/srv/app.py", line 214, in f\n',
    "-rw-r--r--  1 deploy www-data   18231 May  3 11:58 ./node_modules/.cache/3f9c2d.json\n",
    "0 12 123 1234 12345 1234567890123456789012 1,234.56 0x00FF ½ ² Ⅷ ٣٤ 𝟘𝟙𝟚𝟛",
    "<|endoftext|> a<|endofprompt|>b <|fim_prefix|><|im_start|>user<|im_end|><|think|><|/think|>",
    "<|start|>assistant<|channel|>final<|message|>hi<|return|><|reserved_200014|><s></s>[INST]",
    "a" + " " * 300 + "b" + "\n" * 90 + "\t" * 70 + "c \n d\t\t e  \r\n" * 9 + " \n \n\n  \r\r\n " + "   ",
    "trailing  \n", "trailing \n  ", "\n\n  x", "x\r\n\r\n\r\ny", "  \t leading", "\u3000\u3000全角 \u00a0\u00a0nbsp",
    "camelCaseHTTPServer snake_case_NAME XMLHttpRequest2 ALLCAPSword ǅungla ʰʲ ªº ßẞ İıſK",
    "!!!???...---===***###@@@ $$%^&*()[]{}|\\/<>~`'\"“”‘’«»‹› ──││┌┐ ∀x∈ℝ→∞ ©®™\n\n",
    "".join(map(chr, range(0x100))),
    base64.b64encode(bytes(range(256)) * 4).decode(),
    bytes(range(256)).hex() + bytes(range(255, -1, -1)).hex().upper(),
    "supercalifragilisticexpialidocious" * 60 + "A" * 1_000 + "é" * 500 + "漢" * 300 + "!" * 400,
    # Letters, marks and digits that came late to Unicode.
    "\U00010570\U00010597 \U00011f04\U00011f50 \U00010d50\U00010d70 \U000105c0 \U0001e5d0 \U00016d40",
    "\ua7cb\ua7da\ua7dc \u0870\u1c89\u1c8a \U0001df25 \U00031350\U0002ebf0 \U0001e4d0\U0001e4f1",
    *(f"a'{suffix}'{word} I'{suffix}{word}" for suffix in _SUFFIXES for word in _WORDS),
    *(f"a{space}b{space}{space}C1{space} {space}\n{space}" for space in _SPACES),
    _sweep(0x80, 0x3400, 5),
    _sweep(0xA000, 0xAC00, 17),
    _sweep(0xF900, 0x10000, 13),
    _sweep(0x10000, 0x20000, 37),
    _sweep(0x3400, 0xA000, 499) + _sweep(0xAC00, 0xD7A4, 499) + _sweep(0x20000, 0x32400, 997),
)  # fmt: skip
"""Awkward texts of every kind; the same on every machine and Python."""


def check_accelerator(accelerator: str, encoding: str) -> None:
    """Refuse an accelerator that is unknown, not installed, or has no such encoding.

    Raises:
        ConfigurationError: saying which, and what to do.
    """
    encodings = ACCELERATORS.get(accelerator)
    if encodings is None:
        raise ConfigurationError(
            f"accelerator: {accelerator!r} is none of {', '.join(map(repr, ACCELERATORS))}. "
            "Fix: leave it out to count with tiktoken."
        )
    if encoding not in encodings:
        raise ConfigurationError(
            f"accelerator: {accelerator!r} has no {encoding!r}, only {', '.join(encodings)}. "
            "Fix: leave it out to count with tiktoken."
        )
    try:
        import splintr  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f"accelerator: {accelerator!r} cannot be imported ({error}). "
            'Fix: pip install "history-curator[fast]", or leave it out to count with tiktoken.'
        ) from error


def load_accelerated(accelerator: str, encoding: str) -> Encode | None:
    """Return a function from text to exactly tiktoken's tokens, or None (and warn, once).

    The accelerator has to agree on the whole corpus: with tiktoken itself where its data is at
    hand without a download, or counts some texts; with the fingerprint of its tokens elsewhere.
    """
    key = (accelerator, encoding)
    with _lock:
        if key in _loaded:
            return _loaded[key]
        reference = _reference(encoding)
        problem, fast = "", None
        try:
            fast = _guarded(_build(encoding), reference, encoding)
            problem = _difference(fast, reference, encoding)
        except BaseException as error:
            if not _is_failure(error):
                raise
            problem = f"fails ({type(error).__name__}: {str(error)[:200]})"
        usable = None if problem or fast is None else _tolerant(fast, reference)
        _loaded[key] = usable
    if problem:
        warnings.warn(
            f"The accelerator {accelerator!r} is not used for {encoding!r}: it {problem}. "
            "Counts are as exact as without it, only slower. Fix: leave accelerator out, or "
            "install a version of its package that agrees with tiktoken.",
            RuntimeWarning,
            stacklevel=2,
        )
    return usable


def fingerprint(encode: Encode) -> str:
    """Return the SHA-256 of the tokens of the corpus."""
    return hashlib.sha256(json.dumps([list(encode(text)) for text in CORPUS]).encode()).hexdigest()


def _build(encoding: str) -> Encode:
    import splintr

    return splintr.Tokenizer.from_pretrained(encoding).encode_ordinary


def _reference(encoding: str) -> tiktoken.Encoding | None:
    """Return tiktoken's encoding if it takes no download, or is needed beside the accelerator."""
    file, digest = _encodings.ENCODINGS[encoding]
    if (
        encoding not in READS_OTHERWISE
        and _encodings._loaded.get(encoding) is None
        and _encodings._find_cached(f"{_encodings._HOST}/{file}.tiktoken", digest) is None
    ):
        return None
    return _encodings.load_encoding(encoding)


def _difference(fast: Encode, reference: tiktoken.Encoding | None, encoding: str) -> str:
    """Return how the accelerator differs from tiktoken; empty if it does not."""
    if reference is None:
        same = fingerprint(fast) == FINGERPRINTS[encoding]
        return "" if same else "does not give the tokens tiktoken gives"
    text = _first_difference(fast, reference.encode_ordinary, CORPUS)
    return "" if text is None else f"differs from tiktoken on {text[:40]!a}"


def _first_difference(fast: Encode, slow: Encode, texts: Iterable[str]) -> str | None:
    return next((text for text in texts if list(fast(text)) != slow(text)), None)


def _guarded(fast: Encode, reference: tiktoken.Encoding | None, encoding: str) -> Encode:
    """Have texts with the one character that is read otherwise encoded by tiktoken."""
    odd = READS_OTHERWISE.get(encoding)
    if odd is None or reference is None:
        return fast
    slow = reference.encode_ordinary
    return lambda text: slow(text) if odd in text else fast(text)


def _tolerant(fast: Encode, reference: tiktoken.Encoding | None) -> Encode:
    """Have what the accelerator cannot take, such as lone surrogates, encoded by tiktoken."""
    slow = reference.encode_ordinary if reference is not None else lambda text: fast(_mend(text))

    def encode(text: str) -> list[int]:
        try:
            return fast(text)
        except BaseException as error:
            if not _is_failure(error):
                raise
            return slow(text)

    return encode


def _is_failure(error: BaseException) -> bool:
    # A panic of the Rust side is a BaseException of its own; interrupts and exits are not ours.
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _mend(text: str) -> str:
    """Replace lone surrogates the way tiktoken does."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
