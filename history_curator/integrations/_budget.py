"""How many tokens a request to a model may hold, from what the model says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.tokens import window_margin

_UNKNOWN_OUTPUT = 4_096
"""Room for the answer of a model that does not say how much it writes."""

_INPUT_ALONE = frozenset({272_000})
"""Limits that OpenAI's models state for what is sent alone.

GPT-5 has a window of 400,000 of which 128,000 are the answer's. Its other limits (128,000,
200,000, 400,000, 1,050,000…) are whole windows.
"""


@dataclass(frozen=True, slots=True)
class Budget:
    """A token budget and where it came from.

    Attributes:
        max_tokens: the most a request may hold: messages and tool schemas.
        limit: the limit the model states.
        output: tokens of that limit left for the answer; 0 where the answer has room of its own.
        source: which numbers were used, in words.
        tools: schemas of the tools bound to the model, which count towards `max_tokens`.
        counter: what to count with.
    """

    max_tokens: int
    limit: int
    output: int
    source: str
    tools: tuple[dict[str, Any], ...] = ()
    counter: str = "o200k_base"


@dataclass(frozen=True, slots=True)
class Window:
    """What a model says about itself.

    Attributes:
        model: the model in words, for errors.
        limit: tokens it takes.
        apart: whether the limit is of the input alone, so that the answer takes nothing from it.
        asked: tokens the caller allows the answer: ``max_tokens`` of the request.
        writes: tokens the model can write.
        called: what the limit is called where the model states it.
    """

    model: str
    limit: int
    apart: bool = False
    asked: int | None = None
    writes: int | None = None
    called: str = "window"


def answer_is_apart(provider: str, limit: int) -> bool:
    """Return whether a provider's input limit is of the input alone.

    Google states limits of input and output side by side. Anthropic, Bedrock, Mistral and most
    models of OpenAI state one window for both, and refuse a request that leaves no room for the
    answer it asks for. Where it is not known the window is taken to be shared.

    Examples:
        >>> answer_is_apart("gemini", 1_048_576), answer_is_apart("anthropic", 200_000)
        (True, False)
        >>> answer_is_apart("openai", 272_000), answer_is_apart("openai", 128_000)
        (True, False)
    """
    return provider == "gemini" or (
        provider in ("openai", "openai-responses") and limit in _INPUT_ALONE
    )


def _room_for_answer(window: Window) -> tuple[int, str]:
    """Return the tokens to leave for the answer, and why.

    What the request asks for, or else what the model can write, at most half of the window.
    Where neither is known, 4,096 or a quarter of the window.
    """
    if window.apart:
        return 0, "which has room of its own"
    if window.asked:
        return window.asked, "the model's own setting"
    if window.writes:
        return min(window.writes, window.limit // 2), "all it can write"
    return min(_UNKNOWN_OUTPUT, window.limit // 4), "as it does not say how much it writes"


def budget_of(
    window: Window,
    *,
    output: int | None = None,
    margin: int | None = None,
    taken: int = 0,
) -> Budget:
    """Return the budget of a model: 95 % of its limit, less the room for its answer.

    Args:
        window: what the model says about itself.
        output: tokens to leave for the answer instead.
        margin: tokens to leave for what no counter sees; 5 % of the limit by default.
        taken: tokens of the request that are no messages and not counted elsewhere.

    Raises:
        ConfigurationError: when nothing is left.

    Examples:
        >>> budget_of(Window("gpt-4o", 128_000, writes=16_384)).max_tokens
        105216
        >>> budget_of(Window("gpt-5", 272_000, apart=True, writes=128_000)).max_tokens
        258400
    """
    left, why = _room_for_answer(window) if output is None else (output, "as asked")
    kept = window_margin(window.limit) if margin is None else margin
    usable = window.limit - kept
    max_tokens = usable - left - taken
    if left < 0 or max_tokens < 1:
        also = f" with {taken} for tools" if taken else ""
        raise ConfigurationError(
            f"output is {left} ({why}), which leaves nothing for messages: {window.model} takes "
            f"{usable} tokens, question and answer together{also}. Fix: an output from 0 to "
            f"{max(0, usable - taken - 1)}, or a budget of your own."
        )
    percent = "95% of" if margin is None else f"less a margin of {margin},"
    source = (
        f"{window.model}: {percent} {window.called} {window.limit} = {usable}, "
        f"less {left} for the answer ({why})"
        + (f", less {taken} for tools" if taken else "")
        + f" = {max_tokens}"
    )
    return Budget(max_tokens, window.limit, left, source)


def is_share(max_tokens: object) -> bool:
    """Return whether a budget is given as a share of a window: 0.5, not 8_000.

    Raises:
        ConfigurationError: when it is a share that is not between 0 and 1.
    """
    if not isinstance(max_tokens, float):
        return False
    if not 0.0 < max_tokens <= 1.0:
        raise ConfigurationError(
            f"max_tokens is {max_tokens!r}. Fix: a whole number of tokens, or a share of the "
            "model's window above 0.0 and at most 1.0."
        )
    return True


def share_of(budget: Budget, share: float) -> Budget:
    """Return a share of a budget, for ``max_tokens=0.5``."""
    tokens = max(1, int(budget.limit * share))
    source = f"{share:g} of {budget.limit} = {tokens}"
    if tokens > budget.max_tokens:
        return budget
    return Budget(tokens, budget.limit, budget.output, source, budget.tools, budget.counter)
