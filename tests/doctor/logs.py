"""Small logs, written the way their tools write them."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta, timezone
from itertools import takewhile
from pathlib import Path
from typing import Any

START = datetime(2026, 1, 5, 9, 0, tzinfo=timezone.utc)
MODEL = "claude-opus-4-5-20251101"


def stamp(at: float) -> str:
    return (START + timedelta(seconds=at)).isoformat().replace("+00:00", "Z")


def usage(read: int = 0, write: int = 0, plain: int = 10, out: int = 20, hour: int = 0) -> Any:
    return {
        "input_tokens": plain,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
        "cache_creation": {
            "ephemeral_5m_input_tokens": write - hour,
            "ephemeral_1h_input_tokens": hour,
        },
        "output_tokens": out,
    }


class ClaudeCode:
    """Writes the lines of one log."""

    def __init__(self, session: str = "s1") -> None:
        self.session, self.lines = session, []  # type: ignore[var-annotated]
        self.at = 0.0

    def line(self, kind: str, *, wait: float = 1.0, side: bool = False, **fields: Any) -> None:
        self.at += wait
        number = len(self.lines)
        row = {
            "type": kind,
            "uuid": f"{self.session}-{number}",
            "parentUuid": f"{self.session}-{number - 1}" if number else None,
            "sessionId": self.session,
            "isSidechain": side,
            "timestamp": stamp(self.at),
        }
        self.lines.append({**row, **fields})

    def user(self, text: str, **fields: Any) -> ClaudeCode:
        self.line("user", message={"role": "user", "content": text}, **fields)
        return self

    def result(self, call: str, text: str, **fields: Any) -> ClaudeCode:
        block = {"type": "tool_result", "tool_use_id": call, "content": text}
        self.line("user", message={"role": "user", "content": [block]}, **fields)
        return self

    def answer(
        self, name: str, *blocks: dict[str, Any], used: Any, model: str = MODEL, **fields: Any
    ) -> ClaudeCode:
        """One answer: a line for each block, all with one message id and the usage."""
        for block in blocks or ({"type": "text", "text": "done"},):
            message = {"id": name, "model": model, "role": "assistant", "content": [block],
                       "usage": used}  # fmt: skip
            self.line("assistant", message=message, **fields)
        return self

    def compact(self, summary: str) -> ClaudeCode:
        self.line("system", subtype="compact_boundary")
        return self.user(summary, isCompactSummary=True)

    def write(self, folder: Path) -> Path:
        return write_lines(folder / f"{self.session}.jsonl", self.lines)


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def call(name: str, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": arguments}


def record_agent(
    folder: Path,
    *,
    sessions: int = 4,
    clock: bool = False,
    shuffled: bool = False,
    words: int = 150,
) -> Path:
    """Write the requests of an agent that reads logs; usage is that of a cache of prefixes.

    ``clock`` puts the time into the system prompt, ``shuffled`` gives the tools in a random order, and
    ``words`` is the length of a result of ``read_log``.
    """
    folder.mkdir()
    chance = random.Random(7)
    for session in range(sessions):
        said: list[Any] = [{"role": "user", "content": "why is the checkout slow?"}]
        rows, before = [], ""
        tools = [{"name": f"tool_{n}", "description": "d" * 1_000} for n in range(8)]
        for turn in range(10):
            system = "You look into incidents. " * 40 + f"It is {stamp(60 * turn)}." * clock
            tools = chance.sample(tools, len(tools)) if shuffled else tools
            prompt = "".join(map(json.dumps, [*tools, system, *said]))
            pairs = zip(before, prompt, strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) // 4
            held, before = same if same >= 1_024 else 0, prompt
            name = ("read_log", "search")[turn % 2]
            calls = [
                {
                    "id": f"c{turn}",
                    "type": "function",
                    "function": {
                        "name": name,
                        "arguments": json.dumps({"path": f"log-{turn:03d}"}),
                    },
                }
            ]
            answer = {"role": "assistant", "content": "", "tool_calls": calls}
            rows.append(
                {
                    "session": f"agent {session}",
                    "id": f"{session} {turn}",
                    "time": 60 * turn + 1,
                    "model": MODEL,
                    "tools": tools,
                    "system": system,
                    "messages": list(said),
                    "response": answer,
                    "usage": usage(read=held, write=len(prompt) // 4 - held, plain=0),
                }
            )
            size = words if name == "read_log" else 40
            text = f"next: log-{turn + 1:03d} " + f"line {session} {turn} " * size
            said += [answer, {"role": "tool", "tool_call_id": f"c{turn}", "content": text}]
        write_lines(folder / f"{session}.jsonl", rows)
    return folder
