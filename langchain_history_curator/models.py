"""The inputs of the integrations: messages, settings, and the chat model behind a step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any, Literal

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableParallel, RunnableSequence
from langchain_core.utils.function_calling import convert_to_openai_tool

from history_curator.config import OPTIONS, SharedOptions, check_names
from history_curator.curator import Curator
from history_curator.entries import ConversationEntry
from history_curator.errors import ConfigurationError, ConversionError, a_type, named
from history_curator.integrations import (
    Asked,
    Budget,
    Window,
    answer_is_apart,
    budget_of,
    is_fraction,
    share_of,
)
from history_curator.managers import HistoryManager
from history_curator.tokens import TokenCounter, find_family, get_counter
from history_curator.tokens.models import provider_for
from langchain_history_curator.messages import FORMAT, without_removed


class NodeOptions(SharedOptions, total=False):
    """The options of a step of a chain or of a graph."""

    tail: Literal["auto", "request", "history"]
    reserve: int
    mark_cache: bool
    name: str | None


class StepOptions(NodeOptions, total=False):
    """The options of `HistoryCurator.for_model`, beside a budget."""

    managers: Sequence[Any] | HistoryManager | None
    tools: Sequence[Any] | None


class HistoryCuratorOptions(StepOptions, total=False):
    """The options of `HistoryCurator`."""

    max_tokens: int | None
    budget: str | None


_FROM_TRIM_MESSAGES = {
    "token_counter": "counter=… takes the same: a function of messages, a model, a name",
    "strategy": "leave it out: the newest messages stay. For the oldest ones use a manager",
    "allow_partial": "leave it out: long tool results are shortened, the rest stays whole",
    "end_on": 'tail="request" ends on a user or tool message, tail="history" on any',
    "start_on": "leave it out: a view starts where the provider lets it start",
    "include_system": "leave it out: the system message always stays",
    "text_splitter": "leave it out: long tool results are shortened in the middle",
}


def check_settings(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse unknown names; those of `trim_messages` with the setting to use instead."""
    check_names(owner, given, list(known), _FROM_TRIM_MESSAGES)


def refuse_fraction(owner: str, max_tokens: Any, fix: str) -> None:
    """Refuse a share of a window where no model says how large the window is."""
    if is_fraction(max_tokens):
        raise ConfigurationError(
            f"{owner}: max_tokens is {max_tokens!r}, a share of the window of a model it does not "
            f"know. Fix: a number of tokens, or {fix}."
        )


def budget_arguments(max_tokens: int | None, reserve: int) -> dict[str, int | None]:
    """Return the budget and the reserve of a call, where both are settings that stay.

    A lasting reserve is taken off the budget: as a reserve it would shorten each view, and the
    next one would begin again from the whole budget, which costs the prompt cache.
    """
    if max_tokens is None or not 0 <= reserve < max_tokens:  # the core refuses impossible ones
        return {"max_tokens": max_tokens, "reserve": reserve}
    return {"max_tokens": max_tokens - reserve, "reserve": 0}


_LASTING = {*OPTIONS, "managers", "retention", "rewrite"} - {"max_tokens", "reserve"}


