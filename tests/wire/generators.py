"""Conversations in every wire format: as they should be, as logs leave them, and with odd fields.

Everything is drawn from a number, so that a failing one can be drawn again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any

from tests.wire.blocks import Message, found, says, use, user
from tests.wire.blocks import text as text_block

WORDS = ("order", "weather", "ünïcode", "日本語", "quickly", "1", "{}", "ok.", "<tag>", "שלום")
WORDS += ("the", "path/to/file.py", "e\u0301")
TOOLS = ("look", "run_tests", "read_file")
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
PNG = f"data:image/png;base64,{PIXEL}"
SOURCE = {"type": "base64", "media_type": "image/png", "data": PIXEL}
PICTURE = {"type": "image", "source": SOURCE}
SHOWN = {"type": "input_image", "image_url": PNG, "detail": "auto"}
REFUSAL = {"type": "refusal", "refusal": "no"}


def draw(wire: str, number: int) -> list[Message]:
    """Return conversation `number` of a format: every third is valid, broken, or has odd fields."""
    rng = Random(f"{wire} {number}")
    messages = FORMATS[wire](rng)
    if number % 3:
        messages = broken(rng, messages)
    if number % 3 == 2:
        messages = odd(rng, messages)
    return messages


def text(rng: Random, most: int = 12) -> str:
    """Some words, now and then many."""
    count = rng.choice((1, 3, most, most, 150)) if rng.random() < 0.9 else 400
    return " ".join(rng.choice(WORDS) for _ in range(count))


def arguments(rng: Random) -> dict[str, Any]:
    """The arguments of a call."""
    values: tuple[Any, ...] = (1, 2.5, None, True, "x", text(rng, 4), ["a", {"b": 1}], {})
    return {rng.choice("abcdef"): rng.choice(values) for _ in range(rng.randint(0, 3))}


class Ids:
    """Ids that are used once."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._count = 0

    def __call__(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}{self._rng.choice(('', 'x', '_y'))}"


def steps(rng: Random, kinds: tuple[str, ...]) -> Iterator[str]:
    """What happens in a conversation: the user speaks, then some of `kinds`, then an answer."""
    turns = rng.randint(1, 4)
    for turn in range(turns):
        yield "user"
        for _ in range(rng.randint(0, 3)):
            yield rng.choice(kinds)
        if turn < turns - 1 or rng.random() < 0.3:
            yield "answer"


# Chat Completions.


def chat(rng: Random) -> list[Message]:
    """Chat Completions."""
    ids, out = Ids(rng), []
    if rng.random() < 0.6:
        out.append({"role": rng.choice(("system", "developer")), "content": text(rng)})
    for step in steps(rng, ("calls", "calls", "calls", "custom", "legacy", "system")):
        if step == "user":
            out.append(user(_chat_said(rng)))
            if rng.random() < 0.2:
                out[-1]["name"] = "ann"
        elif step == "answer":
            out.append(_chat_answer(rng))
        elif step == "system":
            out.append({"role": "system", "content": text(rng)})
        elif step == "legacy":
            call = {"name": "look", "arguments": json.dumps(arguments(rng))}
            out.append({"role": "assistant", "content": None, "function_call": call})
            out.append({"role": "function", "name": "look", "content": text(rng)})
        else:
            out += _chat_exchange(rng, ids, custom=step == "custom")
    return out


def _chat_said(rng: Random) -> Any:
    said = text_block(text(rng))
    shown = {"type": "image_url", "image_url": {"url": PNG}}
    file = {"filename": "a.txt", "file_data": f"data:text/plain;base64,{PIXEL}"}
    filed = {"type": "file", "file": file}
    plain = said["text"]
    return rng.choice((plain, plain, [said], [said, shown], [shown, said], [said, filed]))


def _chat_answer(rng: Random) -> Message:
    message: Message = {"role": "assistant", "content": text(rng)}
    kind = rng.random()
    if kind < 0.1:
        return {"role": "assistant", "content": None, "refusal": text(rng)}
    if kind < 0.2:
        message["refusal"] = None
        message["annotations"] = [{"type": "url_citation", "url_citation": {"url": "http://a.b"}}]
    elif kind < 0.3:
        message["reasoning_content"] = text(rng)
    elif kind < 0.4:
        message["content"] = [text_block(text(rng)), REFUSAL]
    return message


