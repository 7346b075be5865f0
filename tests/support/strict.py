"""What providers refuse, said of the JSON of a request; written from their error texts alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Request = dict[str, Any]
Check = Callable[[Request], list[str]]

_OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+")
_THOUGHT = re.compile(r"(?:fc|msg|ws)_(r\d+)(?:_\d+)?")
_BEDROCK_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")


def openai(body: Request) -> list[str]:  # noqa: C901 - one clause a rule
    """Chat Completions."""
    found: list[str] = []
    messages = body["messages"]
    if not messages:
        found.append("Invalid 'messages': empty array")
    waiting: list[str] = []
    for place, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                found.append(f"{place}: role 'tool' must be a response to a preceding call")
            else:
                waiting.remove(message["tool_call_id"])
            if isinstance(content, list) and any(part.get("type") != "text" for part in content):
                found.append(f"{place}: image URLs are only allowed for messages with role 'user'")
            continue
        if waiting:
            found.append(f"{place}: {waiting} must be followed by tool messages")
            waiting = []
        if role not in ("system", "developer", "user", "assistant"):
            found.append(f"{place}: invalid role {role!r}")
        calls = message.get("tool_calls")
        if calls is not None and not 1 <= len(calls) <= 128:
            found.append(f"{place}: {len(calls)} tool_calls")
        if not calls and not _says(content):
            found.append(f"{place}: expected content")
        for call in calls or ():
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            if len(call["id"]) > 40 or not call["id"]:
                found.append(f"{place}: id {call['id']!r}, maximum length 40")
            if not _OPENAI_NAME.fullmatch(name):
                found.append(f"{place}: name {name!r}")
            if not _is_object(arguments):
                found.append(f"{place}: arguments {arguments!r:.40}")
            waiting.append(call["id"])
        if len(set(waiting)) < len(waiting):
            found.append(f"{place}: duplicate ids {waiting}")
        kinds = {part.get("type") for part in content or () if isinstance(part, dict)}
        if kinds - {"text", "image_url", "input_audio", "file", "refusal"}:
            found.append(f"{place}: content parts {sorted(map(str, kinds))}")
    return [*found, *_end(messages, waiting), *_asked(messages)]


def responses(body: Request) -> list[str]:  # noqa: C901 - one clause a rule
    """The Responses API: items, and reasoning bound to what follows it.

    An item that was answered together with reasoning says so in its id: ``fc_r7_0`` was thought
    of in ``rs_r7``.
    """
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    found: list[str] = []
    called: list[str] = []
    ids: set[str] = set()
    for place, item in enumerate(items):
        kind = item.get("type", "message")
        name = item.get("id")
        if name is not None and name in ids:
            found.append(f"{place}: duplicate item found with id {name}")
        thought = _THOUGHT.fullmatch(name or "")
        if thought and f"rs_{thought[1]}" not in ids:
            found.append(f"{place}: {name} was provided without its required 'reasoning' item")
        ids.add(str(name))
        own = kind == "message" and item.get("role") == "assistant"
        if kind == "reasoning":
            after = items[place + 1] if place + 1 < len(items) else {}
            if not _follows(after):
                found.append(f"{place}: reasoning without its required following item")
            continue
        if kind == "function_call":
            if not item.get("call_id") or len(item["call_id"]) > 64:
                found.append(f"{place}: call_id {item.get('call_id')!r}")
            if not _is_object(item.get("arguments")):
                found.append(f"{place}: arguments")
            called.append(str(item.get("call_id")))
            continue
        if kind == "function_call_output":
            if item.get("call_id") not in called:
                found.append(f"{place}: no tool call found for function call output")
            else:
                called.remove(item["call_id"])
            continue
        if kind == "message":
            if not own and called:
                found.append(f"{place}: no tool output found for {called}")
                called = []
            if item.get("role") not in ("system", "developer", "user", "assistant"):
                found.append(f"{place}: role {item.get('role')!r}")
            if not _says(item.get("content")):
                found.append(f"{place}: no content")
        elif not kind.endswith("_call"):
            found.append(f"{place}: item {kind!r}")
    if called:
        found.append(f"end: no tool output found for {called}")
    return found


def anthropic(body: Request) -> list[str]:  # noqa: C901 - one clause a rule
    """The Messages API."""
    messages = body["messages"]
    found: list[str] = []
    if not messages or messages[0]["role"] != "user":
        found.append('first message must use the "user" role')
    if messages and messages[-1]["role"] != "user":
        found.append("the conversation must end with a user message")
    waiting: list[str] = []
    used: set[str] = set()
    for place, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            found.append(f"{place}: no content")
        kinds = [block["type"] for block in blocks]
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if kinds[: len(answered)] != ["tool_result"] * len(answered):
            found.append(f"{place}: results do not lead: {kinds}")
        if sorted(answered) != sorted(waiting):
            found.append(f"{place}: tool_use ids {waiting} without tool_result, got {answered}")
        if message["role"] == "user" and {"thinking", "tool_use"} & set(kinds):
            found.append(f"{place}: {kinds} in a user message")
        for block in _within(blocks):
            if block["type"] == "text" and not block["text"].strip():
                found.append(f"{place}: text content blocks must be non-empty")
            if block["type"] == "image" and message["role"] != "user":
                found.append(f"{place}: an image in an assistant message")
        calls = [block for block in blocks if block["type"] == "tool_use"]
        for call in calls:
            if not isinstance(call["input"], dict):
                found.append(f"{place}: tool_use.input should be a valid dictionary")
            if not _ANTHROPIC_ID.fullmatch(call["id"]) or call["id"] in used:
                found.append(f"{place}: tool_use id {call['id']!r}")
            used.add(call["id"])
        if kinds and kinds[-1] in ("thinking", "redacted_thinking"):
            found.append(f"{place}: the final block cannot be thinking")
        served = [block["id"] for block in blocks if block["type"] == "server_tool_use"]
        results = [b["tool_use_id"] for b in blocks if b["type"] == "web_search_tool_result"]
        if served != results:
            found.append(f"{place}: server tools {served} with results {results}")
        waiting = [call["id"] for call in calls]
    if waiting:
        found.append(f"end: tool_use ids {waiting} without tool_result")
    return [*found, *_marks(body)]


def gemini(body: Request) -> list[str]:
    """generateContent."""
    contents = body["contents"]
    found: list[str] = []
    signed: list[bool] = []
    if not contents or contents[0].get("role") != "user":
        found.append("the first turn is not the user's")
    if contents and contents[-1].get("role") != "user":
        found.append("ends with neither a user role nor a function response")
    waiting: list[str] = []
    for place, content in enumerate(contents):
        parts = content.get("parts") or []
        if content.get("role") not in ("user", "model"):
            found.append(f"{place}: role {content.get('role')!r}")
        if not parts or any(not part or part.get("text") == "" for part in parts):
            found.append(f"{place}: must include at least one parts field")
        answers = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
        if sorted(answers) != sorted(waiting):
            found.append(f"{place}: {len(waiting)} function calls, {len(answers)} responses")
        called = [part for part in parts if "functionCall" in part]
        signed.append(bool(called) and "thoughtSignature" in called[0])
        calls = [part["functionCall"] for part in called]
        if calls and contents[place - 1].get("role") != "user":
            found.append(f"{place}: a function call comes after a user turn or a response")
        if any(not isinstance(call.get("args") or {}, dict) for call in calls):
            found.append(f"{place}: args")
        waiting = [call["name"] for call in calls]
    if waiting:
        found.append(f"end: {waiting} without responses")
    turn = max((n for n, content in enumerate(contents) if _asks(content)), default=0)
    steps = [n for n in range(turn, len(contents)) if _calls(contents[n])]
    if any(signed[n] for n in steps):
        found += [
            f"{n}: function call is missing a thought_signature" for n in steps if not signed[n]
        ]
    return found


def _asks(content: Request) -> bool:
    parts = content.get("parts") or []
    return content.get("role") == "user" and not any("functionResponse" in p for p in parts)


def _calls(content: Request) -> bool:
    return any("functionCall" in part for part in content.get("parts") or [])


def bedrock(body: Request) -> list[str]:
    """Converse."""
    messages = body["messages"]
    found = [
        f"{place}: roles must alternate, starting with user"
        for place, message in enumerate(messages)
        if message["role"] != ("user", "assistant")[place % 2]
    ]
    if not messages or messages[-1]["role"] != "user":
        found.append("must end with a user message")
    waiting: list[str] = []
    for place, message in enumerate(messages):
        blocks = message["content"]
        if not blocks:
            found.append(f"{place}: no content")
        answered = [b["toolResult"]["toolUseId"] for b in blocks if "toolResult" in b]
        if sorted(answered) != sorted(waiting):
            found.append(f"{place}: expected toolResult blocks for {waiting}, got {answered}")
        for block in blocks:
            if "text" in block and not block["text"].strip():
                found.append(f"{place}: the text field is blank")
            if "image" in block and message["role"] != "user":
                found.append(f"{place}: media in an assistant message")
        calls = [block["toolUse"] for block in blocks if "toolUse" in block]
        found += [
            f"{place}: toolUse {call}"
            for call in calls
            if not _BEDROCK_ID.fullmatch(call["toolUseId"]) or not isinstance(call["input"], dict)
        ]
        waiting = [call["toolUseId"] for call in calls]
        if len(set(waiting)) < len(waiting):
            found.append(f"{place}: duplicate ids")
    if waiting:
        found.append(f"end: expected toolResult blocks for {waiting}")
    return found


REFUSALS: dict[str, Check] = {
    "openai": openai,
    "responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "bedrock": bedrock,
}
"""Each returns the reasons for which the provider would answer with status 400."""


def _says(content: Any) -> bool:
    if isinstance(content, str):
        return bool(content)
    return bool(content) and not any(
        isinstance(part, dict) and part.get("type") == "text" and not part.get("text")
        for part in content
    )


def _is_object(arguments: Any) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except (TypeError, ValueError):
        return False


def _end(messages: Sequence[Request], waiting: list[str]) -> list[str]:
    return [f"end: {waiting} must be followed by tool messages"] if waiting else []


def _asked(messages: Sequence[Request]) -> list[str]:
    found = []
    if not any(message["role"] == "user" for message in messages):
        found.append("no user query found in messages")
    if messages and messages[-1]["role"] not in ("user", "tool"):
        found.append("must end with a user or tool message")
    return found


def _follows(item: Request) -> bool:
    kind = item.get("type", "message")
    if kind == "message":
        return item.get("role") == "assistant"
    return kind == "reasoning" or kind.endswith("_call")


def _within(blocks: Sequence[Request]) -> Iterator[Request]:
    for block in blocks:
        yield block
        inner = block.get("content")
        if block["type"] == "tool_result" and isinstance(inner, list):
            yield from (each for each in inner if each["type"] == "text")


def _marks(body: Request) -> list[str]:
    """Anthropic: at most four, and a longer one never after a shorter one."""
    order = [*body.get("tools", ()), *_listed(body.get("system"))]
    for message in body["messages"]:
        order += _listed(message["content"])
    lasting = [
        block["cache_control"].get("ttl", "5m")
        for block in order
        if isinstance(block, dict) and block.get("cache_control")
    ]
    if body.get("cache_control"):
        lasting.append(body["cache_control"].get("ttl", "5m"))
    found = [f"{len(lasting)} cache marks, at most 4"] if len(lasting) > 4 else []
    found += [
        "invalid_cache: cache_control is not supported inside a tool_result"
        for block in order
        if isinstance(block, dict) and block.get("type") == "tool_result"
        for inner in _listed(block.get("content"))
        if isinstance(inner, dict) and inner.get("cache_control")
    ]
    if "5m" in lasting and "1h" in lasting[lasting.index("5m") :]:
        found.append(f"a ttl='1h' mark must not come after a ttl='5m' one: {lasting}")
    return found


def _listed(content: Any) -> list[Any]:
    return content if isinstance(content, list) else []
