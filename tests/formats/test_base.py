"""Every format: what a message says, its copies, deep values, and mappings that fail."""

from __future__ import annotations

import json
from collections import OrderedDict, UserList
from copy import deepcopy
from types import MappingProxyType
from typing import Any

import pytest

from history_curator import Curator, check_conversation
from history_curator.errors import ConversionError
from history_curator.formats import (
    BedrockFormat,
    DictFormat,
    GeminiFormat,
    ResponsesFormat,
    arguments_text,
    find_format,
    group_response_items,
    parse_json,
    parse_object,
    read_entries,
    ungroup_items,
)
from history_curator.rules import repair_conversation
from tests.wire.generators import FORMATS, draw

ALL = [DictFormat(), ResponsesFormat(), GeminiFormat(), BedrockFormat()]
WRITERS = {"chat": ALL[0], "anthropic": ALL[0]} | {each.name: each for each in ALL[1:]}


def nested(depth: int, opening: str = '{"a":', closing: str = "}") -> str:
    return opening * depth + "1" + closing * depth


class TestKeys:
    def test_numbers_of_other_types_give_other_keys_as_values_and_as_names(self):
        values = [1, 1.0, True, "1", None, [1], (1,), [1.0], {"a": 1}, {"a": True}]
        messages = [{field: value} for field in ("seen", "content") for value in values]
        messages += [{key: "x"} for key in (1, 1.0, True, "1")]
        assert len(set(map(DictFormat().key_of, messages))) == len(messages)

    @pytest.mark.parametrize("wire", FORMATS)
    def test_an_edit_in_place_gives_another_key_and_a_copy_the_same(self, wire):
        format = WRITERS[wire]
        for number in range(0, 60, 3):
            for message in group_response_items(draw(wire, number), format):
                key = format.key_of(message)
                assert format.key_of(format.snapshot(message)) == key
                single = message[0] if isinstance(message, tuple) else message
                single["new"] = {"deep": []}
                assert format.key_of(message) != key

    def test_a_value_that_json_cannot_carry_has_a_key(self):
        odd = {"role": "user", "content": object(), "x": {1, 2}}
        assert DictFormat().key_of(odd) == DictFormat().key_of(dict(odd))


@pytest.mark.parametrize("wire", FORMATS)
class TestWriting:
    def edits(self, wire):
        for number in range(0, 90, 3):
            messages = draw(wire, number)
            entries = read_entries(messages, WRITERS[wire])
            yield messages, entries, [each.evolve(content="edited") for each in entries]

    def test_an_edited_entry_shares_nothing_mutable_with_its_source(self, wire):
        for messages, entries, edited in self.edits(wire):
            before = deepcopy(messages)
            for message in ungroup_items(WRITERS[wire].write(edited)):
                for value in [message, *containers(message)]:
                    value.clear()
            assert messages == before
            assert read_entries(messages, WRITERS[wire]) == entries

    def test_untouched_entries_are_the_objects_they_came_from(self, wire):
        for messages, entries, _ in self.edits(wire):
            back = ungroup_items(WRITERS[wire].write(entries))
            assert [id(each) for each in back] == [id(each) for each in messages]


def containers(value: Any) -> list[Any]:
    items = value.values() if isinstance(value, dict) else value
    inside = [item for item in items if isinstance(item, (dict, list))]
    return [each for item in inside for each in (item, *containers(item))]


class TestDeepJson:
    @pytest.mark.parametrize("depth", [101, 500, 990, 1_000, 5_000, 100_000])
    @pytest.mark.parametrize("kind", [('{"a":', "}"), ("[", "]")], ids=["objects", "lists"])
    def test_it_is_malformed_at_any_depth_above_the_limit(self, depth, kind):
        with pytest.raises(ValueError, match="nested more than 100"):
            parse_json(nested(depth, *kind))
        assert parse_object(nested(depth, *kind)) is None

    @pytest.mark.parametrize(
        "text",
        [
            nested(100),
            nested(60, "[ ", ", {}]"),
            '{"a\\"[{": "]}", "b": [1, -2.5e3, true, null, "", [], {}], "a": "\\u00fc"}',
        ],
    )
    def test_it_is_read_up_to_the_limit(self, text):
        assert parse_json(text) == json.loads(text)

    def test_deep_arguments_that_are_no_text_are_an_error_of_ours(self):
        deep: Any = 1
        for _ in range(50_000):
            deep = [deep]
        with pytest.raises(ConversionError, match="nested more than"):
            arguments_text({"x": deep})
        while isinstance(deep, list):
            deep = deep.pop()


@pytest.mark.parametrize("format", ALL, ids=lambda each: each.name)
def test_a_mapping_that_fails_is_an_error_that_names_the_message(format):
    class Broken(dict[str, Any]):
        def items(self) -> Any:
            raise KeyError("out of order")

    key = "parts" if format.name == "gemini" else "content"
    block = {"type": "image", "text": "hi", "x": 1}
    for message in (Broken({"role": "user", key: [block]}), {"role": "user", key: [Broken(block)]}):
        with pytest.raises(ConversionError, match=r"messages\[3\].*cannot be read: KeyError"):
            format.read(message, 3)
        for use in (check_conversation, repair_conversation, Curator().curate):
            with pytest.raises(ConversionError, match="cannot be read: KeyError"):
                use([message], format=format)


def test_a_mapping_a_list_and_a_text_of_another_class_read_as_plain_ones():
    class Text(str):
        __slots__ = ()

    plain = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    odd = OrderedDict(role=Text("user"), content=UserList([MappingProxyType(plain["content"][0])]))
    odd["content"] = tuple(odd["content"])
    for message in (odd, MappingProxyType(odd)):
        (entry,) = DictFormat().read(message, 0)
        assert (entry.content, entry.source) == ("hi", message)
        assert DictFormat().snapshot(message) == plain | {"content": tuple(plain["content"])}
        assert Curator().curate([message]).messages[0] is message


@pytest.mark.parametrize(
    ("messages", "fix"),
    [
        ("hi", "pass .{.role"),
        ({"role": "user"}, "a list"),
        (7, "a list"),
        ({"messages": []}, "its"),
    ],
)
def test_a_conversation_that_is_no_list_is_an_error_that_says_so(messages, fix):
    with pytest.raises(ConversionError, match=f"expected a list of messages.*Fix: .*{fix}"):
        find_format(messages)
