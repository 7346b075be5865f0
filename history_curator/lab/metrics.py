"""The cost of a view under a prompt cache, and the parts of the record that later calls depended on.

When a recorded call repeats an earlier one, or names an identifier that only an earlier message
holds, the view it was made from should have shown that message. To replace lines of a file, a model
has to quote them, so the view should hold every line that an edit call replaced.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from history_curator.entries import ConversationEntry, ToolCall
from history_curator.errors import ConfigurationError
from history_curator.formats import parse_object
from history_curator.lab.conversations import LabConversation, argument_values, searchable_text
from history_curator.units import pair

_MIN_IDENTIFIER, _MAX_IDENTIFIER = 5, 400
_MIN_LINE = 12
_REPLACED = ("old_string", "old_str", "oldText")
"""The names under which editing tools take the text they replace."""
_VENDOR = re.compile(r"^(?:[a-z]{2,6}\.)?anthropic\.|^[\w.-]*/|-v\d(?::\d)?$")
_SHRUNK = 0.1
"""A prompt that is smaller by less than this share still begins with the last one."""


@dataclass(frozen=True, slots=True)
class PriceSheet:
    """The prices of input tokens: that of plain ones, and factors on it for the prompt cache.

    Examples:
        >>> sheet = PriceSheet("mine", read=0.1, write=1.25, minimum=1024, input_per_million=3.0)
        >>> sheet.cost(tokens=1_000_000, prefix=0)
        3.75

    Attributes:
        read, write, output: factors for tokens read from the cache, written to it, and of answers.
        minimum: a shorter prefix is not cached.
        ttl: seconds of idleness a cached prefix survives; None where none is promised.
        input_per_million: at 1.0 a cost reads as "millions of tokens at full price".
        is_listed: whether the prices are USD, as genai-prices lists them.
    """

    name: str
    read: float = 1.0
    write: float = 1.0
    minimum: int = 0
    ttl: float | None = None
    input_per_million: float = 1.0
    output: float = 0.0
    is_listed: bool = False

    def cost(self, tokens: int, prefix: int, idle: float | None = None) -> float:
        """Return the price of a request whose first ``prefix`` tokens repeat the last request.

        ``idle`` is the time in seconds since the last answer; None counts as none.
        """
        is_cached = self.read < self.write and prefix >= self.minimum
        read = cached_tokens(prefix, tokens, idle, self.ttl) if is_cached else 0
        write = self.write if tokens >= self.minimum else 1.0
        return (read * self.read + (tokens - read) * write) * self.input_per_million / 1e6


def cached_tokens(held: int, prompt: int, idle: float | None, ttl: float | None) -> int:
    """Return the tokens of a prompt that are read from the cache.

    A prompt reads everything the last request left there, unless the lifetime has passed or the
    prompt shrank. On recorded sessions of Claude Code this gives 1.006 of the reported reads.
    """
    is_warm = idle is None or ttl is None or idle < ttl
    return min(held, prompt) if is_warm and prompt >= (1 - _SHRUNK) * held else 0


_SHEETS = {
    sheet.name: sheet
    for sheet in (
        PriceSheet("anthropic", 0.1, 1.25, 1024, ttl=300.0),
        PriceSheet("anthropic-1h", 0.1, 2.0, 1024, ttl=3600.0),
        PriceSheet("openai", 0.1, 1.25, 1024, ttl=1800.0),
        PriceSheet("gemini", 0.1, 1.0, 2048),
        PriceSheet("none"),
    )
}
_FAMILIES = {"claude": "anthropic", "gpt": "openai", "gemini": "gemini"}


def price_sheets() -> Mapping[str, PriceSheet]:
    """Return the sheets of the library by name."""
    return dict(_SHEETS)


def get_prices(pricing: str | PriceSheet) -> PriceSheet:
    """Return a sheet from its name, from a model's name, or as it is."""
    if isinstance(pricing, PriceSheet):
        return pricing
    sheet = _SHEETS.get(pricing) or find_list_prices(pricing)
    if sheet is _SHEETS["none"] and pricing != "none":
        raise ConfigurationError(
            f"there is no price sheet named {pricing!r}. Fix: one of {', '.join(_SHEETS)}, "
            "the name of a known model, or a PriceSheet of your own."
        )
    return sheet


@lru_cache(maxsize=256)
def find_list_prices(model: str) -> PriceSheet:
    """Return the list prices of a model by genai-prices, or else the sheet of its family."""
    family = next((name for part, name in _FAMILIES.items() if part in model.lower()), "none")
    try:
        from genai_prices import Usage, calc_price

        name = _VENDOR.sub("", model.removeprefix("us.").removeprefix("eu."))
        listed: Any = calc_price(Usage(input_tokens=1), name).model_price
    except (ImportError, LookupError):
        return _SHEETS[family]
    kinds = {"input": "input", "read": "cache_read", "write": "cache_write", "output": "output"}
    given = {kind: getattr(listed, f"{name}_mtok", None) for kind, name in kinds.items()}
    prices = {kind: float(getattr(p, "base", p)) for kind, p in given.items() if p is not None}
    base = prices.pop("input", 0.0) or 1.0
    factors = {"write": 1.0, **{kind: price / base for kind, price in prices.items()}}
    own: Any = {"name": model, "input_per_million": base, "is_listed": True, **factors}
    return replace(_SHEETS[family], **own)


