"""Read conversations from logs: Claude Code, Codex, ChatGPT exports, and requests of other tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from history_curator.errors import ConversionError
from history_curator.formats import RESPONSE_ITEMS
from history_curator.lab.conversations import LabConversation, LoggedCall
from history_curator.lab.traces import (
    Row,
    chat_call,
    get_object,
    is_observation,
    is_run,
    is_span,
    observation_requests,
    run_requests,
    span_requests,
)
from history_curator.tokens import Usage, parse_time, read_usage

Reader = Callable[[Sequence[Any], set[str], str], list[LabConversation]]
_CODEX_LINES = ("session_meta", "response_item", "event_msg", "turn_context")
_CODEX_ANSWERS = ("reasoning", "function_call", "custom_tool_call", "local_shell_call")


def find_log_reader(rows: Sequence[Any]) -> Reader | None:
    """Return the reader of the log that these JSON values come from; None where they are no log.

    A reader takes the values, the ids of the answers that other files counted, and a name.
    """
    head = [row for row in rows[:20] if isinstance(row, Mapping)]
    known: tuple[tuple[Callable[[Row], bool], Reader], ...] = (
        (_is_claude_code, read_claude_code),
        (_is_codex, read_codex),
        (_is_chatgpt, read_chatgpt),
        (is_run, lambda rows, *given: read_requests(run_requests(rows), *given)),
        (is_span, lambda rows, *given: read_requests(span_requests(rows), *given)),
        (is_observation, lambda rows, *given: read_requests(observation_requests(rows), *given)),
    )
    return next((reader for is_its_row, reader in known if any(map(is_its_row, head))), None)


def read_log(
    reader: Reader, rows: Sequence[Any], counted: set[str], path: str
) -> list[LabConversation]:
    """Return the conversations of a log, or say that a field has a form that no such log has."""
    try:
        return reader(rows, counted, Path(path).name.partition(".")[0])
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        problem = f"{path}: a field has a form that is not known ({error})."
        raise ConversionError(problem, fix="leave the file out.") from error


def _is_claude_code(row: Row) -> bool:
    is_summary = row.get("type") == "summary" and "leafUuid" in row
    return ("uuid" in row and "sessionId" in row) or is_summary


def read_claude_code(rows: Iterable[Any], counted: set[str], _name: str) -> list[LabConversation]:
    """Return the sessions of a Claude Code log; lines of a side chain are a session of their own.

    An answer spans several lines with one message id: it becomes one call, with the usage of its
    last line. A resumed session repeats answers: an id in ``counted`` does not count again.
    """
    sessions: dict[str, LabConversation] = {}
    chains: dict[str, str] = {}
    sent_at: dict[str, float | None] = {}
    answers: dict[str, tuple[LabConversation, dict[str, Any], int | None]] = {}
    for row in filter(_is_claude_code, rows):
        name, message = _session_name(row, chains), row.get("message")
        is_side, time = bool(row.get("isSidechain")), parse_time(row.get("timestamp"))
        session = sessions.setdefault(name, LabConversation(name, [], times=[], is_side=is_side))
        if row.get("subtype") == "compact_boundary":
            session.summaries.append((len(session.messages), ""))
        elif not isinstance(message, Mapping) or message.get("model") == "<synthetic>":
            continue
        elif row.get("type") == "user":
            sent_at[name] = time
            content, position = message.get("content") or "", len(session.messages)
            if not row.get("isCompactSummary"):
                session.add_message({"role": "user", "content": content}, time)
                continue
            if session.summaries and session.summaries[-1][0] == position:
                session.summaries.pop()  # the boundary that stands before its summary
            session.summaries.append((position, str(content)))
        elif row.get("type") == "assistant":
            answer = str(message.get("id") or row.get("requestId") or row.get("uuid"))
            content, usage = message.get("content"), read_usage(message.get("usage")) or Usage(0)
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            if answer in answers:
                owner, known, number = answers[answer]
                known["content"].extend(blocks or ())
                if number is not None:
                    owner.requests[number] = replace(owner.requests[number], end=time, usage=usage)
                continue
            said, number = {"role": "assistant", "content": list(blocks or ())}, None
            if answer not in counted:
                number = len(session.requests)
                model, start = str(message.get("model") or ""), sent_at.get(name) or time
                session.requests.append(
                    LoggedCall(answer, model, usage, start, time, len(session.messages))
                )
            answers[answer] = (session, said, number)
            session.add_message(said, time)
    counted.update(answers)
    return [session for session in sessions.values() if session.messages]


def _session_name(row: Row, chains: dict[str, str]) -> str:
    """Return the name of the session a line belongs to; a side chain is named after its first."""
    name = str(row.get("sessionId") or "session")
    if not row.get("isSidechain"):
        return name
    uuid = str(row.get("uuid"))
    chains[uuid] = str(row.get("agentId") or chains.get(str(row.get("parentUuid"))) or uuid)
    return f"{name} side {chains[uuid]}"


def _is_codex(row: Row) -> bool:
    return row.get("type") in _CODEX_LINES and isinstance(row.get("payload"), Mapping)


def read_codex(rows: Iterable[Any], counted: set[str], name: str) -> list[LabConversation]:
    """Return the session of a Codex log: items of OpenAI's Responses, and usage after each answer."""
    session = LabConversation(name, [], times=[])
    model, sent, position = "", None, None
    for row in filter(_is_codex, rows):
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
        usage = get_object(get_object(payload.get("info")).get("last_token_usage"))
        if kind != "event_msg" or not usage.get("input_tokens") or position is None:
            continue
        answer = f"{session.id} #{len(session.requests)}"
        spent = Usage(
            int(usage["input_tokens"]),
            int(usage.get("cached_input_tokens") or 0),
            output=int(usage.get("output_tokens") or 0),
        )
        if answer not in counted:
            session.requests.append(LoggedCall(answer, model, spent, sent, time, position))
        counted.add(answer)
        position = None
    return [session] if session.messages else []


