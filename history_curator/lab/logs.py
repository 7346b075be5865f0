"""Read conversations from logs: Claude Code, Codex, ChatGPT exports, and requests of other tools.

LangSmith runs, Langfuse observations and OpenTelemetry spans are turned into plain requests, mappings
with ``session``, ``id``, ``time``, ``end``, ``model``, ``system``, ``tools``, ``messages``, ``response``
and ``usage``; see docs/howto/doctor.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from history_curator.errors import ConversionError
from history_curator.formats import RESPONSE_ITEMS, parse_json
from history_curator.lab.conversations import LabConversation, LoggedCall
from history_curator.tokens import Usage, parse_time, read_usage

Row = Mapping[str, Any]
Reader = Callable[[Iterable[Any], str], list[LabConversation]]
_CODEX_LINES = ("session_meta", "response_item", "event_msg", "turn_context")
_CODEX_ANSWERS = ("reasoning", "function_call", "custom_tool_call", "local_shell_call")
_LANGCHAIN_ROLES = {"human": "user", "ai": "assistant", "aimessagechunk": "assistant"}
_MODEL_OPERATIONS = ("chat", "generate_content", "text_completion")


def read_log(
    rows: Sequence[Any], path: str, default: Reader | None = None
) -> list[LabConversation] | None:
    """Return the conversations of a log, or what ``default`` reads; None where these are no log."""
    head = [row for row in rows[:20] if isinstance(row, Mapping)]
    reader = next((each for is_own, each in _READERS if any(map(is_own, head))), default)
    try:
        return reader(rows, Path(path).name.partition(".")[0]) if reader else None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        problem = f"{path}: a field has a form that is not known ({error})."
        raise ConversionError(problem, fix="leave the file out.") from error


def decode(value: Any) -> Any:
    """Return the value of a JSON text; another text, and any other value, as it is."""
    try:
        return parse_json(value) if isinstance(value, str) else value
    except ValueError:
        return value


def pick(value: Any, *path: str | int) -> Any:
    """Return the value at a path of keys and positions, or None; JSON inside of texts is read."""
    for step in path:
        value = decode(value)
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, Mapping) else None
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
    return value


def list_at(value: Any, *path: str | int) -> list[Any]:
    """Return the list at a path, and an empty one for anything else."""
    found = decode(pick(value, *path))
    return found if isinstance(found, list) else []


def object_at(value: Any, *path: str | int) -> dict[str, Any]:
    """Return the object at a path, and an empty one for anything else."""
    found = decode(pick(value, *path))
    return dict(found) if isinstance(found, Mapping) else {}


def chat_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """Return a tool call as Chat Completions has it."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def read_requests(rows: Iterable[Any], name: str) -> list[LabConversation]:
    """Return the sessions of plain requests in order of time; without a session it is ``name``."""
    sessions: dict[str, LabConversation] = {}
    last_sent: dict[str, list[Any]] = {}
    requests = (row for row in rows if isinstance(row, Mapping))
    for row in sorted(requests, key=lambda each: parse_time(each.get("time")) or 0.0):
        usage, tools, key = read_usage(row.get("usage")), row.get("tools"), row.get("session")
        sent = [dict(each) for each in row.get("messages") or () if isinstance(each, Mapping)]
        if usage is None and not sent:
            continue
        key = str(key or name)
        session = sessions.setdefault(key, LabConversation(key, [], times=[]))
        time, before = parse_time(row.get("time")), last_sent.get(key, [])
        _add_sent(session, sent, before, time)
        last_sent[key] = sent or before
        session.tools = tools if isinstance(tools, list) and tools else session.tools
        answer = str(row.get("id") or f"{key} {time} #{len(session.requests)}")
        call = LoggedCall(answer, str(row.get("model") or ""), usage or Usage(0), time)
        call.end, call.position = parse_time(row.get("end")) or time, len(session.messages)
        if "tools" in row or "system" in row:
            call.frame = json.dumps([tools, row.get("system")], sort_keys=True, default=str)
        session.requests += [] if usage is None else [call]
        if pick(row, "response", "role") == "assistant":
            session.add_message(dict(row["response"]), call.end)
    return [each for each in sessions.values() if each.messages or each.requests]


