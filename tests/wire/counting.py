"""Count what is on the wire, from the JSON alone: nothing here knows about entries.

The arithmetic is the documented one. A message costs 4, and every tool result that stands in a
message of others costs 4 of its own, as does what lies between results; then every text, name,
call, thought and block.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from history_curator.formats import read_part
from history_curator.tokens import get_counter

Message = Mapping[str, Any]
_COUNTER = get_counter("o200k_base")
_TEXTS = ("text", "input_text", "output_text", "refusal")
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")
_LONG = 64


def count(wire: str, messages: Sequence[Message]) -> int:
    """Return the tokens of a request."""
    return 3 + _WIRES[wire](messages)


def _tokens(text: Any) -> int:
    return _COUNTER.count(text) if isinstance(text, str) and text else 0


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _joined(texts: Iterable[str]) -> int:
    said = [text for text in texts if text]
    return _tokens("\n".join(said))


def _call(name: str, arguments: str, call_id: str = "") -> int:
    return 3 + _tokens(name) + _tokens(arguments) + _id(call_id)


def _id(call_id: Any) -> int:
    return _tokens(call_id) if isinstance(call_id, str) and len(call_id) > _LONG else 0


def _opaque(data: Any) -> int:
    return len(data) * 3 // 16


def _media(block: Any) -> int:
    """What a block that is not text costs: the one thing taken from the library."""
    part = read_part(block, 0)
    return _COUNTER._part_tokens(part)  # type: ignore[attr-defined]


def _noted(blocks: Iterable[Any]) -> int:
    """What is noted beside the texts of a message."""
    return sum(
        _tokens(_said(b["annotations"])) for b in blocks if _is_text(b) and b.get("annotations")
    )


def _said(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _carried(*values: Mapping[str, Any]) -> int:
    """What a call carries beside its name and arguments, where it is long."""
    texts = [
        each if isinstance(each, str) else _json(each)
        for held in values
        for each in held.values()
        if each is not None
    ]
    return sum(_tokens(text) for text in texts if len(text) > _LONG)


def _without(held: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    return {key: value for key, value in held.items() if key not in keys}


def _text_of(block: Any) -> str:
    return block.get("text", block.get("refusal")) or ""


def _is_text(block: Any) -> bool:
    return block.get("type") in _TEXTS


def _blocks(blocks: Sequence[Any]) -> int:
    texts = [_text_of(block) for block in blocks if _is_text(block)]
    shown = sum(_media(block) for block in blocks if not _is_text(block))
    return _joined(texts) + shown + _noted(blocks)


def _content(content: Any) -> int:
    return _tokens(content) if isinstance(content, str) else _blocks(content or ())


def _thought(block: Message) -> int:
    text = block.get("thinking")
    if isinstance(text, list):
        text = "".join(each["text"] for each in text)
    if isinstance(text, str) and text:
        return _tokens(text)
    return _opaque(block["data"]) if block["type"] == "redacted_thinking" else 0


def _dicts(messages: Sequence[Message]) -> int:
    """Chat Completions and Anthropic, which may stand in one list."""
    return sum(_dict(message) for message in messages)


def _dict(message: Message) -> int:
    content, role = message.get("content"), message["role"]
    total = 0
    if isinstance(content, (list, tuple)):
        results = [b for b in content if b["type"] == "tool_result" and role != "assistant"]
        rest = _groups(content, lambda b: b["type"] == "tool_result" and role != "assistant")
        total += sum(4 + _content(b.get("content")) + _id(b.get("tool_use_id")) for b in results)
        for group in rest:
            calls = [b for b in group if b["type"] == "tool_use"]
            thoughts = [b for b in group if b["type"] in _THOUGHTS]
            said = [b for b in group if b not in calls and b not in thoughts]
            total += 4 + _blocks(said) + sum(map(_thought, thoughts))
            total += sum(_call(b["name"], _json(b["input"]), b["id"]) for b in calls)
        if not content:
            total += 4
    else:
        total += 4 + _tokens(content)
    return total + _beside(message)


def _groups(blocks: Sequence[Any], apart: Callable[[Any], bool]) -> list[list[Any]]:
    groups: list[list[Any]] = []
    fresh = True
    for block in blocks:
        if apart(block):
            fresh = True
            continue
        if fresh:
            groups.append([])
            fresh = False
        groups[-1].append(block)
    return groups


def _beside(message: Message) -> int:
    total = _id(message.get("tool_call_id"))
    if message.get("name") and message["role"] not in ("tool", "function"):
        total += 1 + _tokens(message["name"])
    for call in message.get("tool_calls") or ():
        kind = call["type"]
        inside = _without(call[kind], "name", "arguments", "args", "input")
        total += _carried(_without(call, "id", "type", kind), inside)
        if call["type"] == "custom":
            total += _call(
                call["custom"]["name"], _json({"input": call["custom"]["input"]}), call["id"]
            )
        else:
            total += _call(call["function"]["name"], call["function"]["arguments"], call["id"])
    legacy = message.get("function_call")
    if legacy:
        total += _call(legacy["name"], legacy["arguments"])
    total += _tokens(message.get("refusal"))
    if message.get("thinking_blocks"):
        total += sum(map(_thought, message["thinking_blocks"]))
    else:
        total += _tokens(message.get("reasoning_content", message.get("reasoning")))
    if message.get("annotations"):
        total += _tokens(_json(message["annotations"]))
    return total


_BODIES = {
    "computer_call": ("computer", "action"),
    "shell_call": ("shell", "action"),
    "local_shell_call": ("local_shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
}
_NAMED = ("function_call", "mcp_approval_request")


def _responses(items: Sequence[Message]) -> int:
    """A message of the user and an output are one each; so is what the model put out in one go.

    The texts of one answer are joined. Plain messages of the model, without a type, are answers of
    their own where nothing else stands between them.
    """
    total = 0
    answer: list[Message] = []
    for item in [*items, {"type": "end_output"}]:
        kind = item.get("type", "message")
        if _is_mine(item, kind):
            answer.append(item)
            continue
        apart = all("type" not in each for each in answer)
        total += sum(_answer([each]) for each in answer) if apart else _answer(answer)
        answer = []
        if kind != "end_output":
            total += 4 + _item(item, kind)
    return total


def _is_mine(item: Message, kind: str) -> bool:
    if "role" in item:
        return bool(item["role"] == "assistant")
    return not kind.endswith(("_output", "_response", "compaction"))


def _answer(items: Sequence[Message]) -> int:
    total, said = 4, []
    for item in items:
        if "role" not in item:
            total += _item(item, item["type"])
            continue
        content = item["content"]
        listed = [{"type": "text", "text": content}] if isinstance(content, str) else content
        said += [_text_of(block) for block in listed if _is_text(block)]
        total += sum(_media(block) for block in listed if not _is_text(block)) + _noted(listed)
    return total + _joined(said)


def _item(item: Message, kind: str) -> int:
    if "role" in item:
        return _content(item["content"])
    if kind in _NAMED:
        name = "id" if kind == "mcp_approval_request" else "call_id"
        beside = _carried(_without(item, name, "arguments", "type", "name"))
        return beside + _call(item["name"], item["arguments"], item[name])
    if kind == "custom_tool_call":
        beside = _carried(_without(item, "call_id", "input", "type", "name"))
        return beside + _call(item["name"], _json({"input": item["input"]}), item["call_id"])
    if kind in _BODIES:
        tool, body = _BODIES[kind]
        given = item[body] if body in item else {f"{body}s": item[f"{body}s"]}
        held = body if body in item else f"{body}s"
        beside = _carried(_without(item, "call_id", held, "type", "name"))
        return beside + _call(tool, _json(given), item["call_id"])
    if kind == "reasoning":
        return _reasoning(item)
    if kind.endswith(("_output", "_response")) and kind != "tool_search_output":
        return _output(item, kind)
    return _media(item)


def _reasoning(item: Message) -> int:
    texts = [
        each["text"]
        for key in ("summary", "content")
        for each in (item.get(key) or ())
        if isinstance(each.get("text"), str)
    ]
    if "\n".join(texts):
        return _tokens("\n".join(texts))
    return _opaque(item["encrypted_content"]) if item.get("encrypted_content") else 0


def _output(item: Message, kind: str) -> int:
    if kind == "mcp_approval_response":
        reason = item.get("reason")
        default = "approved" if item.get("approve") else "not approved"
        return _tokens(reason if reason and reason.strip() else default) + _id(
            item["approval_request_id"]
        )
    given = item.get("output")
    total = _id(item.get("call_id"))
    if given is None:
        return total + _tokens(str(item.get("status", "completed")))
    if kind == "computer_call_output" and isinstance(given, Mapping):
        return total + _media({**given, "type": "input_image"})
    if kind == "shell_call_output" and isinstance(given, list):
        said = [[c[k] for k in ("stdout", "stderr") if c.get(k)] for c in given]
        return total + _joined("\n".join(texts) or "(no output)" for texts in said)
    return total + _content(given)


def _gemini(contents: Sequence[Message]) -> int:
    return sum(_gemini_content(content) for content in contents)


def _one(part: Message, *keys: str) -> Any:
    return next((part[key] for key in keys if part.get(key) is not None), None)


def _gemini_content(content: Message) -> int:
    parts, mine = content["parts"], content.get("role") == "model"

    def answers(part: Message) -> bool:
        return not mine and _one(part, "functionResponse", "function_response") is not None

    total = 0
    for part in filter(answers, parts):
        body = _one(part, "functionResponse", "function_response")
        given = body.get("response")
        said = None if given is None else _json(given)
        if given is not None and len(given) == 1:
            ((key, value),) = given.items()
            if key in ("output", "result", "error") and isinstance(value, str):
                said = value
        total += 4 + _tokens(said) + _id(body.get("id"))
        total += sum(_gemini_media(each) for each in body.get("parts") or ())
    for group in _groups(parts, answers):
        total += 4
        texts = []
        for part in group:
            call = _one(part, "functionCall", "function_call")
            if call is not None and mine:
                total += _call(call["name"], _json(call.get("args") or {}), call.get("id") or "")
            elif part.get("thought") is True and mine:
                total += _tokens(part.get("text"))
            elif isinstance(part.get("text"), str) and part["text"].strip():
                texts.append(part["text"])
            else:
                total += _gemini_media(part)
        total += _joined(texts)
    return total


def _gemini_media(part: Message) -> int:
    from history_curator.formats.gemini import read_media

    return _COUNTER._part_tokens(read_media(part))  # type: ignore[attr-defined]


def _bedrock(messages: Sequence[Message]) -> int:
    total = 0
    for message in messages:
        blocks, mine = message["content"], message["role"] == "assistant"
        marks = [b for b in blocks if b.keys() == {"cachePoint"}]
        solid = [b for b in blocks if b.keys() != {"cachePoint"}]

        def answers(block: Message, mine: bool = mine) -> bool:
            return not mine and "toolResult" in block

        for block in filter(answers, solid):
            body = block["toolResult"]
            inner = body.get("content") or ()
            total += 4 + _joined(map(_bedrock_text, inner)) + _id(body.get("toolUseId"))
            total += sum(_bedrock_media(each) for each in inner if not _bedrock_text(each))
        for group in _groups(solid, answers):
            total += 4 + _joined(map(_bedrock_text, group))
            for block in group:
                if "toolUse" in block and mine:
                    use = block["toolUse"]
                    total += _call(use["name"], _json(use["input"]), use["toolUseId"])
                elif "reasoningContent" in block and mine:
                    total += _bedrock_thought(block)
                elif not _bedrock_text(block):
                    total += _bedrock_media(block)
        if marks and not solid:
            total += 4
    return total


def _bedrock_text(block: Message) -> str:
    if isinstance(block.get("text"), str):
        return str(block["text"])
    return _json(block["json"]) if "json" in block else ""


def _bedrock_thought(block: Message) -> int:
    body = block["reasoningContent"]
    text = (body.get("reasoningText") or {}).get("text")
    if isinstance(text, str) and text:
        return _tokens(text)
    return _opaque(_json(block)) if body.get("redactedContent") is not None else 0


def _bedrock_media(block: Message) -> int:
    from history_curator.formats import BedrockFormat
    from history_curator.formats.base import Reading

    return _COUNTER._part_tokens(BedrockFormat().read_part(block, Reading(0), ""))  # type: ignore[attr-defined]


_WIRES: dict[str, Callable[[Sequence[Message]], int]] = {
    "chat": _dicts,
    "anthropic": _dicts,
    "responses": _responses,
    "gemini": _gemini,
    "bedrock": _bedrock,
}
