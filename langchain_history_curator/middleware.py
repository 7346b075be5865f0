"""`HistoryCuratorMiddleware`: an agent's model sees a view, its state keeps everything."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ContextT,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
    ResponseT,
)
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langgraph.types import Command
from typing_extensions import NotRequired, Self, Unpack

from history_curator.config import SharedOptions, check_options
from history_curator.curator import Curation, Curator
from history_curator.entries import recall_tool_name
from history_curator.errors import ConfigurationError
from history_curator.integrations import (
    RETRIES,
    SHRINK,
    ConfigSource,
    CuratedModelCall,
    is_fraction,
    load_settings,
    rules_for,
)
from history_curator.run_steps import Call, Steps, run_async, run_sync
from langchain_history_curator.messages import FORMAT, without_removed
from langchain_history_curator.models import (
    LastingOptions,
    asked_models,
    budget_arguments,
    build_curator,
    counter_for,
    counter_of,
    limit_for,
    provider_of,
    schemas_of,
)
from langchain_history_curator.runnable import MOST_SUMMARIES, hide_from_stream
from langchain_history_curator.tools_and_events import (
    event_of,
    open_span,
    recall_tool,
    request_with_view,
    stream_event,
)

_STATE_KEY = "history_curator_summaries"


def merge_summaries(known: Mapping[str, str] | None, new: Mapping[str, str]) -> dict[str, str]:
    """Return the summaries a state keeps: the newest of those it had and the new ones."""
    older = [(key, summary) for key, summary in (known or {}).items() if key not in new]
    return dict([*older, *new.items()][-MOST_SUMMARIES:])


class CuratedState(AgentState[ResponseT]):
    """The summaries that the middleware keeps in the agent's state, and so in its checkpoints."""

    history_curator_summaries: NotRequired[
        Annotated[dict[str, str], PrivateStateAttr, merge_summaries]
    ]


class MiddlewareOptions(SharedOptions, total=False):
    """The options of the middleware, beside its name."""

    max_tokens: float | None
    reserve: int
    retries: int
    shrink: float
    mark_cache: bool
    stream_events: bool


