"""Make coding sessions like those that agents have: several tasks, long results, edits of what was read.

    python examples/coding_sessions.py sessions.jsonl --count 6
    history-curator compare sessions.jsonl --max-tokens 16000

No model is asked. The agent searches, reads files, runs tests, replaces lines that it has read, and
now and then comes back to a file of an earlier task. The same seed makes the same session.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from random import Random
from typing import Any

NOUNS = [
    "order",
    "cart",
    "price",
    "stock",
    "refund",
    "invoice",
    "shipment",
    "customer",
    "address",
    "coupon",
    "payment",
    "basket",
]
VERBS = [
    "load",
    "check",
    "apply",
    "merge",
    "count",
    "split",
    "format",
    "parse",
    "send",
    "cancel",
    "reserve",
    "match",
]
WORDS = [*NOUNS, *VERBS, "region", "limit", "batch", "retry", "cache", "index", "total", "status"]


class CodingSession:
    """Writes the messages of one session, in the form of Chat Completions."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": "You are a coding agent. Read a file before you edit it."}
        ]
        self.files = {f"shop/{noun}s.py": self._write_module(noun) for noun in NOUNS}

    def _write_module(self, noun: str) -> list[str]:
        """Return the lines of a module with several functions."""
        lines = [f'"""Everything about a {noun}."""', ""]
        for verb in self.random.sample(VERBS, 8):
            lines += [
                f"def {verb}_{noun}({noun}_id: str, limit: int = {self.random.randint(2, 99)}):"
            ]
            for _ in range(self.random.randint(5, 14)):
                first, second = self.random.sample(WORDS, 2)
                number = self.random.randint(10, 9_999)
                lines.append(f"    {first}_{second}_{number} = {verb}_{first}({noun}_id, {number})")
            lines += [f"    return {noun}_id", ""]
        return lines

    def say(self, role: str, text: str) -> None:
        """Add a message."""
        self.messages.append({"role": role, "content": text})

    def call(self, tool: str, result: str, **arguments: Any) -> None:
        """Add a call with its result."""
        call_id = f"call_{len(self.messages)}"
        function = {"name": tool, "arguments": json.dumps(arguments)}
        call = {"id": call_id, "type": "function", "function": function}
        self.messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": result},
        ]

    def read(self, path: str) -> None:
        """Let the agent read a file."""
        self.call("read_file", "\n".join(self.files[path]), path=path)

    def run_tests(self, path: str) -> None:
        """Let the agent run tests, with a long log."""
        cases = self.random.randint(15, 60)
        log = [
            f"tests/{path}::test_{self.random.choice(WORDS)}_{n} PASSED [{n}]" for n in range(cases)
        ]
        self.call("run_tests", "\n".join([*log, f"{cases} passed"]), path=path, verbose=True)

    def edit(self, path: str) -> None:
        """Let the agent replace lines of a file that it has read."""
        lines = self.files[path]
        start = self.random.randrange(3, len(lines) - 3)
        old = "\n".join(lines[start : start + self.random.randint(1, 3)])
        new = old.replace("_id", "_key")
        self.call("edit_file", "The file was changed.", path=path, old_string=old, new_string=new)
        lines[start : start + old.count("\n") + 1] = new.split("\n")

    def work_on_task(self, paths: list[str], earlier: list[str]) -> None:
        """Let the user ask for a change, and the agent make it."""
        noun = paths[0].partition("/")[2].removesuffix("s.py")
        self.say("user", f"Rename the id of every {noun} to a key, and keep the tests green.")
        hits = [f"{path}:{n}: {line}" for path in paths for n, line in enumerate(self.files[path])]
        found = [line for line in hits if f"{noun}_id" in line][:60]
        self.call("search", "\n".join(found), pattern=f"{noun}_id")
        for path in paths:
            self.read(path)
        for path in paths:
            for _ in range(self.random.randint(1, 3)):
                self.edit(path)
            self.run_tests(path)
        if earlier and self.random.random() < 0.5:  # back to a file of an earlier task
            path = self.random.choice(earlier)
            self.read(path) if self.random.random() < 0.6 else None
            self.edit(path)
        self.run_tests("all")
        self.say("assistant", f"Done: {', '.join(paths)} use keys now, and all tests pass.")


def make_session(seed: int, tasks: int = 10) -> list[dict[str, Any]]:
    """Return the messages of one session."""
    session, touched = CodingSession(seed), list[str]()
    for _ in range(tasks):
        paths = session.random.sample(sorted(session.files), session.random.randint(2, 4))
        session.work_on_task(paths, touched)
        touched += paths
    return session.messages


def main() -> None:
    """Write sessions as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--count", type=int, default=6)
    options = parser.parse_args()
    rows = (
        {"id": f"session {seed}", "messages": make_session(seed)} for seed in range(options.count)
    )
    options.path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
