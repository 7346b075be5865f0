"""The settings every socket takes, and the curator made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableParallel, RunnableSequence
from langchain_core.utils.function_calling import convert_to_openai_tool

from history_curator.config import CuratorConfig
from history_curator.curator import Curator
from history_curator.detect_provider import provider_for
from history_curator.errors import ConversionError
from langchain_history_curator._dialect import LangChainDialect, settle

if TYPE_CHECKING:
    from pathlib import Path

    from history_curator.profiles import ProviderProfile
    from history_curator.record import EventBus
    from history_curator.tokens import TokenCounter

DIALECT = LangChainDialect()
"""One for all: it holds no conversation."""


class CuratorOptions(TypedDict, total=False):
    """What `Curator` takes by name; see there."""

    counter: str | TokenCounter
    provider: str | ProviderProfile
    low_water: float | None
    reasoning: Literal["strip", "keep", "refuse"] | None
    mode: Literal["enforce", "shadow"]
    bus: EventBus | None
    preserve_last_n: int | None


ConfigSource: TypeAlias = "CuratorConfig | Mapping[str, Any] | str | Path"
"""What describes a curator: a configuration, a mapping, or the path of a file."""

_CORE = ("counter", "low_water", "max_tokens", "preserve_last_n", "reasoning")
"""Overrides the core checks together with the managers of a configuration."""


def messages_of(given: Any) -> list[Any]:
    """The messages in whatever a chain or a graph hands on.

    A list, a PromptValue, a state with ``messages``, a string, or one message.

    Raises:
        ConversionError: when there are no messages in it.
    """
    if given.__class__ is list:
        return settle(given)
    if isinstance(given, (str, BaseMessage)):
        return [given]
    if isinstance(given, PromptValue):
        return settle(given.to_messages())
    if isinstance(given, Mapping):
        if "messages" in given:
            return messages_of(given["messages"])
        if "role" in given or "type" in given:
            return [given]
        raise ConversionError(
            f'a dict without "messages" (it has: {", ".join(map(str, given)) or "nothing"}).',
            fix='pass {"messages": [...]}, a list of messages, a PromptValue or a string.',
        )
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(x, str) for x in given):
        return [given]
    if isinstance(given, Iterable):
        return settle(given)
    if hasattr(given, "messages"):
        return messages_of(given.messages)
    raise ConversionError(
        f"a {type(given).__name__} holds no messages.",
        fix='pass a list of messages, a PromptValue, {"messages": [...]} or a string.',
    )


def schemas_of(tools: Sequence[Any] | None) -> list[dict[str, Any]] | None:
    """Tools of any kind LangChain binds, as the schemas that are sent."""
    if not tools:
        return None
    return [dict(tool) if _is_schema(tool) else convert_to_openai_tool(tool) for tool in tools]


def provider_of(model: Any) -> str:
    """The profile for a chat model; ``portable`` when its fallbacks are of other providers."""
    found = {_provider_of_one(candidate) for candidate in models_in(model)} - {"core"}
    if len(found) > 1:
        return "portable"
    return found.pop() if found else "core"


def _provider_of_one(inner: Any) -> str:
    for cls in type(inner).__mro__:
        found = provider_for(f"{cls.__module__}.{cls.__qualname__}")
        if found != "core":
            return found
    name = model_name(inner)
    return provider_for(name) if name else "core"


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


def load_settings(
    config: ConfigSource | None,
    objects: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What a configuration sets, by name and with its managers made; overrides win.

    What it does not set is left out, so that the defaults of the socket hold. Without a
    configuration these are the overrides alone.

    Raises:
        ConfigurationError: when the configuration is wrong or names an object not given.

    Example:
        >>> load_settings({"max_tokens": 800, "provider": "openai"}, overrides={"max_tokens": 9})
        {'max_tokens': 9, 'provider': 'openai'}
    """
    given = dict(overrides or {})
    if config is None:
        return given
    loaded = CuratorConfig.load(config)
    settings = {
        field: getattr(loaded, field)
        for field in CuratorConfig.model_fields
        if field in loaded.model_fields_set and field != "limits"
    }
    if "managers" in settings and "managers" not in given:
        known = {field: value for field, value in given.items() if field in _CORE}
        settings["managers"] = loaded.build(objects=objects, **known).managers
    return {**settings, **given}


def build_curator(
    managers: Sequence[Any],
    max_tokens: int | None,
    options: CuratorOptions,
    *,
    name: str,
    recall: bool = False,
    model: Any = None,
) -> Curator:
    """A curator; provider ``auto`` is resolved from the model, or ``core`` without one."""
    settings: dict[str, Any] = dict(options)
    if settings.get("provider", "core") == "auto":
        settings["provider"] = provider_of(model) if model is not None else "core"
    return Curator(*managers, max_tokens=max_tokens, name=name, recall=recall, **settings)


def _is_schema(tool: Any) -> bool:
    return isinstance(tool, Mapping) and ("function" in tool or "type" in tool or "name" in tool)
