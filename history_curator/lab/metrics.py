"""The cost of a view under a prompt cache, and the parts of the record that later calls depended on.

When a recorded call repeats an earlier one, or names an identifier that only an earlier message
holds, the view it was made from should have shown that message. To replace lines of a file, a model
has to quote them, so the view should hold every line that an edit call replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from history_curator.entries import ConversationEntry
from history_curator.errors import ConfigurationError
from history_curator.formats import parse_object
from history_curator.lab.conversations import ReadConversation, argument_values, searchable_text

_MIN_IDENTIFIER, _MAX_IDENTIFIER = 5, 400
_MIN_LINE = 12
_REPLACED = ("old_string", "old_str", "oldText")
"""The names under which editing tools take the text they replace."""
_VENDOR = re.compile(r"^(?:[a-z]{2,6}\.)?anthropic\.|^[\w.-]*/|-v\d(?::\d)?$")
_SHRUNK = 0.1
"""A prompt that is smaller by less than this share still begins with the last one."""


@dataclass(frozen=True, slots=True)
class PriceSheet:
    """Factors that a provider charges for input tokens, as multiples of the plain input price.

    Examples:
        >>> sheet = PriceSheet("mine", read=0.1, write=1.25, minimum=1024, input_per_million=3.0)
        >>> sheet.cost(tokens=1_000_000, prefix=0)
        3.75
        >>> round(sheet.cost(tokens=1_000_000, prefix=1_000_000), 6)
        0.3

    Attributes:
        read, write: factors for tokens read from the cache, and written to it.
        minimum: a shorter prefix is not cached.
        step: the cached prefix is a multiple of this many tokens.
        ttl: seconds of idleness a cached prefix survives; None where none is promised.
        input_per_million: price of a million plain input tokens; at 1.0 a cost reads as "millions
            of tokens at full price".
    """

    name: str
    read: float = 1.0
    write: float = 1.0
    minimum: int = 0
    step: int = 1
    ttl: float | None = None
    input_per_million: float = 1.0
    about: str = ""

    def cost(self, tokens: int, prefix: int, idle: float | None = None) -> float:
        """Return the price of a request whose first ``prefix`` tokens repeat the last request.

        ``idle`` is the time in seconds since the last answer; None counts as none.
        """
        is_cached = self.read < self.write and prefix >= self.minimum
        read = cached_tokens(prefix, tokens, idle, self.ttl) if is_cached else 0
        read -= read % self.step
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
        PriceSheet("anthropic", 0.1, 1.25, 1024, ttl=300.0,
                   about="explicit cache: reads at a tenth, five-minute writes at a quarter extra"),
        PriceSheet("anthropic-1h", 0.1, 2.0, 1024, ttl=3600.0,
                   about="explicit cache: reads at a tenth, one-hour writes at twice the price"),
        PriceSheet("openai", 0.1, 1.25, 1024, ttl=1800.0,
                   about="GPT-5.6 and later: reads at a tenth, writes at a quarter extra"),
        PriceSheet("openai-free-write", 0.1, 1.0, 1024, step=128, ttl=300.0,
                   about="GPT-5 before 5.6: longest prefix in steps of 128, free writes"),
        PriceSheet("gemini", 0.1, 1.0, 2048,
                   about="implicit cache: reads at a tenth, free writes"),
        PriceSheet("none", about="no prompt cache: every token at full price"),
    )
}  # fmt: skip
_FAMILIES = (
    ("claude", "anthropic"),
    ("gpt-5.6", "openai"),
    ("gpt", "openai-free-write"),
    ("gemini", "gemini"),
)


def price_sheets() -> Mapping[str, PriceSheet]:
    """Return the sheets of the library by name."""
    return dict(_SHEETS)


def find_sheet(model: str) -> PriceSheet | None:
    """Return the sheet of a model's family; None for a model of no known family."""
    name = model.lower()
    return next((_SHEETS[sheet] for family, sheet in _FAMILIES if family in name), None)


def get_prices(pricing: str | PriceSheet) -> PriceSheet:
    """Return a sheet from its name, from a model's name, or as it is."""
    if isinstance(pricing, PriceSheet):
        return pricing
    sheet = _SHEETS.get(pricing) or find_sheet(pricing)
    if sheet is None:
        raise ConfigurationError(
            f"there is no price sheet named {pricing!r}. Fix: one of {', '.join(_SHEETS)}, "
            "the name of a known model, or a PriceSheet of your own."
        )
    return sheet


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices of one token in dollars; without a list price, in millionths of the input price."""

    input: float
    cache_read: float
    cache_write: float
    cache_write_1h: float
    output: float
    has_list_price: bool
    sheet: PriceSheet


@lru_cache(maxsize=256)
def rates_of(model: str) -> Rates:
    """Return the prices of a model's tokens: genai-prices knows the list price of most models."""
    sheet = find_sheet(model) or get_prices("none")
    listed = _list_price(model)

    def rate(name: str, factor: float) -> float:
        price = getattr(listed, f"{name}_mtok", None)
        return factor * base if price is None else float(getattr(price, "base", price)) / 1e6

    base = 1e-6
    base = rate("input", 1.0)
    hour = 2.0 if sheet.name == "anthropic" else sheet.write
    output = rate("output", 0.0)
    return Rates(
        base, rate("cache_read", sheet.read), rate("cache_write", sheet.write),
        rate("cache_write_1h", hour), output, listed is not None, sheet,
    )  # fmt: skip


