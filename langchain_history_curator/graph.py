"""langgraph: a hook before the model, and a node around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableLambda
from typing_extensions import Unpack

from history_curator.errors import ConversionError
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
    stream_events: bool = True,
    **settings: Unpack[NodeOptions],
) -> Runnable[Any, Update]:
    """Return a ``pre_model_hook`` for langgraph's prebuilt agent: the model gets the view.

    The agent's own `prompt`, which it adds after the hook, and its `tools` are counted. `key` is where
    the agent looks for its input. With `stream_events` the graph's custom stream and the run are
    sent each curation.

    Examples:
        >>> from langchain_core.messages import HumanMessage
        >>> hook = pre_model_hook(8_000)
        >>> [m.text for m in hook.invoke({"messages": [HumanMessage("hi")]})["llm_input_messages"]]
        ['hi']
    """
    given: Any = {"tail": "request", "name": "pre_model_hook", **settings}
    step = HistoryCurator(max_tokens=max_tokens, managers=managers, tools=tools, **given)
    step._streams = stream_events
    if prompt is not None:
        first = SystemMessage(prompt) if isinstance(prompt, str) else prompt
        step.reserve += sum(map(step.curator.counter.count_entry, FORMAT.read(first, 0)))

    async def acurate(state: Any) -> Update:
        return {key: await step.ainvoke(state)}

    return RunnableLambda(lambda state: {key: step.invoke(state)}, acurate, name="curate")


def model_node(
    model: Any,
    max_tokens: float | None = None,
    *managers: Any,
    prompt: str | SystemMessage | None = None,
    key: str = "messages",
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
    given: Any = {"tail": "request", **settings}
    step = HistoryCurator.for_model(model, max_tokens=max_tokens, managers=managers, **given)
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

    async def aanswer(state: Any) -> Update:
        return {key: [await model.ainvoke(await step.ainvoke(read_messages(state)))]}

    def answer(state: Any) -> Update:
        return {key: [model.invoke(step.invoke(read_messages(state)))]}

    return RunnableLambda(answer, aanswer, name="curated_model")
