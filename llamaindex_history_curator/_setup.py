"""From the arguments of a socket to its curator, and a clear no to arguments nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from history_curator.curator import Curator
from history_curator.errors import ConfigurationError
from history_curator.settings import CuratorConfig, check_names
from history_curator.sockets import Asked, rules_for
from llamaindex_history_curator._budget import budget_for_llm, counter_for_llm

if TYPE_CHECKING:
    from llama_index.core.llms import LLM

    from history_curator.managers._protocol import HistoryManager
    from history_curator.rules import ProviderProfile, ReasoningMode

__all__ = ["check_alone", "check_keywords", "load_curator", "make_curator"]


def make_curator(
    managers: Sequence[HistoryManager] | HistoryManager | None = (),
    *,
    llm: LLM | None = None,
    token_limit: int | None = None,
    provider: Any = "auto",
    counter: Any = None,
    config: CuratorConfig | Mapping[str, Any] | str | Path | None = None,
    objects: Mapping[str, Any] | None = None,
    **options: Any,
) -> Curator:
    """Return a curator whose budget, counter and provider fit an LLM, where not given."""
    if config is not None:
        fitting = {"token_limit": token_limit, "provider": provider, "counter": counter}
        return load_curator(config, objects, managers=managers, llm=llm, **fitting, **options)[0]
    if objects:
        raise ConfigurationError(
            "objects: they stand for the '@name' options of a config, and no config is given. "
            "Fix: pass config= as well, or leave objects out."
        )
    if token_limit is None and llm is not None:
        token_limit = budget_for_llm(llm)
    return Curator(
        *_as_sequence(managers),
        max_tokens=token_limit,
        counter=counter_for_llm(llm) if counter is None else counter,
        provider=_rules(provider, llm, options.get("reasoning")),
        **options,
    )


def load_curator(
    config: CuratorConfig | Mapping[str, Any] | str | Path,
    objects: Mapping[str, Any] | None = None,
    *,
    managers: Any = (),
    llm: LLM | None = None,
    token_limit: int | None = None,
    provider: Any = "auto",
    counter: Any = None,
    **options: Any,
) -> tuple[Curator, CuratorConfig]:
    """Return the curator of a config, and the config with what was given in its place.

    What is given wins over the config, and the config over what fits the LLM.

    Raises:
        ConfigurationError: when managers are given as well.
    """
    if managers:
        raise _together("a config", ["managers"])
    loaded = CuratorConfig.load(config)
    settled = loaded.model_fields_set
    if token_limit is None:
        token_limit = loaded.max_tokens
    if token_limit is None and llm is not None:
        token_limit = budget_for_llm(llm)
    if provider == "auto" and "provider" in settled:
        provider = loaded.provider
    if counter is None:
        counter = loaded.counter if "counter" in settled else counter_for_llm(llm)
    overrides = {
        **options,
        "max_tokens": token_limit,
        "counter": counter,
        "provider": _provider(provider, llm),
    }
    reasoning = options.get("reasoning", loaded.reasoning)
    rules = _rules(provider, llm, reasoning)
    plain = {
        name: value
        for name, value in overrides.items()
        if name in CuratorConfig.model_fields and isinstance(value, (str, int, float, type(None)))
    }
    curator = Curator.from_config(loaded, objects=objects, **{**overrides, "provider": rules})
    return curator, loaded.model_copy(update=plain)


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
        ConfigurationError: naming the closest known one.
    """
    check_names(owner, given, set(known), {"max_tokens": "did you mean 'token_limit'?"})


def _together(what: str, names: Sequence[str]) -> ConfigurationError:
    return ConfigurationError(
        f"{what} is given together with what it is made of: {', '.join(names)}. "
        "Fix: put them into the one, and leave the other out."
    )


def _as_sequence(managers: Any) -> Sequence[HistoryManager]:
    if managers is None:
        return ()
    return managers if isinstance(managers, Sequence) else (managers,)


def _rules(provider: Any, llm: LLM | None, reasoning: ReasoningMode | None) -> ProviderProfile:
    """The rules for an LLM; its client moves system messages to the front."""
    asked = Asked() if llm is None else Asked((llm.metadata.model_name or None,))
    return rules_for(_provider(provider, llm), asked, reasoning)


def _provider(provider: Any, llm: LLM | None) -> Any:
    if provider != "auto":
        return provider
    if llm is None:
        return "core"
    from history_curator.dialects import provider_for

    found = provider_for(llm.class_name())
    return found if found != "core" else provider_for(llm.metadata.model_name)
