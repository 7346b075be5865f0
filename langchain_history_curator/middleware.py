"""`HistoryCuratorMiddleware`: an agent's model sees a view, its state keeps everything."""

from __future__ import annotations

import warnings
from collections import ChainMap
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
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
from langchain_core.messages import SystemMessage
from langgraph.types import Command
from typing_extensions import NotRequired, Unpack

from history_curator.config import SharedOptions, check_options
from history_curator.curator import Curation, Curator
from history_curator.entries import recall_tool_name
from history_curator.errors import ConfigurationError
from history_curator.integrations import CuratedModelCall, is_fraction, rules_for
from history_curator.run_steps import Call, Steps, run_async, run_sync
from langchain_history_curator import models
from langchain_history_curator.messages import FORMAT
from langchain_history_curator.tools_and_events import announce, hide_from_stream, recall_tool

try:  # since langchain 1.4: how internal calls are marked, and how much of a span is traced
    from langchain.agents.middleware.internal_call_transformer import (
        InternalCallTransformer,
        internal_call_metadata,
    )
    from langchain.agents.middleware.types import TracePolicy, omit_payload
except ImportError:
    _INTERNAL: dict[str, Any] = {}
    _TRACING: dict[str, Any] = {}
else:
    _INTERNAL = internal_call_metadata()
    _TRACING = {
        "transformers": (InternalCallTransformer,),
        "trace_policy": TracePolicy(process_inputs=omit_payload),
    }

_STATE_KEY = "history_curator_summaries"
_MOST_SUMMARIES = 256
"""How many are held in memory, and in the state of a conversation."""


def merge_summaries(known: Mapping[str, str] | None, new: Mapping[str, str]) -> dict[str, str]:
    """Return the summaries a state keeps: the newest of those it had and the new ones."""
    older = [(key, summary) for key, summary in (known or {}).items() if key not in new]
    return dict([*older, *new.items()][-_MOST_SUMMARIES:])


class CuratedState(AgentState[ResponseT]):
    """The summaries that the middleware keeps in the agent's state, and so in its checkpoints."""

    history_curator_summaries: NotRequired[
        Annotated[dict[str, str], PrivateStateAttr, merge_summaries]
    ]


