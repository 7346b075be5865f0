"""Any value in any place of any format: a view that JSON carries, or an error of ours."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import pytest

from history_curator import Curator, check_conversation, count_tokens
from history_curator.errors import ConversionError, HistoryCuratorError
from history_curator.rules import repair_conversation
from tests.wire.blocks import ASKED, CALL, CONVERSED, OUTPUT, SAID, USER, says, use, user

ODD = {
    "null": None,
    "number": 7,
    "true": True,
    "nan": float("nan"),
    "infinity": [float("inf")],
    "blank": " ",
    "list": [],
    "object": {},
    "numbers": [1],
    "untyped": [{"text": "u"}],
    "bytes": b"\xff",
    "set": {1},
    "surrogate": "\ud800",
    "date": {"day": date(2026, 1, 1)},
    "decimal": Decimal("1.5"),
    "keys": {1: 2, None: 3},
    "tuples as keys": {(1, 2): 3},
}


def said(**fields):
    return [USER, {"role": "assistant", "content": "x", **fields}]


def called(**fields):
    body = {"name": "f", "arguments": "{}"}
    call = {"id": "c1", "type": "function", "function": body, **fields}
    return [USER, {"role": "assistant", "content": None, "tool_calls": [call]}]


def spoken(block):
    return [USER, says(block)]


PLACES = {
    "role": lambda odd: [{"role": odd, "content": "x"}],
    "content": lambda odd: [user(odd)],
    "name": lambda odd: [{**USER, "name": odd}],
    "metadata": lambda odd: [{**USER, "at": odd}],
    "annotations": lambda odd: said(annotations=[odd]),
    "reasoning": lambda odd: said(reasoning=odd),
    "reasoning content": lambda odd: said(reasoning_content=odd),
    "thinking blocks": lambda odd: said(thinking_blocks=[{"type": "thinking", "thinking": odd}]),
    "image": lambda odd: [user([{"type": "image_url", "image_url": odd}])],
    "arguments": lambda odd: called(function={"name": "f", "arguments": odd}),
    "beside a call": lambda odd: called(note=odd),
    "answered call": lambda odd: [*called(), {"role": "tool", "tool_call_id": odd, "content": "1"}],
    "result": lambda odd: [*called(), {"role": "tool", "tool_call_id": "c1", "content": odd}],
    "input": lambda odd: spoken(use(input={"a": odd})),
    "server input": lambda odd: spoken(use(type="server_tool_use", input=odd)),
    "document": lambda odd: [user([{"type": "document", "source": odd}])],
    "item": lambda odd: [USER, CALL | {"arguments": odd}, OUTPUT | {"output": odd}],
    "message": lambda odd: [{"type": "message", "role": "user", "content": odd}, USER, SAID],
    "action": lambda odd: [USER, {"type": "computer_call", "call_id": "c1", "action": {"x": odd}}],
    "program": lambda odd: [USER, {"type": "program", "call_id": odd}],
    "summary": lambda odd: [USER, {"type": "reasoning", "id": "rs_1", "summary": odd}, SAID],
    "compaction": lambda odd: [{"type": "compaction", "encrypted_content": odd}, USER],
    "args": lambda odd: [
        ASKED,
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": odd}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"a": odd}}}]},
    ],
    "part": lambda odd: [{"role": "user", "parts": [{"inlineData": odd}, {"x": odd}]}],
    "tool use": lambda odd: [
        CONVERSED,
        says({"toolUse": {"toolUseId": odd, "name": "f"}}),
        user([{"toolResult": {"toolUseId": "t", "content": [odd]}}]),
    ],
    "cache point": lambda odd: [user([{"text": "x"}, {"cachePoint": odd}])],
}


def as_bytes(value):
    assert isinstance(value, bytes), f"JSON has no words for {value!r}"
    return ""


@pytest.mark.parametrize("provider", ["core", "openai-responses"])
@pytest.mark.parametrize("place", PLACES)
def test_any_value_in_any_place(place, provider):
    for name, odd in ODD.items():
        given = PLACES[place](odd)
        for run in (check_conversation, repair_conversation):
            try:
                view = run(given, provider)
            except HistoryCuratorError:
                continue
            if run is repair_conversation:
                json.dumps(view, allow_nan=False, default=as_bytes)
                again = Curator(provider=provider).curate(view)
                assert again.tokens == count_tokens(view), name


@pytest.mark.parametrize(
    "odd",
    [date(2026, 1, 1), Decimal("1.5"), float("inf"), {(1, 2): 3}, {1}, 10**5_000],
    ids=["date", "decimal", "infinity", "keys", "set", "number"],
)
def test_what_json_cannot_carry_is_an_error_that_names_it(odd):
    (asked,) = spoken(use(input={"a": odd}))[1:]
    with pytest.raises(ConversionError, match=r"messages\[1\]\.content\[0\].* Fix: make it a"):
        check_conversation([USER, asked], "anthropic")


@pytest.mark.parametrize(
    "asked",
    [USER, ASKED, CONVERSED, {"type": "message", **USER}],
    ids=["dicts", "gemini", "bedrock", "responses"],
)
@pytest.mark.parametrize(("odd", "name"), [(None, "NoneType"), (7, "int")])
def test_what_is_no_message_is_an_error_that_names_it_and_not_left_out(asked, odd, name):
    with pytest.raises(ConversionError, match=rf"messages\[1\]: expected a mapping, got {name}"):
        check_conversation([asked, odd, asked])


@pytest.mark.parametrize(("odd", "what"), [(7, "an int"), ([], "a list"), (None, "a NoneType")])
def test_an_error_says_what_a_value_is(odd, what):
    with pytest.raises(ConversionError, match=rf"content\[0\]: it is {what}\."):
        check_conversation([USER, user([odd, "x"])])