def _add_sent(
    session: LabConversation, sent: list[Any], before: list[Any], time: float | None
) -> None:
    """Add the messages of a whole request that the requests before it did not have."""
    is_answered = bool(session.requests) and len(session.messages) > session.requests[-1].position
    if sent[: len(before)] == before:
        new = sent[len(before) :]
        if is_answered and new and new[0].get("role") == "assistant":
            session.messages[-1] = new.pop(0)  # the answer, in the form in which it is sent back
    else:  # rewritten: the new messages follow the last one that is known
        if len(sent) < len(before):
            session.summaries.append((len(session.messages), ""))
        last = session.messages[-1:]
        new = sent[next((i for i in range(len(sent), 0, -1) if sent[i - 1 : i] == last), 0) :]
    for message in new:
        session.add_message(message, time)


def read_runs(rows: Iterable[Any]) -> Iterator[Row]:
    """Turn LangSmith runs of type ``llm`` into requests; a thread, or else a trace, is a session."""
    for row in rows:
        if pick(row, "run_type") != "llm":
            continue
        metadata, outputs = object_at(row, "extra", "metadata"), object_at(row, "outputs")
        wrapped = object_at(outputs, "generations", 0, 0) or object_at(outputs, "choices", 0)
        answer = object_at(wrapped, "message") or wrapped or outputs
        sent = list_at(row, "inputs", "messages", 0) or list_at(row, "inputs", "messages")
        fields = object_at(answer, "kwargs") or answer
        reported = (each.get("usage_metadata") for each in (outputs, fields, metadata))
        params = object_at(row, "extra", "invocation_params")
        yield {
            "session": metadata.get("thread_id") or row.get("trace_id"),
            "id": row.get("id"),
            "time": row.get("start_time"),
            "end": row.get("end_time"),
            "model": metadata.get("ls_model_name") or params.get("model"),
            "tools": params.get("tools") or pick(row, "inputs", "tools"),
            "messages": _as_chat(sent),
            "response": next(iter(_as_chat([answer] if answer else [])), None),
            "usage": next(filter(None, reported), row),
        }


def unfold_observations(row: Any) -> list[dict[str, Any]]:
    """Return the Langfuse observations of a trace, a page of the API, or one alone."""
    found = [*list_at(row, "observations"), *list_at(row, "data")] or [row]
    return [{"sessionId": pick(row, "sessionId"), **object_at(each)} for each in found]


def read_observations(rows: Iterable[Any]) -> Iterator[Row]:
    """Turn Langfuse generations into requests, from the API or an export; a trace is a session."""
    for each in (each for row in rows for each in unfold_observations(row)):
        if each.get("type") != "GENERATION":
            continue
        asked, said = decode(each.get("input")), decode(each.get("output"))
        asked = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
        said = said if isinstance(said, Mapping) else {"role": "assistant", "content": said or ""}
        found = object_at(each, "usageDetails") or object_at(each, "usage")
        counts = {key: int(n) for key, n in found.items() if isinstance(n, (int, float))}
        cached = {key: n for key, n in counts.items() if "cach" in key}
        write = sum(n for key, n in cached.items() if "creation" in key or "write" in key)
        read = sum(cached.values()) - write
        whole = counts.get("input", 0) + read + write  # they stand side by side
        yield {
            "session": each.get("sessionId") or each.get("traceId"),
            "id": each.get("id"),
            "time": each.get("startTime"),
            "end": each.get("endTime"),
            "model": each.get("model"),
            "tools": pick(asked, "tools"),
            "messages": _as_chat(list_at(asked, "messages") or list_at(asked)),
            "response": said,
            "usage": Usage(whole, read, write, counts.get("output", 0)),
        }


