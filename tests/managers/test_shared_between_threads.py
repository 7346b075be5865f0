"""One manager, many conversations at once: nobody's words in another's view."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from history_curator import Curator, RelevanceManager, SummarizingManager
from tests.support.messages import Message, assistant, call, result, system, user

TENANTS = 12
TURNS = 14
_MINE = re.compile(r"tenant(\d+)x")


@pytest.fixture(autouse=True)
def impatient_threads() -> Iterator[None]:
    """Threads take turns often, so that a state used by two of them shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def opening() -> list[Message]:
    return [system("be brief"), user("hi"), assistant("Hello! What can I do for you?")]


def conversation(tenant: int, turns: int) -> list[Message]:
    """Opens like all others; from then on every message carries its tenant's word."""
    word = f"tenant{tenant}x"
    said = opening()
    for turn in range(turns):
        call_id = f"c{turn}"
        said += [
            user(f"{word} asks about invoice {turn} " + "please " * 8),
            call(call_id, name="look", path=f"{word}/invoice{turn}.txt"),
            result(call_id, f"{word} invoice {turn} " + "paid " * 12),
            assistant(f"{word} invoice {turn} is paid " + "indeed " * 8),
        ]
    return [*said, user(f"{word} which invoice was paid?")]


def summarise(prompt: str) -> str:
    """A summary that repeats whose messages were in the prompt."""
    return "about " + " ".join(sorted(f"tenant{found}x" for found in set(_MINE.findall(prompt))))


def foreign(curation: Any, tenant: int) -> set[str]:
    text = repr(curation.messages) + repr(curation.report)
    return set(_MINE.findall(text)) - {str(tenant)}


MANAGERS: dict[str, Callable[[], Any]] = {
    "relevance": lambda: RelevanceManager(share=0.5),
    "summaries": lambda: SummarizingManager(summarise, max_tokens=100),
}


@pytest.mark.parametrize("name", MANAGERS)
class TestConversationsThatOpenAlike:
    def test_threads_that_share_a_curator_see_their_own_words_only(self, name: str) -> None:
        curator = Curator(MANAGERS[name](), max_tokens=500)
        alone = {
            (tenant, turns): Curator(MANAGERS[name](), max_tokens=500)
            .curate(conversation(tenant, turns))
            .messages
            for tenant in range(TENANTS)
            for turns in (3, TURNS)
        }

        def grow(tenant: int) -> list[set[str]]:
            seen = []
            for turns in range(1, TURNS + 1):
                curation = curator.curate(conversation(tenant, turns))
                seen.append(foreign(curation, tenant))
                if (tenant, turns) in alone:
                    assert curation.messages == alone[tenant, turns]
            return seen

        with ThreadPoolExecutor(8) as pool:
            leaks = [leak for seen in pool.map(grow, range(TENANTS)) for leak in seen]
        assert len(leaks) == TENANTS * TURNS
        assert not any(leaks)

    def test_a_fork_does_not_see_what_the_other_branch_said(self, name: str) -> None:
        """Two branches share a long past and then differ: the state of one is of no use there."""
        curator = Curator(MANAGERS[name](), max_tokens=500)
        shared = conversation(0, 6)[:-1]
        left = [*shared, user("tenant1x leaves " + "so " * 60), assistant("tenant1x noted")]
        right = [*shared, user("tenant2x leaves " + "so " * 60), assistant("tenant2x noted")]
        for _ in range(3):
            left = [*left, user("tenant1x what was paid?")]
            right = [*right, user("tenant2x what was paid?")]
            assert "2" not in _MINE.findall(repr(curator.curate(left).messages))
            assert "1" not in _MINE.findall(repr(curator.curate(right).messages))
            left.append(assistant("tenant1x all of it"))
            right.append(assistant("tenant2x all of it"))
