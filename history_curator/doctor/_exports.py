"""LangSmith runs and OpenTelemetry spans, as plain requests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def is_langsmith(row: Any) -> bool:
    """Return whether a line is a run in LangSmith's data format."""
    return isinstance(row, Mapping) and "run_type" in row and "inputs" in row


def from_langsmith(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Turn runs of type ``llm`` into requests; a thread, or else a trace, is a session."""
    for row in sorted(rows, key=lambda each: str(each.get("start_time") or "")):
        if row.get("run_type") != "llm":
            continue
        inputs, outputs = _object(row.get("inputs")), _object(row.get("outputs"))
        extra = _object(row.get("extra"))
        metadata = _object(extra.get("metadata"))
        invocation = _object(extra.get("invocation_params"))
        answer = _answer(outputs)
        session = metadata.get("thread_id") or metadata.get("session_id") or row.get("trace_id")
        yield {
            "session": session,
            "id": row.get("id"),
            "time": row.get("start_time"),
            "end": row.get("end_time"),
            "model": metadata.get("ls_model_name") or invocation.get("model"),
            "tools": invocation.get("tools") or inputs.get("tools"),
            "messages": list(map(_message, _batch(inputs.get("messages")))),
            "response": _message(answer) if answer else None,
            "usage": outputs.get("usage_metadata")
            or _object((answer or {}).get("kwargs") or answer).get("usage_metadata")
            or metadata.get("usage_metadata")
            or _object(outputs.get("llm_output")).get("token_usage")
            or {"input_tokens": row.get("prompt_tokens"),
                "output_tokens": row.get("completion_tokens")},
        }  # fmt: skip


def _batch(messages: Any) -> list[Any]:
    """Return the messages of a run: a list of them, or a batch that holds one list."""
    found = messages if isinstance(messages, list) else []
    return list(found[0]) if found and isinstance(found[0], list) else found


def _answer(outputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what was answered: by a chat model of LangChain, or by a wrapped client."""
    if "role" in outputs:  # of Anthropic: the message itself
        names = ("role", "content", "tool_calls")
        return {name: outputs[name] for name in names if outputs.get(name)}
    found: Any = outputs.get("message") or outputs.get("generations") or outputs.get("choices")
    while isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, Mapping) and "message" in found:
        found = found["message"]
    if not isinstance(found, Mapping):
        said = _batch(outputs.get("messages"))
        found = said[-1] if said else None
    return dict(found) if isinstance(found, Mapping) else None


_TYPES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}


def _message(message: Any) -> dict[str, Any]:
    """Turn a serialised LangChain message into a dict with a role; others stay as they are."""
    if not isinstance(message, Mapping) or "role" in message:
        return dict(message) if isinstance(message, Mapping) else {"role": "user", "content": ""}
    fields = _object(message.get("kwargs") or message.get("data") or message)
    kind = str(fields.get("type") or message.get("type") or "human")
    if kind == "constructor":
        kind = str((message.get("id") or ["HumanMessage"])[-1]).removesuffix("Message").lower()
    said = {"role": _TYPES.get(kind, kind), "content": fields.get("content") or ""}
    if fields.get("tool_call_id"):
        said["tool_call_id"] = fields["tool_call_id"]
    calls = [
        {"id": call.get("id"), "type": "function",
         "function": {"name": call.get("name"), "arguments": json.dumps(call.get("args") or {})}}
        for call in fields.get("tool_calls") or ()
    ]  # fmt: skip
    if calls:
        said["tool_calls"] = calls
        if isinstance(said["content"], list):  # the calls are in there, too
            texts = [block.get("text", "") for block in said["content"] if "text" in block]
            said["content"] = "".join(texts)
    return said


def is_span(row: Any) -> bool:
    """Return whether a line is an OpenTelemetry export: OTLP JSON, or one span with attributes."""
    return isinstance(row, Mapping) and (
        "resourceSpans" in row
        or (isinstance(row.get("attributes"), (Mapping, list)) and "usage" not in row)
    )


