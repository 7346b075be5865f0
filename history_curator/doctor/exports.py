"""Turn LangSmith runs and OpenTelemetry spans into plain requests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from history_curator.formats import parse_json
from history_curator.tokens import parse_time

_LANGCHAIN_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}
_MODEL_OPERATIONS = ("chat", "generate_content", "text_completion")
Row = Mapping[str, Any]


def langsmith_requests(rows: Iterable[Row]) -> Iterator[Row]:
    """Turn LangSmith runs of type ``llm`` into requests; a thread, or else a trace, is a session."""
    for row in sorted(rows, key=lambda each: str(each.get("start_time") or "")):
        if row.get("run_type") != "llm":
            continue
        inputs, outputs = _object(row.get("inputs")), _object(row.get("outputs"))
        extra = _object(row.get("extra"))
        metadata, invocation = (
            _object(extra.get("metadata")),
            _object(extra.get("invocation_params")),
        )
        answer = _langsmith_answer(outputs)
        counts = {"input_tokens": row.get("prompt_tokens"),
                  "output_tokens": row.get("completion_tokens")}  # fmt: skip
        yield {
            "session": metadata.get("thread_id") or metadata.get("session_id") or row.get("trace_id"),
            "id": row.get("id"),
            "time": row.get("start_time"),
            "end": row.get("end_time"),
            "model": metadata.get("ls_model_name") or invocation.get("model"),
            "tools": invocation.get("tools") or inputs.get("tools"),
            "messages": list(map(_langchain_message, _first_batch(inputs.get("messages")))),
            "response": _langchain_message(answer) if answer else None,
            "usage": outputs.get("usage_metadata")
            or _object((answer or {}).get("kwargs") or answer).get("usage_metadata")
            or metadata.get("usage_metadata")
            or _object(outputs.get("llm_output")).get("token_usage")
            or counts,
        }  # fmt: skip


def _first_batch(messages: Any) -> list[Any]:
    """Return the messages of a run: a list of them, or a batch that holds one list."""
    found = messages if isinstance(messages, list) else []
    return list(found[0]) if found and isinstance(found[0], list) else found


def _langsmith_answer(outputs: Row) -> dict[str, Any] | None:
    """Return the answer of a chat model of LangChain, or of a wrapped client."""
    if "role" in outputs:  # Anthropic's client: the outputs are the message
        names = ("role", "content", "tool_calls")
        return {name: outputs[name] for name in names if outputs.get(name)}
    found: Any = outputs.get("message") or outputs.get("generations") or outputs.get("choices")
    while isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, Mapping) and "message" in found:
        found = found["message"]
    if not isinstance(found, Mapping):
        found = next(reversed(_first_batch(outputs.get("messages"))), None)
    return dict(found) if isinstance(found, Mapping) else None


def _langchain_message(message: Any) -> dict[str, Any]:
    """Turn a serialised LangChain message into a dict with a role; others stay as they are."""
    if not isinstance(message, Mapping) or "role" in message:
        return dict(message) if isinstance(message, Mapping) else {"role": "user", "content": ""}
    fields = _object(message.get("kwargs") or message.get("data") or message)
    kind = str(fields.get("type") or message.get("type") or "human")
    if kind == "constructor":
        kind = str((message.get("id") or ["HumanMessage"])[-1]).removesuffix("Message").lower()
    said = {"role": _LANGCHAIN_ROLES.get(kind, kind), "content": fields.get("content") or ""}
    if fields.get("tool_call_id"):
        said["tool_call_id"] = fields["tool_call_id"]
    if calls := fields.get("tool_calls"):
        said["tool_calls"] = [_chat_call(c.get("id"), c.get("name"), c.get("args")) for c in calls]
        if isinstance(said["content"], list):  # its blocks repeat the calls
            said["content"] = "".join(str(block.get("text", "")) for block in said["content"])
    return said


def _chat_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def is_span(row: Row) -> bool:
    """Return whether an object is an OTLP export, or one span with attributes."""
    has_attributes = isinstance(row.get("attributes"), (Mapping, list)) and "usage" not in row
    return "resourceSpans" in row or has_attributes


def span_requests(rows: Iterable[Row]) -> Iterator[Row]:
    """Turn OpenTelemetry spans of model requests into requests; a span of an agent only sums them."""
    spans: list[Row] = []
    for row in rows:
        scopes = (
            s for each in row.get("resourceSpans") or () for s in each.get("scopeSpans") or ()
        )
        spans += [span for s in scopes for span in s.get("spans") or ()]
        spans += [] if "resourceSpans" in row else [row]
    requests = filter(None, map(_span_request, spans))
    yield from sorted(requests, key=lambda each: parse_time(each["time"]) or 0.0)


def _span_request(span: Row) -> Row | None:
    values = _attributes(span.get("attributes"))

    def count(*names: str) -> int | None:
        """Return a count, by its name in today's conventions or an earlier one."""
        found = (values.get(f"gen_ai.usage.{name}") for name in names)
        return next((int(each) for each in found if each is not None), None)

    total = count("input_tokens", "prompt_tokens")
    if total is None or values.get("gen_ai.operation.name", "chat") not in _MODEL_OPERATIONS:
        return None
    read = count("cache_read.input_tokens", "cache_read_input_tokens") or 0
    write = count("cache_creation.input_tokens", "cache_creation_input_tokens") or 0
    context = _object(span.get("context"))
    trace = span.get("traceId") or context.get("trace_id")
    span_id = span.get("spanId") or context.get("span_id")
    sent, said = (
        [one for each in _list(values.get(f"gen_ai.{side}.messages")) for one in _split_parts(each)]
        for side in ("input", "output")
    )
    return {
        "session": values.get("gen_ai.conversation.id") or trace,
        "id": values.get("gen_ai.response.id") or span_id,
        "time": _number(span.get("startTimeUnixNano") or span.get("start_time")),
        "end": _number(span.get("endTimeUnixNano") or span.get("end_time")),
        "model": values.get("gen_ai.response.model") or values.get("gen_ai.request.model"),
        "system": values.get("gen_ai.system_instructions"),
        "tools": _list(values.get("gen_ai.tool.definitions")),
        "messages": sent,
        "response": next(iter(said), None),
        "usage": {
            "input_tokens": total,  # by convention the cached part is in it
            "output_tokens": count("output_tokens", "completion_tokens") or 0,
            "input_token_details": {"cache_read": read, "cache_creation": write},
        },
    }


