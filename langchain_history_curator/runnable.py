"""`HistoryCurator`: curation as a step of a chain; and where the summaries of its managers go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal

from langchain_core.callbacks import (
    AsyncCallbackManagerForChainRun,
    CallbackManagerForChainRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.language_models import BaseLanguageModel
from langchain_core.load import loads
from langchain_core.messages import BaseMessage, MessageLikeRepresentation
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSerializable
from langchain_core.runnables.config import (
    ensure_config,
    patch_config,
    var_child_runnable_config,
)
from pydantic import ConfigDict, Field, PrivateAttr, field_validator
from typing_extensions import Self, Unpack, override

from history_curator.config import CuratorFields, check_names, check_options, declare_field
from history_curator.curator import Curation, Curator
from history_curator.errors import ConfigurationError
from history_curator.integrations import (
    Asked,
    ConfigSource,
    as_managers,
    load_settings,
    rules_for,
)
from history_curator.managers import keeping_summaries
from history_curator.run_steps import Call, Steps, run_async, run_sync
from langchain_history_curator.messages import FORMAT
from langchain_history_curator.models import (
    HistoryCuratorOptions,
    StepOptions,
    asked_models,
    bound_tools,
    budget_arguments,
    counter_for,
    counter_of,
    is_request,
    limit_for,
    messages_of,
    provider_in,
    provider_of,
    refuse_fraction,
    schemas_of,
    unwrap,
)
from langchain_history_curator.tools_and_events import (
    EVENT_NAME,
    ask_graph,
    event_of,
    has_listeners,
    mark_curation,
    stream_event,
)

CuratorInput = (
    PromptValue | str | BaseMessage | Sequence[MessageLikeRepresentation] | dict[str, Any]
)

_CURATOR_FIELDS = tuple({"managers", *CuratorFields.model_fields, "bus", "name"} - {"max_tokens"})
"""The fields a curator is built from; the others are arguments of each view."""


class HistoryCurator(CuratorFields, RunnableSerializable[CuratorInput, list[BaseMessage]]):
    """The step of a chain that decides which messages the next model gets to see.

    Takes a list of messages, a PromptValue, a state with ``messages``, a string or one message, and
    returns a list of messages that fits `max_tokens`, splits no tool exchange and follows the
    provider's rules. Untouched messages are the same objects; the input is never changed. Raises
    `BudgetUnsatisfiableError` when the least that must be sent does not fit.

    In the middle of a chain a history that ends on an answer stays as it is. The settings are those
    of `Curator`, and may be changed at any time: by assignment, ``model_copy(update=…)``, ``bind(…)``
    or as keywords of one call. Without managers and with a named counter it survives ``dumps``.

    Examples:
        >>> from langchain_core.messages import HumanMessage
        >>> message = HumanMessage("hello")
        >>> HistoryCurator(max_tokens=8_000).invoke([message])[0] is message
        True
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=False, extra="forbid")

    managers: tuple[Any, ...] = ()
    """Applied in order, or one alone; none is the budget alone."""

    tail: Literal["auto", "request", "history"] = "auto"
    """``request`` when the view is sent as it is, ``history`` when something is appended to it;
    ``auto`` takes a list that ends on an answer, or an empty one, for a history."""

    reserve: int = declare_field("reserve")

    tools: list[dict[str, Any]] | None = None
    """Schemas of the tools sent along; tools of any kind are turned into schemas."""

    mark_cache: bool = False
    """Whether to mark the end of the stable prefix for the provider's cache (Anthropic)."""

    budget: str | None = None
    """The source of `max_tokens`, in words, when it was read from a model."""

    bus: Any = Field(default=None, exclude=True)
    """An `EventBus` that receives `HistoryCurated`."""

    name: str | None = "HistoryCurator"
    """The name of the span in a trace."""

    _curator: Curator | None = PrivateAttr(default=None)
    _built_from: dict[str, Any] = PrivateAttr(default_factory=dict)
    _streams: bool | None = PrivateAttr(default=None)
    """Whether the stream of the graph is sent each curation; False sends no custom event either."""
    _asked: Asked = PrivateAttr(default=Asked())
    """The model behind this step, where it is known."""

    def __init__(self, **settings: Unpack[HistoryCuratorOptions]) -> None:
        # Wrong settings are refused while the chain is being written, not when it runs; here,
        # because pydantic would turn our own error into one of its own.
        _check(type(self), settings)
        super().__init__(**settings)
        _ = self.curator

    @field_validator("managers", mode="before")
    @classmethod
    def _read_managers(cls, managers: Any) -> Any:
        return as_managers(managers)

    @field_validator("tools", mode="before")
    @classmethod
    def _read_tools(cls, tools: Any) -> Any:
        return schemas_of(tools)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether ``dumps`` writes it: yes."""
        return True

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        """Where ``loads`` finds the class."""
        return ["langchain_history_curator"]

    @classmethod
    def for_model(
        cls,
        model: Any,
        *,
        output: int | None = None,
        max_tokens: float | None = None,
        **settings: Unpack[StepOptions],
    ) -> Self:
        """Return a curator whose budget, counter and provider are the model's own.

        The budget is 95 % of the model's window less the tokens of its answer (`output`); `budget` says
        which numbers were used. A `max_tokens` such as 0.5 is a share of the window. With fallbacks of
        other providers the view follows the rules of all (``portable``).

        Raises:
            ConfigurationError: when the model does not say how much it takes and `max_tokens` is
                not given.
        """
        if settings.get("provider", "auto") == "auto":
            settings["provider"] = provider_of(model)
        settings.setdefault("counter", counter_for(model))
        settings["tools"] = schemas_of(settings.get("tools")) or bound_tools(model)
        limit, source = limit_for(model, max_tokens, output)
        step = cls(max_tokens=limit, budget=source, **settings)
        step._asked = asked_models(model)
        return step

    @classmethod
    def from_config(
        cls, config: ConfigSource, *, objects: Mapping[str, Any] | None = None, **overrides: Any
    ) -> Self:
        """Build the step from a `CuratorConfig`, a mapping, or a YAML or TOML file.

        `objects` are what ``"@name"`` options stand for; `overrides` win over the configuration.
        """
        return cls(**load_settings(config, objects, overrides))

    @classmethod
    def loads(cls, text: str, *, allowed_objects: Sequence[type] = ()) -> Any:
        """Return the step, or the chain it is part of, that ``dumps`` wrote.

        `allowed_objects` are the other classes of the chain.
        """
        allowed = [cls, *allowed_objects]
        return loads(text, valid_namespaces=cls.get_lc_namespace(), allowed_objects=allowed)

    @override
    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[BaseMessage]:
        step = self.bind(**kwargs)
        if not step.managers and not has_listeners(config):
            return step._finish_view(step.curate(input))
        return step._call_with_config(step._invoke, input, config)

    @override
    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[BaseMessage]:
        step = self.bind(**kwargs)
        if not step.managers and not has_listeners(config):
            return step._finish_view(step.curate(input))
        return await step._acall_with_config(step._ainvoke, input, config)

    @override
    def __or__(self, other: Any) -> Any:
        """Compose. In front of a model, ``auto`` is resolved: its provider, and a request."""
        step: Runnable[Any, Any] = self
        if isinstance(other, Runnable) and isinstance(unwrap(other), BaseLanguageModel):
            found: dict[str, Any] = {}
            if self.tail == "auto":
                found["tail"] = "request"
            if self.provider == "auto":
                found["provider"] = provider_of(other)
            models, provider = asked_models(other), found.get("provider", self.provider)
            before = self.bind(**found)
            if rules_for(provider, models) is not rules_for(provider, self._asked):
                before = before.model_copy()
                before._asked = models
            step = before
        return RunnableSerializable.__or__(step, other)

    @override
    def bind(self, **settings: Any) -> HistoryCurator:
        """Return this step with other settings."""
        return self.model_copy(update=settings) if settings else self

    @override
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other settings.

        Raises:
            ConfigurationError: for an unknown setting, or a value that cannot work.
        """
        _check(type(self), update or {})
        return super().model_copy(update=update, deep=deep)

    def curate(self, given: Any) -> Curation:
        """Return the whole outcome, report included; takes the same input as `invoke`."""
        messages = messages_of(given)
        return self._curator_for(messages).curate(messages, **self._arguments(given))

    async def acurate(self, given: Any) -> Curation:
        """Like `curate`, for managers that call a model."""
        messages = messages_of(given)
        return await self._curator_for(messages).acurate(messages, **self._arguments(given))

    @property
    def curator(self) -> Curator:
        """The core's curator behind this step, built of its settings as they are now."""
        return self._curator_for(())

    def _curator_for(self, messages: Sequence[Any]) -> Curator:
        """Return the curator; who answered in `messages` tells the provider for ``auto``."""
        built_from = {name: self.__dict__[name] for name in _CURATOR_FIELDS}
        if built_from["provider"] == "auto":
            built_from["provider"] = provider_in(messages)
        built_from["asked"] = self._asked
        if self._curator is None or built_from != self._built_from:
            self._curator, self._built_from = self._build(built_from), built_from
        return self._curator

    def _build(self, built_from: Mapping[str, Any]) -> Curator:
        settings = {**built_from, "counter": counter_of(built_from["counter"])}
        models = settings.pop("asked")
        _check(type(self), {**settings, "max_tokens": self.max_tokens, "reserve": self.reserve})
        settings["provider"] = rules_for(settings["provider"], models, settings["reasoning"])
        settings["name"] = self.name or "history"
        return Curator(*as_managers(settings.pop("managers")), **settings)

    def _arguments(self, given: Any) -> dict[str, Any]:
        tail = self.tail
        if tail == "auto":
            tail = "request" if is_request(given) else "history"
        return {
            "tools": schemas_of(self.tools),  # they may be assigned, or come with a copy
            "tail": tail,
            **budget_arguments(self.max_tokens, self.reserve),
            "format": FORMAT,
        }

    def _finish_view(self, curation: Curation) -> list[BaseMessage]:
        if self._streams and (writer := ask_graph("get_stream_writer")) is not None:
            stream_event(writer, event_of(curation, self.name or "history"))
        if self.mark_cache and curation.report.provider == "anthropic":
            return mark_curation(curation, self.tools)
        return curation.messages

    def _invoke(
        self, given: Any, run_manager: CallbackManagerForChainRun, config: RunnableConfig
    ) -> list[BaseMessage]:
        return run_sync(self._steps(given, run_manager, config))

    async def _ainvoke(
        self, given: Any, run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig
    ) -> list[BaseMessage]:
        return await run_async(self._steps(given, run_manager, config))

    def _steps(self, given: Any, run: Any, config: RunnableConfig) -> Steps[list[BaseMessage]]:
        with hide_from_stream():
            curation = yield Call(self.curate, self.acurate, (given,))
        if run.handlers:
            event = event_of(curation, self.name or "history")
            if self._streams is not False:
                within = patch_config(config, callbacks=run.get_child())
                dispatch = (dispatch_custom_event, adispatch_custom_event)
                yield Call(*dispatch, (EVENT_NAME, event), {"config": within})
        return self._finish_view(curation)