def read_spans(rows: Iterable[Any]) -> Iterator[Row]:
    """Turn OpenTelemetry spans of model requests into requests; a span of an agent only sums them."""
    for row in rows:
        scopes = (s for one in list_at(row, "resourceSpans") for s in list_at(one, "scopeSpans"))
        for span in [span for scope in scopes for span in list_at(scope, "spans")] or [row]:
            values = object_at(span, "attributes") or _unwrap(list_at(span, "attributes"))
            own = {str(key).removeprefix("gen_ai."): value for key, value in values.items()}
            names = ("input", "cache_read.input", "cache_creation.input", "output")
            counts = [int(own.get(f"usage.{name}_tokens") or 0) for name in names]
            if not counts[0] or own.get("operation.name", "chat") not in _MODEL_OPERATIONS:
                continue
            yield {
                "session": own.get("conversation.id") or span.get("traceId"),
                "id": own.get("response.id") or span.get("spanId"),
                "time": int(span.get("startTimeUnixNano") or 0) or span.get("start_time"),
                "end": int(span.get("endTimeUnixNano") or 0) or span.get("end_time"),
                "model": own.get("response.model") or own.get("request.model"),
                "system": own.get("system_instructions"),
                "tools": list_at(own, "tool.definitions"),
                "messages": _as_chat(list_at(own, "input.messages")),
                "response": next(iter(_as_chat(list_at(own, "output.messages"))), None),
                "usage": Usage(*counts),  # by convention the cached part is in the input
            }


def _unwrap(given: Any) -> Any:
    """Return a value, or a list of pairs, without the names of types that OTLP gives them."""
    if isinstance(given, list):
        return {str(pick(each, "key")): _unwrap(pick(each, "value")) for each in given}
    kind, value = next(iter(object_at(given).items()), ("", None))
    if kind == "arrayValue":
        return [_unwrap(each) for each in list_at(value, "values")]
    return _unwrap(list_at(value, "values")) if kind == "kvlistValue" else value


