"""Which of the user's messages stay in view once they lie before the cutoff."""

from __future__ import annotations

from typing import Any

import pytest

from history_curator import Curator, SlidingWindowManager
from tests.support.messages import assistant, call, result, system, user

TASK = "Implement the following plan: move the parser."


def work_after(*said: dict[str, Any]) -> list[dict[str, Any]]:
    """A long run of tool calls after some messages."""
    messages = [system("be brief"), *said]
    for step in range(60):
        messages += [call(f"c{step}"), result(f"c{step}", f"{step} " * 90)]
    return messages


def shown_texts(messages: list[Any], *managers: Any, **options: Any) -> list[Any]:
    view = Curator(*managers, max_tokens=2_000, recap=False, **options).curate(messages).messages
    return [message["content"] for message in view if message["role"] == "user"]


@pytest.mark.parametrize(
    "marker",
    [
        "[Request interrupted by user for tool use]",
        "Hi there!",
        "Thanks, great.",
        "👍",
        " [Image] ",
    ],
)
def test_a_marker_or_a_courtesy_is_no_question_to_keep(marker: str) -> None:
    history = work_after(user(marker), assistant("Hello."), user(TASK), assistant("So."))
    assert shown_texts([*history, user("and now?")]) == [TASK, "and now?"]


def test_the_latest_user_message_stays_whatever_it_says() -> None:
    history = work_after(user(TASK), assistant("May I?"), user("ok"))
    assert shown_texts(history) == [TASK, "ok"]


@pytest.mark.parametrize("provider", ["portable", "anthropic", "gemini", "bedrock"])
def test_what_a_view_was_completed_with_is_no_question(provider: str) -> None:
    history = [user(TASK), assistant("the first half"), assistant("the second half")]
    curator = Curator(SlidingWindowManager(1), provider=provider)
    view = Curator(provider=provider).curate(history, tail="request").messages
    assert view[-1]["content"] == "Please continue."
    assert any(TASK in message["content"] for message in curator.curate(view).messages)