class LastingOptions:
    """Refuses options set after construction, where setting them would change nothing."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _LASTING and "_is_built" in self.__dict__:
            raise ConfigurationError(
                f"{type(self).__name__}: {name} cannot be changed any more. Fix: make another one "
                f"with {name}=…."
            )
        super().__setattr__(name, value)


def build_curator(
    managers: Sequence[Any],
    max_tokens: int | None,
    options: SharedOptions,
    *,
    name: str,
    owner: str,
) -> Curator:
    """Return the curator of `owner`; provider ``auto`` is ``core`` until a model is known."""
    settings: dict[str, Any] = dict(options)
    check_settings(owner, settings, SharedOptions.__annotations__)
    if "counter" in settings:
        settings["counter"] = counter_of(settings["counter"])
    if settings.get("provider") == "auto":
        settings["provider"] = "core"
    return Curator(*managers, max_tokens=max_tokens, name=name, **settings)


def messages_of(given: Any) -> list[Any]:
    """Return the messages in a list, a PromptValue, a state with ``messages``, a string or a message.

    Raises:
        ConversionError: when there are no messages in it.
    """
    if isinstance(given, (str, BaseMessage)):
        return [given]
    if isinstance(given, PromptValue):
        return without_removed(given.to_messages())
    if isinstance(given, Mapping):
        if "messages" in given:
            return messages_of(given["messages"])
        if "role" in given or "type" in given:
            return [given]
        raise ConversionError(
            f'a dict without "messages" (it has: {", ".join(map(named, given)) or "nothing"}).',
            fix='pass {"messages": [...]}, a list of messages, a PromptValue or a string.',
        )
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(x, str) for x in given):
        return [given]
    if hasattr(given, "messages"):  # before iterating: a pydantic state iterates over its fields
        return messages_of(given.messages)
    if isinstance(given, Iterable):
        return without_removed(given)
    raise ConversionError(
        f"{a_type(given)} holds no messages.",
        fix='pass a list of messages, a PromptValue, {"messages": [...]} or a string.',
    )


def is_request(given: Any) -> bool:
    """Return whether a chain is about to send this as it is, as far as its shape tells.

    A list that ends on an answer is a history: something follows. Everything else is a request.
    """
    if isinstance(given, tuple) or not isinstance(given, Sequence) or isinstance(given, str):
        return True
    if not given:
        return False
    last = given[-1]
    if isinstance(last, Mapping):
        return last.get("role", last.get("type")) not in ("assistant", "ai", "model")
    if isinstance(last, tuple):
        return last[0] not in ("assistant", "ai")
    return getattr(last, "type", "human") not in ("ai", "AIMessageChunk", "system")


# The chat model inside whatever stands around it.


def unwrap(model: Any) -> Any:
    """Return the chat model inside bindings, retries, fallbacks and sequences."""
    return _path_to_model(model)[-1]


def _models_in(model: Any) -> list[Any]:
    """Return every chat model that may answer: the one inside a runnable, then its fallbacks."""
    path = _path_to_model(model)
    others = [other for step in path for other in _own(step, "fallbacks") or ()]
    return [path[-1], *(one for other in others for one in _models_in(other))]


def _path_to_model(model: Any) -> list[Any]:
    """Return the runnables around a chat model, from the outside in; the model comes last."""
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
    if isinstance(runnable, RunnableSequence):
        steps = runnable.steps[::-1]
    else:
        steps = list(runnable.steps__.values()) if isinstance(runnable, RunnableParallel) else []
    models = (step for step in steps if isinstance(unwrap(step), BaseLanguageModel))
    return next(models, steps[0] if isinstance(runnable, RunnableSequence) else None)


def _own(runnable: Any, field: str) -> Any:
    # Bindings and fallbacks hand attributes they lack on to the runnable inside.
    return getattr(runnable, "__dict__", {}).get(field)


def _model_name(model: Any) -> str | None:
    names = (getattr(model, f, None) for f in ("model_name", "model", "model_id"))
    known = (*names, getattr(model, "azure_deployment", None))
    return next((name for name in known if isinstance(name, str) and name), None)


def asked_models(model: Any) -> Asked:
    """Return the models that may answer, and whether all are sent late system messages."""
    found = _models_in(model)
    profiles = [getattr(each, "profile", None) or {} for each in found]
    in_place = all(each.get("mid_conversation_system_messages") is True for each in profiles)
    return Asked(tuple(map(_model_name, found)), in_place)


def provider_of(model: Any) -> str:
    """Return the profile of a chat model; ``portable`` when its fallbacks are of other providers."""
    found = {_provider_of_one(candidate) for candidate in _models_in(model)} - {"core"}
    if found == {"openai", "openai-responses"}:
        return "openai"  # Responses takes all that Chat Completions takes
    if len(found) > 1:
        return "portable"
    return found.pop() if found else "core"


def _provider_of_one(model: Any) -> str:
    """Return the profile of one chat model, told from its class, then from its name."""
    for cls in type(model).__mro__:
        found = provider_for(f"{cls.__module__}.{cls.__qualname__}")
        uses_responses = getattr(model, "_use_responses_api", None)
        if found == "openai" and callable(uses_responses) and uses_responses({}) is True:
            return "openai-responses"
        if found != "core":
            return found
    name = _model_name(model)
    return provider_for(name) if name else "core"


def provider_in(messages: Iterable[Any]) -> str:
    """Return the profile of the models that answered so far; ``core`` where that is not one."""
    found = set()
    for message in messages:
        metadata = getattr(message, "response_metadata", None)
        if metadata and isinstance(metadata.get("model_provider"), str):
            provider = provider_for(metadata["model_provider"])
            items = provider == "openai" and metadata.get("object") == "response"
            found.add("openai-responses" if items else provider)
    return found.pop() if len(found) == 1 else "core"


def schemas_of(tools: Sequence[Any] | None) -> list[dict[str, Any]] | None:
    """Return tools of any kind LangChain binds as the schemas that are sent.

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


_ANSWER_FORMS = ("response_format", "response_json_schema", "response_schema", "output_config")
"""Where models keep the form of a structured answer that is not asked for as a tool."""


def bound_tools(model: Any) -> list[dict[str, Any]] | None:
    """Return the schemas bound to a model: tools, and the form of a structured answer."""
    for step in _path_to_model(model):
        kwargs = getattr(step, "kwargs", None)
        if isinstance(kwargs, dict):
            forms = [kwargs[name] for name in _ANSWER_FORMS if kwargs.get(name)]
            if schemas := schemas_of([*(kwargs.get("tools") or ()), *forms]):
                return schemas
    return None


# Its budget, and its counter.