def from_spans(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Turn spans of requests to a model, with ``gen_ai.usage.*``, into requests.

    Others are passed over: the span of an agent reports what its requests have reported already.
    """
    found = [request for row in rows for span in _spans(row) if (request := _request(span))]
    yield from sorted(found, key=lambda each: str(each["time"] or ""))


def _spans(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "resourceSpans" not in row:
        yield row
        return
    for resource in row["resourceSpans"] or ():
        for scope in resource.get("scopeSpans") or ():
            yield from scope.get("spans") or ()


def _request(span: Mapping[str, Any]) -> dict[str, Any] | None:
    attributes = _attributes(span.get("attributes"))
    total = _used(attributes, "input_tokens", "prompt_tokens")
    if total is None or attributes.get("gen_ai.operation.name", "chat") not in _REQUESTS:
        return None
    read = _used(attributes, "cache_read.input_tokens", "cache_read_input_tokens")
    write = _used(attributes, "cache_creation.input_tokens", "cache_creation_input_tokens")
    context = _object(span.get("context"))
    said = _list(attributes.get("gen_ai.output.messages"))
    trace = span.get("traceId") or context.get("trace_id")
    start = span.get("startTimeUnixNano") or span.get("start_time")
    end = span.get("endTimeUnixNano") or span.get("end_time")
    return {
        "session": attributes.get("gen_ai.conversation.id") or trace,
        "id": attributes.get("gen_ai.response.id") or span.get("spanId") or context.get("span_id"),
        "time": _number(start),
        "end": _number(end),
        "model": attributes.get("gen_ai.response.model") or attributes.get("gen_ai.request.model"),
        "system": attributes.get("gen_ai.system_instructions"),
        "tools": _list(attributes.get("gen_ai.tool.definitions")),
        "messages": [
            one
            for each in _list(attributes.get("gen_ai.input.messages"))
            for one in _from_parts(each)
        ],
        "response": next((one for each in said for one in _from_parts(each)), None),
        "usage": {
            "input_tokens": total,  # by convention the cached part is in it
            "output_tokens": _used(attributes, "output_tokens", "completion_tokens") or 0,
            "input_token_details": {"cache_read": read or 0, "cache_creation": write or 0},
        },
    }


_REQUESTS = ("chat", "generate_content", "text_completion")


def _used(attributes: Mapping[str, Any], *names: str) -> int | None:
    """Return what was used, by the name of today's conventions or an earlier one."""
    found = (attributes.get(f"gen_ai.usage.{name}") for name in names)
    return next((int(each) for each in found if each is not None), None)


def _attributes(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    return {
        str(each.get("key")): _any_value(each.get("value"))
        for each in given or ()
        if isinstance(each, Mapping)
    }


def _any_value(given: Any) -> Any:
    """Return what OTLP wraps in the name of its type: text, a number, a list or an object."""
    kind, value = next(iter(_object(given).items()), ("", None))
    if kind == "arrayValue":
        return [_any_value(each) for each in _object(value).get("values") or ()]
    return _attributes(_object(value).get("values")) if kind == "kvlistValue" else value


def _from_parts(message: Any) -> Iterator[dict[str, Any]]:
    """Yield the messages of one in the form of the conventions: a role and parts."""
    if not isinstance(message, Mapping):
        return
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in message.get("parts") or ():
        kind = part.get("type")
        if kind == "text":
            texts.append(str(part.get("content") or ""))
        elif kind == "tool_call":
            given = part.get("arguments")
            text = given if isinstance(given, str) else json.dumps(given or {})
            function = {"name": part.get("name"), "arguments": text}
            calls.append({"id": part.get("id"), "type": "function", "function": function})
        elif kind == "tool_call_response":
            result = part.get("response", part.get("result"))
            yield {
                "role": "tool",
                "tool_call_id": part.get("id"),
                "content": result if isinstance(result, str) else json.dumps(result, default=str),
            }
    if texts or calls or not message.get("parts"):
        said: dict[str, Any] = {"role": message.get("role"), "content": "\n".join(texts)}
        yield {**said, "tool_calls": calls} if calls else said


def _object(value: Any) -> dict[str, Any]:
    """Return a JSON object, also one that was stored as text; anything else is empty."""
    value = _decoded(value)
    return dict(value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    """Return a JSON list, also one that was stored as text; anything else is empty."""
    value = _decoded(value)
    return value if isinstance(value, list) else []


def _decoded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdigit() else value
