"""The chat model inside whatever stands around it: its rules, its budget and what counts for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count as numbers
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.runnables import RunnableParallel, RunnableSequence
from langchain_core.utils.function_calling import convert_to_openai_tool

from history_curator.formats import provider_for
from history_curator.errors import ConfigurationError
from history_curator.entries import ConversationEntry
from history_curator.integrations import (
    Asked,
    Budget,
    Window,
    answer_is_apart,
    budget_of,
    is_share,
    share_of,
)
from history_curator.tokens import TokenCounter, find_family, get_counter
from langchain_history_curator._format import DIALECT


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


def schemas_of(tools: Sequence[Any] | None) -> list[dict[str, Any]] | None:
    """Tools of any kind LangChain binds, as the schemas that are sent.

    A dict that is no function, such as a provider's ``{"google_search": {}}``, stays as it is.
    """
    return [_schema_of(tool) for tool in tools] if tools else None


def _schema_of(tool: Any) -> dict[str, Any]:
    if isinstance(tool, Mapping):
        if "function" in tool or "type" in tool or "name" in tool or "title" not in tool:
            return dict(tool)
    elif not callable(tool) and not hasattr(tool, "args_schema"):
        # Objects of a provider's own, such as google.genai's Tool.
        dump = getattr(tool, "model_dump", None)
        return dump(exclude_none=True) if callable(dump) else {"tool": repr(tool)}
    return convert_to_openai_tool(tool)


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


def limit_for(model: Any, max_tokens: float | None, output: int | None = None) -> tuple[int, str]:
    """Return the budget of a request, and where it comes from.

    As given, as a share of the model's window, or the model's own.
    """
    if max_tokens is not None and not is_share(max_tokens):
        return int(max_tokens), "as given"
    budget = budget_for_model(model, output=output)
    if max_tokens is not None:
        budget = share_of(budget, max_tokens)
    return budget.max_tokens, budget.source


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


_serial = numbers(1)


def counter_of(given: Any) -> str | TokenCounter:
    """Return what the core counts with.

    Args:
        given: an encoding or a model's name, a `TokenCounter`, ``"approximate"``, a chat model
            (its ``get_num_tokens_from_messages`` is asked), or a function of a list of messages
            or of one message.
    """
    if given == "approximate":
        given = count_tokens_approximately
    if isinstance(given, (str, TokenCounter)):
        return given
    if isinstance(given, BaseLanguageModel):
        return MessageCounter(given.get_num_tokens_from_messages)
    if callable(given):
        return MessageCounter(given)
    counter: TokenCounter = get_counter(given)  # refuses it, in its own words
    return counter


class MessageCounter:
    """A `TokenCounter` around a function of LangChain messages.

    Messages are counted one by one, less what the function counts for no message at all, so that
    a view of them fits whenever their sum does. Schemas of tools are counted by the core, unless
    the function takes ``tools``.

    Examples:
        >>> counter = MessageCounter(count_tokens_approximately)
        >>> counter.count("four words of text") > 0
        True
    """

    def __init__(self, function: Callable[..., int]) -> None:
        self.function = function
        parameters = _parameters(function)
        self._one = _is_one_message(next(iter(parameters.values()), None))
        self._tools = "tools" in parameters
        label = getattr(function, "__qualname__", type(function).__name__)
        # Counts are cached under the name: two functions of one name must not be mixed up.
        self.name = f"{getattr(function, '__module__', 'counter')}.{label}#{next(_serial)}"
        self.priming = self._priming()

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        return self._ask([HumanMessage(text)]) if text else 0

    def count_entry(self, entry: ConversationEntry) -> int:
        """Return the tokens of one message."""
        return self._ask(DIALECT.write([entry]))

    def count_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> int:
        """Return the tokens of the tool schemas sent along."""
        if not tools:
            return 0
        if self._tools and not self._one:
            return int(self.function([], tools=list(tools))) - self.priming
        return get_counter("o200k_base").count_tools(tools)

    def _ask(self, messages: Sequence[BaseMessage]) -> int:
        if self._one:
            return sum(int(self.function(message)) for message in messages)
        return int(self.function(list(messages))) - self.priming

    def _priming(self) -> int:
        if self._one:
            return 0
        try:
            return int(self.function([]))
        except Exception:  # noqa: BLE001 - a function that wants a message has no price for none
            return 0

    def __repr__(self) -> str:
        return f"MessageCounter({self.name!r})"


def _parameters(function: Callable[..., int]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _is_one_message(first: inspect.Parameter | None) -> bool:
    """Whether a function wants one message, as `trim_messages` tells it: by its annotation."""
    wanted = None if first is None else first.annotation
    if isinstance(wanted, str):
        return wanted.rpartition(".")[2] in ("BaseMessage", "AnyMessage")
    return inspect.isclass(wanted) and issubclass(wanted, BaseMessage)
