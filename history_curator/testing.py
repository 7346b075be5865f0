"""A conformance kit for anything that trims conversations.

`parse` and `show` write conversations in one line, `assert_conformant` fails a test,
`try_trimmer` runs a trimmer over many conversations, `SEQUENCES` are the ones that trip most.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConversionError
from history_curator.formats import find_format, read_entries
from history_curator.rules import ProviderProfile, Tail, Violation, check_conversation, get_profile

__all__ = [
    "SEQUENCES", "Failure", "Trim", "assert_conformant", "parse", "parse_entries", "show",
    "try_trimmer",
]  # fmt: skip

Trim = Callable[[list[Any]], Sequence[Any]]

_SEQUENCES = """
S U A(c1) T(c1) A U -> S U A(c1) T(c1) A U
S T(c1) A U -> S U* A U
S T(c1) T(c2) A U A(c3) T(c3) -> S U* A U A(c3) T(c3)
S U A(c1,c2) T(c2) U A U -> S U A(c1,c2) T*(c1) T(c2) A* U A U
S U A(c1,c2) T(c2) T(c1) -> S U A(c1,c2) T(c1) T(c2)
S U A(c1) U -> S U A(c1) T*(c1) A* U
S U A(c1) -> S U A(c1) T*(c1)
S U A(c1) U T(c1) A U -> S U A(c1) T(c1) A* U A U
S U A(c1,c2) U T(c1) A U -> S U A(c1,c2) T(c1) T*(c2) A* U A U
S U A(c1) A T(c1) U -> S U A(c1) T(c1) A U
S U A(c1) U A T(c1) -> S U A(c1) T(c1) A* U A U*
U A(c1) T(c1) T(c1) A U -> U A(c1) T(c1) A U
U A(c1) T(c1) U T(c1) U -> U A(c1) T(c1) A* U
U A(c1,c1) T(c1) T(c1) U -> U A(c1) T(c1) A* U
U A(c1) T(c1) A(c1) T(c1) U -> U A(c1) T(c1) A(c1') T(c1') A* U
U A(c1) A(c1) T(c1) -> U A(c1) T*(c1) A(c1') T(c1')
U A(c1) T(c1) A(c1) A(c2) T(c2) -> U A(c1) T(c1) A(c1') T*(c1') A(c2) T(c2)
U T(c1) A(c1) U -> U A(c1) T*(c1) A* U
S U A(c1) T(c9) U -> S U A(c1) T*(c1) A* U
S U A(c1) T(c1) U A U -> S U A(c1) T(c1) A* U A U
S A U A U -> S U* A U A U
S A(c1) T(c1) A(c2) T(c2) -> S U* A(c1) T(c1) A(c2) T(c2)
A(c1) T(c1) A(c2) T(c2) A(c3) T(c3) -> U* A(c1) T(c1) A(c2) T(c2) A(c3) T(c3)
S -> S U*
S A -> S U* A U*
S U U U A -> S U A U*
S U A A A(c1) T(c1) A A U -> S U A+(c1) T(c1) A U
U A(c1) A(c2) T(c1) T(c2) U -> U A(c1) T(c1) A(c2) T(c2) A* U
U A(c1) A(c2) T(c2) T(c1) -> U A(c1) T(c1) A(c2) T(c2)
S S U A S U -> S U A U
U A(c1) S T(c1) A U -> S U A(c1) T(c1) A U
S U~ A U -> S U* A U
S U A~ U A U -> S U A U
S U A~(c1) T(c1) -> S U A(c1) T(c1)
S U A(c1) T(c1) A~ U -> S U A(c1) T(c1) A* U
S U A -> S U A U*
S U A+(c1) T(c1) A -> S U A+(c1) T(c1) A U*
U A(c1,c2,c3) T(c1) T(c3) U A(c4) T(c4) -> U A(c1,c2,c3) T(c1) T*(c2) T(c3) A* U A(c4) T(c4)
U A(c1,c2) T(c1) U T(c2) A U -> U A(c1,c2) T(c1) T(c2) A* U A U
T(c1) T(c2) -> U*
S U A(c1) T(c1) U A(c2) T(c2) U -> S U A(c1) T(c1) A* U A(c2) T(c2) A* U
U A U A U A U A -> U A U A U A U A U*
S U A(c1) S U -> S U A(c1) T*(c1) A* U
U A~ A~ U~ U -> U
U A(c1) T(c1) A(c2) U A T(c2) A(c3) -> U A(c1) T(c1) A(c2) T(c2) A* U A+(c3) T*(c3)
A A U U A(c1) A T(c1) T(c0) U -> U* A U A(c1) T(c1) A U
"""
SEQUENCES: tuple[tuple[str, str], ...] = tuple(
    (given, repaired)
    for given, _, repaired in (line.partition(" -> ") for line in _SEQUENCES.split("\n") if line)
)
"""``(given, repaired)``: what the ``portable`` profile makes of each; repairing twice changes none."""

_WORD = re.compile(r"([SUAT])([~+*]*)(?:\(([^()]*)\))?")
_ROLES = {"S": "system", "U": "user", "A": "assistant", "T": "tool"}
_TEXTS = {"S": "rules", "U": "user", "A": "answer"}


def parse(text: str) -> list[dict[str, Any]]:
    """Return OpenAI-style messages for a conversation in shorthand.

    ``S`` system, ``U`` user, ``A`` assistant, ``A(c1,c2)`` an assistant message that calls tools,
    ``A+(c1)`` one with text as well, ``T(c1)`` a result; ``~`` makes the text blank. Every text is
    different (``user 1``, ``answer 2``, …), so that a test can see which survive.

    Examples:
        >>> parse("T(c1)")
        [{'role': 'tool', 'content': 'result 0 of c1', 'tool_call_id': 'c1'}]
    """
    return [_parse_word(word, index) for index, word in enumerate(text.split())]


def parse_entries(text: str) -> list[ConversationEntry]:
    """Return entries for a conversation in shorthand, bound to the messages of `parse`."""
    return read_entries(messages := parse(text), find_format(messages))


def show(messages: Sequence[Any]) -> str:
    """Return the shorthand of messages of any format.

    ``*`` marks an invented message and ``'`` an id that was renamed.

    Examples:
        >>> show(parse("S U A(c1) T(c1) A~"))
        'S U A(c1) T(c1) A~'
    """
    labels: dict[str, str] = {}
    entries = read_entries(messages, find_format(messages))
    return " ".join(_show_entry(entry, labels) for entry in entries)


def _parse_word(word: str, index: int) -> dict[str, Any]:
    match = _WORD.fullmatch(word)
    letter, marks, ids = match.groups() if match else ("", "", "")
    names = [name.strip() for name in ids.split(",")] if ids else []
    if match is None or (letter != "A" and (letter == "T") != (len(names) == 1)):
        fix = (
            "use S, U, A or T, then ~ or +, then ids in parentheses, such as A+(c1,c2); a T has one "
            "id, S and U none."
        )
        raise ConversionError(f"word {index}: cannot read {word!r}.", fix=fix)
    text = f"result {index} of {names[0]}" if letter == "T" else f"{_TEXTS[letter]} {index}"
    message: dict[str, Any] = {"role": _ROLES[letter], "content": "  " if "~" in marks else text}
    if letter == "A" and names and not marks:
        message["content"] = None
    if letter == "T":
        message["tool_call_id"] = names[0]
    elif names:
        message["tool_calls"] = [
            {"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}}
            for name in names
        ]
    return message


def _show_entry(entry: ConversationEntry, labels: dict[str, str]) -> str:
    """Return one word; `labels` learns the renamed ids of calls for their results."""
    calls, call_id = entry.tool_calls or (), entry.tool_call_id or ""
    is_blank = not (entry.content and entry.content.strip()) and not entry.has_media
    blank = "~" if is_blank and not (calls and not entry.content) else ""
    word = f"{entry.role.value[0].upper()}{'*' if entry.origin else ''}{blank}"
    if entry.role is MessageRole.TOOL:
        return f"{word}({labels.get(call_id, call_id)})"
    before = [call.id for call in entry.root.tool_calls or ()]
    for place, call in enumerate(calls):
        is_renamed = call.id not in before and place < len(before)
        labels[call.id] = f"{before[place]}'" if is_renamed else call.id
    names = ",".join(labels[call.id] for call in calls)
    return f"{word}{'' if is_blank else '+'}({names})" if calls else word


def assert_conformant(
    messages: Sequence[Any], provider: str | ProviderProfile = "core", *, tail: Tail = "request"
) -> None:
    """Raise `AssertionError` naming every rule of the provider that a conversation breaks.

    With the tail ``history`` the caller will append the next message.

    Examples:
        >>> assert_conformant(parse("S U A(c1) T(c1)"), provider="portable")
        >>> assert_conformant(parse("S U A(c1) U"), provider="openai")
        Traceback (most recent call last):
        AssertionError: openai refuses S U A(c1) U
          messages[2] P6: the call 'c1' has no result right after it
    """
    lines = []
    for each in check_conversation(messages, provider, tail=tail):
        where = "messages" if each.index is None else f"messages[{each.index}]"
        lines.append(f"\n  {where} {each.rule}: {each.message}")
    if lines:
        raise AssertionError(
            f"{get_profile(provider).name} refuses {show(messages)}{''.join(lines)}"
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """A conversation in shorthand, what a trimmer returned for it, and the rules that this breaks.

    Where the trimmer raised, there is an ``error`` instead.
    """

    given: str
    returned: str = ""
    violations: tuple[Violation, ...] = ()
    error: str = ""


def try_trimmer(
    trim: Trim,
    conversations: Iterable[list[Any]],
    provider: str | ProviderProfile = "openai",
    *,
    tail: Tail = "request",
) -> list[Failure]:
    """Hand every conversation to a trimmer, and return those it fails on.

    Examples:
        >>> (failure,) = try_trimmer(lambda messages: messages[-2:], [parse("U A(c1) T(c1) U")])
        >>> failure.returned, failure.violations[0].rule
        ('T(c1) U', 'P6')
    """
    failures = []
    for conversation in conversations:
        given = show(conversation)
        try:
            returned = list(trim(conversation))
        except Exception as error:  # noqa: BLE001 - whatever a trimmer raises is a finding
            failures.append(Failure(given, error=f"{type(error).__name__}: {error}"))
            continue
        if violations := check_conversation(returned, provider, tail=tail):
            failures.append(Failure(given, show(returned), tuple(violations)))
    return failures