def _chat_exchange(rng: Random, ids: Ids, *, custom: bool) -> list[Message]:
    calls, results = [], []
    for _ in range(rng.randint(1, 3)):
        name, tool = ids("call_"), rng.choice(TOOLS)
        if custom:
            body = {"id": name, "type": "custom", "custom": {"name": tool, "input": text(rng)}}
        else:
            given = {"name": tool, "arguments": json.dumps(arguments(rng), ensure_ascii=False)}
            body = {"id": name, "type": "function", "function": given}
        calls.append(body)
        content: Any = text(rng)
        if rng.random() < 0.2:
            content = [text_block(content), text_block(text(rng))]
        results.append({"role": "tool", "tool_call_id": name, "content": content})
    message = {"role": "assistant", "content": rng.choice((None, text(rng))), "tool_calls": calls}
    return [message, *results]


# Anthropic.


def anthropic(rng: Random) -> list[Message]:
    """Anthropic messages, the system prompt as a message."""
    ids, out = Ids(rng), []
    if rng.random() < 0.6:
        said = text(rng)
        out.append({"role": "system", "content": rng.choice((said, [text_block(said)]))})
    kinds = ("calls", "calls", "calls", "server", "paused", "program", "mcp", "compaction")
    for step in steps(rng, kinds):
        if step == "user":
            _anthropic_user(rng, out)
        elif step == "answer":
            out.append({"role": "assistant", "content": _anthropic_answer(rng)})
        elif step == "calls":
            out += _anthropic_exchange(rng, ids)
        elif step == "compaction":
            compacted = {"type": "compaction", "content": text(rng)}
            out += [says(compacted, text_block(text(rng))), user(text(rng))]
        else:
            out += _anthropic_served(rng, ids, step)
    return out


def _anthropic_user(rng: Random, out: list[Message]) -> None:
    said = text_block(text(rng))
    plain = {"type": "text", "media_type": "text/plain", "data": text(rng)}
    filed = {"type": "document", "source": plain, "title": "notes"}
    content: Any = rng.choice((said["text"], [said], [said, PICTURE], [filed, said]))
    last = out[-1]["content"] if out and out[-1]["role"] == "user" else None
    if isinstance(last, list) and rng.random() < 0.7:
        last.append(said)  # behind the results, in one message
    else:
        out.append(user(deepcopy(content)))


def _thought(rng: Random) -> list[Message]:
    signed = {"type": "thinking", "thinking": text(rng), "signature": "c2lnbmF0dXJl" * 4}
    hidden = {"type": "redacted_thinking", "data": "b3BhcXVl" * 8}
    return rng.choice(([], [], [signed], [hidden], [signed, hidden]))


def _anthropic_answer(rng: Random) -> Any:
    said = text(rng)
    return rng.choice((said, [*_thought(rng), text_block(said)]))


def _anthropic_exchange(rng: Random, ids: Ids) -> list[Message]:
    calls, results = [], []
    for _ in range(rng.randint(1, 3)):
        name = ids("toolu_")
        calls.append(use(name, name=rng.choice(TOOLS), input=arguments(rng)))
        content: Any = text(rng)
        if rng.random() < 0.3:
            content = [text_block(content), deepcopy(PICTURE)]
        results.append(found(name, content))
        if rng.random() < 0.1 and isinstance(content, str):  # an error holds text only
            results[-1]["is_error"] = True
    said = [text_block(text(rng))] if rng.random() < 0.5 else []
    return [says(*_thought(rng), *said, *calls), user(results)]