@dataclass(frozen=True, slots=True)
class Dependency:
    """An argument value, or a call made before, that a ``call`` used and earlier entries held.

    ``value`` is the identifier or the tool's name; one of the ``sources`` in view is enough.
    """

    call: int
    kind: Literal["identifier", "repeat"]
    value: str
    sources: tuple[int, ...]


def find_dependencies(record: LabConversation) -> dict[int, tuple[Dependency, ...]]:
    """Return the dependencies of every call, by the index of the entry that made it."""
    results, found = _find_results(record), defaultdict[int, list[Dependency]](list)
    holders: dict[str, tuple[int, list[int]]] = {}
    for index in record.calls:
        calls = record.entries[index].tool_calls or ()
        values = {v.strip() for each in calls for v in argument_values(each.arguments)}
        for value in sorted(v for v in values if _MIN_IDENTIFIER <= len(v) <= _MAX_IDENTIFIER):
            searched, indexes = holders.get(value, (0, []))
            indexes.extend(i for i in range(searched, index) if value in record.texts[i])
            holders[value] = (index, indexes)
            if indexes:
                found[index].append(Dependency(index, "identifier", value, tuple(indexes)))
        for each in calls:
            if earlier := tuple(i for i in results[_signature(each)] if i < index):
                found[index].append(Dependency(index, "repeat", each.name, earlier))
    return {index: tuple(needed) for index, needed in found.items()}


def _signature(call: ToolCall) -> tuple[str, str]:
    return call.name, "\n".join(sorted(argument_values(call.arguments)))


def _find_results(record: LabConversation) -> dict[tuple[str, str], list[int]]:
    """Return where the results of each call are, by its name and arguments."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for unit in pair(record.entries):
        calls = {call.id: call for call in unit.head.tool_calls or ()}
        for result in filter(None, unit.results):
            if call := calls.get(result.tool_call_id or ""):
                found[_signature(call)].append(record.index_of[id(result)])
    return found


def shown_entries(
    sent: Sequence[ConversationEntry], record: LabConversation
) -> dict[int, ConversationEntry]:
    """Return the recorded entries that a view shows, by index, in the form they are sent in."""
    pairs = ((record.index_of.get(id(entry.root)), entry) for entry in sent)
    return {index: entry for index, entry in pairs if index is not None}


def missing_dependencies(
    dependencies: Sequence[Dependency], sent: Sequence[ConversationEntry], record: LabConversation
) -> list[Dependency]:
    """Return the dependencies that a view does not show; one named in a note of its own is shown."""
    shown = shown_entries(sent, record) if dependencies else {}
    own = (entry for entry in sent if dependencies and id(entry.root) not in record.index_of)
    notes = "\n".join(map(searchable_text, own))

    def is_shown(needed: Dependency, source: int) -> bool:
        entry, recorded = shown.get(source), record.entries[source]
        if entry is None or entry.content == recorded.content:
            return entry is not None
        if needed.kind == "identifier":
            return needed.value in searchable_text(entry)
        # A shortened result counts while at least half of it is there.
        return 2 * len(entry.content or "") >= len(recorded.content or "")

    return [
        each
        for each in dependencies
        if not (each.kind == "identifier" and each.value in notes)
        and not any(is_shown(each, source) for source in each.sources)
    ]


def find_edits(record: LabConversation) -> dict[int, list[list[str]]]:
    """Return the lines that each edit call replaced, by the index of the entry that made it.

    Only lines of some length that had been shown before count; an edit without any is left out.
    """
    edits: dict[int, list[list[str]]] = defaultdict(list)
    for call in record.calls:
        earlier = record.texts[:call][::-1]
        for each in record.entries[call].tool_calls or ():
            is_edit = any(name in each.arguments for name in _REPLACED)
            values = (parse_object(each.arguments) or {}) if is_edit else {}
            replaced = next((v for n in _REPLACED if isinstance(v := values.get(n), str)), "")
            lines = dict.fromkeys(map(str.strip, replaced.split("\n")))
            long = (line for line in lines if len(line) >= _MIN_LINE)
            if known := [line for line in long if any(line in text for text in earlier)]:
                edits[call].append(known)
    return edits


def count_visible_edits(
    edits: Sequence[Sequence[str]], sent: Sequence[ConversationEntry], record: LabConversation
) -> int:
    """Return how many edits find all their lines in a view."""
    if not edits:
        return 0
    text = "\n".join(map(searchable_text, sent))
    return sum(all(line in text for line in lines) for lines in edits)
