"""`HistoryCuratorMiddleware`: an agent's model sees a view, its state keeps everything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import isawaitable
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
from langchain_core.messages import HumanMessage
from langgraph.types import Command
from typing_extensions import NotRequired, Self, Unpack

from history_curator.curator import Curation, Curator
from history_curator.errors import ConfigurationError
from history_curator.managers.summaries import Live, Sent, riding
from history_curator.entries import recall_tool_name
from history_curator.config import SharedOptions, check_options
from history_curator.integrations import (
    RETRIES,
    SHRINK,
    Ask,
    ConfigSource,
    CuratedCall,
    adrive,
    drive,
    is_share,
    load_settings,
    rules_for,
)
from langchain_history_curator._cache import with_view
from langchain_history_curator._format import DIALECT, without_removed
from langchain_history_curator._events import event_of, span, stream
from langchain_history_curator._models import (
    asked,
    counter_for,
    counter_of,
    limit_for,
    provider_of,
    same_model,
    schemas_of,
)
from langchain_history_curator._options import Lasting, build_curator, key_of, spend
from langchain_history_curator._recall import recall_tool
from langchain_history_curator._summaries import (
    STATE_KEY,
    StateSummaries,
    behind_the_scenes,
    merge_summaries,
)


class CuratedState(AgentState[ResponseT]):
    """What the middleware keeps in the agent's state, and so in its checkpoints: summaries."""

    history_curator_summaries: NotRequired[
        Annotated[dict[str, str], PrivateStateAttr, merge_summaries]
    ]


class MiddlewareOptions(SharedOptions, total=False):
    """What the middleware takes by name, beside its name."""

    max_tokens: float | None
    reserve: int
    retries: int
    shrink: float
    mark_cache: bool
    stream_events: bool