def _anthropic_served(rng: Random, ids: Ids, kind: str) -> list[Message]:
    name = ids("srvtoolu_")
    said = text_block(text(rng))
    served = {"type": "server_tool_use", "id": name, "name": "web_search", "input": {"query": "x"}}
    done: Message = {"type": "web_search_tool_result", "tool_use_id": name, "content": []}
    if kind == "mcp":
        served = {"type": "mcp_tool_use", "id": name, "name": "echo", "server_name": "s"}
        served["input"] = {}
        done = {"type": "mcp_tool_result", "tool_use_id": name, "is_error": False}
        done["content"] = [text_block(text(rng))]
    if kind in ("server", "mcp"):
        return [says(served, done, said)]
    if kind == "paused":
        return [says(said, served), says(done, text_block(text(rng)))]
    served |= {"name": "code_execution", "input": {"code": "look()"}}
    out: list[Message] = []
    first = [served]
    for _ in range(rng.randint(1, 2)):
        caller = {"type": "code_execution_20250825", "tool_id": name}
        call = use(ids("toolu_"), input=arguments(rng), caller=caller)
        out += [says(*first, call), user([found(call["id"], text(rng))])]
        first = []
    inside = {"type": "code_execution_result", "stdout": "1", "stderr": "", "return_code": 0}
    inside["content"] = []
    done = {"type": "code_execution_tool_result", "tool_use_id": name, "content": inside}
    return [*out, says(done, said)]


# OpenAI Responses.


def responses(rng: Random) -> list[Message]:
    """Items of OpenAI Responses."""
    ids, out = Ids(rng), []
    if rng.random() < 0.6:
        out.append({"role": rng.choice(("system", "developer")), "content": text(rng)})
    kinds = ("function", "function", "function", "custom", "computer", "search", "compaction")
    for step in steps(rng, kinds):
        if step == "user":
            said = {"type": "input_text", "text": text(rng)}
            message = user(rng.choice((text(rng), [said], [said, {**SHOWN}])))
            if rng.random() < 0.3:
                message["type"] = "message"
            out.append(message)
        elif step == "answer":
            out += [*_reasoning(rng, ids), _answer_item(rng, ids)]
        elif step == "compaction":
            compacted = {"type": "compaction", "id": ids("cmp_")}
            out += [compacted | {"encrypted_content": "b3BhcXVl" * 9}, user(text(rng))]
        elif step == "search":
            call = {"type": "web_search_call", "id": ids("ws_"), "status": "completed"}
            call["action"] = {"type": "search", "query": "x"}
            out += [*_reasoning(rng, ids), call, _answer_item(rng, ids)]
        else:
            out += _responses_exchange(rng, ids, step)
    return out


def _reasoning(rng: Random, ids: Ids) -> list[Message]:
    summary = [{"type": "summary_text", "text": text(rng)}]
    item: Message = {"type": "reasoning", "id": ids("rs_"), "summary": rng.choice(([], summary))}
    if rng.random() < 0.5:
        item["encrypted_content"] = "b3BhcXVl" * 8
    return rng.choice(([], [item]))


def _answer_item(rng: Random, ids: Ids) -> Message:
    cited = {"type": "url_citation", "url": "https://a.b/c", "title": text(rng, 3)}
    cited |= {"start_index": 0, "end_index": 1}
    noted = rng.choice(([], [], [cited]))
    said = {"type": "output_text", "text": text(rng), "annotations": noted}
    message = {"type": "message", "id": ids("msg_"), "role": "assistant", "status": "completed"}
    blocks = rng.choice(([said], [said, {**REFUSAL}]))
    return rng.choice(({**message, "content": blocks}, {"role": "assistant", "content": text(rng)}))


def _responses_exchange(rng: Random, ids: Ids, kind: str) -> list[Message]:
    called: list[Message] = []
    answered: list[Message] = []
    for _ in range(rng.randint(1, 2)):
        name = ids("call_")
        given: Any = text(rng)
        if rng.random() < 0.3:
            given = [{"type": "input_text", "text": text(rng)}, {**SHOWN}]
        call: Message = {"type": "function_call", "call_id": name, "name": rng.choice(TOOLS)}
        call["arguments"] = json.dumps(arguments(rng))
        output: Message = {"type": "function_call_output", "call_id": name, "output": given}
        if kind == "custom":
            call = {"type": "custom_tool_call", "call_id": name, "name": "look", "input": text(rng)}
            output = {**output, "type": "custom_tool_call_output"}
        elif kind == "computer":
            action = {"type": "click", "x": 1, "y": 2, "button": "left"}
            call = {"type": "computer_call", "call_id": name, "action": action}
            check = {"id": ids("sc_"), "code": "malicious_instructions", "message": text(rng)}
            call |= {"pending_safety_checks": rng.choice(([], [check])), "status": "completed"}
            seen = {"type": "computer_screenshot", "image_url": PNG}
            output = {"type": "computer_call_output", "call_id": name, "output": seen}
        if kind == "computer" or rng.random() < 0.5:
            call["id"] = ids({"function": "fc_", "custom": "ctc_", "computer": "cu_"}[kind])
        called.append(call)
        answered.append(output)
    said = [_answer_item(rng, ids)] if rng.random() < 0.3 else []
    return [*_reasoning(rng, ids), *said, *called, *answered]


