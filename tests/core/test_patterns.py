"""No pattern that meets foreign text takes more than its share of time on any text."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import time
from collections.abc import Iterator
from itertools import product
from types import ModuleType

import pytest

import history_curator
import langchain_history_curator
import llamaindex_history_curator
from history_curator import Curator
from tests.support.messages import call, result, user

SIZE = 100_000
DEADLINE = 5.0
"""Seconds; a linear pattern takes milliseconds, a quadratic one minutes."""
PIECES = [*"/0a-_. \n[@{", "a/", "a1", "-a", "@a", ", ", "r0", "a" * 50 + "!"]
BOUNDED = {
    "history_curator.tokens.truncate": 2_000,
    "history_curator.window.identifiers._MAIL": 400,
    "history_curator.managers.relevance._GOES_ON": 2_000,
    "history_curator.tokens.models._AROUND": 400,
}
"""Patterns that are shown no more than so many characters, by the start of their names."""
PACKAGES = (history_curator, langchain_history_curator, llamaindex_history_curator)


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for package in PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield from patterns_of(importlib.import_module(found.name))


def patterns_of(module: ModuleType) -> Iterator[tuple[str, re.Pattern[str]]]:
    for name, value in vars(module).items():
        values = value.values() if isinstance(value, dict) else [value]
        for each in values if not isinstance(value, (list, tuple)) else value:
            if isinstance(each, re.Pattern) and isinstance(each.pattern, str):
                yield f"{module.__name__}.{name}", each


@pytest.mark.parametrize(("name", "pattern"), sorted(set(patterns()), key=str))
def test_every_pattern_is_linear(name: str, pattern: re.Pattern[str]) -> None:
    bounds = [size for start, size in BOUNDED.items() if name.startswith(start)]
    started = time.process_time()
    for piece in PIECES:
        text = piece * (min([SIZE, *bounds]) // len(piece))
        pattern.search(text)
        pattern.match(text + "\x00")
        if piece == "/":
            pattern.findall(text)
    # Near-misses: pairs of the signs that the pattern itself is written with.
    signs = sorted({sign for sign in pattern.pattern if not sign.isalnum()})
    for one, other in product(signs, repeat=2):
        text = (one + other) * (SIZE // 4)
        pattern.match("a" + text)
        if not bounds:
            pattern.search(text)
    assert time.process_time() - started < DEADLINE, name


def test_arguments_of_brackets_and_open_strings_stall_nothing() -> None:
    broken = call("c1")
    broken["tool_calls"][0]["function"]["arguments"] = '{"a":' * 101 + '"\\' * 25_000
    started = time.process_time()
    Curator(max_tokens=2_000).curate([user("look"), broken, result("c1")], tail="request")
    assert time.process_time() - started < DEADLINE


@pytest.mark.parametrize("piece", ["/", "7", "a/", "a1", "x@", "é"])
def test_a_result_of_one_repeated_character_stalls_nothing(piece: str) -> None:
    messages = [user("look"), call("c1"), result("c1", piece * 50_000)]
    for number in range(12):
        messages += [call(f"d{number}"), result(f"d{number}", f"word{number} " * 300)]
    started = time.process_time()
    Curator(max_tokens=2_000).curate(messages, tail="request")
    assert time.process_time() - started < DEADLINE


@pytest.mark.parametrize("depth", [300, 990, 100_000])
@pytest.mark.parametrize("provider", ["core", "openai", "anthropic"])
def test_deeply_nested_arguments_crash_nothing(depth: int, provider: str) -> None:
    deep = call("c1")
    deep["tool_calls"][0]["function"]["arguments"] = '{"a":' * depth + "1" + "}" * depth
    messages = [user("look"), deep, result("c1", "found")]
    for number in range(12):
        messages += [call(f"d{number}"), result(f"d{number}", f"word{number} " * 200)]
    views = [
        Curator(max_tokens=budget, provider=provider).curate(messages, tail="request").messages
        for budget in (1_500, 1_000_000)
    ]
    assert all(json.dumps(view) for view in views)
