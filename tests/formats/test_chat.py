"""Chat Completions: the common case is read in one go, and as it would be with care."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from history_curator.formats import DictFormat
from history_curator.formats import openai_chat as _chat
from history_curator.formats.base import Reading

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
FIELDS: dict[str, list[Any]] = {
    "role": ["user", "system", "assistant", "tool"],
    "content": ["hi", ""],
    "name": [..., None, "ada"],
    "tool_call_id": [..., None, "c1"],
    "tool_calls": [..., None, [], [CALL], [CALL, {**CALL, "id": "c2"}]],
}
MESSAGES = [
    {key: value for key, value in zip(FIELDS, values, strict=True) if value is not ...}
    for values in product(*FIELDS.values())
]


def test_the_common_case_is_read_as_it_would_be_with_care() -> None:
    common = 0
    for message in MESSAGES:
        plain = _chat.read_plain(message, 3)
        if plain is not None:
            reading = Reading(3)
            careful = _chat.read_message(message, _chat.read_role(message, reading), reading)
            assert plain == careful, message
            assert (plain.source, plain.repairs) == (careful.source, careful.repairs), message
            common += 1
    assert common > len(MESSAGES) / 2


@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_only_the_assistant_calls(role: str) -> None:
    message = {"role": role, "content": "hi", "tool_calls": [CALL]}
    assert DictFormat().read(message, 0)[0].tool_calls is None


@pytest.mark.parametrize("value", [float("nan"), [{"deep": float("inf")}]])
def test_a_number_that_json_has_no_words_for_is_reported_also_where_it_is_not_sent(
    value: Any,
) -> None:
    (entry,) = DictFormat().read({"role": "user", "content": "hi", "score": value}, 0)
    assert entry.repairs == "metadata: NaN or Infinity, which JSON has no words for"
    (other,) = DictFormat().read({"role": "user", "content": "hi", "seen": {1: object()}}, 0)
    assert other.repairs is None, "it stays where it is"
