"""Each constant of the policy decides about a view: what it is today, and that another value changes it."""

from __future__ import annotations

import importlib
import random
from typing import Any

import pytest

from history_curator import Curator
from tests.support.messages import assistant, call, result, system, user

View = tuple[int, int, int]
"""Position of the cutoff, tokens, and messages of a view."""


def tool_conversation(seed: int, turns: int) -> list[dict[str, Any]]:
    """An agent that asks for files, some of them long."""
    rng = random.Random(seed)
    messages = [system("be brief")]
    for turn in range(turns):
        messages.append(user(f"question {turn}: " + "why? " * rng.choice([1, 20, 60, 120])))
        for step in range(rng.randint(0, 4)):
            name, path = f"c{turn}-{step}", f"src/{turn}/{step}"
            line = f"line{turn}x{step} of {path}/found.py\n"
            messages += [
                call(name, path=f"{path}.py"),
                result(name, line * rng.choice([1, 4, 12, 30, 90])),
            ]
        messages.append(assistant(f"answer {turn} " + "so. " * rng.randint(1, 40)))
    return [*messages, user("and now?")]


def describe_view(seed: int, budget: int, turns: int, idle: float | None = None) -> View:
    messages = tool_conversation(seed, turns)
    view = Curator(max_tokens=budget).curate(messages, tail="request", idle=idle)
    return view.report.cut, view.tokens, len(view.messages)


@pytest.mark.parametrize(
    ("constant", "other", "scenario", "expected"),
    [
        ("cutoff.KEPT_QUESTION_SHARE", 0.1, (0, 1_500, 12), (74, 1_359, 14)),
        ("cutoff.EXTRA_DEPTH", 0.0, (1, 2_500, 30), (188, 1_630, 16)),
        ("cutoff.RESTART_BUDGETS", 5, (1, 900, 12), (90, 401, 10)),
        ("cutoff.RECAP_ABOVE_TARGET", 2.0, (0, 1_500, 12), (74, 1_359, 14)),
        ("cutoff.COLD_SHARE", 0.8, (0, 1_500, 12, 7_200.0), (81, 413, 5)),
        ("rendering.CAP_SHARE", 0.2, (0, 1_500, 12), (74, 1_359, 14)),
        ("rendering.LEAST_CAP", 300, (3, 900, 12), (86, 561, 10)),
        ("recap.SHARE", 0.2, (0, 1_500, 12), (74, 1_359, 14)),
        ("recap.MOST_TOKENS", 90, (0, 1_500, 12), (74, 1_359, 14)),
        ("recap.SHARE_OF_REMOVED", 1 / 30, (5, 1_500, 12), (56, 1_343, 14)),
        ("recap.USER_SHARE", 0.6, (0, 1_500, 12), (74, 1_359, 14)),
        ("recap.UNITS_BACK", 6, (0, 1_500, 12), (74, 1_359, 14)),
        ("recap.BUDGETS_BACK", 1, (2, 1_500, 12), (86, 1_054, 16)),
        ("build_view.STEP", 0.2, (0, 1_500, 12), (74, 1_359, 14)),
    ],
)
def test_a_policy_constant_decides_about_a_view(
    constant: str, other: float, scenario: Any, expected: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert describe_view(*scenario) == expected
    module, name = constant.split(".")
    monkeypatch.setattr(importlib.import_module(f"history_curator.window.{module}"), name, other)
    assert describe_view(*scenario) != expected
