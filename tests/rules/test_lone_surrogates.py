"""P11: half a character, which no client can encode, never leaves."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from history_curator import Curator, check_conversation, count_tokens
from history_curator.entries import Reasoning
from history_curator.rules import PROVIDERS, get_profile
from history_curator.rules.content import MessagesAreWellFormed
from tests.support.messages import assistant, call, entries, result, user

HALF = "caf\udce9"
MENDED = "caf\ufffd"


def asking(path: str) -> dict[str, Any]:
    message = call("abcdefgh1", name="look")
    arguments = json.dumps({"path": path}, ensure_ascii=False)
    message["tool_calls"][0]["function"]["arguments"] = arguments
    return message


PLACES: dict[str, Any] = {
    "content": lambda text: [user(text)],
    "blocks": lambda text: [user([{"type": "text", "text": text}, {"type": "text", "text": "b"}])],
    "author": lambda text: [user("a", name=text)],
    "arguments": lambda text: [user("a"), asking(text), result("abcdefgh1", "none")],
    "result": lambda text: [user("a"), call("abcdefgh1", name="look"), result("abcdefgh1", text)],
    "thoughts": lambda text: [user("a"), assistant("b", reasoning_content=text), user("c")],
    "input": lambda text: [
        user("a"),
        assistant([{"type": "tool_use", "id": "abcdefgh1", "name": "look", "input": {"a": text}}]),
        user([{"type": "tool_result", "tool_use_id": "abcdefgh1", "content": text}]),
    ],
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("place", PLACES)
def test_half_a_character_is_found_and_the_view_can_be_encoded(provider: str, place: str) -> None:
    record = PLACES[place](HALF)
    before = copy.deepcopy(record)
    assert "P11" in [found.rule for found in check_conversation(record, provider)]
    curation = Curator(max_tokens=1_000, provider=provider).curate(record)
    json.dumps(curation.messages, ensure_ascii=False).encode()
    assert check_conversation(curation.messages, provider) == []
    assert record == before


@pytest.mark.parametrize("place", PLACES)
def test_the_view_is_the_one_of_the_mended_record(place: str) -> None:
    view = Curator(max_tokens=1_000, provider="core").curate(PLACES[place](HALF))
    mended = Curator(max_tokens=1_000, provider="core").curate(PLACES[place](MENDED))
    assert view.messages == mended.messages
    assert view.report.tokens == mended.report.tokens == count_tokens(view.messages)


def test_a_mended_entry_says_so() -> None:
    (entry,) = get_profile("core").repair(entries([user(HALF)]))
    assert (entry.content, entry.action) == (MENDED, "repaired")
    assert "U+FFFD" in (entry.reason or "")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("\ud800", "\ufffd"),
        ("a\ud800b\udc00c", "a\ufffdb\ufffdc"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("\ufeff\ud800", "\ufeff\ufffd"),
        ("\ud83d\ude00 \ud83d", "\U0001f600 \ufffd"),
    ],
)
def test_each_half_is_replaced_unless_the_other_follows(given: str, expected: str) -> None:
    (entry,) = MessagesAreWellFormed().repair(entries([user(given)]))
    assert entry.content == expected


@pytest.mark.parametrize("place", PLACES)
def test_whole_characters_are_left_alone(place: str) -> None:
    given = entries(PLACES[place]("café \U0001f600 \ufffd"))
    assert MessagesAreWellFormed().find(given) == []
    repaired = MessagesAreWellFormed().repair(given)
    assert all(one is other for one, other in zip(repaired, given, strict=True))


def test_other_repairs_of_the_same_message_are_made_as_well() -> None:
    rule = MessagesAreWellFormed()
    repaired = rule.repair(entries([user(HALF, unknown=1)]))
    assert repaired[0].content == MENDED
    assert rule.find(repaired) == []


def test_a_signed_thought_is_left_as_it_is() -> None:
    (entry,) = entries([assistant("a")])
    signed = entry.evolve(reasoning=(Reasoning(HALF, "signature", {"type": "thinking"}),))
    assert MessagesAreWellFormed().repair([signed]) == [signed]
