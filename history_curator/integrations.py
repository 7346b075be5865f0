"""What both adapters share: the budget of a model, one curated call with its retries."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from history_curator.curator import Curation, Curator
from history_curator.errors import BudgetUnsatisfiableError, ConfigurationError
from history_curator.rules import ProviderProfile, ReasoningMode, get_profile
from history_curator.run_steps import Call, Steps
from history_curator.tokens import read_usage, window_margin


@dataclass(frozen=True, slots=True)
class Budget:
    """A token budget for messages and tool schemas, and where it came from.

    `limit` is what the model states, `output` is left for the answer; `source` tells it in words.
    """

    max_tokens: int
    limit: int
    output: int
    source: str


@dataclass(frozen=True, slots=True)
class Window:
    """The limits that a model states.

    `limit`, which the model calls `called`, is of the input alone where the answer is `apart`.
    `asked` is the ``max_tokens`` of the request, `writes` the tokens it can write.
    """

    model: str
    limit: int
    apart: bool = False
    asked: int | None = None
    writes: int | None = None
    called: str = "window"


def answer_is_apart(provider: str, limit: int) -> bool:
    """Return whether a provider's limit is of the input alone: Google's, and GPT-5's."""
    is_openai = provider in ("openai", "openai-responses")
    return provider == "gemini" or (is_openai and limit == 272_000)


