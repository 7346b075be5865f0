"""Write a conversation in one line, and read one off in one line.

``S`` system, ``U`` user, ``A`` assistant, ``A(c1,c2)`` an assistant message that calls tools,
``A+(c1)`` one with text as well, ``T(c1)`` a result. After the letter, ``~`` makes the text
blank. When shown, ``*`` marks what nobody said and ``'`` an id that was renamed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import HistoryCuratorError
from history_curator.formats import find_format, read_entries

_TOKEN = re.compile(r"([SUAT])([~+*]*)(?:\(([^()]*)\))?")
_ROLES = {"S": "system", "U": "user", "A": "assistant", "T": "tool"}
_LETTERS = {role: letter for letter, role in _ROLES.items()}
_SAID = {"S": "rules", "U": "user", "A": "answer"}
_BLANK = "  "


class ShorthandError(HistoryCuratorError, ValueError):
    """A conversation in shorthand could not be read."""


def parse(text: str) -> list[dict[str, Any]]:
    """Return OpenAI-style messages for a conversation in shorthand.

    Every text is different (``user 1``, ``answer 2``, …), so that a test can see which survive.

    Raises:
        ShorthandError: naming the word that cannot be read.

    Examples:
        >>> [message["role"] for message in parse("S U A(c1,c2) T(c2) T(c1)")]
        ['system', 'user', 'assistant', 'tool', 'tool']
        >>> parse("T(c1)")
        [{'role': 'tool', 'content': 'result 0 of c1', 'tool_call_id': 'c1'}]
    """
    return [_message(word, index) for index, word in enumerate(text.split())]


def parse_entries(text: str) -> list[ConversationEntry]:
    """Return entries for a conversation in shorthand, bound to the messages of `parse`.

    Examples:
        >>> [entry.role.value for entry in parse_entries("U A")]
        ['user', 'assistant']
    """
    return _entries(parse(text))


def show(messages: Sequence[Any]) -> str:
    """Return the shorthand of messages of any format.

    Examples:
        >>> show(parse("S U A(c1) T(c1) A~"))
        'S U A(c1) T(c1) A~'
    """
    labels: dict[str, str] = {}
    return " ".join(_word(entry, labels) for entry in _entries(messages))


def _entries(messages: Sequence[Any]) -> list[ConversationEntry]:
    return read_entries(messages, find_format(messages))


def _message(word: str, index: int) -> dict[str, Any]:
    match = _TOKEN.fullmatch(word)
    if match is None:
        raise ShorthandError(
            f"word {index}: cannot read {word!r}. Fix: use S, U, A or T, then ~ or +, then ids in "
            "parentheses, such as A+(c1,c2)."
        )
    letter, marks, ids = match.groups()
    names = [name.strip() for name in ids.split(",")] if ids else []
    if (letter == "T") != (len(names) == 1) and letter != "A":
        raise ShorthandError(
            f"word {index}: {word!r} names {len(names)} calls. Fix: a T has one id, S and U none."
        )
    said = f"result {index} of {names[0]}" if letter == "T" else f"{_SAID[letter]} {index}"
    message: dict[str, Any] = {"role": _ROLES[letter], "content": said}
    if "~" in marks:
        message["content"] = _BLANK
    elif letter == "A" and names and "+" not in marks:
        message["content"] = None
    if letter == "T":
        message["tool_call_id"] = names[0]
    elif names:
        message["tool_calls"] = [
            {"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}}
            for name in names
        ]
    return message


def _word(entry: ConversationEntry, labels: dict[str, str]) -> str:
    word = _LETTERS[entry.role.value]
    if entry.origin is not None:
        word += "*"
    blank = not (entry.content and entry.content.strip()) and not entry.has_media
    if blank and not (entry.tool_calls and not entry.content):
        word += "~"
    if entry.tool_calls:
        word += "" if blank else "+"
        return f"{word}({','.join(_call_labels(entry, labels))})"
    if entry.role is MessageRole.TOOL:
        given = entry.tool_call_id or ""
        return f"{word}({labels.get(given, given)})"
    return word


def _call_labels(entry: ConversationEntry, labels: dict[str, str]) -> list[str]:
    """The ids, a renamed one as its old id and a dash; `labels` learns them for the results."""
    before = [call.id for call in entry.root.tool_calls or ()]
    names = []
    for place, call in enumerate(entry.tool_calls or ()):
        renamed = call.id not in before and place < len(before)
        labels[call.id] = f"{before[place]}'" if renamed else call.id
        names.append(labels[call.id])
    return names
