"""The chat model inside whatever stands around it, and whose rules it obeys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import RunnableParallel, RunnableSequence

from history_curator.dialects import provider_for
from history_curator.sockets import Asked


def asked(model: Any) -> Asked:
    """The names of the models that may answer, and whether all are sent late system messages."""
    found = models_in(model)
    profiles = [getattr(each, "profile", None) or {} for each in found]
    in_place = all(each.get("mid_conversation_system_messages") is True for each in profiles)
    return Asked(tuple(map(model_name, found)), in_place)


def provider_of(model: Any) -> str:
    """The profile for a chat model; ``portable`` when its fallbacks are of other providers."""
    found = {provider_of_one(candidate) for candidate in models_in(model)} - {"core"}
    if found == {"openai", "openai-responses"}:
        return "openai"  # what Chat Completions takes, Responses takes too
    if len(found) > 1:
        return "portable"
    return found.pop() if found else "core"


def provider_in(messages: Iterable[Any]) -> str:
    """The profile for the models that answered so far, as their answers tell.

    ``core`` when no answer tells, or when they are of several providers.
    """
    found = set()
    for message in messages:
        known = getattr(message, "response_metadata", None)
        if known and isinstance(known.get("model_provider"), str):
            provider = provider_for(known["model_provider"])
            items = provider == "openai" and known.get("object") == "response"
            found.add("openai-responses" if items else provider)
    return found.pop() if len(found) == 1 else "core"


def provider_of_one(inner: Any) -> str:
    """The profile for one chat model, told from its class, then from its name."""
    for cls in type(inner).__mro__:
        found = provider_for(f"{cls.__module__}.{cls.__qualname__}")
        if found == "openai" and _sends_items(inner):
            return "openai-responses"
        if found != "core":
            return found
    name = model_name(inner)
    return provider_for(name) if name else "core"


def _sends_items(inner: Any) -> bool:
    """Whether a model of OpenAI is called through the Responses API."""
    asked = getattr(inner, "_use_responses_api", None)
    return callable(asked) and asked({}) is True


def same_model(one: Any, other: Any) -> bool:
    """Whether two runnables ask the same model, so that one reads what the other cached."""
    one, other = unwrap(one), unwrap(other)
    if one is other:
        return isinstance(one, BaseLanguageModel)
    name = model_name(one)
    return type(one) is type(other) and name is not None and name == model_name(other)


def unwrap(model: Any) -> Any:
    """The chat model inside bindings, retries, fallbacks and sequences."""
    return path_to_model(model)[-1]


def models_in(model: Any) -> list[Any]:
    """Every chat model that may answer: the one inside a runnable, then its fallbacks."""
    path = path_to_model(model)
    others = [other for step in path for other in _own(step, "fallbacks") or ()]
    return [path[-1], *(one for other in others for one in models_in(other))]


def path_to_model(model: Any) -> list[Any]:
    """What stands around a chat model, from the outside in; the model comes last."""
    path = [model]
    while len(path) < 16 and (inner := _inside(path[-1])) is not None:
        path.append(inner)
    return path


def _inside(runnable: Any) -> Any:
    if isinstance(runnable, BaseLanguageModel):
        return None
    for field in ("bound", "runnable", "default"):
        inner = _own(runnable, field)
        if hasattr(inner, "invoke"):
            return inner
    steps: list[Any] = []
    if isinstance(runnable, RunnableSequence):
        steps = runnable.steps[::-1]
    elif isinstance(runnable, RunnableParallel):
        steps = list(runnable.steps__.values())
    for step in steps:
        if isinstance(unwrap(step), BaseLanguageModel):
            return step
    return steps[0] if isinstance(runnable, RunnableSequence) else None


def _own(runnable: Any, field: str) -> Any:
    # Bindings and fallbacks hand attributes they lack on to what they wrap: those are not theirs.
    return getattr(runnable, "__dict__", {}).get(field)


def model_name(model: Any) -> str | None:
    """What the model calls itself, if it does."""
    for field in ("model_name", "model", "model_id", "azure_deployment"):
        name = getattr(model, field, None)
        if isinstance(name, str) and name:
            return name
    return None


def describe(model: Any) -> str:
    """A model in words."""
    inner = unwrap(model)
    name = model_name(inner)
    return f"{type(inner).__name__}({name})" if name else type(inner).__name__
