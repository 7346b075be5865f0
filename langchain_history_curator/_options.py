"""What sockets are given: messages in any shape, tools of any kind, settings of a curator."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

from history_curator.curator import Curator
from history_curator.errors import ConfigurationError, ConversionError, a_type, named
from history_curator.managers import HistoryManager
from history_curator.config import OPTIONS, SharedOptions, check_names
from history_curator.integrations import is_share
from langchain_history_curator._format import without_removed
from langchain_history_curator._models import counter_of

_FROM_TRIM_MESSAGES = {
    "token_counter": "counter=… takes the same: a function of messages, a model, a name",
    "strategy": "leave it out: the newest messages stay. For the oldest ones use a manager",
    "allow_partial": "leave it out: long tool results are shortened, the rest stays whole",
    "end_on": 'tail="request" ends on a user or tool message, tail="history" on any',
    "start_on": "leave it out: a view starts where the provider lets it start",
    "include_system": "leave it out: the system message always stays",
    "text_splitter": "leave it out: long tool results are shortened in the middle",
}


class NodeOptions(SharedOptions, total=False):
    """What a step of a chain or of a graph takes by name."""

    tail: Literal["auto", "request", "history"]
    reserve: int
    mark_cache: bool
    name: str | None


class StepOptions(NodeOptions, total=False):
    """What `HistoryCurator.for_model` takes beside a budget."""

    managers: Sequence[Any] | HistoryManager | None
    tools: Sequence[Any] | None


class HistoryCuratorOptions(StepOptions, total=False):
    """What `HistoryCurator` takes by name."""

    max_tokens: int | None
    budget: str | None


def check_given(owner: str, given: Collection[str], known: Collection[str]) -> None:
    """Refuse names nobody knows, those of `trim_messages` with what to use instead.

    Raises:
        ConfigurationError: naming the argument and the way out.
    """
    for name, fix in _FROM_TRIM_MESSAGES.items():
        if name in given:
            raise ConfigurationError(
                f"{owner}: {name} is an argument of trim_messages. Fix: {fix}."
            )
    check_names(owner, given, known)


def check_no_share(owner: str, max_tokens: Any, fix: str) -> None:
    """Refuse a share of a window where no model says how large the window is.

    Raises:
        ConfigurationError: naming the way out.
    """
    if is_share(max_tokens):
        raise ConfigurationError(
            f"{owner}: max_tokens is {max_tokens!r}, a share of the window of a model it does not "
            f"know. Fix: a number of tokens, or {fix}."
        )


def spend(max_tokens: int | None, reserve: int) -> dict[str, int | None]:
    """The budget and the reserve of a call, where both are settings that stay.

    What is always kept free is taken off the budget: a reserve shortens one view, and the next
    one begins again from the whole budget, which costs the prompt cache.
    """
    if max_tokens is None or not 0 <= reserve < max_tokens:  # the core refuses what cannot be
        return {"max_tokens": max_tokens, "reserve": reserve}
    return {"max_tokens": max_tokens - reserve, "reserve": 0}


def key_of(config: RunnableConfig | None = None) -> tuple[str, str] | None:
    """What names the conversation of a run: its thread or session, and the graph's node it is in.

    None where nothing names it, and within a graph that is part of another: several of those may
    run in one thread, each with a conversation of its own.
    """
    given: Mapping[str, Any] = (config or {}).get("configurable") or {}
    if "thread_id" not in given and "session_id" not in given:
        given = (var_child_runnable_config.get() or {}).get("configurable") or {}
    named = given.get("thread_id", given.get("session_id"))
    where = str(given.get("checkpoint_ns") or "")
    if named is None or "|" in where:
        return None
    return str(named), where.partition(":")[0]


_LASTING = {*OPTIONS, "managers", "retention", "rewrite"} - {"max_tokens", "reserve"}


class Lasting:
    """Refuses options that are set after construction, where setting them would do nothing.

    Attributes that are looked at on every call may be set at any time.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _LASTING and "_made" in self.__dict__:
            raise ConfigurationError(
                f"{type(self).__name__}: {name} cannot be changed any more. Fix: make another one "
                f"with {name}=…."
            )
        super().__setattr__(name, value)

    def _finish(self) -> None:
        """From here on options last."""
        self.__dict__["_made"] = True


def messages_of(given: Any) -> list[Any]:
    """The messages in whatever a chain or a graph hands on.

    A list, a PromptValue, a state with ``messages`` (a dict, a dataclass, a pydantic model), a
    string, or one message.

    Raises:
        ConversionError: when there are no messages in it.
    """
    if given.__class__ is list:
        return without_removed(given)
    if isinstance(given, (str, BaseMessage)):
        return [given]
    if isinstance(given, PromptValue):
        return without_removed(given.to_messages())
    if isinstance(given, Mapping):
        if "messages" in given:
            return messages_of(given["messages"])
        if "role" in given or "type" in given:
            return [given]
        raise ConversionError(
            f'a dict without "messages" (it has: {", ".join(map(named, given)) or "nothing"}).',
            fix='pass {"messages": [...]}, a list of messages, a PromptValue or a string.',
        )
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(x, str) for x in given):
        return [given]
    # Asked before iterating: a pydantic state can be iterated too, over its fields.
    if hasattr(given, "messages"):
        return messages_of(given.messages)
    if isinstance(given, Iterable):
        return without_removed(given)
    raise ConversionError(
        f"{a_type(given)} holds no messages.",
        fix='pass a list of messages, a PromptValue, {"messages": [...]} or a string.',
    )


def is_request(given: Any) -> bool:
    """Whether what was given is about to be sent as it is, as far as its shape tells.

    A prompt value, a state, a string and one message are. A list is one when it ends on a user
    or tool message; a list that ends on an answer is a history, and something follows.
    """
    if isinstance(given, tuple) or not isinstance(given, Sequence) or isinstance(given, str):
        return True
    if not given:
        return False
    last = given[-1]
    if isinstance(last, Mapping):
        return last.get("role", last.get("type")) not in ("assistant", "ai", "model")
    if isinstance(last, tuple):
        return last[0] not in ("assistant", "ai")
    return getattr(last, "type", "human") not in ("ai", "AIMessageChunk", "system")


def build_curator(
    managers: Sequence[Any],
    max_tokens: int | None,
    options: SharedOptions,
    *,
    name: str,
    owner: str,
) -> Curator:
    """A curator of what `owner` was given; provider ``auto`` is ``core`` until a model is known."""
    settings: dict[str, Any] = dict(options)
    check_given(owner, settings, SharedOptions.__annotations__)
    if "counter" in settings:
        settings["counter"] = counter_of(settings["counter"])
    if settings.get("provider", "core") == "auto":
        settings["provider"] = "core"
    return Curator(*managers, max_tokens=max_tokens, name=name, **settings)
