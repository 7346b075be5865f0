"""The inputs of the integrations: settings, messages, and the chat model with its budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Literal

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableParallel, RunnableSequence
from langchain_core.utils.function_calling import convert_to_openai_tool

from history_curator.config import SharedOptions, check_names
from history_curator.curator import Curator
from history_curator.entries import ConversationEntry
from history_curator.errors import ConfigurationError, ConversionError, a_type, name_value
from history_curator.integrations import (
    Asked,
    Budget,
    Window,
    answer_is_apart,
    as_managers,
    budget_of,
)
from history_curator.tokens import TokenCounter, find_family, get_counter
from history_curator.tokens.models import provider_for
from langchain_history_curator.messages import FORMAT, as_messages


class StepOptions(SharedOptions, total=False):
    """The options of every step of a chain or of a graph, beside those of its curator."""

    managers: Any
    tools: Sequence[Any] | None
    tail: Literal["request", "history"] | None
    reserve: int
    name: str | None


def budget_arguments(max_tokens: int | None, reserve: int) -> dict[str, int | None]:
    """Return the budget of a call with a lasting reserve taken off, so that the cutoff stays."""
    if max_tokens is None or not 0 <= reserve < max_tokens:
        return {"max_tokens": max_tokens, "reserve": reserve}
    return {"max_tokens": max_tokens - reserve, "reserve": 0}


_MEANT = {  # by arguments of LangChain's own
    "trigger": "max_tokens=8_000, which every request fits, or 0.8 of the model's window.",
    "keep": "preserve_last_n=20, or leave it out: the budget decides.",
    "model": "leave it out, or write HistoryCurator.for_model(model); SummarizingManager(model) summarises.",
    "summary_prompt": "the manager SummarizingManager(model, prompt=…).",
    "trim_tokens_to_summarize": "the manager SummarizingManager(model, chunk_tokens=…).",
    "edits": "the manager ToolResultClearer(keep=3).",
    "token_limit": "did you mean 'max_tokens'?",
    "token_counter": "counter=…, where a function takes a list of messages.",
    "end_on": "tail='request', or tail='history' where something follows.",
    **dict.fromkeys(
        ("strategy", "include_system", "start_on", "allow_partial"),
        "leave it out: the newest messages and system messages stay, as the provider demands.",
    ),
}


def check_arguments(owner: str, given: Mapping[str, Any], known: Any, managers: Any) -> None:
    """Refuse what is written for LangChain's own, and say what to write."""
    check_names(owner, given, known, _MEANT)
    budget = given.get("max_tokens")
    if isinstance(budget, tuple) and budget:
        problem = f"{owner}: max_tokens is {budget!r}."
        raise ConfigurationError(f"{problem} Fix: max_tokens={budget[-1]!r}.")
    for manager in as_managers(managers):
        number = manager[-1] if isinstance(manager, tuple) and manager else manager
        fix = f"max_tokens={number!r}." if isinstance(number, (int, float)) else ""
        fix = _MEANT["model"] if isinstance(manager, str) or is_model(manager) else fix
        if fix:
            raise ConfigurationError(f"{owner}: {a_type(manager)} is no manager. Fix: {fix}")


def build_curator(owner: str, managers: Any, options: Mapping[str, Any], **more: Any) -> Curator:
    """Return the curator of `owner`; provider ``auto`` is ``core`` until a model is known."""
    settings: dict[str, Any] = {**options, **more}
    known = [*SharedOptions.__annotations__, "max_tokens", "reserve", "name"]
    check_arguments(owner, settings, known, managers)
    if "counter" in settings:
        settings["counter"] = counter_of(settings["counter"])
    if settings.get("provider") == "auto":
        settings["provider"] = "core"
    return Curator(*managers, **settings)


def messages_of(given: Any) -> list[Any]:
    """Return the messages in a list, a PromptValue, a state with ``messages``, a text or a message."""
    if isinstance(given, PromptValue):
        return given.to_messages()
    is_mapping = isinstance(given, Mapping)
    is_pair = isinstance(given, tuple) and list(map(type, given)) == [str, str]
    if is_pair or isinstance(given, (str, BaseMessage)):
        return as_messages(given, 0)
    # Before iterating: a pydantic state iterates over its fields.
    held = given.get("messages") if is_mapping else getattr(given, "messages", None)
    if held is not None:
        return messages_of(held)
    if is_mapping and not {"role", "type"}.isdisjoint(given):
        return as_messages(given, 0)
    if isinstance(given, Iterable) and not is_mapping:
        return [one for index, each in enumerate(given) for one in as_messages(each, index)]
    names = f" (it has: {', '.join(map(name_value, given))})" if is_mapping else ""
    fix = 'pass a list of messages, a PromptValue, {"messages": [...]} or a string.'
    raise ConversionError(f"{a_type(given)}{names} holds no messages.", fix=fix)


