"""A budget from what a chat model says about itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.sockets import Budget, Window, answer_is_apart, budget_of, is_share, share_of
from history_curator.tokens import find_family
from langchain_history_curator._models import (
    describe,
    model_name,
    models_in,
    path_to_model,
    provider_of_one,
)
from langchain_history_curator._options import schemas_of

__all__ = ["Budget", "bound_tools", "budget_for_model", "counter_for", "limit_for"]

_FORMS = ("response_format", "response_json_schema", "response_schema", "output_config")
"""Where models keep the form of a structured answer that is not asked for as a tool."""


def budget_for_model(
    model: Any, *, tools: Sequence[Any] | None = None, output: int | None = None
) -> Budget:
    """Return the budget a chat model's profile allows: 95 % of its limit, less its answer.

    The answer takes nothing where the limit is of the input alone (Gemini, GPT-5). Bindings,
    retries, fallbacks and sequences are seen through; with fallbacks the smallest budget counts.

    Args:
        model: a chat model, or a runnable around one.
        tools: tools sent along; those bound to the model are found by themselves.
        output: tokens to leave for the answer, instead of what the model may write.

    Raises:
        ConfigurationError: when the model does not say how much it takes, or `output` leaves
            no room.
    """
    budgets = [budget_of(_window(each), output=output) for each in models_in(model)]
    smallest = min(budgets, key=lambda budget: budget.max_tokens)
    schemas = schemas_of(tools) or bound_tools(model)
    return replace(smallest, tools=tuple(schemas or ()), counter=counter_for(model))


def limit_for(model: Any, max_tokens: float | None) -> int:
    """Return the budget of a request: as given, as a share of the model's window, or its own."""
    if max_tokens is not None and not is_share(max_tokens):
        return int(max_tokens)
    budget = budget_for_model(model)
    return (budget if max_tokens is None else share_of(budget, max_tokens)).max_tokens


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


def bound_tools(model: Any) -> list[dict[str, Any]] | None:
    """The schemas bound to a model, wherever around it: tools, the form of a structured answer."""
    for step in path_to_model(model):
        kwargs = getattr(step, "kwargs", None)
        if isinstance(kwargs, dict):
            forms = [kwargs[name] for name in _FORMS if kwargs.get(name)]
            if bound := schemas_of([*(kwargs.get("tools") or ()), *forms]):
                return bound
    return None


def _window(model: Any) -> Window:
    profile = getattr(model, "profile", None)
    profile = profile if isinstance(profile, dict) else {}
    limit = profile.get("max_input_tokens")
    if not limit:
        raise ConfigurationError(
            f"{describe(model)} does not say how many tokens it takes (its profile has no "
            "max_input_tokens). Fix: pass max_tokens=…, or profile={'max_input_tokens': …} to "
            "the model."
        )
    settings = (
        getattr(model, field, None)
        for field in ("max_output_tokens", "max_completion_tokens", "max_tokens")
    )
    return Window(
        describe(model),
        int(limit),
        apart=answer_is_apart(provider_of_one(model), int(limit)),
        asked=next((n for n in settings if isinstance(n, int) and n > 0), None),
        writes=profile.get("max_output_tokens"),
        called="max_input_tokens",
    )
