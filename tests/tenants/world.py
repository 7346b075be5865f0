"""A thousand conversations that look alike, each with words nobody else may see."""

from __future__ import annotations

import json
import logging
import random
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.messages import Message, assistant, call, result, system, user

TENANTS = 1_000
_WORD = re.compile(r"zq\d{4}[a-f]")


def words(something: Any) -> set[str]:
    """Return every private word in a text, a message or a list of anything."""
    if not isinstance(something, str):
        something = json.dumps(something, default=repr)
    return set(_WORD.findall(something))


@dataclass(frozen=True)
class Tenant:
    """One conversation: an opening all share, lines that many say, and private ones.

    So many of its messages were there `earlier`, when it was first curated; it may show its `own`
    words, which somebody said in it.
    """

    number: int
    messages: list[Message]
    earlier: int
    own: set[str]


def _turn(number: int, letter: str, turn: int) -> list[Message]:
    word = f"zq{number:04d}{letter}"
    said = [user(f"{word} where is order {turn}? please look")]
    if turn % 2:
        name = f"c{turn}"  # the same ids everywhere
        said += [
            call(name, name="look", path=f"orders/{word}.txt"),
            result(name, f"order {turn} of {word}: " + "packed and on its way " * 4),
        ]
    return [*said, assistant(f"Order {turn} of {word} is on its way, no need to worry about it.")]


def make_tenants(count: int = TENANTS) -> list[Tenant]:
    """Return conversations: every third one is a fork of the one before it.

    All open alike and say "yes" and "thanks" alike, so neither the first messages nor any single
    text tells one from another.
    """
    tenants: list[Tenant] = []
    for number in range(count):
        if number % 3 == 2:
            parent = tenants[-1].messages
            said, turns = parent[: 3 + 2 * (number % 4)], range(4, 8)
            while said[-1]["role"] != "assistant" or said[-1].get("tool_calls"):
                said = said[:-1]
        else:
            said = [system("You are a helpful assistant."), user("hi"), assistant("Hello!")]
            turns = range(6)
        for turn in turns:
            asked = _turn(number, "abcdef"[turn % 6], turn)
            said = [*said, *asked, user("yes"), assistant("Noted.")]
        said = [*said, user("thanks"), assistant("You are welcome."), user("where is my order?")]
        tenants.append(Tenant(number, said, len(said) - 5, words(said)))
    return tenants


def requests(tenants: Iterable[Tenant], seed: int = 0) -> list[tuple[Tenant, list[Message]]]:
    """Return every conversation as it was and as it is, in any order but each in its own."""
    chance = random.Random(seed)
    first = [(tenant, tenant.messages[: tenant.earlier]) for tenant in tenants]
    later = [(tenant, tenant.messages) for tenant in tenants]
    chance.shuffle(first)
    chance.shuffle(later)
    return [*first, *later]


def summarise(prompt: str) -> str:
    """A model that repeats every private word it was shown, and nothing else."""
    return "Summary: " + " ".join(sorted(words(prompt)))


class Listener(logging.Handler):
    """Keeps every log line there is, at any level, and those of our loggers."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.ours: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        self.lines.append(line)
        if "history_curator" in record.name:
            self.ours.append(line)


@contextmanager
def listening() -> Iterator[Listener]:
    """Hear what is logged by anybody."""
    listener, root = Listener(), logging.getLogger()
    level = root.level
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    try:
        yield listener
    finally:
        root.removeHandler(listener)
        root.setLevel(level)
