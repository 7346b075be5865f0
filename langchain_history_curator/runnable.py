"""`HistoryCurator`, curation as a step of a chain; for langgraph a hook before a model and a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda, RunnableSerializable
from pydantic import BeforeValidator, ConfigDict, PrivateAttr
from typing_extensions import Self, Unpack, override

from history_curator.config import CuratorFields, check_options
from history_curator.curator import Curation, Curator
from history_curator.errors import ConfigurationError
from history_curator.integrations import Asked, as_managers, rules_for
from history_curator.run_steps import Call, Steps, run_async, run_sync
from langchain_history_curator import models
from langchain_history_curator.messages import FORMAT
from langchain_history_curator.tools_and_events import announce, graph_writer, hide_from_stream

_CURATOR_FIELDS = tuple({"managers", *CuratorFields.model_fields, "bus", "name"} - {"max_tokens"})
"""The fields a curator is built from; the others are arguments of each view."""


class HistoryCurator(CuratorFields, RunnableSerializable[Any, list[BaseMessage]]):
    """The step of a chain that decides which messages the next model gets to see.

    Takes a list of messages, a PromptValue, a state with ``messages``, a string or one message, and
    returns a list of messages that fits `max_tokens`, splits no tool exchange and follows the
    provider's rules. Untouched messages are the same objects; the input is never changed. Raises
    `BudgetUnsatisfiableError` when the least that must be sent does not fit.

    The settings are those of `Curator`, and may be changed at any time: by assignment,
    ``model_copy(update=…)``, ``bind(…)`` or as keywords of one call. Tools of any kind become schemas.

    Examples:
        >>> from langchain_core.messages import HumanMessage
        >>> message = HumanMessage("hello")
        >>> HistoryCurator(max_tokens=8_000).invoke([message])[0] is message
        True
    """

    model_config = ConfigDict(extra="forbid")

    managers: Annotated[tuple[Any, ...], BeforeValidator(as_managers)] = ()
    tail: Literal["request", "history"] | None = None
    reserve: int = 0
    tools: Annotated[list[dict[str, Any]] | None, BeforeValidator(models.schemas_of)] = None
    bus: Any = None
    name: str | None = "HistoryCurator"

    _curator: Curator = PrivateAttr()
    _built_from: dict[str, Any] = PrivateAttr(default_factory=dict)
    _asked: Asked = PrivateAttr(default=Asked())  # the model behind this step, where it is known

    def __init__(
        self,
        *positional: Any,
        max_tokens: int | None = None,
        **settings: Unpack[models.StepOptions],
    ) -> None:
        if positional:
            models.check_arguments("HistoryCurator", {}, (), positional)
            fix = "managers=[…]"
            raise ConfigurationError(f"HistoryCurator takes its managers by name. Fix: {fix}.")
        given: dict[str, Any] = {"max_tokens": max_tokens, **settings}
        self._check(given)  # here, because pydantic would turn our error into one of its own
        super().__init__(**given)
        _ = self.curator

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether ``dumps`` writes it: yes, without managers and with a named counter."""
        return True

    @classmethod
    def for_model(
        cls,
        model: Any,
        max_tokens: float | None = None,
        *,
        output: int | None = None,
        **settings: Unpack[models.StepOptions],
    ) -> Self:
        """Return a step whose budget, counter, provider and bound tools are the model's own.

        `budget_for_model` explains the budget and `output`; a `max_tokens` such as 0.5 is a share of
        the window. With fallbacks of other providers the rules of all hold.
        """
        models.check_server_history(model)
        if settings.get("provider", "auto") == "auto":
            settings["provider"] = models.provider_of(model)
        settings.setdefault("counter", models.counter_for(model))
        settings["tools"] = settings.get("tools") or models.bound_tools(model)
        step = cls(max_tokens=models.limit_for(model, max_tokens, output), **settings)
        step._asked = models.asked_models(model)
        return step

    @override
    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[BaseMessage]:
        steps = self.bind(**kwargs)._steps
        return self._call_with_config(
            lambda given, run_manager: run_sync(steps(given, run_manager)), input, config
        )

    @override
    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[BaseMessage]:
        steps = self.bind(**kwargs)._steps
        return await self._acall_with_config(
            lambda given, run_manager: run_async(steps(given, run_manager)), input, config
        )

    def _steps(self, given: Any, run_manager: Any) -> Steps[list[BaseMessage]]:
        with hide_from_stream():
            curation: Curation = yield Call(self.curate, self.acurate, (given,))
        announce(curation, self.name or "history", graph_writer(), run_manager.get_child())
        return curation.messages

    @override
    def __or__(self, other: Any) -> Any:
        """Compose. In front of a model its provider, its tools and ``tail`` are known."""
        if not models.is_model(other):
            return super().__or__(other)
        models.check_server_history(other)
        found: dict[str, Any] = {"tools": self.tools or models.bound_tools(other)}
        found["tail"] = self.tail or "request"
        if self.provider == "auto":
            found["provider"] = models.provider_of(other)
        step = self.model_copy(update=found)
        step._asked = models.asked_models(other)
        return RunnableSerializable.__or__(step, other)

    @override
    def bind(self, **settings: Any) -> HistoryCurator:
        """Return this step with other settings."""
        return self.model_copy(update=settings) if settings else self

    @override
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other settings; unknown ones and wrong values are refused."""
        self._check(update or {})
        return super().model_copy(update=update, deep=deep)

    def curate(self, given: Any) -> Curation:
        """Return the view with its report; takes the same input as `invoke`."""
        return self.curator.curate(models.messages_of(given), **self._arguments())

    async def acurate(self, given: Any) -> Curation:
        """Like `curate`, for managers that call a model."""
        return await self.curator.acurate(models.messages_of(given), **self._arguments())

    @property
    def curator(self) -> Curator:
        """The core's curator behind this step, built of its settings as they are now."""
        settings: dict[str, Any] = {name: self.__dict__[name] for name in _CURATOR_FIELDS}
        built_from = {**settings, "asked": self._asked}
        if built_from != self._built_from:
            provider = "core" if self.provider == "auto" else self.provider
            settings["provider"] = rules_for(provider, self._asked, self.reasoning)
            settings["name"] = self.name or "history"
            managers = as_managers(settings.pop("managers"))
            self._curator = models.build_curator("HistoryCurator", managers, settings)
            self._built_from = built_from
        return self._curator

    def _arguments(self) -> dict[str, Any]:
        budget = models.budget_arguments(self.max_tokens, self.reserve)
        tools = models.schemas_of(self.tools)  # they may be assigned, or come with a copy
        return {**budget, "tools": tools, "tail": self.tail, "format": FORMAT}

    @classmethod
    def _check(cls, given: Mapping[str, Any]) -> None:
        models.check_arguments(cls.__name__, given, cls.model_fields, given.get("managers"))
        if isinstance(given.get("max_tokens"), float):
            raise ConfigurationError(
                f"max_tokens is {given['max_tokens']}, a share of the window of a model that is not "
                "known here. Fix: a number of tokens, or for_model(model, max_tokens=0.5)."
            )
        check_options(given)


