"""Every option of a curator, declared once: name, type, default, check and meaning."""

# No `from __future__ import annotations`: what is annotated here is read at run time.

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from history_curator.errors import ConfigurationError
from history_curator.entries import recall_tool_name

if TYPE_CHECKING:
    from history_curator.record import EventBus
    from history_curator.rules import ProviderProfile
    from history_curator.tokens import Calibration, TokenCounter


@dataclass(frozen=True, slots=True)
class Option:
    """What is known about an option besides its name and type.

    Attributes:
        default: what holds when it is not given.
        doc: what it does, for every signature and page that names it.
        check: returns what a value should have been, or None when it is fine.
    """

    default: Any
    doc: str
    check: Callable[[Any], str | None] = lambda _: None


def _whole(least: int, *, none: bool = True) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if value is None and none:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return None
        return f"a whole number, at least {least}" + (", or None" if none else "")

    return check


def _seconds(value: Any) -> str | None:
    if value is None or (isinstance(value, (int, float)) and value >= 0):
        return None
    return "a number of seconds, at least 0, or None"


def _name(value: Any) -> str | None:
    try:
        hash(value)
    except TypeError:
        return "something hashable, such as the id of the thread"
    return None


def _share(value: Any) -> str | None:
    if value is None or (isinstance(value, (int, float)) and 0.0 < value <= 1.0):
        return None
    return "above 0, at most 1, or None"


def _one_of(*words: str, none: bool = False) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if (value is None and none) or (isinstance(value, str) and value in words):
            return None
        *some, last = map(repr, words)
        return f"{', '.join(some)} or {last}" + (", or None" if none else "")

    return check


def _truth(value: Any) -> str | None:
    return None if isinstance(value, bool) else "True or False"


def _recall(value: Any) -> str | None:
    if not isinstance(value, (bool, str)):
        return "True, False, or a name for the tool"
    recall_tool_name(value)  # refuses a name in its own words
    return None


class SharedOptions(TypedDict, total=False):
    """What every socket takes and hands to its curator as it is."""

    counter: Annotated[
        "str | TokenCounter | Callable[..., Any]",
        Option("o200k_base", "What counts: an encoding, a model's name, or a `TokenCounter`."),
    ]
    provider: Annotated[
        "str | ProviderProfile",
        Option("core", "Whose rules hold: a profile, or its name."),
    ]
    compact_to: Annotated[
        float | None,
        Option(
            None,
            "How full a jump of the cut leaves the view; None is 0.7. 1.0 keeps as much as fits on "
            "every call, which throws the prompt cache away on every call.",
            _share,
        ),
    ]
    recap: Annotated[
        bool,
        Option(True, "Whether a marked entry tells what was said and done before the cut.", _truth),
    ]
    retrieve: Annotated[
        bool,
        Option(
            False,
            "Whether what matters to the question is brought back from before the cut.",
            _truth,
        ),
    ]
    calibration: Annotated[
        "Calibration | bool | None",
        Option(
            None,
            "What was learned about how the provider counts; None starts anew, False takes the "
            "counter's word for it.",
        ),
    ]
    cache_bytes: Annotated[
        int,
        Option(
            64 * 2**20,
            "How much is held of conversations seen before; it never changes a view.",
            _whole(0, none=False),
        ),
    ]
    reasoning: Annotated[
        Literal["strip", "keep", "refuse"] | None,
        Option(
            None,
            "What happens to reasoning that an edit unbinds; None is the provider's way.",
            _one_of("strip", "keep", "refuse", none=True),
        ),
    ]
    recall_tool: Annotated[
        bool | str,
        Option(
            False,
            "Whether what was left out can be asked for by its handle; a text is what the recall "
            "tool is called.",
            _recall,
        ),
    ]
    mode: Annotated[
        Literal["enforce", "shadow"],
        Option(
            "enforce",
            "``shadow`` works everything out and reports it, and sends the full history.",
            _one_of("enforce", "shadow"),
        ),
    ]
    bus: Annotated[
        "EventBus | None",
        Option(None, "An `EventBus` that receives `HistoryCurated`."),
    ]
    preserve_last_n: Annotated[
        int | None,
        Option(None, "The last n messages are never left out.", _whole(0)),
    ]


class CuratorOptions(SharedOptions, total=False):
    """What `Curator` takes by name."""

    max_tokens: Annotated[
        int | None,
        Option(
            None,
            "The budget: messages, tools and priming. None enforces the provider's rules only.",
            _whole(1),
        ),
    ]
    name: Annotated[str, Option("history", "What reports, events and traces call it.")]


class ViewOptions(TypedDict, total=False):
    """What `Curator.curate` takes for one view, and a socket for all of its views."""

    reserve: Annotated[
        int,
        Option(0, "Tokens to leave free for what the caller adds.", _whole(0, none=False)),
    ]
    tail: Annotated[
        Literal["request", "history"] | None,
        Option(
            None,
            "``request`` when the view is about to be sent, ``history`` when something is still "
            "appended to it; None tells by who spoke last.",
            _one_of("request", "history", none=True),
        ),
    ]


OPTIONS: Mapping[str, Option] = {
    name: annotation.__metadata__[0]
    for declared in (SharedOptions, CuratorOptions, ViewOptions)
    for name, annotation in declared.__annotations__.items()
} | {
    "idle": Option(None, "Seconds since the last request, for one view.", _seconds),
    "key": Option(None, "Names the conversation of one view.", _name),
}
"""Every option by name."""


def check_options(given: Mapping[str, Any], **called: str) -> None:
    """Refuse values that cannot work; names nobody declared are left to their owner.

    Args:
        given: the values by name.
        called: what the owner calls an option that has another name here.

    Raises:
        ConfigurationError: naming the option, its value and what to give instead.

    Examples:
        >>> check_options({"compact_to": 0.7, "mode": "shadow"})
    """
    for name, value in given.items():
        option = OPTIONS.get(name)
        wanted = None if option is None else option.check(value)
        if wanted is not None:
            raise ConfigurationError(f"{called.get(name, name)} is {value!r}. Fix: {wanted}.")


def check_names(
    owner: str, given: Iterable[str], known: Collection[str], fixes: Mapping[str, str] | None = None
) -> None:
    """Refuse names nobody knows.

    Args:
        owner: whose arguments they are.
        given: the names.
        known: those it takes.
        fixes: what to use instead of names of other libraries.

    Raises:
        ConfigurationError: naming what to use instead, or the closest known one.
    """
    for name in given:
        if name not in known:
            fix = (fixes or {}).get(name) or did_you_mean(name, {*known, *OPTIONS})
            raise ConfigurationError(f"{owner}: unknown argument {name!r}. Fix: {fix}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint naming the closest known word, or all of them."""
    from difflib import get_close_matches

    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}."
