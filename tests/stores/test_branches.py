"""Branches in real databases, both frameworks: fork, list, switch, and what goes wrong."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.stores.conversations import OPENERS, Conversation
from tests.stores.servers import Server, down

pytestmark = [
    pytest.mark.timeout(240),
    # Drivers leave the sockets of a killed server to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Reopen = Callable[[], Any]


@pytest.fixture
def reopen(store: str, server: Server) -> Reopen:
    """Opens the branches of the same new conversation, each time as a new process would."""
    open_store = OPENERS[store][1]
    key = f"thread-{uuid.uuid4()}"

    def branches() -> Any:
        if store.startswith("langchain"):
            from langchain_history_curator import ChatHistoryBranches

            return ChatHistoryBranches(key, lambda name: open_store(server, name))
        from llamaindex_history_curator import MemoryBranches

        return MemoryBranches(key, open_store(server, key), token_limit=2_000)

    return branches


def say(adapter: Any, *texts: str) -> None:
    Conversation(adapter).say(texts)


def heard(adapter: Any) -> list[str]:
    return Conversation(adapter).heard()


def described(branches: Any) -> list[tuple[str, str | None, int, bool]]:
    return [(one.name, one.parent, one.at, one.current) for one in branches.list()]


def test_fork_list_switch_and_a_restart(reopen: Reopen) -> None:
    branches = reopen()
    assert described(branches) == [("main", None, 0, True)]
    say(branches.open(), "one", "two", "three")
    say(branches.fork("edited", at=2), "another three")
    assert described(reopen()) == [("main", None, 0, False), ("edited", "main", 2, True)]
    assert heard(reopen().open()) == ["one", "two", "another three"]
    assert heard(reopen().open("main")) == ["one", "two", "three"]
    say(reopen().switch("main"), "four")
    assert heard(reopen().open()) == ["one", "two", "three", "four"]
    reopen().switch("edited")
    deeper = reopen().fork("deeper", at=-1)
    assert heard(deeper) == ["one", "two"]
    assert described(reopen()) == [
        ("main", None, 0, False),
        ("edited", "main", 2, False),
        ("deeper", "edited", 2, True),
    ]
    # What is said in one branch is in no other.
    say(deeper, "own words")
    assert "own words" not in heard(reopen().open("main")) + heard(reopen().open("edited"))


async def test_branches_in_async_code(reopen: Reopen) -> None:
    branches = reopen()
    await Conversation(await branches.aopen()).asay(["one", "two"])
    await branches.afork("other", at=1)
    await branches.aswitch("main")
    assert [one.name for one in await reopen().alist() if one.current] == ["main"]
    assert await Conversation(await reopen().aopen("other")).aheard() == ["one"]


def test_a_store_that_is_down(reopen: Reopen, server: Server) -> None:
    branches = reopen()
    say(branches.open(), "one", "two")
    branches.fork("other", at=1)
    attempts = (branches.list, lambda: branches.fork("new"), lambda: branches.switch("main"))
    with down(server):
        for attempt in attempts:
            with pytest.raises(Exception, match=r"Fix: |connect|locked"):
                attempt()
    for _ in range(50):  # a pool may hold connections of the server that died
        try:
            found = described(reopen())
            break
        except Exception:  # noqa: BLE001
            time.sleep(0.1)
    assert found == [("main", None, 0, False), ("other", "main", 1, True)]
