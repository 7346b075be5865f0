"""Recorded messages as JSON and back, in the format they were given in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from history_curator.errors import ConversionError
from history_curator.entries import ConversationEntry
from history_curator.entry_json import decoded, encoded, entry_from_dict, entry_to_dict

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def format_of(sources: Sequence[Any]) -> Any:
    """Return the one format that reads and writes all these messages, or None."""
    from history_curator.formats import Gathered, detect

    flat = [
        one for source in sources for one in (source if isinstance(source, Gathered) else (source,))
    ]
    if not flat or any(one is None for one in flat):
        return None
    if all(isinstance(one, Mapping) for one in flat):
        return detect(flat)
    formats = {format.name: format for format in (detect([one]) for one in flat)}
    return next(iter(formats.values())) if len(formats) == 1 else None


def dump_entries(entries: Sequence[ConversationEntry]) -> dict[str, Any]:
    """Return entries and the messages they were read from as JSON data, each message once."""
    places: dict[int, int] = {}
    messages: list[Any] = []
    items = []
    for entry in entries:
        item = encoded(entry_to_dict(entry))
        source = entry.source
        if source is not None and id(source) not in places:
            dumped = _dump(source)
            if dumped is not None:
                places[id(source)] = len(messages)
                messages.append(dumped)
        if source is not None and id(source) in places:
            item["message"] = places[id(source)]
            item["part"] = entry.span[0] if entry.span else 0
            if entry.original is not None:
                item["edited"] = True
        items.append(item)
    return {"messages": messages, "entries": items}


def load_entries(data: Mapping[str, Any]) -> list[ConversationEntry]:
    """Return the entries that `dump_entries` wrote.

    Raises:
        ConversionError: when the data is something else, or a framework is not installed.
    """
    try:
        sources = [_load(message) for message in data.get("messages") or ()]
        common = format_of(sources)
        return [_entry(decoded(item), sources, common) for item in data["entries"]]
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise ConversionError(
            f"not a session as written by to_dict ({type(error).__name__}).",
            fix="pass the data unchanged.",
        ) from error


def _entry(item: Mapping[str, Any], sources: Sequence[Any], common: Any) -> ConversationEntry:
    entry = entry_from_dict(item)
    if "message" not in item:
        return entry
    message = sources[item["message"]]
    format = common or format_of([message])
    fresh = format.read(message, entry.sequence)
    if item["part"] >= len(fresh):
        return entry
    read: ConversationEntry = fresh[item["part"]]
    if item.get("edited"):
        return replace(entry, source=message, span=read.span, original=read)
    return replace(
        entry,
        source=message,
        span=read.span,
        tool_calls=read.tool_calls,
        parts=read.parts,
        reasoning=read.reasoning,
    )


def _dump(source: Any) -> dict[str, Any] | None:
    from history_curator.formats import Gathered, adapter_of

    if isinstance(source, Gathered):
        return {"format": "gathered", "data": [encoded(dict(one)) for one in source]}
    if isinstance(source, Mapping):
        return {"format": "dicts", "data": encoded(dict(source))}
    adapter = adapter_of(source)
    if adapter is None:
        return None
    return {"format": _package(adapter), "data": adapter.load().to_json(source)}


def _load(message: Mapping[str, Any]) -> Any:
    from history_curator.formats import Gathered, adapters

    kind, data = message["format"], message["data"]
    if kind == "dicts":
        return decoded(data)
    if kind == "gathered":
        return Gathered(map(decoded, data))
    adapter = next((one for one in adapters().values() if _package(one) == kind), None)
    if adapter is None:
        raise ConversionError(
            f"recorded in an unknown format {kind!r}.", fix="pass the data unchanged."
        )
    try:
        return adapter.load().from_json(data)
    except ImportError as error:
        raise ConversionError(
            f"the session was recorded with {kind}, whose framework is not installed.",
            fix="install the extra it belongs to.",
        ) from error


def _package(adapter: EntryPoint) -> str:
    return adapter.module.partition(".")[0]