class HistoryCuratorMiddleware(AgentMiddleware[AgentState[ResponseT], ContextT, ResponseT]):
    """Curates what the model of a ``create_agent`` or deepagents agent is sent.

    Every model call gets a view that fits `max_tokens` with the system prompt, the bound tools
    and the form of a structured answer counted in. The agent's state and its checkpoints keep the
    full record, and summaries unless their manager has a cache of its own. Place it last, so that it
    sees what other middleware add. A request refused as too long is repeated with a smaller view.

    Args:
        managers: applied in order; none is the budget alone.
        max_tokens: the budget; 0.5 is a share of the model's window, None all its profile allows.
        reserve: tokens to leave free.
        stream_events: whether the agent's custom stream and the run are sent each curation.
        replace_server_history: whether the whole view is sent where the provider's server would
            keep the history (``use_previous_response_id``, ``conversation``); else that is an error.
        name: tells two of them apart; ``"SummarizationMiddleware"`` takes the place of deepagents' own.
        options: the other settings of `Curator`; ``recall_tool=True`` gives the agent that tool.

    Examples:
        >>> middleware = HistoryCuratorMiddleware(max_tokens=16_000)
        >>> # agent = create_agent(model, tools, middleware=[middleware])
        >>> middleware.name
        'HistoryCuratorMiddleware'
    """

    transformers = _TRACING.get("transformers", ())
    trace_policy = _TRACING.get("trace_policy")

    def __init__(
        self,
        *managers: Any,
        max_tokens: float | None = None,
        reserve: int = 0,
        stream_events: bool = True,
        replace_server_history: bool = False,
        name: str | None = None,
        **options: Unpack[SharedOptions],
    ) -> None:
        super().__init__()
        budget: Any = None if is_fraction(max_tokens) else max_tokens
        self.max_tokens = max_tokens
        self.reserve = reserve
        self.stream_events = stream_events
        self.replace_server_history = replace_server_history
        self._managers = managers
        self._name = name
        self._options: SharedOptions = {"provider": "auto", **options}
        if "counter" in options:
            self._options["counter"] = models.counter_of(options["counter"])
        self._curators: dict[tuple[Any, Any], Curator] = {}
        self._summaries: dict[str, str] = {}
        self._has_warned = False
        # Refuses wrong settings now, not at the first model call.
        models.build_curator(type(self).__name__, managers, self._options, max_tokens=budget)
        check_options({"reserve": reserve})
        if managers:
            self.state_schema = CuratedState
        recall, counter = options.get("recall_tool"), self._options.get("counter", "o200k_base")
        self.tools = [recall_tool(counter=counter, name=recall_tool_name(recall))] if recall else []

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
            provider = models.provider_of(model)
        counter = self._options.get("counter") or models.counter_for(model)
        profile = rules_for(provider, models.asked_models(model), self._options.get("reasoning"))
        known = self._curators.get((profile, counter))
        if known is None:
            options = {**self._options, "provider": profile, "counter": counter}
            known = models.build_curator(
                type(self).__name__, self._managers, options, name=self.name
            )
            self._curators[profile, counter] = known
        return known

    def schemas(self, request: ModelRequest[Any]) -> list[dict[str, Any]] | None:
        """Return the schemas sent along: tools, and the form of a structured answer."""
        ours = {tool.name: tool for tool in self.tools}
        for tool in request.tools:
            name = getattr(tool, "name", "")
            if name in ours and tool is not ours[name]:
                raise ConfigurationError(
                    f"tools: two are named {name!r}, yours and the recall tool. Fix: rename yours, "
                    'or pass recall_tool="look_back" to the middleware.'
                )
        form: Any = request.response_format
        if isinstance(form, (AutoStrategy, ProviderStrategy, ToolStrategy)):
            form = form.schema
        specs = () if form is None else ToolStrategy(schema=form).schema_specs
        forms = [
            {"name": spec.name, "description": spec.description, "parameters": spec.json_schema}
            for spec in specs
        ]
        return [*(models.schemas_of(request.tools) or ()), *forms] or None

    def _steps(
        self, request: ModelRequest[Any], handler: Callable[..., Any]
    ) -> Steps[ModelResponse[Any] | ExtendedModelResponse[Any]]:
        if self.replace_server_history:
            request = _without_server_history(request)
        models.check_server_history(request.model, request.model_settings)
        self._warn_of_summaries(request)
        limit = models.limit_for(request.model, self.max_tokens)
        messages: list[Any] = request.messages
        if request.system_message is not None:
            messages = [request.system_message, *messages]
        new: dict[str, str] = {}
        state: Mapping[str, Any] = request.state
        summaries = ChainMap(new, state.get(_STATE_KEY) or {}, self._summaries)

        def send(curation: Curation) -> Call:
            if self.stream_events and request.runtime is not None:
                announce(curation, self.name, request.runtime.stream_writer)
            return Call(handler, handler, (self._with_view(request, curation),))

        call = CuratedModelCall(
            curator=self.curator_for(request.model),
            messages=messages,
            arguments={
                "tools": self.schemas(request),
                **models.budget_arguments(limit, self.reserve),
                "format": FORMAT,
            },
            send=send,
            curating=lambda: (
                hide_from_stream(summaries, _INTERNAL) if self._managers else nullcontext()
            ),
            model=models.asked_models(request.model).models[0],
            usage=lambda response: response.result[-1] if response.result else "",
        )
        try:
            response = yield from call.body()
        finally:  # without a checkpointer, or after a failure, the state does not hold them
            self._summaries = merge_summaries(self._summaries, new)
        update: Any = Command(update={_STATE_KEY: new})
        return ExtendedModelResponse(response, update) if new else response

    def _warn_of_summaries(self, request: ModelRequest[Any]) -> None:
        sources = (message.additional_kwargs.get("lc_source") for message in request.messages)
        if not self._has_warned and "summarization" in sources:
            self._has_warned = True
            problem = (
                "SummarizationMiddleware has taken messages out of the state: no view shows them"
            )
            fix = f"leave it out, and pass SummarizingManager(model) to {type(self).__name__}"
            warnings.warn(f"{self.name}: {problem}. Fix: {fix}.", stacklevel=2)

    def _with_view(self, request: ModelRequest[Any], curation: Curation) -> ModelRequest[Any]:
        """Return a request with the view in place of the conversation."""
        messages = curation.messages
        if request.system_message is None or not isinstance(messages[0], SystemMessage):
            return request.override(messages=messages)
        return request.override(system_message=messages[0], messages=messages[1:])


def _without_server_history(request: ModelRequest[Any]) -> ModelRequest[Any]:
    """Return a request that leaves no history to the provider's server."""
    settings = {k: v for k, v in request.model_settings.items() if k not in models.SERVER_HISTORY}
    model = request.model
    if getattr(model, "use_previous_response_id", False):
        model = model.model_copy(update={"use_previous_response_id": False})
    return request.override(model=model, model_settings=settings)
