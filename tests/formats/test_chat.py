"""Chat Completions: the common case is read in one go, and as it would be with care."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from history_curator.errors import ConversionError
from history_curator.formats import DictFormat

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


class Careful(dict[str, Any]):
    """A mapping that is no plain dict, so that it is read with care."""


def test_the_common_case_is_read_as_it_would_be_with_care() -> None:
    for message in MESSAGES:
        (plain,) = DictFormat().read(message, 3)
        (careful,) = DictFormat().read(Careful(message), 3)
        assert plain == careful, message
        assert (plain.source, plain.repairs) == (careful.source, careful.repairs), message


@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_only_the_assistant_calls(role: str) -> None:
    message = {"role": role, "content": "hi", "tool_calls": [CALL]}
    assert DictFormat().read(message, 0)[0].tool_calls is None


def test_a_field_of_another_type_than_it_should_be_is_an_error_that_names_it() -> None:
    with pytest.raises(ConversionError, match=r"messages\[0\]\.id: it is an int"):
        DictFormat().read({"role": "user", "content": "hi", "id": 7}, 0)