class HistoryCuratorMiddleware(
    Lasting, AgentMiddleware[AgentState[ResponseT], ContextT, ResponseT]
):
    """Curates what the model of a ``create_agent`` or deepagents agent is sent.

    Every model call gets a view that fits `max_tokens` with the system prompt, the bound tools
    and the form of a structured answer counted in, splits no tool exchange and follows the
    provider's rules. The agent's state and its checkpoints keep the full record: nothing is ever
    removed from them. The view is a function of the state, so a restart from a checkpoint sees the
    same one; only what a refusal or an unexpected count has taught is learned again. What a
    `SummarizingManager` wrote is kept in the state too, where no output
    shows it, unless the manager was given a cache of its own.

    When the provider refuses a request as too long after all, the call is repeated with a smaller
    view, at most `retries` times.

    Place it last, so that it sees what other middleware add.

    Args:
        managers: applied in order; none is the budget alone.
        max_tokens: the budget; a share such as 0.5 is of the model's window, None takes all that
            its profile allows.
        reserve: tokens to leave free.
        retries: how often a request refused as too long is repeated with a smaller view.
        shrink: each repeated view has at most this share of the one before, unless the first refusal
            says by how much it was too long.
        mark_cache: whether to mark the end of the stable prefix for Anthropic's cache.
        stream_events: whether each curation is announced, on the agent's custom stream and as a
            custom event of the run.
        name: tells two of them apart; an agent refuses two middleware of one name. In deepagents
            the name ``"SummarizationMiddleware"`` replaces its own.
        options: the other settings of `Curator`. Provider and counter are the model's by default;
            with ``recall_tool=True`` the agent gets the recall tool, and with a text for it, such as
            ``recall_tool="look_back"``, under that name.

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
        self._options: SharedOptions = {"provider": "auto", **options}
        if "counter" in options:
            self._options["counter"] = counter_of(options["counter"])
        self._curators: dict[tuple[Any, Any], Curator] = {}
        self._summaries: dict[str, str] = {}
        self._sent = Sent()
        if managers:
            self.state_schema = CuratedState
        self._schemas: tuple[list[Any], list[dict[str, Any]] | None] | None = None
        # Refuses wrong settings now, not at the first model call.
        fixed: Any = None if is_share(max_tokens) else max_tokens
        build_curator(managers, fixed, self._options, name=self.name, owner=type(self).__name__)
        counter = counter_of(options.get("counter", "o200k_base"))
        self.tools = []
        if recall := options.get("recall_tool"):
            self.tools = [recall_tool(counter=counter, name=recall_tool_name(recall))]
        self._finish()

    @classmethod
    def from_config(
        cls,
        config: ConfigSource,
        *,
        objects: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> Self:
        """Build the middleware from a `CuratorConfig`, a mapping, or a YAML or TOML file.

        Provider and counter are the model's where the configuration does not set them.

        Args:
            config: the configuration.
            objects: what ``"@name"`` options stand for, such as a summarizer.
            overrides: arguments of the middleware; they win over the configuration.
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
    def mode(self) -> str:
        """``shadow`` when the model is sent everything and the view is only reported."""
        return self._options.get("mode", "enforce")

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
        kept = self._kept(request)
        return _keeping(kept, drive(self._call(request, handler, kept).body()))

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
    ) -> ModelResponse[ResponseT] | ExtendedModelResponse[ResponseT]:
        """Send the model a view of the conversation."""
        kept = self._kept(request)
        return _keeping(kept, await adrive(self._call(request, handler, kept).body()))

    def curator_for(self, model: Any) -> Curator:
        """The curator for a model: with its provider's rules and its family's counter."""
        provider = self._options["provider"]
        if provider == "auto":
            provider = provider_of(model)
        counter = self._options.get("counter") or counter_for(model)
        given: SharedOptions = {**self._options, "provider": provider, "counter": counter}
        profile = rules_for(provider, asked(model), given.get("reasoning"))
        known = self._curators.get((profile, counter))
        if known is None:
            options: SharedOptions = {**given, "provider": profile}
            known = build_curator(
                self.managers, None, options, name=self.name, owner=type(self).__name__
            )
            self._curators[profile, counter] = known
        return known

    def schemas(self, request: ModelRequest[Any]) -> list[dict[str, Any]] | None:
        """The schemas sent along: tools, and the form of a structured answer."""
        bound = [*request.tools, request.response_format]
        known = self._schemas
        if (
            known is not None
            and len(known[0]) == len(bound)
            and all(mine is given for mine, given in zip(known[0], bound, strict=True))
        ):
            return known[1]
        forms = [*(schemas_of(request.tools) or ()), *_answer_forms(request.response_format)]
        self._schemas = (bound, forms or None)
        return forms or None

    def _kept(self, request: ModelRequest[Any]) -> StateSummaries:
        state: Mapping[str, Any] = request.state
        return StateSummaries(state.get(STATE_KEY) or {}, self._summaries)

    def _call(
        self, request: ModelRequest[Any], handler: Callable[..., Any], kept: StateSummaries
    ) -> CuratedCall:
        _check_tools(self.tools, request.tools)
        limit, _ = limit_for(request.model, self.max_tokens)
        system = request.system_message
        said = without_removed(request.messages)
        messages: list[Any] = said if system is None else [system, *said]
        events: list[dict[str, Any]] = []
        key = key_of()
        live = self._last_request(request, handler, key) if self.managers else None

        @contextmanager
        def curating() -> Iterator[Callable[[Curation], None]]:
            def done(curation: Curation) -> None:
                events.append(event_of(curation, self.name))
                fill(events[-1])

            with (
                span(self.name, len(messages), announce=self.stream_events) as fill,
                behind_the_scenes(kept),
                riding(live),
            ):
                yield done

        def send(curation: Curation) -> Ask:
            if self.stream_events:
                stream(getattr(request.runtime, "stream_writer", None), events[-1])
            marks = self.mark_cache and curation.report.provider == "anthropic"
            asked = with_view(request, curation, marks=marks)
            if self.managers:
                self._sent.note(key, curation.entries, asked)
            return Ask(handler, handler, (asked,))

        return CuratedCall(
            curator=self.curator_for(request.model),
            messages=messages,
            arguments={
                "tools": self.schemas(request),
                **spend(limit, self.reserve),
                "format": DIALECT,
                "key": key,
            },
            send=send,
            retries=self.retries,
            shrink=self.shrink,
            curating=curating,
            usage=_last,
        )

    def _last_request(
        self, request: ModelRequest[Any], handler: Callable[..., Any], key: Any
    ) -> Live | None:
        """The request that was sent last, for a summary of what it holds."""
        found = self._sent.last(key, self.curator_for(request.model).profile)
        if found is None or not _same_but_messages(found[1], request):
            return None
        entries, sent = found

        def ask(instruction: str) -> Any:
            answer = handler(sent.override(messages=[*sent.messages, HumanMessage(instruction)]))
            return _awaited_last(answer) if isawaitable(answer) else _last(answer)

        return Live(entries, lambda model: same_model(model, request.model), ask, ask)


def _keeping(
    kept: StateSummaries, response: ModelResponse[ResponseT]
) -> ModelResponse[ResponseT] | ExtendedModelResponse[ResponseT]:
    """The response, and with it what was summarised for it, for the state."""
    if not kept.written:
        return response
    return ExtendedModelResponse(response, Command(update={STATE_KEY: kept.written}))


def _last(response: ModelResponse[Any]) -> Any:
    return response.result[-1] if response.result else ""


async def _awaited_last(answer: Awaitable[ModelResponse[Any]]) -> Any:
    return _last(await answer)


def _same_but_messages(sent: ModelRequest[Any], now: ModelRequest[Any]) -> bool:
    """Whether what stands before the messages is the same, so that it is in the cache."""
    return (
        sent.model is now.model
        and sent.tools == now.tools
        and sent.tool_choice == now.tool_choice
        and sent.response_format == now.response_format
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
    """What a structured answer adds to a request, whichever way it will be asked for.

    A bare schema is sent as a tool or as the provider's own format; as a tool it costs more.
    """
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
