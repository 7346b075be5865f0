"""A text with a marker in its middle is counted by its pieces, and the count is exact."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from history_curator import Curator, TiktokenCounter
from history_curator.model import ConversationEntry, MessageRole
from history_curator.tokens._encodings import load_encoding
from history_curator.tokens._pieces import spliceable
from tests.support.messages import call, result, user

_BITS = st.sampled_from(
    [
        *("word", "a", "Word's", "7", "1234", "(x)", ";", "…", "é", "漢字", "/", '"k":', "'s", "'"),
        *(" ", "  ", "   ", " \n", "\r\n", " \n ", "\n", "\n\n", "\t", "\u00a0"),
        *("e\u0301", "👍🏽", "٣", "\u017f"),
    ]
)
_TEXTS = st.lists(st.one_of(_BITS, st.just(" "), st.text(max_size=3)), max_size=60).map("".join)
_MARKERS = st.sampled_from(
    [
        "\n[… 5,000 characters in all, middle left out …]\n",
        "\n[…; recall r1 returns it …]\n",
        "\n.\n",
    ]
)


def entry(text: str) -> ConversationEntry:
    return ConversationEntry(MessageRole.TOOL, text, tool_call_id="c1", tool_name="look")


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
@given(before=_TEXTS, middle=_TEXTS, after=_TEXTS, marker=_MARKERS)
def test_pieces_add_up_to_what_tiktoken_counts(
    name: str, before: str, middle: str, after: str, marker: str
) -> None:
    text = before + middle + after
    cuts = spliceable(text, len(before), len(before + middle))
    if cuts is None:
        return
    start, end = cuts
    assert 0 < start <= len(before) <= len(before + middle) <= end < len(text)
    short = text[:start] + marker + text[end:]
    whole, copy, counter = entry(text), entry(text).evolve(content=short), TiktokenCounter(name)
    counter.splice(whole, copy, start, end, marker)
    encoding = load_encoding(name)
    assert encoding is not None
    overhead = counter.count_entry(entry("")) - len(encoding.encode_ordinary(""))
    assert counter.count_entry(copy) == overhead + len(encoding.encode_ordinary(short))
    assert counter.count_entry(whole) == overhead + len(encoding.encode_ordinary(text))


@given(before=_TEXTS, middle=_TEXTS, after=_TEXTS, marker=_MARKERS)
def test_the_oldest_encodings_split_texts_at_the_same_places(
    before: str, middle: str, after: str, marker: str
) -> None:
    split = regex.compile(openai_public.r50k_pat_str).findall
    text = before + middle + after
    cuts = spliceable(text, len(before), len(before + middle))
    if cuts is not None:
        head, hidden, tail = text[: cuts[0]], text[cuts[0] : cuts[1]], text[cuts[1] :]
        assert split(head + marker + tail) == split(head) + split(marker) + split(tail)
        assert split(text) == split(head) + split(hidden) + split(tail)


def test_a_text_without_a_word_to_cut_at_has_no_cuts() -> None:
    assert spliceable("x" * 2_000, 900, 1_100) is None
    assert spliceable("漢" * 2_000, 900, 1_100) is None
    assert spliceable("word " * 400, 900, 1_100) == (899, 1_104)


def test_the_same_count_whichever_is_asked_first() -> None:
    text = "def reader(path): return open(path).read()\n" * 60
    cuts = spliceable(text, 800, 1_700)
    assert cuts is not None
    marker = "\n[… left out …]\n"
    short = text[: cuts[0]] + marker + text[cuts[1] :]
    first, second = entry(text), entry(text)
    counter = TiktokenCounter("o200k_base")
    alone = counter.count_entry(first)
    counter.splice(second, second.evolve(content=short), *cuts, marker)
    counter.splice(first, first.evolve(content=short), *cuts, marker)
    assert counter.count_entry(first) == counter.count_entry(second) == alone
    # Another counter does not take the first one's pieces for its own.
    third = entry(text)
    counter.splice(third, third.evolve(content=short), *cuts, marker)
    other = TiktokenCounter("cl100k_base")
    assert other.count_entry(third) == other.count_entry(entry(text))


def test_a_result_that_is_shown_capped_and_in_full_is_tokenised_once() -> None:
    counter = TiktokenCounter("o200k_base")
    curator = Curator(max_tokens=4_000, counter=counter)
    history = [user("go")]
    for number in range(12):
        name = f"c{number}"
        history += [call(name), result(name, f"line {number} of the log is here\n" * 60)]
        curator.curate(history)
    capped = [each for each in curator.curate(history).messages if "left out" in str(each)]
    assert capped
    written = sum(len(message["content"] or "") for message in history)
    assert counter.characters < 1.4 * written