def _as_chat(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Turn messages with parts, or serialised by LangChain, into chat messages; leave others."""
    found: list[dict[str, Any]] = []
    for given in map(object_at, messages):
        if "parts" in given:
            found += _split_parts(given)
        elif "role" in given:
            found.append({key: value for key, value in given.items() if value is not None})
        else:
            found.append(_read_langchain(given))
    return found


def _read_langchain(given: Row) -> dict[str, Any]:
    fields = object_at(given, "kwargs") or given
    kind = str(fields.get("type") or given.get("type") or "human").lower()
    said = {"role": _LANGCHAIN_ROLES.get(kind, kind), "content": fields.get("content") or ""}
    if fields.get("tool_call_id"):
        said["tool_call_id"] = fields["tool_call_id"]
    if calls := fields.get("tool_calls"):
        said["tool_calls"] = [chat_call(c.get("id"), c.get("name"), c.get("args")) for c in calls]
        if isinstance(said["content"], list):  # its blocks repeat the calls
            said["content"] = "".join(str(block.get("text", "")) for block in said["content"])
    return said


def _split_parts(message: Row) -> Iterator[dict[str, Any]]:
    """Yield the chat messages of one message of OpenTelemetry, which has a role and parts."""
    texts, calls = [], []
    for part in map(object_at, list_at(message, "parts")):
        if part.get("type") == "tool_call_response":
            result = part.get("response", part.get("result"))
            text = result if isinstance(result, str) else json.dumps(result, default=str)
            yield {"role": "tool", "tool_call_id": part.get("id"), "content": text}
        elif part.get("type") == "tool_call":
            calls.append(chat_call(part.get("id"), part.get("name"), part.get("arguments")))
        elif part.get("type") == "text":
            texts.append(str(part.get("content") or ""))
    if texts or calls:
        said: dict[str, Any] = {"role": message.get("role"), "content": "\n".join(texts)}
        yield {**said, "tool_calls": calls} if calls else said


def _read_claude_code(rows: Iterable[Any], _name: str) -> list[LabConversation]:
    """Return the sessions of a Claude Code log; lines of a side chain are a session of their own.

    Lines with one message id are one answer, with the usage of the last of them.
    """
    sessions: dict[str, LabConversation] = {}
    sent_at: dict[str, float | None] = {}
    answers: dict[str, tuple[dict[str, Any], LoggedCall]] = {}
    for row in (row for row in rows if pick(row, "sessionId")):
        message, kind, time = row.get("message"), row.get("type"), parse_time(row.get("timestamp"))
        is_side, name = bool(row.get("isSidechain")), str(row["sessionId"])
        name += f" side {row.get('agentId') or ''}" if is_side else ""
        session = sessions.setdefault(name, LabConversation(name, [], times=[], is_side=is_side))
        position = len(session.messages)
        if row.get("subtype") == "compact_boundary":
            session.summaries.append((position, ""))
        if not isinstance(message, Mapping) or message.get("model") == "<synthetic>":
            continue
        content = message.get("content") or ""
        if kind == "user":
            sent_at[name] = time
            if row.get("isCompactSummary"):
                session.summaries.append((position, str(content)))
            else:
                session.add_message({"role": "user", "content": content}, time)
        elif kind == "assistant":
            answer = str(message.get("id") or row.get("uuid"))
            usage = read_usage(message.get("usage")) or Usage(0)
            if answer not in answers:
                model, start = str(message.get("model") or ""), sent_at.get(name) or time
                call = LoggedCall(answer, model, usage, start, position=position)
                answers[answer] = {"role": "assistant", "content": []}, call
                session.add_message(answers[answer][0], time)
                session.requests.append(call)
            said, call = answers[answer]
            is_text = isinstance(content, str)
            said["content"] += [{"type": "text", "text": content}] if is_text else content
            call.usage, call.end = usage, time
    return [session for session in sessions.values() if session.messages]


def _read_codex(rows: Iterable[Any], name: str) -> list[LabConversation]:
    """Return the session of a Codex log: items of OpenAI's Responses, and usage after each answer."""
    session = LabConversation(name, [], times=[])
    model, sent, position = "", None, None
    for row in (row for row in rows if isinstance(pick(row, "payload"), Mapping)):
        kind, payload, time = row["type"], row["payload"], parse_time(row.get("timestamp"))
        if kind == "session_meta":
            session.id = str(payload.get("id") or name)
        elif kind == "turn_context":
            model = str(payload.get("model") or model)
        elif kind == "response_item" and payload.get("type") in ("message", *RESPONSE_ITEMS):
            is_answer = payload["type"] in _CODEX_ANSWERS or payload.get("role") == "assistant"
            if is_answer and position is None:
                position = len(session.messages)
            elif not is_answer:
                sent, position = time, None
            session.add_message(dict(payload), time)
        used = object_at(payload, "info", "last_token_usage")
        if kind != "event_msg" or not used.get("input_tokens") or position is None:
            continue
        usage = Usage(used["input_tokens"], int(used.get("cached_input_tokens") or 0),
                      output=int(used.get("output_tokens") or 0))  # fmt: skip
        answer = f"{session.id} #{len(session.requests)}"
        session.requests.append(LoggedCall(answer, model, usage, sent, time, position))
        position = None
    return [session] if session.messages else []


def _read_chatgpt(rows: Iterable[Any], name: str) -> list[LabConversation]:
    """Return the conversations of a ChatGPT export, each along the branch that was shown last."""
    found = []
    for number, row in enumerate(rows):
        nodes = object_at(row, "mapping")
        branch: list[dict[str, Any]] = []
        node = pick(row, "current_node") or next(reversed(nodes), None)
        while node in nodes and len(branch) < len(nodes):
            branch.append(object_at(nodes, node, "message"))
            node = pick(nodes, node, "parent")
        talk = LabConversation(str(pick(row, "title") or f"{name}#{number}"), [], times=[])
        for message in reversed(branch):
            content, role = object_at(message, "content"), pick(message, "author", "role")
            parts = content.get("parts") or [content.get("text") or content.get("result") or ""]
            text = "\n".join(part for part in parts if isinstance(part, str))
            if role and text.strip():  # what tools wrote counts as the answer's
                said = {"role": "assistant" if role == "tool" else role, "content": text}
                talk.add_message(said, parse_time(message.get("create_time")))
        found += [talk] if talk.messages else []
    return found


_READERS: tuple[tuple[Callable[[Row], bool], Reader], ...] = (
    (lambda row: "sessionId" in row and "uuid" in row, _read_claude_code),
    (lambda row: row.get("type") in _CODEX_LINES and "payload" in row, _read_codex),
    (lambda row: isinstance(row.get("mapping"), Mapping), _read_chatgpt),
    (lambda row: "run_type" in row and "inputs" in row,
     lambda rows, name: read_requests(read_runs(rows), name)),
    (lambda row: "resourceSpans" in row or ("attributes" in row and "usage" not in row),
     lambda rows, name: read_requests(read_spans(rows), name)),
    (lambda row: any("traceId" in each and "type" in each for each in unfold_observations(row)),
     lambda rows, name: read_requests(read_observations(rows), name)),
)  # fmt: skip
"""How a line of each log is recognised, and who reads it."""