def _steps_in(runnable: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield a runnable and all inside it (bindings, retries, fallbacks, steps), with their fields."""
    fields = getattr(runnable, "__dict__", {})  # a binding hands other attributes on
    yield runnable, fields
    if isinstance(runnable, BaseLanguageModel):
        return
    inner = [fields.get(name) for name in ("bound", "runnable", "default")]
    inner += fields.get("fallbacks") or ()
    if isinstance(runnable, RunnableSequence):
        inner += runnable.steps
    elif isinstance(runnable, RunnableParallel):
        inner += runnable.steps__.values()
    for step in inner:
        if hasattr(step, "invoke"):
            yield from _steps_in(step)


def is_model(runnable: Any) -> bool:
    """Return whether there is a chat model in a runnable."""
    return any(isinstance(step, BaseLanguageModel) for step, _ in _steps_in(runnable))


def _models_in(model: Any) -> list[Any]:
    """Return every chat model that may answer; the object itself where it is none of LangChain's."""
    return [step for step, _ in _steps_in(model) if isinstance(step, BaseLanguageModel)] or [model]


def _model_name(model: Any) -> str | None:
    fields = ("model_name", "model", "model_id", "azure_deployment")
    names = (getattr(model, field, None) for field in fields)
    return next((name for name in names if isinstance(name, str) and name), None)


def asked_models(model: Any) -> Asked:
    """Return the models that may answer, and whether all are sent late system messages."""
    found = _models_in(model)
    profiles = (getattr(each, "profile", None) or {} for each in found)
    in_place = all(each.get("mid_conversation_system_messages") is True for each in profiles)
    return Asked(tuple(map(_model_name, found)), in_place)


def provider_of(model: Any) -> str:
    """Return the profile of a chat model; ``portable`` when its fallbacks are of other providers."""
    found = set(map(_provider_of_one, _models_in(model))) - {"core"}
    return "portable" if len(found) > 1 else next(iter(found), "core")


def _provider_of_one(model: Any) -> str:
    """Return the profile of one chat model, told from its class, then from its name."""
    classes = [f"{cls.__module__}.{cls.__qualname__}" for cls in type(model).__mro__]
    profiles = map(provider_for, (*classes, _model_name(model) or ""))
    found = next((profile for profile in profiles if profile != "core"), "core")
    uses_responses = getattr(model, "_use_responses_api", None)
    if found == "openai" and callable(uses_responses) and uses_responses({}) is True:
        return "openai-responses"
    return found


def schemas_of(tools: Sequence[Any] | None) -> list[dict[str, Any]] | None:
    """Return tools of any kind LangChain binds as the schemas that are sent; others as they are."""
    return [_schema_of(tool) for tool in tools] if tools else None


def _schema_of(tool: Any) -> dict[str, Any]:
    try:
        return convert_to_openai_tool(tool)
    except (TypeError, ValueError):  # of a provider's own, such as {"google_search": {}}
        return dict(tool) if isinstance(tool, Mapping) else {"tool": repr(tool)}


_ANSWER_FORMS = ("response_format", "response_json_schema", "response_schema", "output_config")
"""Where models keep the form of a structured answer that is not asked for as a tool."""


def bound_tools(model: Any) -> list[dict[str, Any]] | None:
    """Return the schemas bound to a model: tools, and the form of a structured answer."""
    for _, fields in _steps_in(model):
        kwargs = fields.get("kwargs") or {}
        forms = [kwargs[name] for name in _ANSWER_FORMS if kwargs.get(name)]
        if schemas := schemas_of([*(kwargs.get("tools") or ()), *forms]):
            return schemas
    return None


_SERVER_HISTORY = ("use_previous_response_id", "previous_response_id", "conversation", "thread")
"""Settings by which a provider's server keeps the history, and is sent the newest messages alone."""


def check_server_history(model: Any, settings: Mapping[str, Any] | None = None) -> None:
    """Refuse a model or a call whose server keeps the history, and reads on what a view leaves out."""
    given = dict(settings or {})
    for _, fields in _steps_in(model):
        given |= {**(fields.get("model_kwargs") or {}), **(fields.get("kwargs") or {})}
        given["use_previous_response_id"] = fields.get("use_previous_response_id")
        if name := next((name for name in _SERVER_HISTORY if given.get(name)), None):
            fix = f"leave {name} out"
            if name == "use_previous_response_id":
                fix = f"{name}=False, or HistoryCuratorMiddleware(replace_server_history=True)"
            raise ConfigurationError(
                f"{name}: the server keeps the history and goes on with all of it, so a view has no "
                f"effect. Fix: {fix}."
            )


def budget_for_model(model: Any, *, output: int | None = None) -> Budget:
    """Return the budget a chat model's profile allows: 95 % of its limit, less its answer.

    `output` are the tokens to leave for the answer. Of fallbacks the smallest budget counts. A model
    that does not say how much it takes is a `ConfigurationError`.
    """
    budgets = [budget_of(_window_of(each), output=output) for each in _models_in(model)]
    return min(budgets, key=lambda budget: budget.max_tokens)


def is_share(max_tokens: object) -> bool:
    """Return whether a budget is given as a share of a model's window: 0.5, not 8_000."""
    if isinstance(max_tokens, float) and not 0.0 < max_tokens <= 1.0:
        fix = "a whole number of tokens, or a share of the model's window above 0.0 and at most 1.0"
        raise ConfigurationError(f"max_tokens is {max_tokens!r}. Fix: {fix}.")
    return isinstance(max_tokens, float)


def limit_for(model: Any, max_tokens: Any, output: int | None = None) -> int:
    """Return the budget of a request: as given, as a share of the window, or the model's own."""
    if max_tokens is not None and not is_share(max_tokens):
        return max_tokens  # type: ignore[no-any-return]
    budget = budget_for_model(model, output=output)
    share = int(budget.limit * (max_tokens or 1.0))
    return max(1, min(budget.max_tokens, share))


def _window_of(model: Any) -> Window:
    profile = getattr(model, "profile", None) or {}
    limit, name = profile.get("max_input_tokens"), _model_name(model)
    words = f"{type(model).__name__}({name})" if name else type(model).__name__
    if not limit:
        raise ConfigurationError(
            f"{words} does not say how many tokens it takes (its profile has no max_input_tokens). "
            "Fix: pass max_tokens=…, or profile={'max_input_tokens': …} to the model."
        )
    fields = ("max_output_tokens", "max_completion_tokens", "max_tokens")
    settings = (getattr(model, field, None) for field in fields)
    asked = next((n for n in settings if isinstance(n, int) and n > 0), None)
    apart = answer_is_apart(_provider_of_one(model), limit)
    writes = profile.get("max_output_tokens")
    return Window(words, limit, apart, asked, writes, called="max_input_tokens")


def counter_for(model: Any) -> str:
    """Return the counter of a model's family; of fallbacks' the one that counts the most."""
    families = {name: find_family(name) for name in map(_model_name, _models_in(model)) if name}
    known = [(one.factor, one.tool_factor, name) for name, one in families.items() if one]
    return max(known)[2] if known else "o200k_base"


def counter_of(given: Any) -> str | TokenCounter:
    """Return the core's counter for a name, a counter, a chat model, or a function of messages."""
    if given == "approximate":
        given = count_tokens_approximately
    if isinstance(given, BaseLanguageModel):
        given = given.get_num_tokens_from_messages
    if isinstance(given, (str, TokenCounter)):
        return given
    return FunctionCounter(given) if callable(given) else get_counter(given)


_serial = count(1)


class FunctionCounter:
    """A `TokenCounter` around a function of a list of messages: of one, less the count of none."""

    def __init__(self, function: Callable[[list[BaseMessage]], int]) -> None:
        self.function = function
        name = getattr(function, "__qualname__", "counter")
        # Counts are remembered under the name: two functions of one name must not be mixed up.
        self.name = f"{name}#{next(_serial)}"
        try:
            self.priming = int(function([]))
        except (AttributeError, TypeError) as error:
            raise ConfigurationError(
                f"counter: {name} does not count a list of messages. "
                f"Fix: def {name}(messages: list[BaseMessage]) -> int: …"
            ) from error
        except Exception:  # noqa: BLE001 - it takes no empty list
            self.priming = 0
        self.count_tools = get_counter("o200k_base").count_tools

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        return self._count(HumanMessage(text)) if text else 0

    def count_entry(self, entry: ConversationEntry) -> int:
        """Return the tokens of one message."""
        return sum(map(self._count, FORMAT.write([entry])))

    def _count(self, message: BaseMessage) -> int:
        return int(self.function([message])) - self.priming
