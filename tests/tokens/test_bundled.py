"""The vocabularies that come with splintr give tiktoken's tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator.tokens import TiktokenCounter, _bundled
from history_curator.tokens import _encodings as encodings
from tests.tokens.samples import SAMPLES

pytest.importorskip("splintr", reason="splintr is not installed")

NAMES = ["cl100k_base", "o200k_base", "o200k_harmony"]


@pytest.fixture(scope="module", params=NAMES)
def both(request):
    slow, fast = encodings.load_encoding(request.param), _bundled.load_bundled(request.param)
    assert slow is not None
    assert fast is not None
    return slow, fast


class TestParity:
    def test_samples(self, both):
        slow, fast = both

        assert all(slow(text) == list(fast(text)) for text in SAMPLES.values())

    @given(st.text())
    def test_any_text(self, both, text):
        slow, fast = both

        if "'\u017f" in text:
            assert len(slow(text)) <= len(fast(text))
        else:
            assert slow(text) == list(fast(text))

    def test_lone_surrogates(self, both):
        slow, fast = both

        assert slow("a\ud800b") == list(fast("a\ud800b"))


class TestUse:
    def test_counts_are_exact_without_tiktokens_data(self, tmp_path: Path, monkeypatch):
        tokens = TiktokenCounter("o200k_base").count("Exactly as many, offline.")
        monkeypatch.setattr(encodings, "_loaded", {})
        monkeypatch.setattr(encodings, "_cache_folders", lambda: iter([tmp_path]))
        monkeypatch.setenv(encodings.ALLOW_DOWNLOAD, "0")
        counter = TiktokenCounter("o200k_base")

        assert counter.count("Exactly as many, offline.") == tokens
        assert counter.exact
        assert counter.name == "o200k_base"

    def test_another_vocabulary_is_not_used(self, monkeypatch):
        monkeypatch.setattr(_bundled, "_PROBE", ("something else",))

        assert _bundled.load_bundled("o200k_base") is None

    def test_what_it_does_not_have(self):
        assert _bundled.load_bundled("r50k_base") is None
