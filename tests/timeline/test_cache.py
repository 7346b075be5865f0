"""Conversations seen before are found again, and take no more memory than they may."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from history_curator import Curator, HeuristicCounter
from tests.support.messages import assistant, call, result, user


def talk(name: str, length: int) -> list[dict[str, Any]]:
    """A conversation nobody else has."""
    said = [user(f"{name}: look at src/{name}.py")]
    for at in range(length):
        text = " ".join(f"{name}{at}/{word}.py" for word in range(40))
        said += [call(f"c{at}"), result(f"c{at}", text), assistant(f"{name} read {at}")]
    return [*said, user("and now?")]


def test_what_is_held_stays_below_the_bound() -> None:
    limit = 2 * 2**20
    curator = Curator(max_tokens=2_000, counter=HeuristicCounter(), cache_bytes=limit)
    curator.curate(talk("first", 12))
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(100):
            curator.curate(talk(f"t{number}", 12))
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(curator._conversations._held) < 100, "the bound was never reached"
    counted = sum(map(len, (curator.counter._recent, curator.counter._older)))  # type: ignore[attr-defined]
    assert held - 200 * counted < 1.5 * limit


def test_a_short_conversation_does_not_throw_out_a_longer_one_that_begins_alike() -> None:
    curator = Curator(max_tokens=8_000)
    long, short = talk("a", 1), [user("a: look at src/a.py")]
    curator.curate(long)
    held = len(curator._conversations._held)
    curator.curate(short)
    assert len(curator._conversations._held) == held + 1


def test_a_conversation_is_found_by_its_key_whatever_was_edited() -> None:
    curator, messages = Curator(max_tokens=8_000), talk("a", 6)
    curator.curate(messages, key="one")
    edited = [*messages[:4], assistant("something else"), *messages[5:]]
    curator.curate(edited, key="one")
    assert len(curator._conversations._held) == 1


def test_messages_decoded_anew_are_known() -> None:
    curator = Curator(max_tokens=8_000)
    curator.curate(talk("a", 6))
    before = entries_held(curator)
    curator.curate(talk("a", 6))
    assert entries_held(curator) == before


def test_a_text_beside_a_number_is_held_once() -> None:
    curator = Curator(max_tokens=1_000_000, counter=HeuristicCounter())
    curator.curate([user("hello")])
    said = [{**user("word " * 400_000), "usage": {"tokens": 7}}, user("and now?")]
    gc.collect()
    tracemalloc.start()
    try:
        curator.curate(said)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < len(said[0]["content"]) / 4, "what was read shares its text with what was given"


def test_what_is_forgotten_is_not_held_any_more() -> None:
    curator, messages = Curator(max_tokens=8_000), talk("a", 6)
    for at in range(5):
        curator.curate([*messages, user(f"{at} " + "word " * 1_000)], key="one")
    other = Curator(max_tokens=8_000)
    other.curate([*messages, user("4 " + "word " * 1_000)], key="one")
    assert curator._conversations._size == other._conversations._size


def entries_held(curator: Curator) -> list[int]:
    """Who the entries of the one conversation are that is held."""
    ((conversation, _),) = curator._conversations._held.values()
    return [id(entry) for entry in conversation.record.entries]


@pytest.mark.parametrize("place", ["image", "reasoning", "beside"])
def test_what_is_not_text_is_held_within_the_bound_as_well(place: str) -> None:
    limit = 2**20
    curator = Curator(max_tokens=1_000_000, counter=HeuristicCounter(), cache_bytes=limit)
    for number in range(8):
        data = f"{number}" * 300_000
        url = {"url": f"data:image/png;base64,{data}"}
        messages: list[dict[str, Any]] = {
            "image": [{"role": "user", "content": [{"type": "image_url", "image_url": url}]}],
            "reasoning": [user(f"why {number}?"), {**assistant("so"), "reasoning_content": data}],
            "beside": [{**user("why?"), "metadata": {"trace": [data]}}],
        }[place]
        curator.curate(messages)
        assert len(curator._conversations._held) <= 3
    curator.curate([*messages, user("another")])
    curator.curate([*messages[:-1], user("instead")])
    held = curator._conversations
    assert held._size == sum(each.size for each, _ in held._held.values()) <= limit