def _attributes(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    pairs = (each for each in given or () if isinstance(each, Mapping))
    return {str(each.get("key")): _unwrap(each.get("value")) for each in pairs}


def _unwrap(given: Any) -> Any:
    """Return the value that OTLP wraps in the name of its type."""
    kind, value = next(iter(_object(given).items()), ("", None))
    if kind == "arrayValue":
        return [_unwrap(each) for each in _object(value).get("values") or ()]
    return _attributes(_object(value).get("values")) if kind == "kvlistValue" else value


def _split_parts(message: Any) -> Iterator[dict[str, Any]]:
    """Yield the chat messages of one message of the conventions, which has a role and parts."""
    if not isinstance(message, Mapping):
        return
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in message.get("parts") or ():
        kind = part.get("type")
        if kind == "text":
            texts.append(str(part.get("content") or ""))
        elif kind == "tool_call":
            calls.append(_chat_call(part.get("id"), part.get("name"), part.get("arguments")))
        elif kind == "tool_call_response":
            result = part.get("response", part.get("result"))
            text = result if isinstance(result, str) else json.dumps(result, default=str)
            yield {"role": "tool", "tool_call_id": part.get("id"), "content": text}
    if texts or calls or not message.get("parts"):
        said: dict[str, Any] = {"role": message.get("role"), "content": "\n".join(texts)}
        yield {**said, "tool_calls": calls} if calls else said


def _decode(value: Any) -> Any:
    """Return a value that may be stored as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value)
    except ValueError:
        return None


def _object(value: Any) -> dict[str, Any]:
    decoded = _decode(value)
    return dict(decoded) if isinstance(decoded, Mapping) else {}


def _list(value: Any) -> list[Any]:
    decoded = _decode(value)
    return decoded if isinstance(decoded, list) else []


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdigit() else value
