"""Recall under threads: every answer is that of the record the caller's thread was given."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context

import pytest

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.record.recall import Recall, handle_of

ROUNDS = 60


@pytest.fixture(autouse=True)
def impatient_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def said(word: str, count: int) -> list[ConversationEntry]:
    return [
        ConversationEntry(MessageRole.USER, f"{word} invoice number{n} of the year")
        for n in range(count)
    ]


def test_a_growing_record_is_answered_as_if_asked_alone() -> None:
    record = said("mine", 5)
    recall = Recall(lambda: list(record), counter="heuristic")

    def ask(number: int) -> bool:
        if number % 4 == 0:
            record.append(ConversationEntry(MessageRole.USER, f"mine invoice extra{number}"))
        wanted = record[number % 5]
        by_handle = recall(handle=handle_of(wanted))
        by_query = recall(query=f"number{number % 5}")
        return (wanted.content or "") in by_handle and (wanted.content or "") in by_query

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(ROUNDS)))


def test_a_record_chosen_by_who_asks_answers_nobody_else() -> None:
    """A callable may return the record of the session that is active where it is called."""
    who: ContextVar[str] = ContextVar("who")
    records = {f"tenant{n}x": said(f"tenant{n}x", 4 + n) for n in range(8)}
    recall = Recall(lambda: records[who.get()], counter="heuristic")

    def ask(number: int) -> set[str]:
        name = f"tenant{number % 8}x"
        who.set(name)
        answers = [recall(query="invoice year"), recall(handle=handle_of(records[name][1]))]
        theirs = handle_of(records[f"tenant{(number + 1) % 8}x"][1])
        assert recall(handle=theirs).startswith("Refused")
        assert all(name in answer for answer in answers)
        return set(re.findall(r"tenant\d+x", " ".join(answers))) - {name}

    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(lambda n: copy_context().run(ask, n), range(ROUNDS)))
