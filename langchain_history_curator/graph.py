"""langgraph: a hook before the model, and a node around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableLambda
from typing_extensions import Unpack

from history_curator.errors import ConversionError
from history_curator.integrations import ConfigSource, load_settings
from history_curator.run_steps import Call, Steps, run_async, run_sync
from langchain_history_curator.messages import FORMAT
from langchain_history_curator.models import NodeOptions
from langchain_history_curator.runnable import HistoryCurator

Update = dict[str, list[BaseMessage]]


def pre_model_hook(
    max_tokens: int | None = None,
    *managers: Any,
    prompt: str | SystemMessage | None = None,
    tools: Sequence[Any] | None = None,
    key: str = "llm_input_messages",
    config: ConfigSource | None = None,
    objects: Mapping[str, Any] | None = None,
    stream_events: bool = True,
    **settings: Unpack[NodeOptions],
) -> Runnable[Any, Update]:
    """Return a ``pre_model_hook`` for langgraph's prebuilt agent.

    The model gets the view, the state keeps everything. The view is empty only where the state
    is, because an empty one makes the agent fall back to the full history.

    Args:
        max_tokens: the budget of a request.
        managers: applied in order; none is the budget alone.
        prompt: the agent's own prompt, which it adds after the hook; it is counted.
        tools: the agent's tools; they are counted.
        key: where the agent looks for its input.
        config: a `CuratorConfig`, a mapping or a file with the settings not given here.
        objects: what ``"@name"`` options of the configuration stand for.
        stream_events: whether the graph's custom stream and the run are sent each curation.
        settings: any field of `HistoryCurator`.

    Examples:
        >>> from langchain_core.messages import HumanMessage
        >>> hook = pre_model_hook(8_000)
        >>> [m.text for m in hook.invoke({"messages": [HumanMessage("hi")]})["llm_input_messages"]]
        ['hi']
    """
    given = _merge_settings(config, objects, max_tokens, managers, settings)
    step = HistoryCurator(tools=tools, **{"tail": "request", "name": "pre_model_hook", **given})
    step._streams = stream_events
    if prompt is not None:
        first = SystemMessage(prompt) if isinstance(prompt, str) else prompt
        step.reserve += sum(map(step.curator.counter.count_entry, FORMAT.read(first, 0)))

    def curate(state: Any) -> Steps[Update]:
        view = yield Call(step.invoke, step.ainvoke, (state,))
        return {key: view}

    return _as_node(curate, "curate")


def model_node(
    model: Any,
    max_tokens: float | None = None,
    *managers: Any,
    prompt: str | SystemMessage | None = None,
    key: str = "messages",
    config: ConfigSource | None = None,
    objects: Mapping[str, Any] | None = None,
    stream_events: bool = True,
    **settings: Unpack[NodeOptions],
) -> Runnable[Any, Update]:
    """Return a StateGraph node that calls a model with a view of the state's messages.

    Budget, counter, provider and bound tools are the model's own where not given; the other arguments
    are those of `pre_model_hook`. `prompt` is put before the messages, and `key` is where the state
    holds them. Returns ``{"messages": [answer]}``, so the state keeps the full record.

    Examples:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> node = model_node(FakeListChatModel(responses=["hello"]), 1_000)
        >>> node.invoke({"messages": ["hi"]})["messages"][0].text
        'hello'
    """
    given = _merge_settings(config, objects, max_tokens, managers, settings)
    step = HistoryCurator.for_model(model, **{"tail": "request", **given})
    step._streams = stream_events
    first = SystemMessage(prompt) if isinstance(prompt, str) else prompt

    def read_messages(state: Any) -> list[Any]:
        try:
            given = state[key] if isinstance(state, dict) else getattr(state, key)
        except (KeyError, AttributeError) as error:
            raise ConversionError(
                f"the state has no {key!r}.", fix="pass model_node(key=…), the name it has there."
            ) from error
        return list(given) if first is None else [first, *given]

    def answer(state: Any) -> Steps[Update]:
        view = yield Call(step.invoke, step.ainvoke, (read_messages(state),))
        message = yield Call(model.invoke, model.ainvoke, (view,))
        return {key: [message]}

    return _as_node(answer, "curated_model")


def _as_node(steps: Callable[[Any], Steps[Update]], name: str) -> Runnable[Any, Update]:
    async def anode(state: Any) -> Update:
        return await run_async(steps(state))

    return RunnableLambda(lambda state: run_sync(steps(state)), anode, name=name)


def _merge_settings(
    config: ConfigSource | None,
    objects: Mapping[str, Any] | None,
    max_tokens: float | None,
    managers: tuple[Any, ...],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    given = dict(settings)
    if max_tokens is not None:
        given["max_tokens"] = max_tokens
    if managers:
        given["managers"] = managers
    return load_settings(config, objects, given)
