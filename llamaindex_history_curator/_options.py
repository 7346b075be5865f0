"""What the arguments of a socket mean for its curator, and a clear no to those that mean nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from llama_index.core.llms import LLM
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from history_curator.curator import Curator
from history_curator.errors import ConfigurationError
from history_curator.managers import HistoryManager
from history_curator.config import check_names, check_options
from history_curator.integrations import Asked, ConfigSource, as_managers, load_settings, rules_for
from llamaindex_history_curator._models import budget_for_llm, counter_for_llm, provider_of
from llamaindex_history_curator._store import ChatStore, check_store, find_store

_NO_EQUAL = {
    "image_token_size_estimate": "images are counted by their size; pass a counter of your own",
    "audio_token_size_estimate": "pass a counter: TiktokenCounter(media={'audio': …})",
    "video_token_size_estimate": "pass a counter: TiktokenCounter(media={'video': …})",
    "document_token_size_estimate": "pass a counter: TiktokenCounter(media={'file': …})",
    "summarize_prompt": "pass managers=[SummarizingManager(…)]",
    "count_initial_tokens": "they always count",
}
_TABLE = "llama_index_memory"


def make_curator(managers: Any = (), *, llm: LLM | None = None, **given: Any) -> Curator:
    """Return a curator; the arguments are those of `settings_for`."""
    return curator_from(settings_for(managers, llm=llm, **given), llm)


def curator_from(settings: Mapping[str, Any], llm: LLM | None) -> Curator:
    """Return the curator of what `settings_for` returned, with the rules for the LLM's model."""
    options = {name: value for name, value in settings.items() if name != "managers"}
    # Its client moves system messages to the front, so all that is asked for is the model's name.
    asked = Asked() if llm is None else Asked((llm.metadata.model_name or None,))
    options["provider"] = rules_for(options["provider"], asked, options.get("reasoning"))
    return Curator(*settings["managers"], **options)


def settings_for(
    managers: Sequence[HistoryManager] | HistoryManager | None = (),
    *,
    llm: LLM | None = None,
    token_limit: int | None = None,
    provider: Any = "auto",
    counter: Any = None,
    config: ConfigSource | None = None,
    objects: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return what a curator is made of, by name.

    What is given wins over the config, and the config over what fits the LLM.

    Raises:
        ConfigurationError: for managers beside a config, and for objects without one.
    """
    if config is not None and managers:
        raise _together("a config", ["managers"])
    if config is None and objects:
        raise ConfigurationError(
            "objects: they stand for the '@name' options of a config, and no config is given. "
            "Fix: pass config= as well, or leave objects out."
        )
    check_options({"max_tokens": token_limit}, max_tokens="token_limit")
    named = {
        "max_tokens": token_limit,
        "counter": counter,
        "provider": None if provider == "auto" else provider,
    }
    given = {**options, **{name: value for name, value in named.items() if value is not None}}
    settings = {"managers": as_managers(managers), **load_settings(config, objects, given)}
    if settings.get("max_tokens") is None and llm is not None:
        settings["max_tokens"] = budget_for_llm(llm)
    settings.setdefault("counter", counter_for_llm(llm))
    settings.setdefault("provider", provider_of(llm))
    return settings


def check_alone(curator: Curator | None, **given: Any) -> None:
    """Refuse a curator made elsewhere together with what it would be made of."""
    names = [
        name
        for name, value in given.items()
        if value is not None
        and not (name == "provider" and value == "auto")
        and not (isinstance(value, (list, tuple)) and not value)
    ]
    if curator is not None and names:
        raise _together("a curator", names)


def check_keywords(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse keyword arguments nobody knows.

    Raises:
        ConfigurationError: naming the closest known one, or what there is instead of an argument
            of other memories.
    """
    for name in given:
        if name in _NO_EQUAL:
            raise ConfigurationError(
                f"{owner}: {name} has no meaning here. Fix: leave it out; {_NO_EQUAL[name]}."
            )
    check_names(owner, given, set(known), {"max_tokens": "did you mean 'token_limit'?"})


def _together(what: str, names: Sequence[str]) -> ConfigurationError:
    return ConfigurationError(
        f"{what} is given together with what it is made of: {', '.join(names)}. "
        "Fix: put them into the one, and leave the other out."
    )


# Arguments of `ChatMemoryBuffer` and `Memory`, in our words.


def compact_to_of(token_flush_size: int, token_limit: int) -> float:
    """Return how full a view is after a cut that takes out so many tokens at once, as `Memory` does.

    Raises:
        ConfigurationError: when that leaves nothing, or takes out nothing.
    """
    if not 0 < token_flush_size < token_limit:
        raise ConfigurationError(
            f"token_flush_size is {token_flush_size}. Fix: above 0, below the token_limit of "
            f"{token_limit}, or leave it out."
        )
    return 1.0 - token_flush_size / token_limit


def store_of(chat_store: ChatStore | str | None, database: dict[str, Any]) -> ChatStore:
    """Return the chat store, opened from the arguments of `Memory` where it is not given."""
    given = {name: value for name, value in database.items() if value is not None}
    if isinstance(chat_store, str):
        found = find_store({"name": chat_store})
        if found is None:
            raise ConfigurationError(
                f"chat_store: nobody registered {chat_store!r}. Fix: register_store({chat_store!r}"
                ", …) first."
            )
        return found
    if chat_store is None:
        return (
            SQLAlchemyChatStore(**{"table_name": _TABLE, **given}) if given else SimpleChatStore()
        )
    if given:
        raise ConfigurationError(
            f"chat_store is given together with {', '.join(given)}. Fix: leave one of them out."
        )
    return check_store(chat_store)


def key_of(chat_store_key: str, session_id: str | None, database: dict[str, Any]) -> str:
    """Return which conversation of the store.

    Like `Memory`, a database without a name for the conversation gets one of its own, so that no
    two people share one.
    """
    if session_id is None:
        if chat_store_key == DEFAULT_CHAT_STORE_KEY and any(database.values()):
            return str(uuid4())
        return chat_store_key
    if chat_store_key not in (DEFAULT_CHAT_STORE_KEY, session_id):
        raise ConfigurationError(
            "chat_store_key and session_id are both given, and differ. Fix: leave one of them out."
        )
    return session_id