def budget_for_model(
    model: Any, *, tools: Sequence[Any] | None = None, output: int | None = None
) -> Budget:
    """Return the budget a chat model's profile allows: 95 % of its limit, less its answer.

    The answer takes nothing where the limit is of the input alone (Gemini, GPT-5); `output` says how
    many tokens to leave for it instead. Bindings, retries, fallbacks and sequences are seen through;
    with fallbacks the smallest budget counts. Tools bound to the model are found by themselves.

    Raises:
        ConfigurationError: when the model does not say how much it takes, or `output` leaves
            nothing for messages.
    """
    budgets = [budget_of(_window_of(each), output=output) for each in _models_in(model)]
    smallest = min(budgets, key=lambda budget: budget.max_tokens)
    schemas = schemas_of(tools) or bound_tools(model)
    return replace(smallest, tools=tuple(schemas or ()), counter=counter_for(model))


def limit_for(model: Any, max_tokens: float | None, output: int | None = None) -> tuple[int, str]:
    """Return the budget of a request, as given, as a share or the model's own, and its source."""
    if max_tokens is not None and not is_fraction(max_tokens):
        return int(max_tokens), "as given"
    budget = budget_for_model(model, output=output)
    if max_tokens is not None:
        budget = share_of(budget, max_tokens)
    return budget.max_tokens, budget.source


def _window_of(model: Any) -> Window:
    profile = getattr(model, "profile", None)
    profile = profile if isinstance(profile, dict) else {}
    limit, name = profile.get("max_input_tokens"), _model_name(model)
    words = f"{type(model).__name__}({name})" if name else type(model).__name__
    if not limit:
        raise ConfigurationError(
            f"{words} does not say how many tokens it takes (its profile has no "
            "max_input_tokens). Fix: pass max_tokens=…, or profile={'max_input_tokens': …} to "
            "the model."
        )
    fields = ("max_output_tokens", "max_completion_tokens", "max_tokens")
    settings = (getattr(model, field, None) for field in fields)
    return Window(
        words,
        int(limit),
        apart=answer_is_apart(_provider_of_one(model), int(limit)),
        asked=next((n for n in settings if isinstance(n, int) and n > 0), None),
        writes=profile.get("max_output_tokens"),
        called="max_input_tokens",
    )


def counter_for(model: Any) -> str:
    """Return the counter of a model's family; with fallbacks the one that counts the most."""
    most = ((1.0, 1.0), "o200k_base")
    for position, candidate in enumerate(_models_in(model)):
        name = _model_name(candidate)
        family = find_family(name) if name else None
        if name and family:
            factors = (family.factor, family.tool_factor)
            if position == 0 or factors > most[0]:
                most = (factors, name)
    return most[1]


def counter_of(given: Any) -> str | TokenCounter:
    """Return the core's counter for an option.

    `given` is an encoding or a model's name, a `TokenCounter`, ``"approximate"``, a chat model (its
    ``get_num_tokens_from_messages`` is asked), or a function of messages or of one message.
    """
    if given == "approximate":
        given = count_tokens_approximately
    if isinstance(given, (str, TokenCounter)):
        return given
    if isinstance(given, BaseLanguageModel):
        given = given.get_num_tokens_from_messages
    if callable(given):
        return MessageCounter(given)
    counter: TokenCounter = get_counter(given)  # refuses it, in its own words
    return counter


_serial = count(1)


class MessageCounter:
    """A `TokenCounter` around a function of LangChain messages.

    Messages are counted one by one, less the function's count of no message at all, so that a view
    fits whenever their sum does. The core counts schemas of tools unless the function takes
    ``tools``.
    """

    def __init__(self, function: Callable[..., int]) -> None:
        self.function = function
        parameters: Mapping[str, inspect.Parameter] = {}
        with suppress(TypeError, ValueError):
            parameters = inspect.signature(function).parameters
        # As `trim_messages` tells it: by the annotation, here also where that is a text.
        wanted = next((each.annotation for each in parameters.values()), None)
        if isinstance(wanted, str):
            self._takes_one = wanted.rpartition(".")[2] in ("BaseMessage", "AnyMessage")
        else:
            self._takes_one = inspect.isclass(wanted) and issubclass(wanted, BaseMessage)
        self._takes_tools = "tools" in parameters and not self._takes_one
        label = getattr(function, "__qualname__", type(function).__name__)
        # Counts are remembered under the name: two functions of one name must not be mixed up.
        self.name = f"{getattr(function, '__module__', 'counter')}.{label}#{next(_serial)}"
        self.priming = self._count_nothing()

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        return self._count([HumanMessage(text)]) if text else 0

    def count_entry(self, entry: ConversationEntry) -> int:
        """Return the tokens of one message."""
        return self._count(FORMAT.write([entry]))

    def count_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> int:
        """Return the tokens of the tool schemas sent along."""
        if tools and self._takes_tools:
            return int(self.function([], tools=list(tools))) - self.priming
        return get_counter("o200k_base").count_tools(tools) if tools else 0

    def _count(self, messages: Sequence[BaseMessage]) -> int:
        if self._takes_one:
            return sum(int(self.function(message)) for message in messages)
        return int(self.function(list(messages))) - self.priming

    def _count_nothing(self) -> int:
        try:
            return 0 if self._takes_one else int(self.function([]))
        except Exception:  # noqa: BLE001 - a function that wants a message has no price for none
            return 0

    def __repr__(self) -> str:
        return f"MessageCounter({self.name!r})"
