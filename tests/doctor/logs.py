"""Small logs, written the way their tools write them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
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
