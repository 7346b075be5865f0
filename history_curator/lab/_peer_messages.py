"""Between entries and the messages of the peers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

from history_curator.lab._conversation import ReadConversation
from history_curator.lab._policies import PolicyUnavailableError, View
from history_curator.model import ConversationEntry, MessageRole
from history_curator.tokens import TokenCounter


def need(module: str, package: str) -> Any:
    """Return a peer's module, or raise with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise PolicyUnavailableError(
            f"{package} is not installed. Fix: pip install {package}"
        ) from error


def mapped(
    send: Callable[[int], Sequence[Any]], messages: Sequence[Any], conversation: ReadConversation
) -> View:
    """Turn a peer's messages back into entries: the recorded one, or a copy with its new text."""
    index_of = {id(message): index for index, message in enumerate(messages)}
    edited: dict[tuple[int, str], ConversationEntry] = {}

    def entry_for(message: Any) -> ConversationEntry:
        index = index_of.get(id(message))
        if index is not None:
            return conversation.entries[index]
        text = message.content if isinstance(message.content, str) else json.dumps(message.content)
        if not (isinstance(message.id, str) and message.id.isdigit()):
            return ConversationEntry(MessageRole.ASSISTANT, text, origin="note")
        origin = int(message.id)
        key = (origin, text)
        if key not in edited:
            edited[key] = conversation.entries[origin].evolve(content=text, action="cleared")
        return edited[key]

    def view(upto: int, question: ConversationEntry | None) -> list[ConversationEntry]:
        entries = [entry_for(message) for message in send(upto)]
        return [*entries, question] if question else entries

    return view


def message_counter(
    messages: Sequence[Any], conversation: ReadConversation, counter: TokenCounter
) -> Callable[[Iterable[Any]], int]:
    """Return an exact list counter, priming included, that counts no recorded message twice."""
    index_of = {id(message): index for index, message in enumerate(messages)}
    known: dict[int, int] = {}

    def count_one(message: Any) -> int:
        index = index_of.get(id(message))
        if index is None:
            return 3 + counter.count(str(message.content))
        if index not in known:
            known[index] = counter.count_entry(conversation.entries[index])
        return known[index]

    def count(batch: Iterable[Any]) -> int:
        return counter.priming + sum(map(count_one, batch))

    return count


class JoinedCounter:
    """Counts a suffix of the history joined by spaces, as ChatMemoryBuffer asks, from parts.

    The buffer tokenises the whole joined text again for every message it leaves out. A space
    starts a token of its own kind, so the parts add up and each is counted once.
    """

    def __init__(self, contents: Sequence[str], counter: TokenCounter) -> None:
        self._contents = contents
        self._counter = counter
        self._sizes: dict[int, int] = {}
        self.upto = len(contents)

    def __call__(self, text: str) -> range:
        left = len(text)
        total = 0
        index = self.upto
        while left > 0 and index > 0:
            index -= 1
            content = self._contents[index]
            left -= len(content)
            first = left <= 0
            if first and left < 0:
                return range(self._counter.count(text))
            total += self._size(index, spaced=not first)
            left -= not first
        return range(total)

    def _size(self, index: int, *, spaced: bool) -> int:
        key = index * 2 + spaced
        if key not in self._sizes:
            text = (" " if spaced else "") + self._contents[index]
            self._sizes[key] = self._counter.count(text)
        return self._sizes[key]


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def to_langchain(entry: ConversationEntry, index: int, core: Any) -> Any:
    """Return an entry as a LangChain message whose id is its index in the record."""
    mark = str(index)
    text = entry.content or ""
    if entry.role is MessageRole.SYSTEM:
        return core.SystemMessage(text, id=mark)
    if entry.role is MessageRole.TOOL:
        return core.ToolMessage(
            text, tool_call_id=entry.tool_call_id or "", name=entry.tool_name, id=mark
        )
    if entry.role is MessageRole.ASSISTANT:
        calls = [
            {"id": call.id, "name": call.name, "args": _arguments(call.arguments)}
            for call in entry.tool_calls or ()
        ]
        return core.AIMessage(text, tool_calls=calls, id=mark)
    return core.HumanMessage(text, id=mark)


def to_llamaindex(entry: ConversationEntry, llms: Any) -> Any:
    """Return an entry as a LlamaIndex message."""
    extra: dict[str, Any] = {}
    if entry.role is MessageRole.TOOL:
        extra = {"tool_call_id": entry.tool_call_id or "", "name": entry.tool_name}
    blocks: list[Any] = [llms.TextBlock(text=entry.content or "")]
    blocks += [
        llms.ToolCallBlock(
            tool_call_id=call.id, tool_name=call.name, tool_kwargs=_arguments(call.arguments)
        )
        for call in entry.tool_calls or ()
    ]
    return llms.ChatMessage(role=entry.role.value, blocks=blocks, additional_kwargs=extra)
