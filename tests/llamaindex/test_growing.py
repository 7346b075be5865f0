"""What a host does to its messages between two calls reaches the next view."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage, TextBlock

from tests.core.test_warm_views import session
from tests.llamaindex.factories import from_dict
from tests.support.hosts import disturb_models, live, see_an_equal_message_in_the_place_of_another

BUDGET = 3_000


def reword(message: Any, text: str) -> None:
    others = [block for block in message.blocks if not isinstance(block, TextBlock)]
    message.blocks = [TextBlock(text=text), *others]


@pytest.mark.parametrize("seed", range(6))
def test_whatever_a_host_does_the_view_is_that_of_a_new_curator(seed: int) -> None:
    live(
        seed,
        list(map(from_dict, session(60, seed))),
        BUDGET,
        partial(disturb_models, reword=reword),
    )


def test_an_equal_message_in_the_place_of_another_is_the_one_that_is_shown() -> None:
    messages = list(map(from_dict, session(30)))
    see_an_equal_message_in_the_place_of_another(messages, BUDGET, ChatMessage.model_copy)
