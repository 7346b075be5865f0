"""Read conversations from logs: Claude Code, Codex, ChatGPT exports, and requests of other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from history_curator.errors import ConversionError
from history_curator.formats import RESPONSE_ITEMS
from history_curator.lab.conversations import LabConversation, LoggedCall
from history_curator.lab.traces import (
    Row,
    chat_call,
    object_at,
    pick,
    read_observations,
    read_requests,
    read_runs,
    read_spans,
    unfold_observations,
)
from history_curator.tokens import Usage, parse_time, read_usage

Reader = Callable[[Iterable[Any], str], list[LabConversation]]
_CODEX_LINES = ("session_meta", "response_item", "event_msg", "turn_context")
_CODEX_ANSWERS = ("reasoning", "function_call", "custom_tool_call", "local_shell_call")


def read_log(
    rows: Sequence[Any], path: str, default: Reader | None = None
) -> list[LabConversation] | None:
    """Return the conversations of a log; None where these JSON values are no log.

    ``default`` reads values that no log is known by.

    Raises:
        ConversionError: when a field has a form that no such log has.
    """
    head = [row for row in rows[:20] if isinstance(row, Mapping)]
    reader = next((each for is_own, each in _READERS if any(map(is_own, head))), default)
    try:
        return reader(rows, Path(path).name.partition(".")[0]) if reader else None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        problem = f"{path}: a field has a form that is not known ({error})."
        raise ConversionError(problem, fix="leave the file out.") from error


def _read_claude_code(rows: Iterable[Any], _name: str) -> list[LabConversation]:
    """Return the sessions of a Claude Code log; lines of a side chain are a session of their own.

    An answer spans several lines with one message id: it becomes one call, with the usage of its
    last line.
    """
    sessions: dict[str, LabConversation] = {}
    chains: dict[str, str] = {}
    sent_at: dict[str, float | None] = {}
    answers: dict[str, tuple[dict[str, Any], LoggedCall]] = {}
    for row in (row for row in rows if pick(row, "sessionId")):
        name, message, kind = _session_name(row, chains), row.get("message"), row.get("type")
        is_side, time = bool(row.get("isSidechain")), parse_time(row.get("timestamp"))
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
            answer = str(message.get("id") or row.get("requestId") or row.get("uuid"))
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


def _session_name(row: Row, chains: dict[str, str]) -> str:
    """Return the name of the session a line belongs to; a side chain is named after its first."""
    name = str(row.get("sessionId") or "session")
    if not row.get("isSidechain"):
        return name
    uuid = str(row.get("uuid"))
    chains[uuid] = str(row.get("agentId") or chains.get(str(row.get("parentUuid"))) or uuid)
    return f"{name} side {chains[uuid]}"


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
        usage = object_at(payload, "info", "last_token_usage")
        if kind != "event_msg" or not usage.get("input_tokens") or position is None:
            continue
        names = ("input_tokens", "cached_input_tokens", "output_tokens")
        whole, read, output = (int(usage.get(each) or 0) for each in names)
        answer, spent = f"{session.id} #{len(session.requests)}", Usage(whole, read, output=output)
        session.requests.append(LoggedCall(answer, model, spent, sent, time, position))
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
            _add_chatgpt_message(talk, message)
        found += [talk] if talk.messages else []
    return found


def _add_chatgpt_message(talk: LabConversation, message: dict[str, Any]) -> None:
    content = object_at(message, "content")
    parts = content.get("parts") or [content.get("text") or content.get("result") or ""]
    text = "\n".join(part for part in parts if isinstance(part, str))
    role, last = pick(message, "author", "role"), talk.messages[-1:]
    said = {"role": "assistant" if role == "tool" else role, "content": text}
    if role == "assistant" and message.get("recipient", "all") != "all":
        call = chat_call(message.get("id"), message["recipient"], {"input": text})
        said |= {"content": "", "tool_calls": [call]}
    elif role == "tool" and (call_id := pick(last, 0, "tool_calls", 0, "id")):
        said |= {"role": "tool", "tool_call_id": call_id}
    elif not text.strip() or not role:
        return
    talk.add_message(said, parse_time(message.get("create_time")))


_READERS: tuple[tuple[Callable[[Row], bool], Reader], ...] = (
    (lambda row: "sessionId" in row and "uuid" in row, _read_claude_code),
    (lambda row: row.get("type") == "summary" and "leafUuid" in row, _read_claude_code),
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
