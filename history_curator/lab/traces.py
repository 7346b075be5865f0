"""Turn LangSmith runs, Langfuse observations and OpenTelemetry spans into plain requests.

A plain request is a mapping with ``session``, ``id``, ``time``, ``end``, ``model``, ``system``,
``tools``, ``messages``, ``response`` and ``usage``; see docs/howto/doctor.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from history_curator.formats import parse_json

Row = Mapping[str, Any]
_LANGCHAIN_ROLES = {"human": "user", "ai": "assistant", "aimessagechunk": "assistant"}
_MESSAGE_KEYS = ("role", "content", "tool_calls", "tool_call_id", "name")
_MODEL_OPERATIONS = ("chat", "generate_content", "text_completion")


def get_object(value: Any) -> dict[str, Any]:
    """Return a mapping as a dict; an empty one for anything else."""
    return dict(value) if isinstance(value, Mapping) else {}


def chat_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """Return a tool call as Chat Completions has it."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def _decode(value: Any) -> Any:
    """Return the value of a JSON text; another text, and any other value, as it is."""
    try:
        return parse_json(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _decode_list(value: Any) -> list[Any]:
    decoded = _decode(value)
    return decoded if isinstance(decoded, list) else []


def _usage(whole: Any, output: Any, read: Any, write: Any) -> dict[str, Any]:
    details = {"cache_read": int(read or 0), "cache_creation": int(write or 0)}
    counts = {"input_tokens": int(whole or 0), "output_tokens": int(output or 0)}
    return {**counts, "input_token_details": details}


def is_run(row: Row) -> bool:
    """Return whether an object is a LangSmith run."""
    return "run_type" in row and "inputs" in row


def run_requests(rows: Iterable[Any]) -> Iterator[Row]:
    """Turn LangSmith runs of type ``llm`` into requests; a thread, or else a trace, is a session."""
    runs = (row for row in map(get_object, rows) if row.get("run_type") == "llm")
    for row in sorted(runs, key=lambda each: str(each.get("start_time") or "")):
        inputs, outputs, extra = (
            get_object(row.get(key)) for key in ("inputs", "outputs", "extra")
        )
        metadata, params = (get_object(extra.get(k)) for k in ("metadata", "invocation_params"))
        answer: Any = outputs.get("generations") or outputs.get("choices") or [{"message": outputs}]
        while isinstance(answer, list):
            answer = get_object(answer[0]).get("message") or answer[0] if answer else {}
        sent = _decode_list(inputs.get("messages"))
        sent = sent[0] if sent and isinstance(sent[0], list) else sent  # a batch of one
        fields = get_object(answer.get("kwargs") or answer)
        reported = (each.get("usage_metadata") for each in (outputs, fields, metadata))
        yield {
            "session": metadata.get("thread_id") or row.get("trace_id"),
            "id": row.get("id"),
            "time": row.get("start_time"),
            "end": row.get("end_time"),
            "model": metadata.get("ls_model_name") or params.get("model"),
            "tools": params.get("tools") or inputs.get("tools"),
            "messages": list(map(_as_chat_message, sent)),
            "response": _as_chat_message(answer) if answer else None,
            "usage": next(filter(None, reported), row),
        }


def _as_chat_message(message: Any) -> dict[str, Any]:
    """Turn a serialised LangChain message into a dict with a role; others stay as they are."""
    given = get_object(message)
    if "role" in given:
        return {key: given[key] for key in _MESSAGE_KEYS if given.get(key)}
    fields = get_object(given.get("kwargs") or given.get("data") or given)
    kind = str(fields.get("type") or given.get("type") or "human").lower()
    said = {"role": _LANGCHAIN_ROLES.get(kind, kind), "content": fields.get("content") or ""}
    if fields.get("tool_call_id"):
        said["tool_call_id"] = fields["tool_call_id"]
    if calls := fields.get("tool_calls"):
        said["tool_calls"] = [chat_call(c.get("id"), c.get("name"), c.get("args")) for c in calls]
        if isinstance(said["content"], list):  # its blocks repeat the calls
            said["content"] = "".join(str(block.get("text", "")) for block in said["content"])
    return said


def _observations_in(row: Row) -> list[Any]:
    """Return the Langfuse observations of a trace, a page of the API, or one alone."""
    return [*_decode_list(row.get("observations")), *_decode_list(row.get("data"))] or [row]


def is_observation(row: Row) -> bool:
    """Return whether an object is a Langfuse observation, or holds a list of them."""
    found = map(get_object, _observations_in(row))
    return any("traceId" in each and "type" in each for each in found)


def observation_requests(rows: Iterable[Any]) -> Iterator[Row]:
    """Turn Langfuse generations into requests, from the API or an export; a trace is a session."""
    found = [
        {"sessionId": row.get("sessionId"), **get_object(each)}
        for row in map(get_object, rows)
        for each in _observations_in(row)
    ]
    generations = (each for each in found if each.get("type") == "GENERATION")
    for each in sorted(generations, key=lambda one: str(one.get("startTime") or "")):
        given, said = _decode(each.get("input")), _decode(each.get("output"))
        asked = [{"role": "user", "content": given}] if isinstance(given, str) else given
        body = asked if isinstance(asked, Mapping) else {"messages": asked}
        counts = get_object(_decode(each.get("usageDetails") or each.get("usage")))
        cached = {key: int(n or 0) for key, n in counts.items() if "cach" in key}
        write = sum(n for key, n in cached.items() if "creation" in key or "write" in key)
        whole = int(counts.get("input") or 0) + sum(cached.values())  # they stand side by side
        is_message = isinstance(said, Mapping)
        yield {
            "session": each.get("sessionId") or each.get("traceId"),
            "id": each.get("id"),
            "time": each.get("startTime"),
            "end": each.get("endTime"),
            "model": each.get("model"),
            "tools": body.get("tools"),
            "messages": list(map(_as_chat_message, _decode_list(body.get("messages")))),
            "response": said if is_message else {"role": "assistant", "content": said or ""},
            "usage": _usage(whole, counts.get("output"), sum(cached.values()) - write, write),
        }


def is_span(row: Row) -> bool:
    """Return whether an object is an OTLP export, or one span with attributes."""
    return "resourceSpans" in row or ("attributes" in row and "usage" not in row)


def span_requests(rows: Iterable[Any]) -> Iterator[Row]:
    """Turn OpenTelemetry spans of model requests into requests; a span of an agent only sums them."""
    for row in map(get_object, rows):
        scopes = (
            s for each in row.get("resourceSpans") or () for s in each.get("scopeSpans") or ()
        )
        spans = [span for scope in scopes for span in scope.get("spans") or ()] or [row]
        for span in sorted(spans, key=lambda each: str(each.get("startTimeUnixNano") or "")):
            values = _unwrap_pairs(span.get("attributes"))
            operation = values.get("gen_ai.operation.name", "chat")
            counts = [values.get(f"gen_ai.usage.{name}") for name in (
                "input_tokens", "output_tokens", "cache_read.input_tokens",
                "cache_creation.input_tokens")]  # fmt: skip
            if not counts[0] or operation not in _MODEL_OPERATIONS:
                continue
            sent, said = (
                [part for each in _decode_list(values.get(f"gen_ai.{side}.messages"))
                 for part in _split_parts(get_object(each))]
                for side in ("input", "output")
            )  # fmt: skip
            nanoseconds = (span.get("startTimeUnixNano"), span.get("endTimeUnixNano"))
            start, end = (int(each) if each else None for each in nanoseconds)
            yield {
                "session": values.get("gen_ai.conversation.id") or span.get("traceId"),
                "id": values.get("gen_ai.response.id") or span.get("spanId"),
                "time": start or span.get("start_time"),
                "end": end or span.get("end_time"),
                "model": values.get("gen_ai.response.model") or values.get("gen_ai.request.model"),
                "system": values.get("gen_ai.system_instructions"),
                "tools": _decode_list(values.get("gen_ai.tool.definitions")),
                "messages": sent,
                "response": next(iter(said), None),
                "usage": _usage(*counts),  # by convention the cached part is in the input
            }


def _unwrap_pairs(given: Any) -> dict[str, Any]:
    """Return attributes as a dict, whether they are one or pairs with the names of types."""
    if isinstance(given, Mapping):
        return dict(given)
    return {
        str(each.get("key")): _unwrap(each.get("value")) for each in map(get_object, given or ())
    }


def _unwrap(given: Any) -> Any:
    kind, value = next(iter(get_object(given).items()), ("", None))
    if kind == "arrayValue":
        return [_unwrap(each) for each in get_object(value).get("values") or ()]
    return _unwrap_pairs(get_object(value).get("values")) if kind == "kvlistValue" else value


def _split_parts(message: Row) -> Iterator[dict[str, Any]]:
    """Yield the chat messages of one message of the conventions, which has a role and parts."""
    parts = list(map(get_object, message.get("parts") or ()))
    for part in parts:
        if part.get("type") == "tool_call_response":
            result = part.get("response", part.get("result"))
            text = result if isinstance(result, str) else json.dumps(result, default=str)
            yield {"role": "tool", "tool_call_id": part.get("id"), "content": text}
    texts = [str(part.get("content") or "") for part in parts if part.get("type") == "text"]
    calls = [chat_call(part.get("id"), part.get("name"), part.get("arguments"))
             for part in parts if part.get("type") == "tool_call"]  # fmt: skip
    if texts or calls:
        said: dict[str, Any] = {"role": message.get("role"), "content": "\n".join(texts)}
        yield {**said, "tool_calls": calls} if calls else said
