"""Conversations in the files that other programs write."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from history_curator import check_conversation
from history_curator.lab import LabConversation, load_conversations
from tests.doctor.logs import ClaudeCode, call, usage
from tests.support.messages import assistant, user

SAID = [user("weather in Oslo?"), assistant("rain")]


def codex() -> list[Any]:
    """A session of Codex, as its rollout files have it."""

    def line(kind: str, **payload: Any) -> Any:
        return {"timestamp": "2026-01-05T09:00:00Z", "type": kind, "payload": payload}

    def spent(read: int, whole: int) -> Any:
        counts = {"input_tokens": whole, "cached_input_tokens": read, "output_tokens": 9}
        return line("event_msg", type="token_count", info={"last_token_usage": counts})

    return [
        line("session_meta", id="s1", cwd="/work"),
        line("turn_context", model="gpt-5.5"),
        line("response_item", type="message", role="user",
             content=[{"type": "input_text", "text": "weather in Oslo?"}]),
        line("event_msg", type="token_count", info=None),
        line("response_item", type="reasoning", summary=[], encrypted_content="x"),
        line("response_item", type="function_call", name="weather", call_id="c1",
             arguments='{"city": "Oslo"}'),
        spent(0, 5_000),
        line("response_item", type="function_call_output", call_id="c1", output="rain"),
        line("response_item", type="message", role="assistant",
             content=[{"type": "output_text", "text": "rain"}]),
        spent(4_900, 5_100),
    ]  # fmt: skip


def chatgpt() -> list[Any]:
    """An export with a branch that was left, a call of a tool, and a hidden system message."""

    def node(parent: str | None, role: str, text: str, **more: Any) -> Any:
        message = {"id": text[:4], "author": {"role": role}, "create_time": 1767603600.0,
                   "content": {"content_type": "text", "parts": [text]}, **more}  # fmt: skip
        return {"parent": parent, "message": message}

    mapping = {
        "root": {"parent": None, "message": None},
        "s": node("root", "system", ""),
        "q": node("s", "user", "weather in Oslo?"),
        "left": node("q", "assistant", "snow"),
        "c": node("q", "assistant", "search('Oslo')", recipient="browser"),
        "r": node("c", "tool", "it rains"),
        "a": node("r", "assistant", "rain"),
    }
    return [{"title": "Weather", "current_node": "a", "mapping": mapping}]


def langfuse() -> dict[str, Any]:
    """A page of observations, as the API returns it: the span of an agent, two generations."""

    def generation(number: int, sent: Any, answer: Any) -> Any:
        counts = {"input": 100, "input_cached_tokens": 900, "output": 7, "total": 1_007}
        return {"id": f"g{number}", "traceId": "t", "type": "GENERATION", "model": "gpt-5.5",
                "startTime": f"2026-01-05T09:00:0{number}Z", "input": sent, "output": answer,
                "usageDetails": counts}  # fmt: skip

    again = [*SAID, user("and now?")]
    return {"data": [generation(2, json.dumps(again), "sun"),
                     {"id": "x", "traceId": "t", "type": "SPAN", "input": None},
                     generation(1, {"messages": SAID[:1]}, SAID[1])]}  # fmt: skip


def langsmith() -> list[Any]:
    """A chain and two runs of a thread, the later first: of LangChain and of a wrapped client."""

    def run(number: int, messages: Any, outputs: Any) -> Any:
        return {"id": f"r{number}", "run_type": "llm", "trace_id": f"t{number}",
                "start_time": f"2026-01-05T09:00:0{number}", "inputs": {"messages": messages},
                "outputs": outputs, "extra": {"metadata": {"thread_id": "th"}}}  # fmt: skip

    def message(kind: str, **fields: Any) -> Any:
        return {"lc": 1, "type": "constructor", "kwargs": {"type": kind, **fields}}

    asked = message("human", content="weather in Oslo?")
    calls = [{"id": "c1", "name": "weather", "args": {"city": "Oslo"}}]
    first = message("ai", content="", tool_calls=calls,
                    usage_metadata={"input_tokens": 900, "output_tokens": 9})  # fmt: skip
    again = [asked, first, message("tool", content="rain", tool_call_id="c1")]
    answer = {"role": "assistant", "content": "rain"}
    usage = {"input_tokens": 1_000, "output_tokens": 4, "input_token_details": {"cache_read": 800}}
    return [
        run(2, again, {"choices": [{"message": answer}], "usage_metadata": usage}),
        {"run_type": "chain", "inputs": {}, "id": "x"},
        run(1, [[asked]], {"generations": [[{"message": first}]]}),
    ]


def spans() -> dict[str, Any]:
    """An OTLP export of two requests and the span of the agent around them."""

    def value(given: Any) -> Any:
        if isinstance(given, dict):
            return {"kvlistValue": {"values": pairs(given)}}
        if isinstance(given, list):
            return {"arrayValue": {"values": [value(each) for each in given]}}
        return {"intValue": str(given)} if isinstance(given, int) else {"stringValue": given}

    def pairs(given: dict[str, Any]) -> list[Any]:
        return [{"key": key, "value": value(each)} for key, each in given.items()]

    def span(number: int, sent: Any, **more: Any) -> Any:
        named = {"operation.name": "chat", "request.model": "gpt-5.5", "conversation.id": "c",
                 "response.id": f"r{number}", "usage.input_tokens": 2_000,
                 "usage.cache_read.input_tokens": 1_024, "input.messages": sent, **more}  # fmt: skip
        attributes = pairs({f"gen_ai.{key}": each for key, each in named.items()})
        return {"traceId": "t", "spanId": str(number), "attributes": attributes,
                "startTimeUnixNano": str(10**18 + number * 10**9)}  # fmt: skip

    asked = {"role": "user", "parts": [{"type": "text", "content": "weather in Oslo?"}]}
    look = {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}
    seen = {"type": "tool_call_response", "id": "c1", "response": "rain"}
    later = [asked, {"role": "assistant", "parts": [look]}, {"role": "tool", "parts": [seen]}]
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": "rain"}]}]
    found = [span(2, later, **{"output.messages": answer}), span(1, json.dumps([asked])),
             span(3, [], **{"operation.name": "invoke_agent"})]  # fmt: skip
    return {"resourceSpans": [{"scopeSpans": [{"spans": found}]}]}


def claude_code() -> list[Any]:
    talk = ClaudeCode().user("weather in Oslo?")
    talk.answer("m1", call("c1", "weather", city="Oslo"), used=usage(write=5_000))
    return talk.result("c1", "it rains").answer("m2", used=usage(read=5_000, write=90)).lines


def read(folder: Path, value: Any) -> list[LabConversation]:
    path = folder / "file.json"
    rows = value if isinstance(value, list) else [value]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_conversations(path)


TOOL_USE = "user assistant tool assistant"
SOURCES: dict[str, tuple[Any, str, int]] = {
    "claude code": (claude_code(), TOOL_USE, 2),
    "codex": (codex(), TOOL_USE, 2),
    "chatgpt": (chatgpt(), "user assistant assistant assistant", 0),
    "langfuse": (langfuse(), "user assistant user assistant", 2),
    "langsmith": (langsmith(), TOOL_USE, 2),
    "opentelemetry": (spans(), TOOL_USE, 2),
    "anthropic": ({"model": "m", "messages": SAID, "system": "x"}, "system user assistant", 0),
    "openai": ({"model": "m", "input": SAID, "instructions": "x"}, "system user assistant", 0),
    "gemini": ({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}, "user", 0),
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_people_have_is_read_as_a_conversation(tmp_path: Path, name: str) -> None:
    value, roles, requests = SOURCES[name]
    (talk,) = read(tmp_path, value)
    assert " ".join(entry.role.value for entry in talk.entries) == roles
    assert len(talk.requests) == requests
    assert check_conversation(talk.messages, tail="history") == []


def test_the_cached_part_of_codex_and_langfuse_is_part_of_the_input(tmp_path: Path) -> None:
    (first,) = read(tmp_path, codex())
    assert [(c.usage.input, c.usage.cache_read) for c in first.requests] == [
        (5_000, 0), (5_100, 4_900)]  # fmt: skip
    (second,) = read(tmp_path, langfuse())
    assert {(c.usage.input, c.usage.cache_read) for c in second.requests} == {(1_000, 900)}


def test_a_broken_file_is_listed_and_does_not_stop_the_others(tmp_path: Path) -> None:
    odd_line = {"uuid": 1, "sessionId": 2, "type": "user", "message": {"content": 5}}
    files: dict[str, tuple[bytes, str]] = {
        "good.json": (json.dumps(SAID).encode(), ""),
        "latin.json": (b'{"a": "\xe9"}', "UTF-8"),
        "cut.jsonl": (json.dumps({"messages": SAID}).encode() + b'\n{"messag', "line 2"),
        "odd.json": (json.dumps([user("hi"), {"role": "wizard"}]).encode(), "wizard"),
        "tools.json": (json.dumps({"messages": SAID, "tools": 5}).encode(), "an int"),
        "claude.json": (json.dumps(odd_line).encode(), "an int"),
        "deep.json": (b"[" * 100_000, "nested"),
        "half.json.gz": (gzip.compress(b"[]" * 500)[:-9], "gzip"),
    }
    for name, (data, _) in files.items():
        (tmp_path / name).write_bytes(data)
    problems: list[str] = []
    found = load_conversations(tmp_path, problems=problems)
    assert [each.id.rpartition("/")[2] for each in found] == ["cut.jsonl", "good.json"]
    assert len(problems) == len(files) - 1
    for name, (_, reason) in files.items():
        if reason:
            assert [line for line in problems if name in line and reason in line], problems
