"""The conversations that are measured: recorded ones, found beside the project, and generated ones."""

from __future__ import annotations

import gzip
import json
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
GENERATED = ROOT / "docs" / "generated"

Message = dict[str, Any]


def load(name: str) -> list[dict[str, Any]]:
    """Return the recorded conversations of one file.

    Raises:
        SystemExit: when the file is not there.
    """
    with gzip.open(find_data(f"{name}.jsonl.gz"), "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def find_data(name: str) -> Path:
    """Return the path of a file with recorded data.

    Raises:
        SystemExit: when the file is not there.
    """
    path = DATA / name
    if not path.is_file():
        raise SystemExit(f"recorded data are absent: {name} is not in ../shared/data")
    return path


@contextmanager
def unpack_logs() -> Iterator[Path]:
    """Hand out a folder with logs of Claude Code for as long as they are needed."""
    with tempfile.TemporaryDirectory(prefix="history-curator-") as folder:
        with tarfile.open(find_data("claude_code_logs.tar.gz")) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder)


def is_first_half(name: str) -> bool:
    """Return which half of the recordings a session belongs to, by its name alone.

    Settings may be chosen on the first half; more recordings move no session to the other one.
    """
    return zlib.crc32(name.encode()) % 2 == 0


def message_text(message: Message) -> str:
    """Return all text of a Chat Completions message: its content and the arguments of its calls."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = json.dumps(content)
    calls = message.get("tool_calls") or ()
    return "\n".join([content, *(call["function"]["arguments"] for call in calls)])


_PROSE = """
the session keeps every message while the view that reaches a model stays small enough for its
window and repeats what was sent before so that a cache can be used again between calls because
reading costs less than writing and a long result is rarely needed twice although nobody knows in
advance which one an agent will ask for when it continues with another file error handler request
timeout payload retry cluster region schema index query account order
"""
_WORDS = _PROSE.split()
_TOOLS = ("read_file", "search", "run_tests", "query_metrics", "list_orders")


@lru_cache(maxsize=4)
def agent_conversation(count: int, seed: int = 7) -> tuple[Message, ...]:
    """Return messages of an agent at work: turns of a user, tool calls with results, an answer.

    Results have 50 to 2,000 tokens, the more the rarer. No two texts are the same, so a cache of
    texts makes nobody look better than they are.
    """
    random = Random(seed)
    messages: list[Message] = [{"role": "system", "content": _write_prose(random, 900)}]
    while len(messages) < count:
        size = random.randint(40, 400)
        messages.append({"role": "user", "content": _write_prose(random, size)})
        for _ in range(random.randint(1, 2)):
            messages += _write_exchange(random, len(messages))
        size = random.randint(80, 600)
        messages.append({"role": "assistant", "content": _write_prose(random, size)})
    return tuple(messages[:count])


def _write_exchange(random: Random, number: int) -> list[Message]:
    calls, results = [], []
    for place in range(random.randint(1, 3)):
        call_id, tool = f"call_{number}_{place}", random.choice(_TOOLS)
        path = f"{random.choice(_WORDS)}/{random.randrange(10**6)}.py"
        function = {"name": tool, "arguments": json.dumps({"path": path, "limit": 20})}
        calls.append({"id": call_id, "type": "function", "function": function})
        write, characters_per_token = random.choice(((_write_prose, 4.95), (_write_log, 3.14)))
        text = write(random, int(random.triangular(60, 2_000, 60) * characters_per_token))
        results.append({"role": "tool", "tool_call_id": call_id, "name": tool, "content": text})
    text = _write_prose(random, 120) if random.random() < 0.5 else ""
    return [{"role": "assistant", "content": text, "tool_calls": calls}, *results]


def _write_prose(random: Random, size: int) -> str:
    return " ".join(random.choices(_WORDS, k=max(2, size // 5))) + f" {random.randrange(10**9)}."


def _write_log(random: Random, size: int) -> str:
    return "\n".join(
        f"2031-05-{random.randint(1, 28):02}T{random.randrange(24):02}:{random.randrange(60):02}Z "
        f"ERROR {' '.join(random.choices(_WORDS, k=6))} took={random.randrange(9_000)}ms"
        for _ in range(-(-size // 75))
    )


def as_langchain(messages: Sequence[Message]) -> list[Any]:
    """Return the conversation as LangChain messages with ids."""
    from langchain_core.messages import convert_to_messages

    return list(convert_to_messages([{**each, "id": f"m{at}"} for at, each in enumerate(messages)]))


def as_llamaindex(messages: Sequence[Message]) -> list[Any]:
    """Return the conversation as LlamaIndex messages with tool call blocks."""
    from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock

    found = []
    for message in messages:
        blocks: list[Any] = [TextBlock(text=message["content"] or "")]
        for call in message.get("tool_calls") or ():
            function = call["function"]
            blocks.append(
                ToolCallBlock(
                    tool_call_id=call["id"],
                    tool_name=function["name"],
                    tool_kwargs=read_arguments(function["arguments"]),
                )
            )
        extra = {}
        if message["role"] == "tool":
            extra = {"tool_call_id": message["tool_call_id"], "name": message.get("name")}
        found.append(ChatMessage(role=message["role"], blocks=blocks, additional_kwargs=extra))
    return found


def read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call, or none where they are no JSON object."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def recorded_sessions(count: int) -> list[list[Message]]:
    """Return recorded coding sessions above 40,000 tokens, evenly chosen.

    Every peer can read them: their content is text, and each result answers a call.
    """
    long = [
        row["messages"] for row in load("coding_sessions") if row["stats"]["tokens_o200k"] > 40_000
    ]
    usable = [messages for messages in long if _is_plain(messages)]
    return usable[:: max(1, len(usable) // count)][:count]


def _is_plain(messages: Sequence[Message]) -> bool:
    calls = {call["id"] for message in messages for call in message.get("tool_calls") or ()}
    return all(
        isinstance(message.get("content") or "", str)
        and (message["role"] != "tool" or message.get("tool_call_id") in calls)
        for message in messages
    )
