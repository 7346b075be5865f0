"""Views that were shorter for once leave no trace in those that follow, as long as nobody reports."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from history_curator import BudgetUnsatisfiableError, Curator
from tests.support.messages import assistant, call, result, system, user

LIMIT = 600


def tool_conversation(random: Random) -> list[dict[str, Any]]:
    messages = [system("Be brief."), user("begin")]
    for number in range(random.randint(8, 24)):
        messages.append(call(f"c{number}", name="look", path=f"file-{number}.txt"))
        messages.append(result(f"c{number}", "found " * random.randint(1, 90)))
        if random.random() < 0.3:
            messages += [assistant("so " * random.randint(1, 30)), user(f"and {number}?")]
        if random.random() < 0.15:
            messages.append(system("mind " * random.randint(1, 20)))
    return messages


def outcome(curator: Curator, messages: list[dict[str, Any]], options: dict[str, Any]) -> Any:
    try:
        curation = curator.curate(messages, tail="request", **options)
    except BudgetUnsatisfiableError as error:
        return str(error)
    return curation.messages, curation.tokens, curation.error, curation.report.compacted


@pytest.mark.parametrize("provider", ["core", "anthropic", "gemini"])
@pytest.mark.parametrize("seed", range(8))
def test_a_view_that_was_shorter_once_changes_no_later_one(provider: str, seed: int) -> None:
    random = Random(seed)
    messages = tool_conversation(random)
    seen = Curator(max_tokens=LIMIT, provider=provider)
    for end in range(2, len(messages) + 1):
        if messages[end - 1]["role"] == "assistant":
            continue
        options: dict[str, Any] = random.choice(
            [{}, {"max_tokens": random.randint(200, LIMIT)}, {"reserve": random.randint(1, 250)}]
        )
        new = Curator(max_tokens=LIMIT, provider=provider)
        expected = outcome(new, messages[:end], options)
        assert outcome(seen, messages[:end], options) == expected
        assert outcome(seen, messages[:end], options) == expected
