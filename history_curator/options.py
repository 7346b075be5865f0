"""Every option of a curator, declared once: its type, default, meaning and check."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from history_curator.entries import recall_tool_name
from history_curator.errors import ConfigurationError, a_type

if TYPE_CHECKING:
    from history_curator.events import EventBus
    from history_curator.rules import ProviderProfile
    from history_curator.tokens import TokenCounter, UsageAnchor

MOST = 10**15
"""The largest whole number an option takes; a larger one is a typing error."""


def _whole_number(least: int, *, none: bool = True) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if value is None and none:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            return f"a whole number, at least {least}" + (", or None" if none else "")
        return f"a whole number, at most {MOST}" if value > MOST else None

    return check


def _one_of(*words: object) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if any(value is word or (isinstance(value, str) and value == word) for word in words):
            return None
        return " or ".join(", ".join(map(repr, words)).rsplit(", ", 1))

    return check


def _number(least: float, most: float, wanted: str) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        fits = isinstance(value, (int, float)) and least <= value <= most
        return None if fits or value is None else f"{wanted}, or None"

    return check


def _check_hashable(value: Any) -> str | None:
    try:
        hash(value)
    except TypeError:
        return "something hashable, such as the id of the thread"
    return None


def _check_recall_tool(value: Any) -> str | None:
    if not isinstance(value, (bool, str)):
        return "True, False, or a name for the tool"
    recall_tool_name(value)  # raises an error of its own for a name no provider takes
    return None


class Option(NamedTuple):
    """The default of an option, its meaning, and a check that returns what a value should be."""

    default: Any
    doc: str
    check: Callable[[Any], str | None] = lambda _: None


OPTIONS: Mapping[str, Option] = {
    "max_tokens": Option(
        None,
        "The budget: messages, tools and priming. None enforces the provider's rules only.",
        _whole_number(1),
    ),
    "name": Option("history", "The curator's name in reports, events and traces."),
    "counter": Option("o200k_base", "Counts tokens: an encoding, a model, or a `TokenCounter`."),
    "provider": Option("core", "The provider whose rules hold: a profile, or its name."),
    "compact_to": Option(
        None,
        "The share of the budget that a compaction leaves; None is 0.7. 1.0 keeps as much as fits "
        "on every call, which loses the prompt cache on every call.",
        _number(1e-9, 1.0, "above 0, at most 1"),
    ),
    "recap": Option(True, "Whether a note tells what is no longer shown.", _one_of(True, False)),
    "retrieve": Option(
        False,
        "Whether messages that matter to the question are brought back from before the cutoff.",
        _one_of(True, False),
    ),
    "calibration": Option(
        None, "What was learned about how the provider counts; False takes the counter's word."
    ),
    "cache_bytes": Option(
        64 * 2**20,
        "Bytes spent on remembering messages; they never change a view.",
        _whole_number(0, none=False),
    ),
    "reasoning": Option(
        None,
        "What happens to reasoning that an edit unbinds; None is the provider's way.",
        _one_of("strip", "keep", "refuse", None),
    ),
    "recall_tool": Option(
        False,
        "Whether the model can ask for messages left out, by handle; a text names the tool.",
        _check_recall_tool,
    ),
    "mode": Option(
        "enforce",
        "``shadow`` works everything out and reports it, and sends the full history.",
        _one_of("enforce", "shadow"),
    ),
    "bus": Option(None, "An `EventBus` that receives `HistoryCurated`."),
    "preserve_last_n": Option(None, "The last n messages are never left out.", _whole_number(0)),
    "reserve": Option(
        0, "Tokens to leave free for what the caller adds.", _whole_number(0, none=False)
    ),
    "tail": Option(
        None,
        "``request`` when the view is about to be sent, ``history`` when something is still "
        "appended to it; None tells by who spoke last.",
        _one_of("request", "history", None),
    ),
    "idle": Option(
        None,
        "Seconds since the last request, for one view.",
        _number(0, MOST, "a number of seconds, at least 0"),
    ),
    "key": Option(None, "Names the conversation of one view.", _check_hashable),
}
"""Every option by name."""


class SharedOptions(TypedDict, total=False):
    """The options that every integration takes and hands to its curator unchanged."""

    counter: str | TokenCounter | Callable[..., Any]
    provider: str | ProviderProfile
    compact_to: float | None
    recap: bool
    retrieve: bool
    calibration: UsageAnchor | bool | None
    cache_bytes: int
    reasoning: Literal["strip", "keep", "refuse"] | None
    recall_tool: bool | str
    mode: Literal["enforce", "shadow"]
    bus: EventBus | None
    preserve_last_n: int | None


class CuratorOptions(SharedOptions, total=False):
    """The options that `Curator` takes by name."""

    max_tokens: int | None
    name: str


class ViewOptions(TypedDict, total=False):
    """The options of one view: `Curator.curate` takes them, an integration for all of its views."""

    reserve: int
    tail: Literal["request", "history"] | None


def check_options(given: Mapping[str, Any], **called: str) -> None:
    """Refuse values that cannot work; names that are not in `OPTIONS` are ignored.

    `called` gives the caller's own names of options, by their names here.

    Raises:
        ConfigurationError: naming the option, its value and what to give instead.

    Examples:
        >>> check_options({"compact_to": 0.7, "mode": "shadow"})
    """
    for name, value in given.items():
        option = OPTIONS.get(name)
        wanted = None if option is None else option.check(value)
        if wanted is not None:
            raise ConfigurationError(
                f"{called.get(name, name)} is {show_value(value)}. Fix: {wanted}."
            )


def check_names(
    owner: str, given: Iterable[str], known: Collection[str], fixes: Mapping[str, str] | None = None
) -> None:
    """Refuse unknown argument names.

    `owner` is the function or class that was called, and `fixes` says what to use instead of
    names of other libraries.

    Raises:
        ConfigurationError: naming what to use instead, or the closest known name.
    """
    for name in given:
        if name not in known:
            fix = (fixes or {}).get(name) or suggest_name(name, known)
            raise ConfigurationError(f"{owner}: unknown argument {name!r}. Fix: {fix}")


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the closest known word, or all of them; never the word given.

    Examples:
        >>> suggest_name("max_tokns", ["max_tokens", "mode"])
        "did you mean 'max_tokens'?"
    """
    names = sorted(set(known) - {name})
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}."


def show_value(value: Any) -> str:
    """Return a value for an error: shortened, and by its type where it has no short text."""
    if isinstance(value, int) and abs(value) > MOST:
        return f"{a_type(value)} of {value.bit_length()} bits"
    if isinstance(value, (Mapping, list, tuple, set)):
        return type(value).__name__
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