def _check(owner: type[HistoryCurator], given: Mapping[str, Any]) -> None:
    check_names(owner.__name__, given, list(owner.model_fields))
    refuse_fraction(
        owner.__name__, given.get("max_tokens"), "HistoryCurator.for_model(model, max_tokens=0.5)"
    )
    check_options({name: value for name, value in given.items() if name != "tail"})
    if given.get("tail", "auto") not in ("auto", "request", "history"):
        raise ConfigurationError(f"tail is {given['tail']!r}. Fix: 'auto', 'request' or 'history'.")


# Summaries that outlive the process, and calls that are not the agent's answer.

MOST_SUMMARIES = 256
"""How many are held in memory, and in the state of a conversation."""


@contextmanager
def hide_from_stream(summaries: MutableMapping[str, str] | None = None) -> Iterator[None]:
    """Trace models called inside as a manager's own, and keep them out of the streamed answer.

    Summaries they write are put into `summaries`, or else into the store of the running graph.
    """
    if summaries is None and ask_graph("get_store") is not None:
        summaries = _GRAPH_SUMMARIES
    outer = ensure_config()
    inner = {
        **outer,
        "tags": [*(outer.get("tags") or ()), "nostream"],
        "metadata": {**(outer.get("metadata") or {}), "lc_source": "summarization"},
    }
    token = var_child_runnable_config.set(inner)  # type: ignore[arg-type]
    try:
        with keeping_summaries(summaries):
            yield
    finally:
        with suppress(ValueError):  # the body went on in another context
            var_child_runnable_config.reset(token)


