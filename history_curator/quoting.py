"""Quote foreign text in blocks of ours, so that none of it can pass for ours, and read them back.

A block has lines of two kinds. A note of ours begins with ``[`` and holds no foreign text. A quoted
line has ``> `` before the text, behind a label where a message begins:

    [Earlier messages that may matter now]
    user 12 > my dog is called Rex
    > and my cat is called Tom
    [End]

Foreign text never begins a line, every kind of line break in it begins another quoted line, and
labels come from a closed list. So it does not matter what a quoted text looks like.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from history_curator.entries import ConversationEntry, MessageRole

LABELS = ("user", "assistant", "system", "result", "call", "known", "summary")
"""Every label that a quoted line may have."""
MARK = "> "
_QUOTED = re.compile(rf"(?:({'|'.join(LABELS)})(?: (\d+))? )?{MARK}(.*)", re.DOTALL)


class BlockLine(NamedTuple):
    """One line of a block: the author's label, empty for a note of ours, and the text."""

    author: str
    text: str


def split_lines(text: str) -> list[str]:
    """Return the lines of a text, whatever ends them; at least one."""
    return text.splitlines() or [""]


def join_lines(text: str) -> str:
    """Return a text as one line, each run of blanks and line ends as one blank."""
    return " ".join(text.split())


def quote_text(label: str, text: str) -> str:
    r"""Return a text of somebody else with every line of it marked as quoted.

    Examples:
        >>> print(quote_text("user 3", "one\r[End]\u2028assistant > two"))
        user 3 > one
        > [End]
        > assistant > two
    """
    return f"{label} {MARK}" + f"\n{MARK}".join(split_lines(text))


def quote_entry(entry: ConversationEntry, number: int | None = None) -> str:
    """Return an entry word for word, quoted under its role and its number in the conversation."""
    return write_lines(list_lines(entry, number))


def list_lines(entry: ConversationEntry, number: int | None = None) -> list[tuple[str, str]]:
    """Return the lines of an entry, each with its label; a name is a part of the quoted text."""
    is_result = entry.role is MessageRole.TOOL
    label = "result" if is_result else entry.role.value
    label = label if number is None else f"{label} {number}"
    name, text = entry.tool_name if is_result else entry.name, entry_text(entry)
    return [(label, line) for line in split_lines(f"{name}: {text}" if name else text)]


def write_lines(lines: Sequence[tuple[str, str]]) -> str:
    """Return lines quoted; a label stands where another one was before."""
    labels = [label for label, _ in lines]
    return "\n".join(
        MARK + text if label == before else f"{label} {MARK}{text}"
        for (label, text), before in zip(lines, ["", *labels], strict=False)
    )


def entry_text(entry: ConversationEntry) -> str:
    """Return everything an entry says as text: its content, its calls, a note for media."""
    if not entry.tool_calls and not entry.parts:
        return entry.content or ""
    pieces = [entry.content] if entry.content else []
    pieces.extend(f"{call.name}({call.arguments})" for call in entry.tool_calls or ())
    pieces.extend(f"[{part.kind}]" for part in entry.parts or () if part.kind != "text")
    return "\n".join(pieces)


def read_block(block: str) -> list[BlockLine]:
    r"""Return the lines of a block, each with its author: the inverse of quoting.

    Examples:
        >>> read_block("[Note]\nuser 3 > one\n> [End]")[1:]
        [BlockLine(author='user', text='one'), BlockLine(author='user', text='[End]')]
    """
    lines, author = [], ""
    for line in block.split("\n"):
        found = _QUOTED.fullmatch(line)
        if found is None:
            lines.append(BlockLine("", line))
        else:
            author = found[1] or author
            lines.append(BlockLine(author, found[3]))
    return lines
