"""Chats and tool loops of one kind of text: how full a compaction leaves the view, how often it happens."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from history_curator import Curation, Curator
from history_curator.tokens import get_counter

Message = dict[str, Any]

LOOPS = ((450, 4_000), (450, 8_000), (1_200, 8_000), (1_200, 16_000))
"""Words of a result and the budget."""
CALLS = 120
_ENGLISH = [
    "the", "order", "was", "shipped", "late", "because", "a", "warehouse", "lost", "label", "and",
    "nobody", "noticed", "until", "our", "customer", "called", "again", "to", "ask", "where", "her",
    "second", "parcel", "had", "gone", "this", "morning",
]  # fmt: skip
_CHINESE = (
    "订单因为仓库丢失标签而延迟发货直到客户再次来电询问第二个包裹今天早上去了哪里才有人注意到"
)
_JAPANESE = "倉庫でラベルが紛失したため注文の出荷が遅れお客様が今朝二つ目の荷物について再び電話するまで誰も気づきませんでした"
_PATHS = ("/", "/cart", "/api/v2/items", "/static/app.js", "/login", "/api/v2/orders")


def english(rng: random.Random) -> str:
    """Return a sentence."""
    return " ".join(rng.choices(_ENGLISH, k=20)).capitalize() + ". "


def chinese(rng: random.Random) -> str:
    """Return a sentence."""
    return "".join(rng.choices(_CHINESE, k=24)) + "。"


def japanese(rng: random.Random) -> str:
    """Return a sentence."""
    return "".join(rng.choices(_JAPANESE, k=24)) + "。"


def json_rows(rng: random.Random) -> str:
    """Return a row."""
    row = {"id": rng.getrandbits(40), "sku": f"{rng.getrandbits(32):x}", "price": rng.random()}
    return json.dumps(row) + ",\n"


def access_log(rng: random.Random) -> str:
    """Return a line of a web server's log."""
    address = ".".join(str(rng.randrange(256)) for _ in range(4))
    time = f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"
    path, size = rng.choice(_PATHS), rng.randrange(99_999)
    return f'{address} - - [04/Mar/2025:{time} +0000] "GET {path} HTTP/1.1" 200 {size}\n'


def python(rng: random.Random) -> str:
    """Return a few lines of a program."""
    name, number = rng.choice(_ENGLISH), rng.randrange(1_000)
    return f"def {name}_{number}(self, value):\n    return self.{name}[value + {number}]\n\n"


KINDS: dict[str, Callable[[random.Random], str]] = {
    "English": english,
    "Chinese": chinese,
    "Japanese": japanese,
    "JSON": json_rows,
    "access log": access_log,
    "Python": python,
}


def of_tokens(kind: str, tokens: int, rng: random.Random) -> str:
    """Return a text of about so many tokens."""
    count, make = get_counter("o200k_base").count, KINDS[kind]
    sample = "".join(make(rng) for _ in range(8))
    pieces = max(1, round(8 * tokens / count(sample)))
    return "".join(make(rng) for _ in range(pieces))


def chat(kind: str, unit: int, total: int, seed: int = 1) -> list[Message]:
    """Return questions and answers, none larger than about `unit` tokens, `total` in all."""
    rng = random.Random(seed)
    messages: list[Message] = [{"role": "system", "content": "You are a careful assistant."}]
    spent = 0
    while spent < total:
        for role in ("user", "assistant"):
            size = rng.randint(unit // 4, unit)
            messages.append({"role": role, "content": of_tokens(kind, size, rng)})
            spent += size
    return messages


def loop(kind: str, size: int, calls: int, seed: int = 1) -> list[Message]:
    """Return one turn of so many calls, with results of about `size` tokens each."""
    rng = random.Random(seed)
    messages: list[Message] = [
        {"role": "system", "content": "You are a careful assistant."},
        {"role": "user", "content": "Go through all of the files and tell me what is wrong."},
    ]
    for at in range(calls):
        function = {"name": "read", "arguments": json.dumps({"path": f"src/part_{at}.txt"})}
        asked = [{"id": f"c{at}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": None, "tool_calls": asked})
        text = of_tokens(kind, rng.randint(size // 2, size), rng)
        messages.append({"role": "tool", "tool_call_id": f"c{at}", "content": text})
    return messages


def word_loop(words: int, calls: int = CALLS) -> list[Message]:
    """Return one turn of so many calls, each with a result of so many words."""
    rng = random.Random(words)
    messages = loop("English", 100, calls)
    for message in messages:
        if message["role"] == "tool":
            message["content"] = " ".join(rng.choices(_ENGLISH, k=words))
    return messages


def views(messages: Sequence[Message], budget: int) -> Iterator[Curation]:
    """Yield the view of every request: before each answer, and at the end."""
    curator = Curator(max_tokens=budget)
    for at, message in enumerate(messages):
        if at > 1 and message["role"] == "assistant":
            yield curator.curate(messages[:at], tail="request")
    yield curator.curate(messages, tail="request")


def fills(messages: Sequence[Message], budget: int) -> list[float]:
    """Return how full each compaction left the view, as a share of its budget."""
    return [view.tokens / budget for view in views(messages, budget) if view.report.compacted]


def repeated(messages: Sequence[Message], budget: int) -> list[float]:
    """Return the share of each request that each next one repeats."""
    count = get_counter("o200k_base").count_entry
    shares, before = [], None
    for view in views(messages, budget):
        if before is not None:
            common = 0
            for mine, theirs in zip(before, view.entries, strict=False):
                if mine is not theirs and mine != theirs:
                    break
                common += count(mine)
            shares.append(common / sum(map(count, before)))
        before = view.entries
    return shares


def longest_run(shares: Sequence[float], below: float = 0.5) -> int:
    """Return how many in a row are below a share."""
    longest = run = 0
    for share in shares:
        run = run + 1 if share < below else 0
        longest = max(longest, run)
    return longest
