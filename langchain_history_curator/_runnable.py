"""`HistoryCurator`: curation as a step of a chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from weakref import WeakValueDictionary

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.language_models import BaseLanguageModel
from langchain_core.load import loads
from langchain_core.messages import AnyMessage, BaseMessage, MessageLikeRepresentation
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSerializable
from langchain_core.runnables.config import patch_config
from pydantic import ConfigDict, Field, PrivateAttr, field_validator
from typing_extensions import Self, Unpack, override

from history_curator.curator import Curation, Curator
from history_curator.errors import ConfigurationError
from history_curator.config import check_options
from history_curator.config import CuratorFields, declare_field
from history_curator.integrations import (
    Ask,
    Asked,
    Body,
    ConfigSource,
    adrive,
    as_managers,
    drive,
    load_settings,
    rules_for,
)
from langchain_history_curator._cache import mark_curation
from langchain_history_curator._format import DIALECT
from langchain_history_curator._events import (
    adispatch,
    annotate,
    dispatch,
    event_of,
    listened_to,
    of_graph,
    stream,
)
from langchain_history_curator._models import (
    asked,
    bound_tools,
    counter_for,
    counter_of,
    limit_for,
    provider_in,
    provider_of,
    schemas_of,
    unwrap,
)
from langchain_history_curator._options import (
    HistoryCuratorOptions,
    StepOptions,
    check_given,
    check_no_share,
    is_request,
    key_of,
    messages_of,
    spend,
)
from langchain_history_curator._summaries import behind_the_scenes

CuratorInput = (
    PromptValue | str | BaseMessage | Sequence[MessageLikeRepresentation] | dict[str, Any]
)

# Curators of live runnables by what they were made from: `configurable_fields` builds a new
# runnable for every call, which should find the conversation already read.
_curators: WeakValueDictionary[tuple[Any, ...], Curator] = WeakValueDictionary()

_MADE_OF = tuple(
    name
    for name in ("managers", *CuratorFields.model_fields, "bus", "name")
    if name != "max_tokens"
)
"""The fields a curator is made of; the others are arguments of each view."""


class HistoryCurator(CuratorFields, RunnableSerializable[CuratorInput, list[BaseMessage]]):
    """What of a conversation the next model in the chain gets to see.

    Takes a list of messages, a PromptValue, a state with ``messages`` (a dict or a pydantic
    model), a string or one message, and returns a list of messages that fits `max_tokens`, splits
    no tool exchange and follows the provider's rules. Untouched messages are the same objects;
    the input is never changed; an empty history stays empty. Raises `BudgetUnsatisfiableError`
    when what must be sent does not fit.

    In the middle of a chain, where something is still added, a history that ends on an answer
    stays as it is. Settings may be changed at any time: by assignment, ``model_copy(update=…)``,
    ``bind(…)`` or as keywords of one call.

    The settings are those of `Curator`. A runnable without managers and with a named counter
    survives ``dumps`` and ``loads``.

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
    ``auto`` tells a list that ends on an answer, or an empty one, for a history."""

    reserve: int = declare_field("reserve")

    tools: list[dict[str, Any]] | None = None
    """Schemas of the tools sent along; tools of any kind are turned into schemas."""

    mark_cache: bool = False
    """Whether to mark the end of the stable prefix for the provider's cache (Anthropic)."""

    budget: str | None = None
    """Where `max_tokens` came from, in words, when it was read from a model."""

    bus: Any = Field(default=None, exclude=True)
    """An `EventBus` that receives `HistoryCurated`."""

    name: str | None = "HistoryCurator"
    """The name of the span in a trace."""

    _curator: Curator | None = PrivateAttr(default=None)
    _made_of: dict[str, Any] = PrivateAttr(default_factory=dict)
    _streams: bool | None = PrivateAttr(default=None)
    """Whether curations are announced on the stream of the graph; False is nowhere at all."""
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

        The budget is 95 % of the model's window less the room for its answer; `budget` says
        which numbers were used. With fallbacks of other providers the view follows the rules of
        all (``portable``) and is counted by the one that counts the most.

        Args:
            model: a chat model, or a runnable around one: a binding, a sequence, fallbacks.
            output: tokens to leave for the answer, instead of what the model may write.
            max_tokens: a budget to use instead; a share such as 0.5 is of the model's window.
            settings: any field of the runnable; tools bound to the model are found by themselves.

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
        step._asked = asked(model)
        return step

    @classmethod
    def from_config(
        cls,
        config: ConfigSource,
        *,
        objects: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> Self:
        """Build the step from a `CuratorConfig`, a mapping, or a YAML or TOML file.

        Args:
            config: the configuration.
            objects: what ``"@name"`` options stand for, such as a summarizer.
            overrides: any field of the runnable; they win over the configuration.
        """
        settings = load_settings(config, objects, overrides)
        return cls(**settings)

    @property
    @override
    def InputType(self) -> Any:
        return CuratorInput

    @property
    @override
    def OutputType(self) -> Any:
        return list[AnyMessage]

    @override
    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[BaseMessage]:
        step = self._with(kwargs)
        if not step.managers and not listened_to(config):
            return step._view(step.curate(input, config))
        return step._call_with_config(step._invoke, input, config)

    @override
    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[BaseMessage]:
        step = self._with(kwargs)
        if not step.managers and not listened_to(config):
            return step._view(step.curate(input, config))
        return await step._acall_with_config(step._ainvoke, input, config)

    @override
    def __or__(self, other: Any) -> Any:
        """Compose. In front of a model, ``auto`` is resolved: its provider, and a request."""
        step: Runnable[Any, Any] = self
        if isinstance(other, Runnable) and isinstance(unwrap(other), BaseLanguageModel):
            step = self._in_front_of(other)
        return RunnableSerializable.__or__(step, other)

    def _in_front_of(self, model: Any) -> HistoryCurator:
        found: dict[str, Any] = {}
        if self.tail == "auto":
            found["tail"] = "request"
        if self.provider == "auto":
            found["provider"] = provider_of(model)
        who, provider = asked(model), found.get("provider", self.provider)
        if rules_for(provider, who) is rules_for(provider, self._asked):
            return self._with(found)
        step = self.model_copy(update=found)
        step._asked = who
        return step

    @override
    def bind(self, **settings: Any) -> HistoryCurator:
        """Return this step with other settings."""
        return self._with(settings)

    @override
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other settings.

        Raises:
            ConfigurationError: for a setting nobody knows, or a value that cannot work.
        """
        _check(type(self), update or {})
        return super().model_copy(update=update, deep=deep)

    def _with(self, changes: Mapping[str, Any]) -> HistoryCurator:
        return self.model_copy(update=changes) if changes else self

    @classmethod
    def loads(cls, text: str, *, allowed_objects: Sequence[type] = ()) -> Any:
        """Return what ``dumps`` wrote: a step, or a chain it is part of.

        Args:
            text: as written.
            allowed_objects: the other classes of the chain.
        """
        return loads(
            text,
            valid_namespaces=cls.get_lc_namespace(),
            allowed_objects=[cls, *allowed_objects],
        )

    def curate(self, given: Any, config: RunnableConfig | None = None) -> Curation:
        """Return the whole outcome, report included, for whatever `invoke` takes."""
        messages = messages_of(given)
        return self._decider(messages).curate(messages, **self._arguments(given, config))

    async def acurate(self, given: Any, config: RunnableConfig | None = None) -> Curation:
        """Like `curate`, for managers that call a model."""
        messages = messages_of(given)
        return await self._decider(messages).acurate(messages, **self._arguments(given, config))

    def _decider(self, messages: Sequence[Any]) -> Curator:
        return self._curator_for(provider_in(messages) if self.provider == "auto" else "core")

    @property
    def curator(self) -> Curator:
        """The core's curator behind this step, made of its settings as they are now."""
        return self._curator_for("core")

    def _curator_for(self, provider: str) -> Curator:
        """The same, with a provider for ``auto``."""
        made_of = {name: self.__dict__[name] for name in _MADE_OF}
        if made_of["provider"] == "auto":
            made_of["provider"] = provider
        made_of["asked"] = self._asked
        if self._curator is None or made_of != self._made_of:
            self._curator, self._made_of = self._build(made_of), made_of
        return self._curator

    def _arguments(self, given: Any, config: RunnableConfig | None) -> dict[str, Any]:
        tail = self.tail
        if tail == "auto":
            tail = "request" if is_request(given) else "history"
        if self.tools and not all(isinstance(tool, dict) for tool in self.tools):
            self.tools = schemas_of(self.tools)  # they were set, or came with a copy
        return {
            "tools": self.tools,
            "tail": tail,
            **spend(self.max_tokens, self.reserve),
            "format": DIALECT,
            "key": key_of(config),
        }

    def _build(self, made_of: Mapping[str, Any]) -> Curator:
        settings = {**made_of, "counter": counter_of(made_of["counter"])}
        who = settings.pop("asked")
        _check(type(self), {**settings, "max_tokens": self.max_tokens, "reserve": self.reserve})
        settings["provider"] = rules_for(settings["provider"], who, settings["reasoning"])
        managers = as_managers(settings.pop("managers"))
        key = (*managers, *settings.values())
        try:
            known = _curators.get(key)
        except TypeError:  # something among them cannot be a key
            known, key = None, (object(),)
        if known is None:
            settings["name"] = self.name or "history"
            known = _curators[key] = Curator(*managers, **settings)
        return known

    def _view(self, curation: Curation) -> list[BaseMessage]:
        if self._streams and (writer := of_graph("get_stream_writer")) is not None:
            stream(writer, event_of(curation, self.name or "history"))
        if self.mark_cache and curation.report.provider == "anthropic":
            return mark_curation(curation, tools=self.tools)
        return curation.messages

    def _invoke(
        self, given: Any, run_manager: CallbackManagerForChainRun, config: RunnableConfig
    ) -> list[BaseMessage]:
        return drive(self._steps(given, run_manager, config))

    async def _ainvoke(
        self, given: Any, run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig
    ) -> list[BaseMessage]:
        return await adrive(self._steps(given, run_manager, config))

    def _steps(self, given: Any, run: Any, config: RunnableConfig) -> Body[list[BaseMessage]]:
        with behind_the_scenes():
            curation = yield Ask(self.curate, self.acurate, (given, config))
        if run.handlers:
            event = event_of(curation, self.name or "history")
            annotate(run, event)
            if self._streams is not False:
                within = patch_config(config, callbacks=run.get_child())
                yield Ask(dispatch, adispatch, (event, within))
        return self._view(curation)


def _check(owner: type[HistoryCurator], given: Mapping[str, Any]) -> None:
    check_given(owner.__name__, given, owner.model_fields)
    check_no_share(
        owner.__name__, given.get("max_tokens"), "HistoryCurator.for_model(model, max_tokens=0.5)"
    )
    check_options({name: value for name, value in given.items() if name != "tail"})
    if given.get("tail", "auto") not in ("auto", "request", "history"):
        raise ConfigurationError(f"tail is {given['tail']!r}. Fix: 'auto', 'request' or 'history'.")