# Gemini.


def gemini(rng: Random) -> list[Message]:
    """Gemini contents, the system instruction as a content."""
    out: list[Message] = []
    camel, named = rng.random() < 0.5, rng.random() < 0.3
    ids = Ids(rng)
    if rng.random() < 0.4:
        out.append({"role": "system", "parts": [{"text": text(rng)}]})
    for step in steps(rng, ("calls", "calls", "code")):
        if step == "user":
            shown: Message = {"inline_data": {"mime_type": "image/png", "data": PIXEL}}
            if camel:
                shown = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
            out.append({"role": "user", "parts": [{"text": text(rng)}, *rng.choice(([], [shown]))]})
        elif step == "answer":
            out.append({"role": "model", "parts": [*_gemini_thought(rng), {"text": text(rng)}]})
        elif step == "code":
            key = "executableCode" if camel else "executable_code"
            done = "codeExecutionResult" if camel else "code_execution_result"
            ran: list[Message] = [{key: {"language": "PYTHON", "code": "1"}}]
            ran.append({done: {"outcome": "OUTCOME_OK", "output": "1"}})
            out.append({"role": "model", "parts": [*ran, {"text": text(rng)}]})
            out.append({"role": "user", "parts": [{"text": text(rng)}]})
        else:
            out += _gemini_exchange(rng, ids, camel=camel, named=named)
    return out


def _gemini_thought(rng: Random) -> list[Message]:
    return rng.choice(([], [], [{"text": text(rng), "thought": True}]))


def _gemini_exchange(rng: Random, ids: Ids, *, camel: bool, named: bool) -> list[Message]:
    asked, answered = [], []
    for place in range(rng.randint(1, 3)):
        name = {"id": ids("fc_")} if named else {}
        tool = rng.choice(TOOLS)
        body: Message = {**name, "name": tool, "args": arguments(rng)}
        call: Message = {"functionCall" if camel else "function_call": body}
        if place == 0:
            call["thoughtSignature" if camel else "thought_signature"] = "c2lnbg=="
        asked.append(call)
        outputs = {"output": text(rng)}, {"result": text(rng)}, {"a": 1, "b": [text(rng)]}
        response = rng.choice(outputs)
        if rng.random() < 0.1:
            response = {"error": text(rng)}
        body = {**name, "name": tool, "response": response}
        answered.append({"functionResponse" if camel else "function_response": body})
    said = [{"text": text(rng)}] if rng.random() < 0.3 else []
    return [
        {"role": "model", "parts": [*_gemini_thought(rng), *said, *asked]},
        {"role": "user", "parts": answered},
    ]


# Bedrock Converse.


def bedrock(rng: Random) -> list[Message]:
    """Messages of Bedrock Converse, the system prompt as a message."""
    ids, out = Ids(rng), []
    if rng.random() < 0.4:
        out.append({"role": "system", "content": [{"text": text(rng)}, *_point(rng)]})
    for step in steps(rng, ("calls", "calls")):
        if step == "user":
            png = b"\x89PNG\r\n\x1a\n" + b"0" * 8 + b"\0\0\0\x08\0\0\0\x08"
            shown = {"image": {"format": "png", "source": {"bytes": png}}}
            name = ids("notes ").replace("_", "-")
            filed = {"document": {"name": name, "format": "txt", "source": {"bytes": b"some text"}}}
            content = [{"text": text(rng)}, *rng.choice(([], [shown], [filed])), *_point(rng)]
            if out and out[-1]["role"] == "user":
                out[-1]["content"] += content
            else:
                out.append(user(content))
        elif step == "calls":
            out += _bedrock_exchange(rng, ids)
        elif out[-1]["role"] != "assistant":
            out.append(says(*_bedrock_thought(rng), {"text": text(rng)}))
    return out


def _point(rng: Random) -> list[Message]:
    return [{"cachePoint": {"type": "default"}}] if rng.random() < 0.2 else []


