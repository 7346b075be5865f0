"""Managers written for messages and a session: ``curate(messages, *, session)``."""

from __future__ import annotations

from typing import Any

import pytest

from history_curator import ComposedManager, Curator, HistorySession, ToolResultTruncator
from history_curator.errors import ConfigurationError
from tests.support.messages import assistant, call, result, system, user

SAID = [system("s"), user("a"), call("c1"), result("c1", "x " * 50), assistant("b"), user("c")]


class Written:
    """A manager that keeps what it was given."""

    def __init__(self, change: Any) -> None:
        self.change = change
        self.seen: list[Any] = []

    def curate(self, messages: Any, *, session: Any) -> Any:
        self.seen.append((list(messages), session))
        return self.change(messages)


def test_it_is_given_messages_and_the_session() -> None:
    manager, session = Written(list), HistorySession()
    view = Curator(manager).curate(SAID, session=session).messages
    ((given, told),) = manager.seen
    assert given == SAID
    assert told is session
    assert all(one is other for one, other in zip(view, SAID, strict=True))


def test_what_it_leaves_out_is_left_out_and_the_rest_is_untouched() -> None:
    curation = Curator(Written(lambda messages: messages[-2:])).curate(SAID)
    assert curation.messages[0] is SAID[0]  # the system message always stays
    assert curation.messages[-1] is SAID[-1]
    assert curation.report.actions["dropped"] == 3


@pytest.mark.parametrize("copies", [True, False])
def test_a_text_it_changes_is_changed_in_the_view_only(copies: bool) -> None:
    def shorten(messages: Any) -> Any:
        out = []
        for message in messages:
            short = dict(message) if copies else message
            if short["role"] == "tool":
                short["content"] = "short"
            out.append(short)
        return out

    view = Curator(Written(shorten)).curate(SAID).messages
    assert view[3] == {**SAID[3], "content": "short"}
    assert [one is other for one, other in zip(view, SAID, strict=True)].count(False) == 1
    assert SAID[3]["content"] == "x " * 50


def test_a_message_of_its_own_is_sent_too() -> None:
    note = {"role": "user", "content": "a note"}
    view = Curator(Written(lambda messages: [*messages, note])).curate(SAID).messages
    assert view[-1]["content"].endswith("a note")


def test_messages_of_a_framework_are_dicts_for_it() -> None:
    core = pytest.importorskip("langchain_core.messages")
    said = [core.HumanMessage("a"), core.AIMessage("b"), core.HumanMessage("c")]
    manager = Written(lambda messages: messages[-1:])
    assert Curator(manager).curate(said).messages[0] is said[-1]
    assert manager.seen[0][0][1] == {"role": "assistant", "content": "b"}


async def test_among_others_and_awaited() -> None:
    class Awaited:
        async def acurate(self, messages: Any, *, session: Any) -> Any:
            return [message for message in messages if message["role"] != "system"]

    composed = ComposedManager((ToolResultTruncator(max_tokens=10), Written(list)))
    view = (await Curator(composed, Awaited()).acurate(SAID)).messages  # type: ignore[arg-type]
    assert [one["role"] for one in view] == [one["role"] for one in SAID]
    assert len(view[3]["content"]) < len(SAID[3]["content"])


def test_something_else_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Written returned something other"):
        Curator(Written(lambda messages: "no")).curate(SAID)
