"""The settings every socket takes, and the curator made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from langchain_core.messages import BaseMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.utils.function_calling import convert_to_openai_tool

from history_curator.curator import Curator
from history_curator.detect_provider import provider_for
from history_curator.errors import ConversionError
from langchain_history_curator._dialect import LangChainDialect, settle

if TYPE_CHECKING:
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


def messages_of(given: Any) -> list[Any]:
    """The messages in whatever a chain or a graph hands on.

    A list, a PromptValue, a state with ``messages``, a string, or one message.

    Raises:
        ConversionError: when there are no messages in it.
    """
    if isinstance(given, str):
        return [given]
    if isinstance(given, BaseMessage):
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
    """The profile for a chat model, seen through bindings, retries and fallbacks."""
    inner = unwrap(model)
    for cls in type(inner).__mro__:
        found = provider_for(f"{cls.__module__}.{cls.__qualname__}")
        if found != "core":
            return found
    name = model_name(inner)
    return provider_for(name) if name else "core"


def unwrap(model: Any) -> Any:
    """The chat model inside bindings, retries, fallbacks and sequences."""
    for _ in range(16):
        for step in ("bound", "runnable", "default", "last"):
            inner = getattr(model, step, None)
            if inner is not None and hasattr(inner, "invoke"):
                model = inner
                break
        else:
            break
    return model


def model_name(model: Any) -> str | None:
    """What the model calls itself, if it does."""
    for field in ("model_name", "model", "model_id", "azure_deployment"):
        name = getattr(model, field, None)
        if isinstance(name, str) and name:
            return name
    return None


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