class StoredSummaries(MutableMapping[str, str]):
    """Summaries kept in a langgraph store, for ``SummarizingManager(model, cache=…)``.

    Without a `store` it uses the one of the graph that is running (``create_agent(…, store=store)``);
    outside of a graph, or while the store fails, summaries live in this process.

    Examples:
        >>> summaries = StoredSummaries()
        >>> summaries["k"] = "They talked about boats."
        >>> summaries["k"]
        'They talked about boats.'
    """

    def __init__(
        self, store: Any = None, *, namespace: tuple[str, ...] = ("history_curator", "summaries")
    ) -> None:
        self.store = store
        self.namespace = namespace
        self._here: dict[str, str] = {}

    def __getitem__(self, key: str) -> str:
        found = self._ask_store("get", key)
        return self._here[key] if found is None else str(found.value["summary"])

    def __setitem__(self, key: str, summary: str) -> None:
        self._here[key] = summary
        while len(self._here) > MOST_SUMMARIES:
            self._here.pop(next(iter(self._here)), None)
        self._ask_store("put", key, {"summary": summary})

    def __delitem__(self, key: str) -> None:
        self._here.pop(key, None)
        self._ask_store("delete", key)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._here))

    def __len__(self) -> int:
        return len(self._here)

    def _ask_store(self, method: str, *arguments: Any) -> Any:
        store = ask_graph("get_store") if self.store is None else self.store
        with suppress(Exception):
            return getattr(store, method)(self.namespace, *arguments)
        return None


_GRAPH_SUMMARIES = StoredSummaries()
"""Summaries in the stores of whichever graphs are running."""
