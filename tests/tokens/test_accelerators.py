from __future__ import annotations

import builtins
import copy
import json
import pickle
import random
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import example, given
from hypothesis import strategies as st

from history_curator import Curator
from history_curator.errors import ConfigurationError
from history_curator.tokens import TiktokenCounter
from history_curator.tokens import _accelerators as accelerators
from history_curator.tokens import _encodings as encodings
from tests.support import data
from tests.support.messages import exchange, system, user
from tests.tokens.samples import SAMPLES

ENCODINGS = ("cl100k_base", "o200k_base")
EXACT = "cl100k_base"
"""The encoding the pinned accelerator has no known difference in, so that it needs no tiktoken."""


SURROGATES = ("\ud800", "a \udfff b", "\udc00\ud800", "\ud83d" + "\ude00", "é\ud800" * 9)


@pytest.fixture
def _splintr() -> None:
    pytest.importorskip("splintr", reason='the accelerator is absent: pip install "splintr-rs"')


@pytest.fixture
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No accelerator is loaded yet, and none will be for the tests after this one."""
    monkeypatch.setattr(accelerators, "_loaded", {})
    monkeypatch.setattr(accelerators, "check_accelerator", lambda *_: None)


def reference(name: str) -> tiktoken.Encoding:
    loaded = encodings.load_encoding(name)
    if loaded is None:
        pytest.skip(f"{name} is not available offline")
    return loaded


def accelerated(name: str) -> TiktokenCounter:
    """A counter with the accelerator, loaded; that it may be refused is not a test's concern."""
    counter = TiktokenCounter(name, accelerator="splintr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert counter.exact
    return counter


def load(name: str) -> tuple[accelerators.Encode | None, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encode = accelerators.load_accelerated("splintr", name)
    return encode, [str(warning.message) for warning in caught]


def pretend(monkeypatch: pytest.MonkeyPatch, encode: accelerators.Encode) -> None:
    monkeypatch.setattr(accelerators, "_build", lambda _: encode)


@pytest.fixture
def _nothing_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("touched the network")

    monkeypatch.setattr(encodings, "_loaded", {})
    monkeypatch.setattr(encodings, "_cache_folders", lambda: iter([tmp_path]))
    monkeypatch.setattr(encodings, "_download", refuse)


_LETTERS = st.characters(categories=["L", "M", "N"])
_ANYTHING = st.characters(exclude_categories=["Cs"])
_RUNS = st.builds(
    str.__mul__,
    st.sampled_from(
        [*" \t\n\r\xa0\u180e\u2028\u3000", "\r\n", " \n", "é", "漢", "a", "A", "7", "!"]
    ),
    st.integers(1, 80),
)
_WORDS = st.sampled_from(
    [
        *("'s", "'S", "'ll", "'VE", "'\u017f", "'deal", "don't", "HTTPServer", "snake_case", "1234567"),
        *("<|endoftext|>", "<|im_start|>", '{"a": [1, null]}', "e\u0301", "👩‍👩‍👧", "كتاب", "漢字", "//\n", "};\n"),
    ]
)  # fmt: skip
TEXTS = st.one_of(
    st.text(_ANYTHING),
    st.text(_LETTERS),
    st.lists(
        st.one_of(_RUNS, _WORDS, st.text(_ANYTHING, max_size=4), st.text(_LETTERS, max_size=8)),
        max_size=20,
    ).map("".join),
)


@pytest.mark.usefixtures("_splintr")
class TestParity:
    @pytest.mark.parametrize("name", ENCODINGS)
    @given(text=TEXTS)
    @example(text="a'\u017f'deal")
    @example(text="1\xa0\u180e\u180e\u2007x")
    def test_counts_what_tiktoken_counts(self, name: str, text: str) -> None:
        assert accelerated(name).measure(text) == len(reference(name).encode_ordinary(text))

    @pytest.mark.parametrize("name", ENCODINGS)
    @given(text=TEXTS)
    def test_the_tokens_are_the_same(self, name: str, text: str) -> None:
        encode, _ = load(name)
        assert encode is not None
        assert encode(text) == reference(name).encode_ordinary(text)

    @pytest.mark.parametrize("name", ENCODINGS)
    @pytest.mark.parametrize("sample", SAMPLES)
    def test_every_kind_of_text(self, name: str, sample: str) -> None:
        text = SAMPLES[sample]
        assert accelerated(name).count(text) == len(reference(name).encode_ordinary(text))

    @pytest.mark.data
    @pytest.mark.parametrize("name", ENCODINGS)
    @pytest.mark.parametrize("file", data.FILES)
    def test_real_conversations(self, name: str, file: str) -> None:
        encode = reference(name).encode_ordinary
        counter = accelerated(name)
        texts = list(dict.fromkeys(_strings(data.load(file))))
        random.Random(4).shuffle(texts)
        checked = 0
        for text in texts:
            piece = text[:30_000]
            assert counter.measure(piece) == len(encode(piece)), piece[:200]
            checked += len(piece)
            if checked > 300_000:
                break
        assert checked


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _strings(item)


class TestTheCheck:
    @pytest.mark.parametrize("name", accelerators.FINGERPRINTS)
    def test_the_fingerprint_is_that_of_tiktoken(self, name: str) -> None:
        encode = reference(name).encode_ordinary
        assert accelerators.fingerprint(encode) == accelerators.FINGERPRINTS[name]

    @pytest.mark.usefixtures("_fresh")
    def test_who_agrees_is_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        encoding = reference(EXACT)
        pretend(monkeypatch, encoding.encode_ordinary)
        encode, said = load(EXACT)
        assert encode is not None
        assert said == []

    @pytest.mark.usefixtures("_fresh")
    @pytest.mark.parametrize("index", range(1, len(accelerators.CORPUS), 9))
    def test_who_differs_in_one_text_is_not(
        self, monkeypatch: pytest.MonkeyPatch, index: int
    ) -> None:
        encoding = reference(EXACT)
        text = accelerators.CORPUS[index]

        def lie(asked: str) -> list[int]:
            tokens = encoding.encode_ordinary(asked)
            return [*tokens[:-1], tokens[-1] + 1] if asked == text else tokens

        pretend(monkeypatch, lie)
        counter = TiktokenCounter(EXACT, accelerator="splintr")
        with pytest.warns(RuntimeWarning, match=r"differs from tiktoken.*Fix"):
            assert counter.count(text) == len(encoding.encode_ordinary(text))
        assert load(EXACT) == (None, [])
        assert counter.exact
        assert not counter.accelerated

    @pytest.mark.usefixtures("_fresh")
    def test_who_takes_special_tokens_for_special_is_not_used(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encoding = reference(EXACT)
        pretend(monkeypatch, lambda text: encoding.encode(text, allowed_special="all"))
        assert load(EXACT)[0] is None

    @pytest.mark.usefixtures("_fresh")
    @pytest.mark.parametrize("base", [RuntimeError, BaseException])
    def test_who_fails_is_not_used(
        self, monkeypatch: pytest.MonkeyPatch, base: type[BaseException]
    ) -> None:
        panic = type("PanicException", (base,), {})

        def fail(text: str) -> list[int]:
            raise panic("no such vocabulary")

        pretend(monkeypatch, fail)
        counter = TiktokenCounter(EXACT, accelerator="splintr")
        with pytest.warns(RuntimeWarning, match="no such vocabulary"):
            assert counter.count("hello") == len(reference(EXACT).encode_ordinary("hello"))

    @pytest.mark.usefixtures("_fresh", "_splintr")
    @pytest.mark.parametrize("name", accelerators.FINGERPRINTS)
    def test_the_installed_one_is_used_just_where_it_agrees(self, name: str) -> None:
        mine, theirs = accelerators._build(name), reference(name).encode_ordinary
        odd = accelerators.READS_OTHERWISE.get(name, "\0\0")
        agrees = all(mine(text) == theirs(text) for text in accelerators.CORPUS if odd not in text)
        encode, said = load(name)
        assert (encode is not None) == agrees
        assert len(said) == (not agrees)

    @pytest.mark.usefixtures("_splintr")
    @pytest.mark.parametrize("name", ENCODINGS)
    def test_the_pinned_one_is_used(self, name: str) -> None:
        assert accelerated(name).accelerated
        assert not TiktokenCounter(name).accelerated

    @pytest.mark.usefixtures("_fresh")
    def test_what_is_read_otherwise_is_left_to_tiktoken(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encoding, asked = reference("o200k_base"), []

        def noting(text: str) -> list[int]:
            asked.append(text)
            return encoding.encode_ordinary(text)

        pretend(monkeypatch, noting)
        counter = TiktokenCounter("o200k_base", accelerator="splintr")
        assert counter.accelerated
        asked.clear()
        assert counter.count("plain") == len(encoding.encode_ordinary("plain"))
        assert counter.count("a'\u017f'deal") == len(encoding.encode_ordinary("a'\u017f'deal"))
        assert asked == ["plain"]


@pytest.mark.usefixtures("_fresh", "_nothing_cached")
class TestWithoutTiktokensData:
    @pytest.mark.usefixtures("_splintr")
    def test_counts_are_exact_and_nothing_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        counter = TiktokenCounter(EXACT, accelerator="splintr")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            counts = [
                counter.count(text) for text in ("hello world", "x \ud83d y \udc00", "\ud83d\ude00")
            ]
        assert counter.exact
        assert counter.accelerated
        monkeypatch.undo()
        encode = reference(EXACT).encode_ordinary
        assert counts == [len(encode(text)) for text in ("hello world", "x \ud83d y \udc00", "😀")]

    def test_an_encoding_that_needs_tiktoken_beside_it_is_loaded(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []
        ranks = {bytes([byte]): byte for byte in range(256)}
        encoding = tiktoken.Encoding("tiny", pat_str=".", mergeable_ranks=ranks, special_tokens={})

        def load_encoding(name: str) -> tiktoken.Encoding:
            asked.append(name)
            return encoding

        monkeypatch.setattr(encodings, "load_encoding", load_encoding)
        assert accelerators._reference("o200k_base") is encoding
        assert accelerators._reference("cl100k_base") is None
        assert asked == ["o200k_base"]

    def test_who_does_not_match_the_fingerprint_is_not_used(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(encodings.ALLOW_DOWNLOAD, "0")
        pretend(monkeypatch, lambda text: list(text.encode("utf-8", "replace")))
        counter = TiktokenCounter(EXACT, accelerator="splintr")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert counter.count("hello world") >= 2
        assert not counter.exact
        assert len(caught) == 2


class TestHostileTexts:
    @pytest.mark.usefixtures("_splintr")
    @pytest.mark.parametrize("name", ENCODINGS)
    @pytest.mark.parametrize("text", SURROGATES, ids=ascii)
    def test_surrogates_count_as_with_tiktoken(self, name: str, text: str) -> None:
        assert accelerated(name).count(text) == TiktokenCounter(name).count(text)

    @pytest.mark.usefixtures("_splintr")
    @pytest.mark.parametrize("char", [" ", "\t", "\n", "A", "漢"])
    def test_long_runs_count_as_with_tiktoken(self, char: str) -> None:
        text = char * 100_001
        assert accelerated(EXACT).count(text) == TiktokenCounter(EXACT).count(text)

    @pytest.mark.usefixtures("_fresh")
    def test_a_panic_is_counted_by_tiktoken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class PanicException(BaseException):
            pass

        encoding = reference(EXACT)

        def panic(text: str) -> list[int]:
            if text == "boom and bust":
                raise PanicException
            return encoding.encode_ordinary(text)

        pretend(monkeypatch, panic)
        counter = TiktokenCounter(EXACT, accelerator="splintr")
        assert counter.accelerated
        assert counter.count("boom and bust") == len(encoding.encode_ordinary("boom and bust"))

    @pytest.mark.usefixtures("_fresh")
    def test_an_interrupt_passes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        encoding = reference(EXACT)

        def interrupt(text: str) -> list[int]:
            if text == "stop":
                raise KeyboardInterrupt
            return encoding.encode_ordinary(text)

        pretend(monkeypatch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            TiktokenCounter(EXACT, accelerator="splintr").count("stop")


class TestAskingForIt:
    @pytest.mark.usefixtures("_splintr")
    @pytest.mark.parametrize("spec", ["cl100k_base", "gpt-4", "gpt-4o", "o200k_base"])
    def test_name_and_equality_are_those_without_it(self, spec: str) -> None:
        counter = TiktokenCounter(spec, accelerator="splintr")
        assert counter.name == TiktokenCounter(spec).name
        assert counter == TiktokenCounter(spec)
        assert counter.accelerated

    @pytest.mark.usefixtures("_splintr")
    @pytest.mark.parametrize("duplicate", [copy.copy, lambda it: pickle.loads(pickle.dumps(it))])
    def test_survives_copies_and_pickles(self, duplicate: Any) -> None:
        counter = TiktokenCounter("gpt-4", accelerator="splintr", factor=1.5)
        counter.count("hello there")
        twin = duplicate(counter)
        assert (twin.accelerator, twin.accelerated, twin.name) == ("splintr", True, counter.name)
        assert twin.count("hello there") == counter.count("hello there")
        assert pickle.loads(pickle.dumps(TiktokenCounter("gpt-4"))).accelerator is None

    def test_an_unknown_accelerator(self) -> None:
        with pytest.raises(ConfigurationError, match=r"accelerator: 'warp'.*'splintr'.*Fix"):
            TiktokenCounter("cl100k_base", accelerator="warp")

    @pytest.mark.parametrize("name", ["r50k_base", "p50k_edit"])
    def test_an_encoding_it_does_not_have(self, name: str) -> None:
        with pytest.raises(ConfigurationError, match=rf"{name}.*cl100k_base.*Fix"):
            TiktokenCounter(name, accelerator="splintr")

    def test_a_missing_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = builtins.__import__

        def without(name: str, *args: Any, **extra: Any) -> Any:
            if name == "splintr":
                raise ImportError("No module named 'splintr'")
            return real(name, *args, **extra)

        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(ConfigurationError, match=r'pip install "history-curator\[fast\]"'):
            TiktokenCounter("cl100k_base", accelerator="splintr")

    def test_nothing_is_imported_unless_asked(self) -> None:
        import subprocess
        import sys

        code = (
            "import sys; from history_curator.tokens import TiktokenCounter as T; "
            "T('cl100k_base').count('hi'); assert 'splintr' not in sys.modules; "
            "assert 'history_curator.tokens._accelerators' not in sys.modules"
        )
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


@pytest.mark.usefixtures("_splintr")
@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("budget", [120, 400, 900])
def test_views_are_the_same(name: str, budget: int) -> None:
    messages = [system(SAMPLES["english"])]
    for number, text in enumerate(SAMPLES.values()):
        messages += [user(f"{number}: a'\u017f'deal"), *exchange(f"c{number}", text=text[:400])]
    messages.append(user("and now?"))
    views = [
        Curator(max_tokens=budget, counter=counter).curate(messages)
        for counter in (TiktokenCounter(name), accelerated(name))
    ]
    assert json.dumps(views[0].messages) == json.dumps(views[1].messages)
    assert views[0].tokens == views[1].tokens <= budget
    assert views[0].report.to_dict() == views[1].report.to_dict()
