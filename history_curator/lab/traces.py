"""Turn LangSmith runs and Langfuse observations into plain requests.

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
        read = sum(cached.values()) - write
        whole = int(counts.get("input") or 0) + read + write  # the parts stand side by side
        yield {
            "session": each.get("sessionId") or each.get("traceId"),
            "id": each.get("id"),
            "time": each.get("startTime"),
            "end": each.get("endTime"),
            "model": each.get("model"),
            "tools": body.get("tools"),
            "messages": list(map(_as_chat_message, _decode_list(body.get("messages")))),
            "response": said
            if isinstance(said, Mapping)
            else {"role": "assistant", "content": said or ""},
            "usage": {
                "input_tokens": whole,
                "output_tokens": int(counts.get("output") or 0),
                "input_token_details": {"cache_read": read, "cache_creation": write},
            },
        }
