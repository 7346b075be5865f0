"""Conversations to replay: recorded ones from memory, files and stores, and a sample."""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConversionError, a_type
from history_curator.formats import parse_json, read_entries
from history_curator.lab.files import import_extra, naming, read_file
from history_curator.tokens import entry_time, parse_time

_SUFFIXES = (".json", ".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class LabConversation:
    """One conversation to replay.

    Examples:
        >>> talk = LabConversation(
        ...     "t1", [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        ... )
        >>> talk.read().calls
        (1,)

    Attributes:
        id: its name in tables and errors.
        messages: the messages in order.
        tools: tool schemas sent with every request.
        times: when each message was written; by default the times that the messages carry. With
            times, a request after a pause is charged for a cold cache.
        hidden: tokens of every request that the record lacks, such as a system prompt.
    """

    id: str
    messages: Sequence[Any]
    tools: Sequence[Any] | None = None
    times: Sequence[Any] | None = None
    hidden: int = 0

    def read(self) -> ReadConversation:
        """Return the conversation as entries.

        Raises:
            ConversionError: naming the conversation, the message and the field.
        """
        with naming(self.id):
            entries = read_entries(self.messages)
        own = bool(self.messages) and isinstance(self.messages[0], ConversationEntry)
        homes = tuple(range(len(entries)) if own else (entry.sequence for entry in entries))
        if self.times is None:
            times = tuple(map(entry_time, entries))
        else:
            given = [when for when, _ in zip_longest(self.times, self.messages)]
            times = tuple(parse_time(given[home]) for home in homes)
        calls = tuple(
            index
            for index, entry in enumerate(entries)
            if index and entry.role is MessageRole.ASSISTANT
        )
        return ReadConversation(
            self.id, homes, tuple(entries), calls, self.tools, times, self.hidden
        )


@dataclass(frozen=True)
class ReadConversation:
    """The entries of one conversation; see `LabConversation`.

    Attributes:
        homes: for each entry the index of the message it was read from.
        calls: indexes of the entries that the model wrote, one for each call.
        times: when each entry was written, in seconds since 1970, where known.
    """

    id: str
    homes: tuple[int, ...]
    entries: tuple[ConversationEntry, ...]
    calls: tuple[int, ...]
    tools: Sequence[Any] | None = None
    times: tuple[float | None, ...] = ()
    hidden: int = 0

    @cached_property
    def index_of(self) -> dict[int, int]:
        """The index of each entry, by the identity of the entry; equal entries differ."""
        return {id(entry): index for index, entry in enumerate(self.entries)}

    @cached_property
    def texts(self) -> list[str]:
        """For each entry its text and the values of its arguments."""
        return list(map(searchable_text, self.entries))

    def idle_seconds(self, previous_call: int, call: int) -> float | None:
        """Return the seconds between an answer and the request for a later one, where known.

        The request went out when the last entry before its answer was there.
        """
        if call > len(self.times) or previous_call >= call:
            return None
        answered, sent = self.times[previous_call], self.times[call - 1]
        return None if answered is None or sent is None else max(0.0, sent - answered)


def searchable_text(entry: ConversationEntry) -> str:
    """Return the text of an entry followed by the values of its calls' arguments."""
    pieces = [entry.content or ""]
    for call in entry.tool_calls or ():
        pieces.extend(argument_values(call.arguments))
    return "\n".join(pieces)


def argument_values(arguments: str) -> list[str]:
    """Return the scalar values inside JSON arguments as text; malformed text is one value."""
    try:
        pending = [parse_json(arguments)]
    except ValueError:
        return [arguments]
    values: list[str] = []
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, str):
            values.append(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            values.append(str(value))
    return values


def as_conversations(source: Any) -> list[LabConversation]:
    """Return conversations from lists of messages, mappings with ``messages``, or paths.

    One plain list of messages is one conversation. A mapping may also hold ``id``, ``tools`` and
    ``times``. A path is read by `load_conversations`.

    Raises:
        ConversionError: naming the conversation that cannot be read.
    """
    if isinstance(source, (str, Path)):
        return load_conversations(source)
    items = [source] if isinstance(source, (LabConversation, Mapping)) else list(source)
    if items and _is_message(items[0]):
        items = [items]
    return [_as_conversation(item, number) for number, item in enumerate(items)]


def _is_message(item: Any) -> bool:
    if isinstance(item, Mapping):
        return "role" in item
    return not isinstance(item, (LabConversation, str, Iterable)) or hasattr(item, "content")


def _as_conversation(item: Any, number: int) -> LabConversation:
    name = f"conversation {number}"
    if isinstance(item, LabConversation):
        return item
    if isinstance(item, Mapping) and isinstance(item.get("messages"), Sequence):
        name = str(item.get("id", name))
        return LabConversation(name, item["messages"], item.get("tools"), item.get("times"))
    if isinstance(item, Sequence) and not isinstance(item, (str, bytes)):
        return LabConversation(name, item)
    raise ConversionError(
        f"{name} is {a_type(item)}.",
        fix='pass lists of messages, or mappings with a "messages" list.',
    )


def load_conversations(*sources: str | Path) -> list[LabConversation]:
    """Return the conversations of files, folders, patterns and URLs.

    A folder is searched with everything below it for JSON, JSON lines and their gzipped forms. A
    pattern may hold ``*``, ``**``, ``?`` and ``[…]``. A URL such as ``s3://bucket/logs`` goes
    through fsspec and may be a file, a folder or a pattern, too.

    Raises:
        ConversionError: naming the source with nothing in it, or the file that cannot be read.
        ImportError: with the command that installs fsspec, for a URL without it.
    """
    return [
        LabConversation(each.id, each.messages, each.tools)
        for source in sources
        for path in _find_files(str(source))
        for each in read_file(path).conversations
    ]


def _find_files(source: str) -> list[str]:
    """Return the files a source stands for, in order of their names."""
    path, any_suffix = Path(source), False
    if "://" in source:
        files, remote = import_extra("fsspec.core", "scale").url_to_fs(source)
        if glob.has_magic(remote):
            found = files.glob(remote)
        else:
            found = files.find(remote) if files.isdir(remote) else [remote]
        found = map(files.unstrip_protocol, found)
    elif path.is_dir():
        found = (str(each) for each in path.rglob("*") if each.is_file())
    elif glob.has_magic(source) and not path.exists():
        found, any_suffix = glob.glob(source, recursive=True), True
    else:
        return [source]
    chosen = sorted(
        each for each in found if any_suffix or each.lower().removesuffix(".gz").endswith(_SUFFIXES)
    )
    if not chosen:
        raise ConversionError(
            f"{source} holds no conversations.",
            fix=f"name files that end on {', '.join(_SUFFIXES)}, gzipped or not.",
        )
    return chosen


_SERVICES = ("checkout-api", "cart", "pricing", "inventory", "payments", "gateway")
_ROUTES = ("/v2/checkout", "/v2/checkout/quote", "/v2/cart", "/v2/stock", "/healthz")
_FILES = {
    "services/pricing/quote.py": ("def quote(cart: Cart) -> Quote:", "rates.lookup(item.sku)"),
    "services/pricing/rates.py": ("def lookup(sku: str) -> Rate:", "session.get(RATES_URL + sku)"),
    "services/pricing/client.py": ("class RatesClient:", "self._pool.acquire(timeout=30)"),
    "services/checkout/handlers.py": ("async def checkout(request):", "await price(cart)"),
    "tests/pricing/test_quote.py": ("def test_quote_of_many_items():", "assert calls == 1"),
}
_RELEASES = (
    ("8f21c0", 12, "pricing-team", 14),
    ("77ab19", 11, "rates-team", 3),
    ("5510de", 10, "pricing-team", 6),
    ("49c7e2", 7, "platform-team", 2),
)


def sample_conversation(seed: int = 20) -> list[dict[str, Any]]:
    """Return an agent's session as OpenAI-style messages: tools, parallel calls, long results.

    Examples:
        >>> sample_conversation()[1]["content"]
        "Checkout p95 went from 300 ms to 4 s after yesterday's release. Find out why and propose the smallest safe fix."
        >>> sample_conversation(1) == sample_conversation(1)
        True

    Args:
        seed: other numbers give other logs and metrics of the same story.
    """
    story = json.loads((files("history_curator.lab") / "sample.json").read_text(encoding="utf-8"))
    random, messages, calls = Random(seed), list[dict[str, Any]](), 0
    for turn in story:
        message = {"role": turn["role"], "content": turn["content"]}
        messages.append(message)
        for name, arguments, result in turn.get("uses", ()):
            calls += 1
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": f"call_{calls:03d}", "type": "function", "function": function}
            message.setdefault("tool_calls", []).append(call)
            text = result if isinstance(result, str) else _RESULTS[result[0]](random, *result[1:])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return messages


def _metrics(random: Random, series: str, points: int) -> str:
    rows = []
    for number in range(points):
        low, high = (3400, 4600) if number > points // 3 else (270, 340)
        time = f"{(12 + number // 12) % 24:02d}:{number * 5 % 60:02d}"
        rows.append({"t": time, "v": random.randint(low, high)})
    return json.dumps({"series": series, "unit": "ms", "points": rows})


def _logs(random: Random, service: str, lines: int) -> str:
    number, choice = random.randint, random.choice
    return "\n".join(
        f"2031-03-12T14:{number(5, 59):02d}:{number(0, 59):02d}.{number(0, 999):03d}Z "
        f"{choice(('WARN', 'WARN', 'ERROR'))} {service} trace={random.getrandbits(48):012x} "
        f"{choice(_ROUTES)} duration_ms={number(1000, 9000)} "
        f"wait=rates.lookup pool=4/4 queued={number(1, 40)} upstream={choice(_SERVICES)}"
        for _ in range(lines)
    )


def _releases(_: Random) -> str:
    return json.dumps([
        {"release": f"pricing-{sha}", "at": f"2031-03-{day}T13:56:00Z", "author": who, "changes": n}
        for sha, day, who, n in _RELEASES
    ])  # fmt: skip


def _diff(random: Random) -> str:
    source = _source(random, "services/pricing/quote.py", 90).splitlines()
    lines = [f"{'+' if number % 3 else '-'}    {line}" for number, line in enumerate(source)]
    lines[60:60] = ["-    rates = lookup_many([i.sku for i in cart])",
                    "+    rates = [rates.lookup(i.sku) for i in cart]"]  # fmt: skip
    head = "diff --git a/services/pricing/quote.py b/services/pricing/quote.py"
    return "\n".join([head, *lines])


def _source(_: Random, path: str, lines: int) -> str:
    head, body = _FILES[path]
    random = Random(path)  # the same file whenever it is read
    verbs = ("check", "load", "merge", "round", "apply", "guard", "trace")
    nouns = ("currency", "discount", "tax", "stock", "rate", "basket", "region")
    code = [
        f"    {random.choice(verbs)}_{random.choice(nouns)}(item, limit={random.randint(1, 90)})"
        for _ in range(lines)
    ]
    code[lines // 2] = f"    {body}"
    return "\n".join([head, *code])


def _grep(random: Random, hits: int) -> str:
    return "\n".join(
        f"{random.choice(list(_FILES))}:{random.randint(5, 240)}:    "
        f"rate = rates.lookup(item_{random.randint(1, 99)}.sku)"
        for _ in range(hits)
    )


def _tests(_: Random, passed: int) -> str:
    test = "tests/pricing/test_quote.py::test_"
    lines = [f"{test}case_{number:03d} PASSED" for number in range(passed)]
    lines += [f"{test}quote_of_many_items FAILED (assert 1 == 20)"] if passed < 142 else []
    return "\n".join([*lines, f"{passed} passed, {142 - passed} failed"])


_RESULTS: dict[str, Callable[..., str]] = {
    "metrics": _metrics, "logs": _logs, "releases": _releases, "diff": _diff, "source": _source,
    "grep": _grep, "tests": _tests,
}  # fmt: skip