def _is_chatgpt(row: Row) -> bool:
    return isinstance(row.get("mapping"), Mapping)


def read_chatgpt(rows: Iterable[Any], _counted: set[str], name: str) -> list[LabConversation]:
    """Return the conversations of a ChatGPT export, each along the branch that was shown last."""
    found = []
    for number, row in enumerate(filter(_is_chatgpt, rows)):
        nodes = row["mapping"]
        branch: list[dict[str, Any]] = []
        node = row.get("current_node") or next(reversed(nodes), None)
        while node in nodes and len(branch) < len(nodes):
            branch.append(get_object(nodes[node].get("message")))
            node = nodes[node].get("parent")
        talk = LabConversation(str(row.get("title") or f"{name}#{number}"), [], times=[])
        for message in reversed(branch):
            _add_chatgpt_message(talk, message)
        if talk.messages:
            found.append(talk)
    return found


def _add_chatgpt_message(talk: LabConversation, message: dict[str, Any]) -> None:
    author, content = get_object(message.get("author")), get_object(message.get("content"))
    parts = content.get("parts") or [content.get("text") or content.get("result") or ""]
    text = "\n".join(part for part in parts if isinstance(part, str))
    role, time = author.get("role"), parse_time(message.get("create_time"))
    last = talk.messages[-1] if talk.messages else {}
    if role == "assistant" and message.get("recipient", "all") != "all":
        call = chat_call(message.get("id"), message["recipient"], {"input": text})
        talk.add_message({"role": "assistant", "content": "", "tool_calls": [call]}, time)
    elif role == "tool" and last.get("tool_calls"):
        call_id = last["tool_calls"][0]["id"]
        talk.add_message({"role": "tool", "tool_call_id": call_id, "content": text}, time)
    elif text.strip() and role:
        talk.add_message({"role": "assistant" if role == "tool" else role, "content": text}, time)


def read_requests(rows: Iterable[Any], counted: set[str], name: str) -> list[LabConversation]:
    """Return the sessions of plain requests; one without a session belongs to ``name``.

    Answers whose id is in ``counted`` were charged already; new ids are added to it.
    """
    sessions: dict[str, LabConversation] = {}
    last_sent: dict[str, list[Any]] = {}
    for row in map(get_object, rows):
        usage, given = read_usage(row.get("usage")), row.get("messages")
        sent = [dict(each) for each in given or () if isinstance(each, Mapping)]
        if usage is None and not sent:
            continue
        key = str(row.get("session") or name)
        session = sessions.setdefault(key, LabConversation(key, [], times=[]))
        answer = str(row.get("id") or f"{key} #{len(session.requests)}")
        if answer in counted:  # of several reports about one answer the last one counts
            session.requests = [
                replace(call, usage=usage) if usage and call.id == answer else call
                for call in session.requests
            ]
            continue
        counted.add(answer)
        time = parse_time(row.get("time"))
        end = parse_time(row.get("end")) or time
        _add_sent(session, sent, last_sent.get(key, []), time)
        last_sent[key] = sent or last_sent.get(key, [])
        session.is_side = session.is_side or bool(row.get("side"))
        session.tools = list(row.get("tools") or ()) or session.tools
        frame = None
        if "tools" in row or "system" in row:
            frame = json.dumps([row.get("tools"), row.get("system")], sort_keys=True, default=str)
        if usage is not None:
            model, position = str(row.get("model") or ""), len(session.messages)
            session.requests.append(LoggedCall(answer, model, usage, time, end, position, frame))
        response = get_object(row.get("response"))
        if response.get("role") == "assistant":
            session.add_message(response, end)
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