def _answer_tokens(window: Window) -> tuple[int, str]:
    """Return the tokens to leave for the answer, and why."""
    if window.apart:
        return 0, "which has tokens of its own"
    if window.asked:
        return window.asked, "the model's own setting"
    if window.writes:
        return min(window.writes, window.limit // 2), "all it can write"
    return min(4_096, window.limit // 4), "as it does not say how much it writes"


def budget_of(window: Window, *, output: int | None = None, margin: int | None = None) -> Budget:
    """Return the budget of a model: its limit less `margin` (5 %) and the answer's `output`."""
    answer, why = _answer_tokens(window) if output is None else (output, "as asked")
    usable = window.limit - (window_margin(window.limit) if margin is None else margin)
    max_tokens = usable - answer
    if answer < 0 or max_tokens < 1:
        problem = f"output is {answer} ({why}), which leaves nothing for messages: {window.model}"
        problem += f" takes {usable} tokens, question and answer together"
        fix = f"an output from 0 to {max(0, usable - 1)}, or a budget of your own"
        raise ConfigurationError(f"{problem}. Fix: {fix}.")
    percent = "95% of" if margin is None else f"less a margin of {margin},"
    source = f"{window.model}: {percent} {window.called} {window.limit} = {usable}, "
    source += f"less {answer} for the answer ({why}) = {max_tokens}"
    return Budget(max_tokens, window.limit, answer, source)


def as_managers(given: Any) -> tuple[Any, ...]:
    """Return managers that were given in a sequence, alone, or not at all."""
    if given is None:
        return ()
    return tuple(given) if isinstance(given, Sequence) else (given,)


class Asked(NamedTuple):
    """The models that may answer, and whether their client sends late system messages in place."""

    models: tuple[str | None, ...] = ()
    in_place: bool = False


def rules_for(
    provider: str | ProviderProfile, asked: Asked, reasoning: ReasoningMode | None = None
) -> ProviderProfile:
    """Return the profile for a request; one of your own as it is."""
    names = set(asked.models)  # none is assumed where those of fallbacks differ
    model = names.pop() if len(names) == 1 else None
    return get_profile(
        provider, reasoning=reasoning, model=model, later_system=None if asked.in_place else "hoist"
    )


RETRIES = 2
"""How often a refused request is repeated with a smaller view."""
SHRINK = 0.55
"""The share of a refused view that its repetition has: one that is counted 1.7 times fits."""
_REFUSAL = re.compile(
    r"context[_ ]length[_ ]exceeded"
    r"|(?:maximum|max|model's) context (?:length|window|limit|size)"
    r"|(?:exceed\w{0,3}|longer than|larger than) (?:the |this )?(?:available |model's )?context"
    r"|exceed\w{0,3} the maximum number of (?:input )?tokens"
    r"|token count .{0,60}exceed"
    r"|input tokens exceed"
    r"|(?:prompt|input|request|conversation) is too long"
    r"|prompt contains \d{1,15} tokens.{0,60}too large",
    re.IGNORECASE,
)


def is_too_long(error: Exception) -> bool:
    """Whether an error says, by LangChain's class or in words, that a request was too long."""
    if any(kind.__name__ == "ContextOverflowError" for kind in type(error).__mro__):
        return True
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    return status != 429 and _REFUSAL.search(str(error)) is not None


_learned_limits: WeakKeyDictionary[Curator, dict[str | None, int]] = WeakKeyDictionary()
"""The largest request that each model is known to take, for models that refused a larger one."""


def note_accepted(curator: Curator, model: str | None, answer: Any) -> None:
    """Raise the limit that refusals of a model taught to the prompt that an answer reports."""
    limits, usage = _learned_limits.get(curator, {}), read_usage(answer)
    if model in limits and usage is not None:
        limits[model] = max(limits[model], usage.input)


@dataclass(slots=True)
class CuratedModelCall:
    """Curate, send, and curate again, smaller, when the provider says the request was too long.

    `send` returns the call that sends a curation, and `curating` opens around each. A refusal
    teaches the limit of `model`: until it accepts a larger request, every call of this curator
    stays within it. The curation observes the `usage` of an answer after a refusal and where it is
    far from the prediction; elsewhere the answer itself carries it.
    """

    curator: Curator
    messages: Sequence[Any]
    arguments: dict[str, Any]
    send: Callable[[Curation], Call]
    retries: int = RETRIES
    curating: Callable[[], AbstractContextManager[Any]] = field(default=nullcontext)
    model: str | None = None
    usage: Callable[[Any], Any] = lambda answer: answer

    def body(self) -> Steps[Any]:
        """Return what the model answered."""
        curator, arguments = self.curator, dict(self.arguments)
        allowed, retries_left = 0, 0 if curator.mode == "shadow" else self.retries
        refusal: Exception | None = None
        budget = arguments.get("max_tokens") or curator.max_tokens
        learned = _learned_limits.get(curator, {}).get(self.model)
        if budget is not None and learned is not None:
            arguments["max_tokens"] = min(learned, budget)
        while True:
            try:
                with self.curating():
                    curate = (curator.curate, curator.acurate)
                    curation: Curation = yield Call(*curate, (self.messages,), arguments)
            except BudgetUnsatisfiableError:
                if refusal is not None:  # nothing smaller is left
                    raise refusal from None
                if arguments.get("max_tokens") in (None, budget):
                    raise
                arguments["max_tokens"] = budget  # the model may take more than it did
                continue
            try:
                answer = yield self.send(curation)
            except Exception as error:
                if retries_left <= 0 or not is_too_long(error):
                    raise
                retries_left, refusal = retries_left - 1, error
            else:
                usage = self.usage(answer)
                if refusal is not None:
                    _learned_limits.setdefault(curator, {})[self.model] = allowed
                note_accepted(curator, self.model, usage or answer)
                if refusal is not None or _is_unexpected(curation, usage):
                    curation.observe(usage)
                curation.check_cache(usage)
                return answer
            # A reserve shortens this view alone; another budget would be another cutoff.
            limit = arguments.get("max_tokens") or curator.max_tokens or curation.tokens
            allowed = int(min(limit, curation.tokens) * SHRINK)
            arguments |= {"max_tokens": limit, "reserve": limit - max(1, allowed)}


def _is_unexpected(curation: Curation, answer: Any) -> bool:
    """Whether the provider counted something else than was predicted."""
    usage, tokens = read_usage(answer), curation.tokens
    most = tokens + (curation.error or 0)
    return usage is not None and not 0.9 * tokens <= usage.input <= most