def _list_price(model: str) -> Any:
    try:
        from genai_prices import Usage, calc_price

        name = _VENDOR.sub("", model.removeprefix("us.").removeprefix("eu."))
        return calc_price(Usage(input_tokens=1), name).model_price
    except (ImportError, LookupError):
        return None


@dataclass(frozen=True, slots=True)
class Dependency:
    """An argument value, or a call made before, that a ``call`` used and earlier entries held.

    ``value`` is the identifier or the tool's name; one of the ``sources`` in view is enough.
    """

    call: int
    kind: Literal["identifier", "repeat"]
    value: str
    sources: tuple[int, ...]


def find_dependencies(record: ReadConversation) -> dict[int, tuple[Dependency, ...]]:
    """Return the dependencies of every call, by the index of the entry that made it."""
    dependencies: dict[int, tuple[Dependency, ...]] = {}
    results: dict[tuple[str, str], list[int]] = {}
    holders: dict[str, tuple[int, list[int]]] = {}
    for index in record.calls:
        found: list[Dependency] = []
        calls = record.entries[index].tool_calls or ()
        values = {v.strip() for each in calls for v in argument_values(each.arguments)}
        for value in sorted(v for v in values if _MIN_IDENTIFIER <= len(v) <= _MAX_IDENTIFIER):
            searched, indexes = holders.get(value, (0, []))
            indexes.extend(i for i in range(searched, index) if value in record.texts[i])
            holders[value] = (index, indexes)
            if indexes:
                found.append(Dependency(index, "identifier", value, tuple(indexes)))
        found += [
            Dependency(index, "repeat", each.name, tuple(earlier))
            for each in calls
            if (earlier := results.get(_signature(each.name, each.arguments)))
        ]
        if found:
            dependencies[index] = tuple(found)
        for signature, result in _results_of(record, index):
            results.setdefault(signature, []).append(result)
    return dependencies


def _signature(name: str, arguments: str) -> tuple[str, str]:
    return name, "\n".join(sorted(argument_values(arguments)))


def _results_of(record: ReadConversation, call: int) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield each call's signature with its result, up to the next assistant entry with calls."""
    waiting = {
        each.id: _signature(each.name, each.arguments)
        for each in record.entries[call].tool_calls or ()
    }
    for index in range(call + 1, len(record.entries)):
        entry = record.entries[index]
        if entry.tool_calls or not waiting:
            return
        if entry.tool_call_id in waiting:
            yield waiting.pop(entry.tool_call_id), index


def shown_entries(
    sent: Sequence[ConversationEntry], record: ReadConversation
) -> dict[int, ConversationEntry]:
    """Return the recorded entries that a view shows, by index, in the form they are sent in."""
    pairs = ((record.index_of.get(id(entry.root)), entry) for entry in sent)
    return {index: entry for index, entry in pairs if index is not None}


def missing_dependencies(
    dependencies: Sequence[Dependency], sent: Sequence[ConversationEntry], record: ReadConversation
) -> list[Dependency]:
    """Return the dependencies that a view does not show; one named in a note of its own is shown."""
    if not dependencies:
        return []
    shown = shown_entries(sent, record)
    notes = "\n".join(searchable_text(e) for e in sent if id(e.root) not in record.index_of)
    return [each for each in dependencies if not is_visible(each, shown, record, notes)]


def is_visible(
    dependency: Dependency,
    shown: Mapping[int, ConversationEntry],
    record: ReadConversation,
    notes: str = "",
) -> bool:
    """Return whether the entries of a view (by index), or the policy's notes, hold a dependency."""
    is_identifier = dependency.kind == "identifier"
    if is_identifier and dependency.value in notes:
        return True
    for source in dependency.sources:
        entry, recorded = shown.get(source), record.entries[source]
        if entry is None:
            continue
        if entry is recorded or entry.content == recorded.content:
            return True
        if is_identifier and dependency.value in searchable_text(entry):
            return True
        # A shortened result counts while at least half of it is there.
        if not is_identifier and 2 * len(entry.content or "") >= len(recorded.content or ""):
            return True
    return False


def find_edits(record: ReadConversation) -> dict[int, tuple[tuple[str, ...], ...]]:
    """Return the lines that each edit call replaced, by the index of the entry that made it.

    Only lines of some length that had been shown before count; an edit without any is left out.
    """
    edits: dict[int, tuple[tuple[str, ...], ...]] = {}
    for call in record.calls:
        replaced = [_replaced_text(e.arguments) for e in record.entries[call].tool_calls or ()]
        found = (
            tuple(
                line
                for line in dict.fromkeys(line.strip() for line in text.split("\n"))
                if len(line) >= _MIN_LINE
                and any(line in earlier for earlier in reversed(record.texts[:call]))
            )
            for text in replaced
        )
        if lines := tuple(filter(None, found)):
            edits[call] = lines
    return edits


def _replaced_text(arguments: str) -> str:
    if not any(name in arguments for name in _REPLACED):
        return ""
    values = parse_object(arguments) or {}
    return next((text for name in _REPLACED if isinstance(text := values.get(name), str)), "")


def count_visible_edits(
    edits: Sequence[Sequence[str]], sent: Sequence[ConversationEntry], record: ReadConversation
) -> int:
    """Return how many edits find all their lines in a view."""
    if not edits:
        return 0
    indexes = ((record.index_of.get(id(entry)), entry) for entry in sent)
    text = "\n".join(searchable_text(e) if i is None else record.texts[i] for i, e in indexes)
    return sum(all(line in text for line in lines) for lines in edits)
