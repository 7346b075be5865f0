"""P11: half a character, which no client can encode, never leaves."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from history_curator import Curator, check_conversation, count_tokens
from history_curator.rules import PROVIDERS
from history_curator.rules.content import MessagesAreWellFormed
from tests.support.messages import assistant, call, entries, result, user

USE = {"type": "tool_use", "id": "abcdefgh1", "name": "look"}
PLACES: dict[str, Any] = {
    "content": lambda text: [user(text)],
    "blocks": lambda text: [user([{"type": "text", "text": text}, {"type": "text", "text": "b"}])],
    "author": lambda text: [user("a", name=text)],
    "key": lambda text: [user([{"type": "text", "text": "a", text: 1}])],
    "result": lambda text: [user("a"), call("abcdefgh1"), result("abcdefgh1", text)],
    "thoughts": lambda text: [user("a"), assistant("b", reasoning_content=text), user("c")],
    "input": lambda text: [
        user("a"),
        assistant([{**USE, "input": {"a": text}}]),
        user([{"type": "tool_result", "tool_use_id": "abcdefgh1", "content": text}]),
    ],
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("place", PLACES)
def test_half_a_character_is_found_and_the_view_can_be_encoded(provider: str, place: str) -> None:
    record = PLACES[place]("caf\udce9")
    before = copy.deepcopy(record)
    assert "P11" in [found.rule for found in check_conversation(record, provider)]
    curator = Curator(max_tokens=1_000, provider=provider)
    curation = curator.curate(record)
    json.dumps(curation.messages, ensure_ascii=False).encode()
    assert check_conversation(curation.messages, provider) == []
    assert curation.messages == curator.curate(PLACES[place]("caf\ufffd")).messages
    if provider == "core":
        assert curation.report.tokens == count_tokens(curation.messages)
    assert record == before


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a\ud800b\udc00c", "a\ufffdb\ufffdc"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("\ufeff\ud800", "\ufeff\ufffd"),
        ("\ud83d\ude00 \ud83d", "\U0001f600 \ufffd"),
    ],
)
def test_each_half_is_replaced_unless_the_other_follows(given: str, expected: str) -> None:
    rule = MessagesAreWellFormed()
    repaired = rule.repair(entries([user(given, unknown=1)]))
    assert (repaired[0].content, repaired[0].action) == (expected, "repaired")
    assert rule.find(repaired) == []


def test_whole_characters_are_left_alone() -> None:
    given = entries(PLACES["blocks"]("café \U0001f600 \ufffd"))
    assert MessagesAreWellFormed().find(given) == []