def _bedrock_thought(rng: Random) -> list[Message]:
    said = {"text": text(rng), "signature": "c2lnbmF0dXJl" * 4}
    signed = {"reasoningContent": {"reasoningText": said}}
    hidden = {"reasoningContent": {"redactedContent": b"opaque" * 8}}
    return rng.choice(([], [], [signed], [hidden]))


def _bedrock_exchange(rng: Random, ids: Ids) -> list[Message]:
    asked, answered = [], []
    for _ in range(rng.randint(1, 3)):
        name = ids("tooluse_")
        body = {"toolUseId": name, "name": rng.choice(TOOLS), "input": arguments(rng)}
        asked.append({"toolUse": body})
        said, data = [{"text": text(rng)}], [{"json": {"a": [1, text(rng)]}}]
        content = rng.choice((said, data, [{"text": "a"}, {"text": "b"}]))
        result = {"toolUseId": name, "content": content}
        answered.append({"toolResult": result | rng.choice(({}, {"status": "error"}))})
    said = [{"text": text(rng)}] if rng.random() < 0.4 else []
    return [says(*_bedrock_thought(rng), *said, *asked), user([*answered, *_point(rng)])]


FORMATS: dict[str, Callable[[Random], list[Message]]] = {
    "chat": chat,
    "anthropic": anthropic,
    "responses": responses,
    "gemini": gemini,
    "bedrock": bedrock,
}


# Accidents.


def broken(rng: Random, messages: list[Message]) -> list[Message]:
    """The conversation as a log or a window leaves it: lost, doubled, swapped, cut off."""
    messages = deepcopy(messages)
    for _ in range(rng.randint(1, 4)):
        if not messages:
            break
        at = rng.randrange(len(messages))
        kind = rng.randrange(8)
        if kind == 0:
            del messages[at]
        elif kind == 1:
            messages.insert(rng.randrange(len(messages) + 1), deepcopy(messages[at]))
        elif kind == 2:
            other = rng.randrange(len(messages))
            messages[at], messages[other] = messages[other], messages[at]
        elif kind == 3:
            messages = messages[at:]
        elif kind == 4:
            messages = messages[: at + 1]
        elif kind == 7:
            messages[at : at + 1] = _torn(messages[at])
        else:
            _break_blocks(rng, messages[at], kind)
    return messages


def _torn(message: Message) -> list[Message]:
    """A message of several blocks as several messages."""
    for key in ("content", "parts"):
        if isinstance(message.get(key), list) and len(message[key]) > 1:
            return [{**message, key: [block]} for block in message[key]]
    return [message]


def _break_blocks(rng: Random, message: Message, kind: int) -> None:
    blocks = next(
        (
            message[key]
            for key in ("content", "parts", "tool_calls")
            if isinstance(message.get(key), list)
        ),
        None,
    )
    if blocks and kind == 5:
        blocks.pop(rng.randrange(len(blocks)))
    elif blocks:
        blocks.append(deepcopy(rng.choice(blocks)))
    elif isinstance(message.get("content"), str):
        message["content"] = rng.choice(("", " ", "\n"))


def odd(rng: Random, messages: list[Message]) -> list[Message]:
    """The conversation with a few fields of another type than they should be."""
    messages = deepcopy(messages)
    for _ in range(rng.randint(1, 3)):
        places = list(_places(messages))
        if not places:
            break
        holder, key = rng.choice(places)
        value = holder[key]
        kind = rng.randrange(12)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(value, str):
            holder[key] = f" {value.upper()} "
        elif kind == 2 and isinstance(holder, dict):
            holder["timestamp"] = 1.5
        else:
            holder[key] = deepcopy(rng.choice(ODD))
    return messages


def _nested(depth: int) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = {"deeper": [value]}
    return value


ODD: tuple[Any, ...] = (
    None,
    "",
    " ",
    7,
    -1.5,
    True,
    float("nan"),
    {"x": float("inf")},
    [],
    {},
    [1],
    {"a": {"b": [None]}},
    ["bare text"],
    [{"text": "untyped"}],
    "robot",
    '{"a": NaN}',
    '{"cut": ',
    "x" * 70,
    _nested(60),
)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from _places(inner)
