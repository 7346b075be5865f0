"""What a host does to its messages between two calls reaches the next view."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, convert_to_messages

from tests.core.test_warm_views import session
from tests.support.hosts import disturb_models, live, see_an_equal_message_in_the_place_of_another

BUDGET = 3_000


def reword(message: Any, text: str) -> None:
    message.content = text


@pytest.mark.parametrize("seed", range(6))
def test_whatever_a_host_does_the_view_is_that_of_a_new_curator(seed: int) -> None:
    live(
        seed, convert_to_messages(session(60, seed)), BUDGET, partial(disturb_models, reword=reword)
    )


def test_an_equal_message_in_the_place_of_another_is_the_one_that_is_shown() -> None:
    messages = convert_to_messages(session(30))
    see_an_equal_message_in_the_place_of_another(messages, BUDGET, BaseMessage.model_copy)
