"""`HistoryCuratorMiddleware`: an agent's model sees a view, its state keeps everything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ContextT,
    ModelRequest,
    ModelResponse,
    ResponseT,
)
from langchain_core.messages import SystemMessage
from typing_extensions import Self, Unpack

from history_curator.curator import Curation, Curator
from history_curator.errors import BudgetUnsatisfiableError, ConfigurationError
from langchain_history_curator._budget import budget_for_model, counter_for
from langchain_history_curator._cache import mark_curation
from langchain_history_curator._dialect import settle
from langchain_history_curator._events import event_of, span, stream
from langchain_history_curator._options import (
    DIALECT,
    ConfigSource,
    CuratorOptions,
    build_curator,
    load_settings,
    provider_of,
    schemas_of,
)
from langchain_history_curator._recall import recall_tool

try:
    from langchain_core.exceptions import ContextOverflowError
except ImportError:  # pragma: no cover - langchain-core before it had the error

    class ContextOverflowError(Exception):  # type: ignore[no-redef]
        """Never raised."""


class HistoryCuratorMiddleware(AgentMiddleware[AgentState[ResponseT], ContextT, ResponseT]):
    """Curates what the model of a ``create_agent`` or deepagents agent is sent.

    Every model call gets a view that fits `max_tokens` with the system prompt and the bound tools
    counted in, splits no tool exchange and follows the provider's rules. The agent's state and
    its checkpoints keep the full record: nothing is ever removed from them. The view is a
    function of the state alone, so a restart from a checkpoint sees the same one.

    When the provider refuses a request as too long after all, the call is repeated with a smaller
    view, at most `retries` times.

    Place it last, so that it sees what other middleware add.

    Args:
        managers: applied in order; none is the budget ladder alone.
        max_tokens: the budget; None takes it from the model's profile.
        reserve: tokens to leave free.
        retries: how often a request refused as too long is repeated with a smaller view.
        shrink: each repeated view has at most this share of the one before.
        recall: whether placeholders name a handle, and the agent gets the tool that takes it.
        mark_cache: whether to mark the end of the stable prefix for Anthropic's cache.
        name: tells two of them apart; an agent refuses two middleware of one name. In deepagents
            the name ``"SummarizationMiddleware"`` replaces its own.
        options: the other settings of `Curator`. Provider and counter are the model's by default.

    Example:
        >>> middleware = HistoryCuratorMiddleware(max_tokens=16_000)
        >>> # agent = create_agent(model, tools, middleware=[middleware])
        >>> middleware.name
        'HistoryCuratorMiddleware'
    """

    def __init__(
        self,
        *managers: Any,
        max_tokens: int | None = None,
        reserve: int = 0,
        retries: int = 2,
        shrink: float = 0.7,
        recall: bool = False,
        mark_cache: bool = False,
        name: str | None = None,
        **options: Unpack[CuratorOptions],
    ) -> None:
        super().__init__()
        if not 0 < shrink < 1:
            raise ConfigurationError(f"shrink is {shrink}. Fix: a share between 0 and 1.")
        if retries < 0:
            raise ConfigurationError(f"retries is {retries}. Fix: 0 or more.")
        if not isinstance(reserve, int) or reserve < 0:
            raise ConfigurationError(f"reserve is {reserve!r}. Fix: a whole number, at least 0.")
        self.managers = managers
        self.max_tokens = max_tokens
        self.reserve = reserve
        self.retries = retries
        self.shrink = shrink
        self.mark_cache = mark_cache
        self._name = name
        self._recall = recall
        self._options: CuratorOptions = {"provider": "auto", **options}
        self._curators: dict[tuple[Any, Any], Curator] = {}
        self._schemas: tuple[list[Any], list[dict[str, Any]] | None] | None = None
        # Refuses wrong settings now, not at the first model call.
        build_curator(managers, max_tokens, self._options, name=self.name, recall=recall)
        self.tools = [recall_tool(counter=options.get("counter", "o200k_base"))] if recall else []

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
        settings.pop("retention", None)
        return cls(*settings.pop("managers", ()), **settings)

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
    ) -> ModelResponse[ResponseT]:
        """Send the model a view of the conversation."""
        plan = _Plan(self, request)
        while True:
            with plan.curating() as after:
                curation = plan.curator.curate(plan.messages, **plan.arguments)
                after.update(event_of(curation, self.name))
            try:
                return handler(plan.view(curation, after))
            except ContextOverflowError as error:
                plan.smaller(curation, error)

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
    ) -> ModelResponse[ResponseT]:
        """Send the model a view of the conversation."""
        plan = _Plan(self, request)
        while True:
            with plan.curating() as after:
                curation = await plan.curator.acurate(plan.messages, **plan.arguments)
                after.update(event_of(curation, self.name))
            try:
                return await handler(plan.view(curation, after))
            except ContextOverflowError as error:
                plan.smaller(curation, error)

    def curator_for(self, model: Any) -> Curator:
        """The curator for a model: with its provider's rules and its family's counter."""
        provider = self._options["provider"]
        if provider == "auto":
            provider = provider_of(model)
        counter = self._options.get("counter") or counter_for(model)
        known = self._curators.get((provider, counter))
        if known is None:
            known = self._curators[provider, counter] = self._build(model)
        return known

    def schemas(self, request: ModelRequest[Any]) -> list[dict[str, Any]] | None:
        """The schemas sent along: tools, and the form of a structured answer."""
        specs = getattr(request.response_format, "schema_specs", None) or ()
        if not specs and (one := getattr(request.response_format, "schema_spec", None)):
            specs = (one,)
        bound = [*request.tools, *specs]
        known = self._schemas
        if (
            known is not None
            and len(known[0]) == len(bound)
            and all(mine is given for mine, given in zip(known[0], bound, strict=True))
        ):
            return known[1]
        forms = schemas_of(request.tools) or []
        forms += [
            {"name": s.name, "description": s.description, "parameters": s.json_schema}
            for s in specs
        ]
        self._schemas = (bound, forms or None)
        return forms or None

    def _build(self, model: Any) -> Curator:
        options: CuratorOptions = {**self._options}
        if model is not None and not options.get("counter"):
            options["counter"] = counter_for(model)
        return build_curator(
            self.managers, None, options, name=self.name, recall=self._recall, model=model
        )


class _Plan:
    """One model call: what is curated, within which budget, and how often it was refused."""

    def __init__(
        self, middleware: HistoryCuratorMiddleware[Any, Any], request: ModelRequest[Any]
    ) -> None:
        self._middleware = middleware
        self._request = request
        self._left = middleware.retries
        self._refusal: Exception | None = None
        self.curator = middleware.curator_for(request.model)
        system = request.system_message
        said = settle(request.messages)
        self.messages: list[Any] = said if system is None else [system, *said]
        limit = middleware.max_tokens
        if limit is None:
            limit = budget_for_model(request.model).max_tokens
        self.arguments: dict[str, Any] = {
            "tools": middleware.schemas(request),
            "reserve": middleware.reserve,
            "max_tokens": limit,
            "dialect": DIALECT,
        }

    def view(self, curation: Curation, event: dict[str, Any]) -> ModelRequest[Any]:
        """The request with the view in place of the conversation."""
        middleware, request = self._middleware, self._request
        stream(getattr(request.runtime, "stream_writer", None), event)
        messages = curation.messages
        if middleware.mark_cache and self.curator.profile.name == "anthropic":
            messages = mark_curation(curation, tools=request.tools)
        if request.system_message is None:
            return request.override(messages=messages)
        first = messages[0] if messages else None
        if not isinstance(first, SystemMessage):
            return request.override(messages=messages)
        if first is request.system_message:
            return request.override(messages=messages[1:])
        return request.override(system_message=first, messages=messages[1:])

    def smaller(self, curation: Curation, error: Exception) -> None:
        """Shrink the budget below what was refused, or give up with the provider's error."""
        if self._left <= 0 or self._middleware.mode == "shadow":
            raise error
        self._left -= 1
        self._refusal = error
        sent = min(self.arguments["max_tokens"], curation.tokens)
        self.arguments["max_tokens"] = max(1, int(sent * self._middleware.shrink))

    @contextmanager
    def curating(self) -> Iterator[dict[str, Any]]:
        """The span of one curation. When nothing smaller is left, the refusal stands."""
        try:
            with span(self._middleware.name, len(self.messages)) as after:
                yield after
        except BudgetUnsatisfiableError:
            if self._refusal is not None:
                raise self._refusal from None
            raise
