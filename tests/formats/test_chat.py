"""Chat Completions: whose calls are read, and fields of other types."""

from __future__ import annotations

import pytest

from history_curator.errors import ConversionError
from history_curator.formats import DictFormat
from tests.support.messages import call


@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_only_the_assistant_calls(role: str) -> None:
    message = {**call("c1"), "role": role, "content": "hi"}
    assert DictFormat().read(message, 0)[0].tool_calls is None


def test_a_field_of_another_type_than_it_should_be_is_an_error_that_names_it() -> None:
    with pytest.raises(ConversionError, match=r"messages\[0\]\.id: it is an int"):
        DictFormat().read({"role": "user", "content": "hi", "id": 7}, 0)
