"""What leaves the view at each jump, and what later calls needed of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from history_curator.lab import LabConversation, replay
from history_curator.lab.metrics import Compaction
from tests.support.messages import assistant, call, result, user

TALK = [
    user("see notes.txt"), call("c1", name="read", path="notes.txt"), result("c1", "key-4711"),
    assistant("ok"), user("and now?"), call("c2", name="open", key="key-4711"), result("c2"),
    call("c3", name="read", path="notes.txt"), result("c3"), assistant("done"),
]  # fmt: skip


class Keeping:
    """Shows the entries that a function lets through."""

    max_tokens = None

    def __init__(self, shows: Callable[[int, int], bool]) -> None:
        self.shows = shows

    def start(self, conversation: Any, counter: Any) -> Any:
        entries = conversation.entries
        return lambda upto: [
            entry for at, entry in enumerate(entries[:upto]) if self.shows(at, upto)
        ]


def compactions(shows: Callable[[int, int], bool]) -> list[Compaction]:
    found = replay([LabConversation("t", TALK)], {"p": Keeping(shows)}, progress=False,
                   provider=None, executor="serial")  # fmt: skip
    return found.tallies["p"][0].compactions


def test_a_view_that_only_grows_loses_nothing() -> None:
    assert compactions(lambda at, upto: True) == []


def test_what_left_and_what_was_needed_of_it() -> None:
    (jump,) = compactions(lambda at, upto: upto < 5 or at > 3)
    assert (jump["at"], jump["entries"]) == (5, 3)
    assert jump["left"] == "1 user text, 1 read"
    assert jump["tokens"] > 0
    assert jump["needed"] == ["key-4711", "notes.txt", "the same read call"]


def test_a_need_is_told_at_the_last_jump_that_took_what_holds_it() -> None:
    first, second = compactions(lambda at, upto: at == 4 or at > (upto > 4) + 4 * (upto > 5))
    assert first["needed"] == ["notes.txt"]
    assert second["needed"] == ["the same read call"]


def test_what_is_shown_elsewhere_is_not_needed() -> None:
    (jump,) = compactions(lambda at, upto: upto < 5 or at not in (1, 3))
    assert jump["needed"] == []
