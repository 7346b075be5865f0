"""Chat Completions: the common case is read in one go, and as it would be with care."""

from __future__ import annotations

from typing import Any

import pytest

from history_curator.errors import ConversionError
from history_curator.formats import DictFormat
from tests.support.messages import call


class Careful(dict[str, Any]):
    """A mapping that is no plain dict, so that it is read with care."""


@pytest.mark.parametrize("content", ["hi", ""])
@pytest.mark.parametrize("role", ["user", "system", "assistant", "tool"])
@pytest.mark.parametrize("named", [{}, {"tool_call_id": None}, {"tool_call_id": "c1"}])
def test_the_common_case_is_read_as_it_would_be_with_care(
    role: str, content: str, named: dict[str, Any]
) -> None:
    message = {"role": role, "content": content, **named}
    (plain,) = DictFormat().read(message, 3)
    (careful,) = DictFormat().read(Careful(message), 3)
    assert plain == careful
    assert (plain.source, plain.repairs) == (careful.source, careful.repairs)


@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_only_the_assistant_calls(role: str) -> None:
    message = {**call("c1"), "role": role, "content": "hi"}
    assert DictFormat().read(message, 0)[0].tool_calls is None


def test_a_field_of_another_type_than_it_should_be_is_an_error_that_names_it() -> None:
    with pytest.raises(ConversionError, match=r"messages\[0\]\.id: it is an int"):
        DictFormat().read({"role": "user", "content": "hi", "id": 7}, 0)
