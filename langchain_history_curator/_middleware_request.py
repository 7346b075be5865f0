"""The request of an agent: what goes along with its messages, and a view in their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware.types import ModelRequest
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.messages import BaseMessage, SystemMessage

from history_curator.caching import cache_control
from history_curator.curator import Curation
from history_curator.errors import ConfigurationError
from langchain_history_curator._cache import mark_curation


def with_view(request: ModelRequest[Any], curation: Curation, *, marks: bool) -> ModelRequest[Any]:
    """Return the request with the view in place of the conversation, marked for the cache or not."""
    messages = curation.messages
    if marks:
        request, messages = _marked(request, curation)
    first = messages[0] if messages else None
    if request.system_message is None or not isinstance(first, SystemMessage):
        return request.override(messages=messages)
    return request.override(system_message=first, messages=messages[1:])


def _marked(
    request: ModelRequest[Any], curation: Curation
) -> tuple[ModelRequest[Any], list[BaseMessage]]:
    """Return an agent's request and the view for it, with the breakpoints of the cache plan.

    With langchain-anthropic's models a view that the next request repeats whole is marked through
    the ``cache_control`` setting of the call, as that package's own caching middleware does it:
    whichever of the two comes first, the other one's setting replaces it, and a mark for five
    minutes never stands in front of one for an hour.
    """
    settings = request.model_settings or {}
    automatic, model = settings.get("cache_control"), request.model
    name = getattr(model, "model", None) or getattr(model, "model_name", None)
    known = type(model).__module__.startswith("langchain_anthropic")
    if automatic or not known or curation.report.prefix_entries < len(curation.entries):
        marked = mark_curation(curation, tools=request.tools, automatic=automatic, model=name)
        return request, marked
    automatic = cache_control(300.0)
    first, *rest = (
        mark_curation(curation, tools=request.tools, automatic=automatic, model=name)[:1]
        + curation.messages[1:]
    )
    ours = {**settings, "cache_control": automatic}
    if not isinstance(first, SystemMessage):
        first = curation.messages[0]
    return request.override(model_settings=ours), [first, *rest]


def same_but_messages(sent: ModelRequest[Any], now: ModelRequest[Any]) -> bool:
    """Whether what stands before the messages is the same, so that it is in the cache."""
    return (
        sent.model is now.model
        and sent.tools == now.tools
        and sent.tool_choice == now.tool_choice
        and sent.response_format == now.response_format
    )


def check_tools(ours: Sequence[Any], bound: Sequence[Any]) -> None:
    """Refuse a tool of the agent that is named like one of ours."""
    for tool in ours:
        for other in bound:
            if other is not tool and getattr(other, "name", None) == tool.name:
                raise ConfigurationError(
                    f"tools: two are named {tool.name!r}, yours and the recall tool. Fix: rename "
                    'yours, or pass recall="look_back" to the middleware.'
                )


def answer_forms(form: Any) -> list[dict[str, Any]]:
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