def pre_model_hook(
    max_tokens: int | None = None, **settings: Unpack[models.StepOptions]
) -> Runnable[Any, dict[str, Any]]:
    """Return a ``pre_model_hook`` for langgraph's prebuilt agent: the model gets the view.

    Pass the agent's `tools`, and a `reserve` for its prompt, which it adds after the hook.
    """
    given: Any = {"tail": "request", "name": "pre_model_hook", **settings}
    step = HistoryCurator(max_tokens=max_tokens, **given)
    hook: Runnable[Any, Any] = step | (lambda view: {"llm_input_messages": view})
    return hook


def model_node(
    model: Any,
    max_tokens: float | None = None,
    *,
    prompt: str | SystemMessage | None = None,
    **settings: Unpack[models.StepOptions],
) -> Runnable[Any, dict[str, Any]]:
    """Return a StateGraph node that calls a model with a view of the state's messages.

    Budget, counter, provider and bound tools are the model's own where not given. `prompt` is put
    before the messages. Returns ``{"messages": [answer]}``, so the state keeps the full record.
    """
    given: Any = {"tail": "request", **settings}
    step = HistoryCurator.for_model(model, max_tokens, **given)
    lead = [SystemMessage(prompt) if isinstance(prompt, str) else prompt] if prompt else []
    request: Runnable[Any, Any] = RunnableLambda(lambda state: [*lead, *models.messages_of(state)])
    node: Runnable[Any, Any] = request | step | model | (lambda answer: {"messages": [answer]})
    return node
