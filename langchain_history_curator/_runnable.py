"""`HistoryCurator`: curation as a step of a chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from weakref import WeakValueDictionary

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.messages import AnyMessage, BaseMessage, MessageLikeRepresentation
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from langchain_core.runnables.config import patch_config
from pydantic import ConfigDict, Field, PrivateAttr, field_validator
from typing_extensions import override

from history_curator.curator import Curation, Curator
from history_curator.errors import ConfigurationError
from langchain_history_curator._budget import bound_tools, budget_for_model, counter_for
from langchain_history_curator._cache import mark_curation
from langchain_history_curator._events import (
    adispatch,
    annotate,
    dispatch,
    event_of,
    graph_writer,
    listened_to,
    stream,
)
from langchain_history_curator._options import (
    DIALECT,
    ConfigSource,
    load_settings,
    messages_of,
    provider_of,
    schemas_of,
)

CuratorInput = (
    PromptValue | str | BaseMessage | Sequence[MessageLikeRepresentation] | dict[str, Any]
)

# Curators of live runnables by what they were made from: `configurable_fields` builds a new
# runnable for every call, which should find the conversation already read.
_curators: WeakValueDictionary[tuple[Any, ...], Curator] = WeakValueDictionary()


class HistoryCurator(RunnableSerializable[CuratorInput, list[BaseMessage]]):
    """What of a conversation the next model in the chain gets to see.

    Takes a list of messages, a PromptValue, a state dict with ``messages``, a string or one
    message, and returns a list of messages that fits `max_tokens`, splits no tool exchange and
    follows the provider's rules. Untouched messages are the same objects; the input is never
    changed. Raises `BudgetUnsatisfiableError` when what must be sent does not fit.

    The settings are those of `Curator`. A runnable without managers and with a named counter
    survives ``dumps`` and ``loads``.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> message = HumanMessage("hello")
        >>> HistoryCurator(max_tokens=8_000).invoke([message])[0] is message
        True
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=False, extra="forbid")

    max_tokens: int | None = None
    """The budget: messages, tools and priming. None enforces the provider's rules only."""

    managers: tuple[Any, ...] = ()
    """Applied in order; none is the budget ladder alone."""

    counter: Any = "o200k_base"
    """An encoding, a model name, or a `TokenCounter`."""

    provider: Any = "core"
    """A profile or its name; ``auto`` is resolved by `for_model`."""

    low_water: float | None = None
    """How full the view is after a cut."""

    reasoning: Literal["strip", "keep", "refuse"] | None = None
    """What happens to reasoning that an edit unbinds."""

    recall: bool = False
    """Whether placeholders name the handle the recall tool takes."""

    mode: Literal["enforce", "shadow"] = "enforce"
    """``shadow`` reports and sends everything."""

    preserve_last_n: int | None = None
    """The last n messages are never left out."""

    tail: Literal["request", "history"] = "request"
    """``history`` when something is still appended to the output."""

    reserve: int = 0
    """Tokens to leave free."""

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
    _streams: bool = PrivateAttr(default=False)

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # Wrong settings are refused while the chain is being written, not when it runs; here,
        # because pydantic would turn our own error into one of its own.
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ConfigurationError(
                f"max_tokens is {self.max_tokens}. Fix: give a positive budget, or None for none."
            )
        _ = self.curator

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
        tools: Sequence[Any] | None = None,
        output: int | None = None,
        max_tokens: int | None = None,
        **settings: Any,
    ) -> HistoryCurator:
        """Return a curator whose budget, counter and provider are the model's own.

        The budget is 95 % of the model's window less the room for its answer; `budget` says
        which numbers were used. With fallbacks of other providers the view follows the rules of
        all (``portable``) and is counted by the one that counts the most.

        Args:
            model: a chat model, or a runnable around one: a binding, a sequence, fallbacks.
            tools: tools sent along; those bound to the model are found by themselves.
            output: tokens to leave for the answer, instead of what the model may write.
            max_tokens: a budget to use instead.
            settings: any field of the runnable.

        Raises:
            ConfigurationError: when the model does not say how much it takes and `max_tokens` is
                not given.
        """
        settings.setdefault("provider", "auto")
        if settings["provider"] == "auto":
            settings["provider"] = provider_of(model)
        if max_tokens is None:
            found = budget_for_model(model, tools=tools, output=output)
            settings.setdefault("counter", found.counter)
            return cls(
                max_tokens=found.max_tokens,
                tools=list(found.tools) or None,
                budget=found.source,
                **settings,
            )
        settings.setdefault("counter", counter_for(model))
        schemas = schemas_of(tools) or bound_tools(model)
        return cls(max_tokens=max_tokens, tools=schemas, budget="as given", **settings)

    @classmethod
    def from_config(
        cls,
        config: ConfigSource,
        *,
        objects: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> HistoryCurator:
        """Build the step from a `CuratorConfig`, a mapping, or a YAML or TOML file.

        Args:
            config: the configuration.
            objects: what ``"@name"`` options stand for, such as a summarizer.
            overrides: any field of the runnable; they win over the configuration.
        """
        settings = load_settings(config, objects, overrides)
        settings.pop("retention", None)
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
        if not self.managers and not listened_to(config):
            return self._view(self.curate(input))
        return self._call_with_config(self._invoke, input, config, **kwargs)

    @override
    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[BaseMessage]:
        if not self.managers and not listened_to(config):
            return self._view(self.curate(input))
        return await self._acall_with_config(self._ainvoke, input, config, **kwargs)

    def curate(self, given: Any) -> Curation:
        """Return the whole outcome, report included, for whatever `invoke` takes."""
        return self.curator.curate(messages_of(given), **self._arguments())

    async def acurate(self, given: Any) -> Curation:
        """Like `curate`, for managers that call a model."""
        return await self.curator.acurate(messages_of(given), **self._arguments())

    @property
    def curator(self) -> Curator:
        """The core's curator behind this step."""
        curator: Curator | None = self._kept["_curator"]
        if curator is None:
            curator = self._curator = self._build()
        return curator

    @property
    def _kept(self) -> dict[str, Any]:
        # Where pydantic keeps private attributes: asking the model for one is slow.
        return self.__pydantic_private__ or {}

    def _arguments(self) -> dict[str, Any]:
        return {
            "tools": self.tools,
            "reserve": self.reserve,
            "tail": self.tail,
            "max_tokens": self.max_tokens,
            "dialect": DIALECT,
        }

    def _build(self) -> Curator:
        provider = "core" if self.provider == "auto" else self.provider
        made_from = (
            *self.managers, self.counter, provider, self.low_water, self.reasoning,
            self.recall, self.mode, self.preserve_last_n, self.bus, self.name,
        )  # fmt: skip
        try:
            known = _curators.get(made_from)
        except TypeError:
            known = None
            made_from = (object(),)
        if known is not None:
            return known
        curator = Curator(
            *self.managers,
            counter=self.counter,
            provider=provider,
            low_water=self.low_water,
            reasoning=self.reasoning,
            recall=self.recall,
            mode=self.mode,
            bus=self.bus,
            name=self.name or "history",
            preserve_last_n=self.preserve_last_n,
        )
        _curators[made_from] = curator
        return curator

    def _view(self, curation: Curation) -> list[BaseMessage]:
        if self._kept["_streams"] and (writer := graph_writer()) is not None:
            stream(writer, event_of(curation, self.name or "history"))
        if self.mark_cache and self.curator.profile.name == "anthropic":
            return mark_curation(curation, tools=self.tools)
        return curation.messages

    def _invoke(
        self, given: Any, run_manager: CallbackManagerForChainRun, config: RunnableConfig
    ) -> list[BaseMessage]:
        curation = self.curate(given)
        if run_manager.handlers:
            event = event_of(curation, self.name or "history")
            annotate(run_manager, event)
            dispatch(event, patch_config(config, callbacks=run_manager.get_child()))
        return self._view(curation)

    async def _ainvoke(
        self, given: Any, run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig
    ) -> list[BaseMessage]:
        curation = await self.acurate(given)
        if run_manager.handlers:
            event = event_of(curation, self.name or "history")
            annotate(run_manager, event)
            await adispatch(event, patch_config(config, callbacks=run_manager.get_child()))
        return self._view(curation)