class HistoryCuratorMiddleware(
    LastingOptions, AgentMiddleware[AgentState[ResponseT], ContextT, ResponseT]
):
    """Curates what the model of a ``create_agent`` or deepagents agent is sent.

    Every model call gets a view that fits `max_tokens` with the system prompt, the bound tools
    and the form of a structured answer counted in. The agent's state and its checkpoints keep the
    full record. Summaries are kept in the state, where no output shows them, unless their manager
    was given a cache of its own. Place it last, so that it sees what other middleware add. When the
    provider refuses a request as too long after all, the call is repeated with a smaller view.

    Args:
        managers: applied in order; none is the budget alone.
        max_tokens: the budget; 0.5 is a share of the model's window, None all its profile allows.
        reserve: tokens to leave free.
        retries: how often a request refused as too long is repeated.
        shrink: the most of the view before that a repetition has.
        mark_cache: whether to mark the end of the stable prefix for Anthropic's cache.
        stream_events: whether the agent's custom stream and the run are sent each curation.
        name: tells two of them apart; an agent refuses two middleware of one name.
        options: the other settings of `Curator`; ``recall_tool=True`` gives the agent that tool.

    Examples:
        >>> middleware = HistoryCuratorMiddleware(max_tokens=16_000)
        >>> # agent = create_agent(model, tools, middleware=[middleware])
        >>> middleware.name
        'HistoryCuratorMiddleware'
    """

    def __init__(
        self,
        *managers: Any,
        max_tokens: float | None = None,
        reserve: int = 0,
        retries: int = RETRIES,
        shrink: float = SHRINK,
        mark_cache: bool = False,
        stream_events: bool = True,
        name: str | None = None,
        **options: Unpack[SharedOptions],
    ) -> None:
        super().__init__()
        if not 0 < shrink < 1:
            raise ConfigurationError(f"shrink is {shrink}. Fix: a share between 0 and 1.")
        if retries < 0:
            raise ConfigurationError(f"retries is {retries}. Fix: 0 or more.")
        check_options({"reserve": reserve})
        self.managers = managers
        self.max_tokens = max_tokens
        self.reserve = reserve
        self.retries = retries
        self.shrink = shrink
        self.mark_cache = mark_cache
        self.stream_events = stream_events
        self._name = name
        counter = counter_of(options.get("counter", "o200k_base"))
        self._options: SharedOptions = {"provider": "auto", **options}
        if "counter" in options:
            self._options["counter"] = counter
        self._curators: dict[tuple[Any, Any], Curator] = {}
        self._summaries: dict[str, str] = {}
        if managers:
            self.state_schema = CuratedState
        self._schemas: tuple[list[Any], list[dict[str, Any]] | None] = ([], None)
        # Refuses wrong settings now, not at the first model call.
        fixed: Any = None if is_fraction(max_tokens) else max_tokens
        build_curator(managers, fixed, self._options, name=self.name, owner=type(self).__name__)
        recall = options.get("recall_tool")
        self.tools = [recall_tool(counter=counter, name=recall_tool_name(recall))] if recall else []
        self._is_built = True

    @classmethod
    def from_config(
        cls, config: ConfigSource, *, objects: Mapping[str, Any] | None = None, **overrides: Any
    ) -> Self:
        """Build the middleware from a `CuratorConfig`, a mapping, or a YAML or TOML file.

        `objects` are what ``"@name"`` options stand for; `overrides` win over the configuration.
        """
        settings = load_settings(config, objects, overrides)
        return cls(*settings.pop("managers", ()), **settings)

    @classmethod
    def for_deepagents(cls, *managers: Any, **settings: Unpack[MiddlewareOptions]) -> Self:
        """Return the middleware under the name that takes the place of deepagents' own.

        deepagents summarises its state away; with this in ``create_deep_agent(middleware=[…])``,
        or in a sub-agent's ``middleware``, the state stays whole and the model gets a view.

        Examples:
            >>> HistoryCuratorMiddleware.for_deepagents(max_tokens=24_000).name
            'SummarizationMiddleware'
        """
        return cls(*managers, name="SummarizationMiddleware", **settings)

    @property
    def name(self) -> str:
        """The name the agent knows it by."""
        return self._name or type(self).__name__

    def wrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], ModelResponse[ResponseT]],
    ) -> ModelResponse[ResponseT] | ExtendedModelResponse[ResponseT]:
        """Send the model a view of the conversation."""
        return run_sync(self._steps(request, handler))

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
    ) -> ModelResponse[ResponseT] | ExtendedModelResponse[ResponseT]:
        """Send the model a view of the conversation."""
        return await run_async(self._steps(request, handler))

    def curator_for(self, model: Any) -> Curator:
        """Return the curator for a model: with its provider's rules and its family's counter."""
        provider = self._options["provider"]
        if provider == "auto":
            provider = provider_of(model)
        counter = self._options.get("counter") or counter_for(model)
        profile = rules_for(provider, asked_models(model), self._options.get("reasoning"))
        known = self._curators.get((profile, counter))
        if known is None:
            options: SharedOptions = {**self._options, "provider": profile, "counter": counter}
            owner = type(self).__name__
            known = build_curator(self.managers, None, options, name=self.name, owner=owner)
            self._curators[profile, counter] = known
        return known

    def schemas(self, request: ModelRequest[Any]) -> list[dict[str, Any]] | None:
        """Return the schemas sent along: tools, and the form of a structured answer."""
        bound = [*request.tools, request.response_format]
        known, schemas = self._schemas
        if len(known) != len(bound) or any(a is not b for a, b in zip(known, bound, strict=True)):
            forms = _answer_forms(request.response_format)
            schemas = [*(schemas_of(request.tools) or ()), *forms] or None
            self._schemas = (bound, schemas)
        return schemas

    def _steps(
        self, request: ModelRequest[Any], handler: Callable[..., Any]
    ) -> Steps[ModelResponse[Any] | ExtendedModelResponse[Any]]:
        new: dict[str, str] = {}
        state: Mapping[str, Any] = request.state
        summaries = ChainMap(new, state.get(_STATE_KEY) or {}, self._summaries)
        try:
            response = yield from self._prepare_call(request, handler, summaries).body()
        finally:  # without a checkpointer, or after a failure, the state does not hold them
            self._summaries = merge_summaries(self._summaries, new)
        update: Any = Command(update={_STATE_KEY: new})
        return ExtendedModelResponse(response, update) if new else response

    def _prepare_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[..., Any],
        summaries: MutableMapping[str, str],
    ) -> CuratedModelCall:
        _check_tools(self.tools, request.tools)
        limit, _ = limit_for(request.model, self.max_tokens)
        messages: list[Any] = without_removed(request.messages)
        if request.system_message is not None:
            messages = [request.system_message, *messages]
        events: list[dict[str, Any]] = []

        @contextmanager
        def open_curation() -> Iterator[Callable[[Curation], None]]:
            def announce(curation: Curation) -> None:
                events.append(event_of(curation, self.name))
                fill_span(events[-1])

            with (
                open_span(self.name, len(messages), announce=self.stream_events) as fill_span,
                hide_from_stream(summaries),
            ):
                yield announce

        def send(curation: Curation) -> Call:
            if self.stream_events:
                stream_event(getattr(request.runtime, "stream_writer", None), events[-1])
            marks = self.mark_cache and curation.report.provider == "anthropic"
            return Call(handler, handler, (request_with_view(request, curation, marks=marks),))

        return CuratedModelCall(
            curator=self.curator_for(request.model),
            messages=messages,
            arguments={
                "tools": self.schemas(request),
                **budget_arguments(limit, self.reserve),
                "format": FORMAT,
            },
            send=send,
            retries=self.retries,
            shrink=self.shrink,
            curating=open_curation,
            usage=lambda response: response.result[-1] if response.result else "",
        )


def _check_tools(ours: Sequence[Any], bound: Sequence[Any]) -> None:
    """Refuse a tool of the agent that is named like one of ours."""
    for tool in ours:
        for other in bound:
            if other is not tool and getattr(other, "name", None) == tool.name:
                raise ConfigurationError(
                    f"tools: two are named {tool.name!r}, yours and the recall tool. Fix: rename "
                    'yours, or pass recall_tool="look_back" to the middleware.'
                )


def _answer_forms(form: Any) -> list[dict[str, Any]]:
    """Return the schemas a structured answer adds to a request; a bare one is sent as a tool."""
    if form is None:
        return []
    if isinstance(form, ProviderStrategy):
        specs = [form.schema_spec]
    elif isinstance(form, ToolStrategy):
        specs = list(form.schema_specs)
    else:
        schema = form.schema if isinstance(form, AutoStrategy) else form
        specs = list(ToolStrategy(schema=schema).schema_specs)
    return [
        {"name": spec.name, "description": spec.description, "parameters": spec.json_schema}
        for spec in specs
    ]
