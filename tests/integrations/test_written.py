"""An edited entry is written once, as long as nobody edits what was written."""

from __future__ import annotations

from typing import Any

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.integrations import written_once


def write(entry: ConversationEntry) -> dict[str, Any]:
    return {"content": entry.content, "id": None}


def seen(message: dict[str, Any]) -> Any:
    return message["content"]


def entry() -> ConversationEntry:
    return ConversationEntry(MessageRole.USER, "long").evolve(content="short")


def test_it_is_the_same_message_every_time() -> None:
    edited = entry()
    message = written_once("dicts", edited, write, seen)
    message["id"] = "given by whoever sent it"
    assert written_once("dicts", edited, write, seen) is message


def test_a_message_that_was_edited_is_written_anew() -> None:
    edited = entry()
    message = written_once("dicts", edited, write, seen)
    message["content"] = "changed"
    assert written_once("dicts", edited, write, seen) == {"content": "short", "id": None}


def test_each_format_has_its_own() -> None:
    edited = entry()
    message = written_once("dicts", edited, write, seen)
    assert written_once("others", edited, write, seen) is not message
