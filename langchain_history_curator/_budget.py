"""A budget from what a model says about itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.tokens import find_family, window_margin
from langchain_history_curator._options import (
    model_name,
    models_in,
    path_to_model,
    schemas_of,
    unwrap,
)


@dataclass(frozen=True, slots=True)
class Budget:
    """A token budget and where it came from.

    Attributes:
        max_tokens: the most a request may hold: messages and tool schemas.
        limit: the model's own input limit.
        output: tokens left for the answer.
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


def budget_for_model(
    model: Any, *, tools: Sequence[Any] | None = None, output: int | None = None
) -> Budget:
    """Return the budget a chat model's profile allows: 95 % of its window, less its output.

    Bindings, retries, fallbacks and sequences are seen through; with fallbacks the smallest
    window counts.

    Args:
        model: a chat model, or a runnable around one.
        tools: tools sent along; those bound to the model are found by themselves.
        output: tokens to leave for the answer, instead of what the model may write.

    Raises:
        ConfigurationError: when the model does not say how much it takes, or `output` leaves
            no room.
    """
    known = [(candidate, profile_of(candidate)) for candidate in models_in(model)]
    if not all(profile.get("max_input_tokens") for _, profile in known):
        unknown = next(c for c, profile in known if not profile.get("max_input_tokens"))
        raise ConfigurationError(
            f"{describe(unknown)} does not say how many tokens it takes (its profile has no "
            "max_input_tokens). Fix: pass max_tokens=…, or profile={'max_input_tokens': …} to "
            "the model."
        )
    smallest, profile = min(known, key=lambda pair: int(pair[1]["max_input_tokens"]))
    limit = int(profile["max_input_tokens"])
    left, why = _output(smallest, profile, limit, output)
    schemas = schemas_of(tools) or bound_tools(model)
    usable = limit - window_margin(limit)
    max_tokens = usable - left
    if left < 0 or max_tokens < 1:
        raise ConfigurationError(
            f"output is {left} ({why}): {describe(smallest)} takes {usable} tokens, question and "
            f"answer together. Fix: an output from 0 to {usable - 1}."
        )
    source = (
        f"{describe(smallest)}: 95% of max_input_tokens {limit} = {usable}, "
        f"less {left} for the answer ({why}) = {max_tokens}"
    )
    return Budget(max_tokens, limit, left, source, tuple(schemas or ()), counter_for(model))


def profile_of(model: Any) -> dict[str, Any]:
    """A model's profile, or an empty one."""
    profile = getattr(model, "profile", None)
    return dict(profile) if isinstance(profile, dict) else {}


def counter_for(model: Any) -> str:
    """The counter of a model's family, or the default when its name is not known.

    With fallbacks it is the one that counts the most.
    """
    most = ((1.0, 1.0), "o200k_base")
    for position, candidate in enumerate(models_in(model)):
        name = model_name(candidate)
        family = find_family(name) if name else None
        if name and family:
            factors = (family.factor, family.tool_factor)
            if position == 0 or factors > most[0]:
                most = (factors, name)
    return most[1]


def describe(model: Any) -> str:
    """A model in words."""
    inner = unwrap(model)
    name = model_name(inner)
    return f"{type(inner).__name__}({name})" if name else type(inner).__name__


def _output(model: Any, profile: dict[str, Any], limit: int, output: int | None) -> tuple[int, str]:
    if output is not None:
        return output, "as asked"
    for field in ("max_output_tokens", "max_completion_tokens", "max_tokens"):
        configured = getattr(model, field, None)
        if isinstance(configured, int) and configured > 0:
            return min(configured, limit // 2), f"the model's {field}"
    stated = profile.get("max_output_tokens")
    if isinstance(stated, int) and stated > 0:
        return min(stated, limit // 2), "the profile's max_output_tokens"
    return limit // 8, "an eighth, as the profile names no max_output_tokens"


def bound_tools(model: Any) -> list[dict[str, Any]] | None:
    """The schemas of the tools bound to a model, wherever around it they were bound."""
    for step in path_to_model(model):
        kwargs = getattr(step, "kwargs", None)
        if isinstance(kwargs, dict) and kwargs.get("tools"):
            return schemas_of(kwargs["tools"])
    return None
