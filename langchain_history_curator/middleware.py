"""`HistoryCuratorMiddleware`: an agent's model sees a view, its state keeps everything."""

from __future__ import annotations

import warnings
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Annotated, Any

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ContextT,
    ExtendedModelResponse,
    ModelRequest,
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
from history_curator.integrations import CuratedModelCall, rules_for
from history_curator.run_steps import Call, Steps, run_async, run_sync
from langchain_history_curator import models
from langchain_history_curator.messages import FORMAT
from langchain_history_curator.tools_and_events import announce, hide_from_stream, recall_tool

try:  # since langchain 1.4: how internal calls are marked, and how much of a span is traced
    from langchain.agents.middleware import internal_call_transformer as internal
    from langchain.agents.middleware.types import TracePolicy, omit_payload
except ImportError:
    _INTERNAL: dict[str, Any] = {}
    _TRANSFORMERS: tuple[Any, ...] = ()
    _TRACE_POLICY: Any = None
else:
    _INTERNAL = internal.internal_call_metadata()
    _TRANSFORMERS = (internal.InternalCallTransformer,)
    _TRACE_POLICY = TracePolicy(process_inputs=omit_payload)

Handler = Callable[..., Any]
_STATE_KEY = "history_curator_summaries"
_MOST_SUMMARIES = 256  # held in memory, and in the state of a conversation


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
    and the form of a structured answer counted in. 0.5 is a share of the model's window, None all its
    profile allows. The agent's state keeps the full record, and summaries unless their manager has
    a cache of its own. Place it last. Options are those of `Curator`.

    A model whose server keeps the history is an error, unless `replace_server_history` turns
    ``use_previous_response_id`` off. The `name` tells two of them apart: as
    ``"SummarizationMiddleware"`` it takes the place of deepagents' own.

    Examples:
        >>> middleware = HistoryCuratorMiddleware(max_tokens=16_000)
        >>> # agent = create_agent(model, tools, middleware=[middleware])
        >>> middleware.name
        'HistoryCuratorMiddleware'
    """

    transformers = _TRANSFORMERS
    trace_policy = _TRACE_POLICY

    def __init__(
        self,
        *managers: Any,
        max_tokens: float | None = None,
        reserve: int = 0,
        replace_server_history: bool = False,
        name: str | None = None,
        **options: Unpack[SharedOptions],
    ) -> None:
        super().__init__()
        self.max_tokens = max_tokens
        self.reserve = reserve
        self.replace_server_history = replace_server_history
        self._managers, self._name = managers, name
        self._options: SharedOptions = {"provider": "auto", **options}
        self._curators: dict[tuple[Any, Any], Curator] = {}
        self._summaries: dict[str, str] = {}
        self._has_warned = False
        # Refuses wrong settings now, not at the first model call.
        budget: Any = None if models.is_share(max_tokens) else max_tokens
        owner = type(self).__name__
        counter = models.build_curator(owner, managers, options, max_tokens=budget).counter
        check_options({"reserve": reserve})
        if "counter" in options:
            self._options["counter"] = counter
        if managers:
            self.state_schema = CuratedState
        recall = options.get("recall_tool")
        self.tools = [recall_tool(counter=counter, name=recall_tool_name(recall))] if recall else []

    @property
    def name(self) -> str:
        """The name the agent knows it by."""
        return self._name or type(self).__name__

    def wrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> Any:
        """Send the model a view of the conversation."""
        return run_sync(self._steps(request, handler))

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> Any:
        """Send the model a view of the conversation."""
        return await run_async(self._steps(request, handler))

    def curator_for(self, model: Any) -> Curator:
        """Return the curator for a model: with its provider's rules and its family's counter."""
        provider = self._options["provider"]
        if provider == "auto":
            provider = models.provider_of(model)
        counter = self._options.get("counter") or models.counter_for(model)
        profile = rules_for(provider, models.asked_models(model), self._options.get("reasoning"))
        if (profile, counter) not in self._curators:
            options = {**self._options, "provider": profile, "counter": counter, "name": self.name}
            known = models.build_curator(type(self).__name__, self._managers, options)
            self._curators[profile, counter] = known
        return self._curators[profile, counter]

    def schemas(self, request: ModelRequest[Any]) -> list[dict[str, Any]] | None:
        """Return the schemas sent along: tools, and the form of a structured answer."""
        for ours in self.tools:
            others = (tool for tool in request.tools if tool is not ours)
            if any(getattr(tool, "name", "") == ours.name for tool in others):
                raise ConfigurationError(
                    f"tools: two are named {ours.name!r}, yours and the recall tool. Fix: rename "
                    'yours, or pass recall_tool="look_back" to the middleware.'
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

    def _steps(self, request: ModelRequest[Any], handler: Handler) -> Steps[Any]:
        model: Any = request.model
        if self.replace_server_history and getattr(model, "use_previous_response_id", False):
            model = model.model_copy(update={"use_previous_response_id": False})
        models.check_server_history(model, request.model_settings)
        budget = models.budget_arguments(models.limit_for(model, self.max_tokens), self.reserve)
        messages: list[Any] = request.messages
        self._warn_of_summaries(messages)
        if request.system_message is not None:
            messages = [request.system_message, *messages]
        new: dict[str, str] = {}
        state: Mapping[str, Any] = request.state
        summaries = ChainMap(new, state.get(_STATE_KEY) or {}, self._summaries)

        def send(curation: Curation) -> Call:
            if request.runtime is not None:
                announce(curation, self.name, request.runtime.stream_writer)
            view: list[Any] = curation.messages
            changes: dict[str, Any] = {"model": model, "messages": view}
            if request.system_message is not None and isinstance(view[0], SystemMessage):
                changes |= {"system_message": view[0], "messages": view[1:]}
            return Call(handler, handler, (request.override(**changes),))

        call = CuratedModelCall(
            curator=self.curator_for(model),
            messages=messages,
            arguments={**budget, "tools": self.schemas(request), "format": FORMAT},
            send=send,
            curating=partial(hide_from_stream, summaries, **_INTERNAL)
            if self._managers
            else nullcontext,
            model=models.asked_models(model).models[0],
            usage=lambda response: response.result[-1] if response.result else "",
        )
        try:
            response = yield from call.body()
        finally:  # without a checkpointer, or after a failure, the state does not hold them
            self._summaries = merge_summaries(self._summaries, new)
        update: Any = Command(update={_STATE_KEY: new})
        return ExtendedModelResponse(response, update) if new else response

    def _warn_of_summaries(self, messages: Iterable[Any]) -> None:
        sources = (message.additional_kwargs.get("lc_source") for message in messages)
        if not self._has_warned and "summarization" in sources:
            self._has_warned = True
            warnings.warn(
                f"{self.name}: SummarizationMiddleware has taken messages out of the state: no view "
                "shows them. Fix: leave it out, and pass SummarizingManager(model) to this one.",
                stacklevel=2,
            )
