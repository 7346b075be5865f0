"""langgraph: a hook before the model, and a node around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableLambda

from langchain_history_curator._options import DIALECT, ConfigSource, load_settings
from langchain_history_curator._runnable import HistoryCurator


def pre_model_hook(
    max_tokens: int | None = None,
    *managers: Any,
    prompt: str | SystemMessage | None = None,
    tools: Sequence[Any] | None = None,
    key: str = "llm_input_messages",
    config: ConfigSource | None = None,
    objects: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Runnable[Any, dict[str, list[BaseMessage]]]:
    """Return a ``pre_model_hook`` for langgraph's prebuilt agent.

    The model gets the view, the state keeps everything. The view is never empty, because an
    empty one would make the agent fall back to the full history.

    Args:
        max_tokens: the budget of a request.
        managers: applied in order; none is the budget ladder alone.
        prompt: the agent's own prompt, which it adds after the hook; it is counted.
        tools: the agent's tools; they are counted.
        key: where the agent looks for its input.
        config: a `CuratorConfig`, a mapping or a file with the settings not given here.
        objects: what ``"@name"`` options of the configuration stand for.
        settings: any field of `HistoryCurator`.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> hook = pre_model_hook(8_000)
        >>> [m.text for m in hook.invoke({"messages": [HumanMessage("hi")]})["llm_input_messages"]]
        ['hi']
    """
    settings = _settings(config, objects, max_tokens, managers, settings)
    settings.setdefault("name", "pre_model_hook")
    curator = HistoryCurator(tools=tools, **settings)
    curator._streams = True
    if prompt is not None:
        said = SystemMessage(prompt) if isinstance(prompt, str) else prompt
        curator.reserve += _cost(curator, said)

    def hook(state: Any) -> dict[str, list[BaseMessage]]:
        return {key: curator.invoke(state)}

    async def ahook(state: Any) -> dict[str, list[BaseMessage]]:
        return {key: await curator.ainvoke(state)}

    return RunnableLambda(hook, ahook, name="curate")


def model_node(
    model: Any,
    max_tokens: int | None = None,
    *managers: Any,
    prompt: str | SystemMessage | None = None,
    key: str = "messages",
    config: ConfigSource | None = None,
    objects: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Runnable[Any, dict[str, list[BaseMessage]]]:
    """Return a StateGraph node that calls a model with a view of the state's messages.

    Budget, counter, provider and bound tools are the model's own where not given. Returns
    ``{"messages": [answer]}``, so the state keeps the full record.

    Args:
        model: a chat model, or a runnable around one.
        max_tokens: the budget of a request; None takes it from the model's profile.
        managers: applied in order; none is the budget ladder alone.
        prompt: a system prompt put before the messages.
        key: where the state holds its messages.
        config: a `CuratorConfig`, a mapping or a file with the settings not given here.
        objects: what ``"@name"`` options of the configuration stand for.
        settings: any field of `HistoryCurator`.

    Example:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> node = model_node(FakeListChatModel(responses=["hello"]), 1_000)
        >>> node.invoke({"messages": ["hi"]})["messages"][0].text
        'hello'
    """
    settings = _settings(config, objects, max_tokens, managers, settings)
    curator = HistoryCurator.for_model(model, **settings)
    curator._streams = True
    first = SystemMessage(prompt) if isinstance(prompt, str) else prompt

    def said(state: Any) -> list[Any]:
        given = state[key] if isinstance(state, dict) else getattr(state, key)
        return list(given) if first is None else [first, *given]

    def node(state: Any) -> dict[str, list[BaseMessage]]:
        return {key: [model.invoke(curator.invoke(said(state)))]}

    async def anode(state: Any) -> dict[str, list[BaseMessage]]:
        return {key: [await model.ainvoke(await curator.ainvoke(said(state)))]}

    return RunnableLambda(node, anode, name="curated_model")


def _settings(
    config: ConfigSource | None,
    objects: Mapping[str, Any] | None,
    max_tokens: int | None,
    managers: tuple[Any, ...],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    given = dict(settings)
    if max_tokens is not None:
        given["max_tokens"] = max_tokens
    if managers:
        given["managers"] = managers
    loaded = load_settings(config, objects, given)
    loaded.pop("retention", None)
    return loaded


def _cost(curator: HistoryCurator, message: BaseMessage) -> int:
    counter = curator.curator.counter
    return sum(counter.count_entry(entry) for entry in DIALECT.read(message, 0))
