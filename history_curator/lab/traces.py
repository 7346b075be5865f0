"""Turn LangSmith runs, OpenTelemetry spans and Langfuse observations into plain requests.

A plain request is a mapping with ``session``, ``id``, ``time``, ``end``, ``model``, ``system``,
``tools``, ``messages``, ``response`` and ``usage``; see docs/howto/doctor.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from history_curator.formats import parse_json
from history_curator.tokens import parse_time, read_usage

Row = Mapping[str, Any]
_LANGCHAIN_ROLES = {"human": "user", "ai": "assistant", "aimessagechunk": "assistant"}
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
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value)
    except ValueError:
        return value


def _decode_list(value: Any) -> list[Any]:
    decoded = _decode(value)
    return decoded if isinstance(decoded, list) else []


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
        answer = _run_answer(outputs)
        yield {
            "session": metadata.get("thread_id") or row.get("trace_id"),
            "id": row.get("id"),
            "time": row.get("start_time"),
            "end": row.get("end_time"),
            "model": metadata.get("ls_model_name") or params.get("model"),
            "tools": params.get("tools") or inputs.get("tools"),
            "messages": list(map(_as_chat_message, _first_batch(inputs.get("messages")))),
            "response": _as_chat_message(answer) if answer else None,
            "usage": outputs.get("usage_metadata")
            or get_object(answer.get("kwargs") or answer).get("usage_metadata")
            or metadata.get("usage_metadata")
            or {key: row.get(key) for key in ("prompt_tokens", "completion_tokens")},
        }


def _first_batch(messages: Any) -> list[Any]:
    """Return the messages of a run: a list of them, or a batch that holds one list."""
    found = messages if isinstance(messages, list) else []
    return list(found[0]) if found and isinstance(found[0], list) else found


def _run_answer(outputs: Row) -> dict[str, Any]:
    """Return the answer of a chat model of LangChain, or of a wrapped client."""
    if "role" in outputs:  # Anthropic's client: the outputs are the message
        names = ("role", "content", "tool_calls")
        return {name: outputs[name] for name in names if outputs.get(name)}
    found: Any = outputs.get("generations") or outputs.get("choices")
    while isinstance(found, list) and found:
        found = found[0]
    return get_object(get_object(found).get("message"))


def _as_chat_message(message: Any) -> dict[str, Any]:
    """Turn a serialised LangChain message into a dict with a role; others stay as they are."""
    given = get_object(message)
    if "role" in given:
        return given
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


def is_span(row: Row) -> bool:
    """Return whether an object is an OTLP export, or one span with attributes."""
    has_attributes = isinstance(row.get("attributes"), (Mapping, list))
    return "resourceSpans" in row or (has_attributes and not read_usage(row.get("usage")))


def span_requests(rows: Iterable[Any]) -> Iterator[Row]:
    """Turn OpenTelemetry spans of model requests into requests; a span of an agent only sums them."""
    spans: list[Row] = []
    for row in map(get_object, rows):
        for each in row.get("resourceSpans") or ():
            spans += [s for scope in each.get("scopeSpans") or () for s in scope.get("spans") or ()]
        spans += [] if "resourceSpans" in row else [row]
    requests = filter(None, map(_span_request, spans))
    yield from sorted(requests, key=lambda each: parse_time(each["time"]) or 0.0)


def _span_request(span: Row) -> Row | None:
    values = _attributes(span.get("attributes"))
    counts = ("input_tokens", "output_tokens", "cache_read.input_tokens",
              "cache_creation.input_tokens")  # fmt: skip
    sent_tokens, output, read, write = (values.get(f"gen_ai.usage.{each}") for each in counts)
    operation = values.get("gen_ai.operation.name", "chat")
    if sent_tokens is None or operation not in _MODEL_OPERATIONS:
        return None
    context = get_object(span.get("context"))
    sent, said = (
        [part for each in _decode_list(values.get(f"gen_ai.{side}.messages"))
         for part in _split_parts(each)]
        for side in ("input", "output")
    )  # fmt: skip
    return {
        "session": values.get("gen_ai.conversation.id")
        or span.get("traceId") or context.get("trace_id"),
        "id": values.get("gen_ai.response.id") or span.get("spanId") or context.get("span_id"),
        "time": _time_of(span, "start"),
        "end": _time_of(span, "end"),
        "model": values.get("gen_ai.response.model") or values.get("gen_ai.request.model"),
        "system": values.get("gen_ai.system_instructions"),
        "tools": _decode_list(values.get("gen_ai.tool.definitions")),
        "messages": sent,
        "response": next(iter(said), None),
        # By convention the cached part is in the input.
        "usage": _usage(int(sent_tokens), int(output or 0), int(read or 0), int(write or 0)),
    }  # fmt: skip


def _usage(whole: int, output: int, read: int, write: int) -> dict[str, Any]:
    details = {"cache_read": read, "cache_creation": write}
    return {"input_tokens": whole, "output_tokens": output, "input_token_details": details}


def _attributes(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    pairs = (each for each in given or () if isinstance(each, Mapping))
    return {str(each.get("key")): _unwrap(each.get("value")) for each in pairs}


def _unwrap(given: Any) -> Any:
    """Return the value that OTLP wraps in the name of its type."""
    kind, value = next(iter(get_object(given).items()), ("", None))
    if kind == "arrayValue":
        return [_unwrap(each) for each in get_object(value).get("values") or ()]
    return _attributes(get_object(value).get("values")) if kind == "kvlistValue" else value


def _split_parts(message: Any) -> Iterator[dict[str, Any]]:
    """Yield the chat messages of one message of the conventions, which has a role and parts."""
    if not isinstance(message, Mapping):
        return
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in map(get_object, message.get("parts") or ()):
        kind = part.get("type")
        if kind == "text":
            texts.append(str(part.get("content") or ""))
        elif kind == "tool_call":
            calls.append(chat_call(part.get("id"), part.get("name"), part.get("arguments")))
        elif kind == "tool_call_response":
            result = part.get("response", part.get("result"))
            text = result if isinstance(result, str) else json.dumps(result, default=str)
            yield {"role": "tool", "tool_call_id": part.get("id"), "content": text}
    if texts or calls or not message.get("parts"):
        said: dict[str, Any] = {"role": message.get("role"), "content": "\n".join(texts)}
        yield {**said, "tool_calls": calls} if calls else said


def _time_of(span: Row, end: str) -> Any:
    nanoseconds = span.get(f"{end}TimeUnixNano")
    return span.get(f"{end}_time") if nanoseconds is None else int(nanoseconds)


def is_observation(row: Row) -> bool:
    """Return whether an object is a Langfuse observation, or holds a list of them."""
    inside = [*_decode_list(row.get("observations")), *_decode_list(row.get("data"))]
    return any("traceId" in each and "type" in each for each in map(get_object, [row, *inside]))


def observation_requests(rows: Iterable[Any]) -> Iterator[Row]:
    """Turn Langfuse generations into requests, from the API or an export; a trace is a session."""
    found: list[dict[str, Any]] = []
    for row in map(get_object, rows):
        inside = [*_decode_list(row.get("observations")), *_decode_list(row.get("data"))]
        name = row.get("sessionId")
        found += [{"sessionId": name, **get_object(each)} for each in inside or [row]]
    generations = (each for each in found if each.get("type") == "GENERATION")
    for each in sorted(generations, key=lambda one: str(one.get("startTime") or "")):
        given, said = _decode(each.get("input")), _decode(each.get("output"))
        body = given if isinstance(given, Mapping) else {"messages": given}
        counts = get_object(_decode(each.get("usageDetails") or each.get("usage")))
        cached = {key: int(n or 0) for key, n in counts.items() if "cach" in key}
        write = sum(n for key, n in cached.items() if "creation" in key or "write" in key)
        read = sum(cached.values()) - write
        whole = int(counts.get("input") or 0) + read + write  # the parts stand side by side
        answer = said if isinstance(said, Mapping) else {"role": "assistant", "content": said or ""}
        yield {
            "session": each.get("sessionId") or each.get("traceId"),
            "id": each.get("id"),
            "time": each.get("startTime"),
            "end": each.get("endTime"),
            "model": each.get("model"),
            "tools": body.get("tools"),
            "messages": list(map(_as_chat_message, _decode_list(body.get("messages")))),
            "response": answer,
            "usage": _usage(whole, int(counts.get("output") or 0), read, write),
        }
