"""Every option of a curator, and the configurations that hold them, read from files.

`OPTIONS` declares each option once: default and check. `CuratorConfig` and `RetentionConfig` are
read from YAML, TOML, JSON or a mapping.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypedDict

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from typing_extensions import Self

from history_curator.entries import recall_tool_name
from history_curator.errors import ConfigurationError, a_type

if TYPE_CHECKING:
    from history_curator.events import EventBus
    from history_curator.rules import ProviderProfile
    from history_curator.tokens import TokenCounter
    from history_curator.tokens.estimate import UsageAnchor

__all__ = [
    "OPTIONS", "CuratorConfig", "CuratorOptions", "Option", "RetentionConfig", "SharedOptions",
]  # fmt: skip

MOST = 10**15
"""The largest whole number an option takes; a larger one is a typing error."""


class Option(NamedTuple):
    """The default of an option, whether a value fits, and what it should be, in words."""

    default: Any
    wanted: str = ""
    fits: Callable[[Any], bool] = lambda _: True


def _whole_number(default: int | None, least: int) -> Option:
    wanted = f"a whole number, at least {least}, at most {MOST:,}"

    def fits(value: Any) -> bool:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return (value is None and default is None) or (is_whole and least <= value <= MOST)

    return Option(default, wanted if default is not None else f"{wanted}, or None", fits)


def _number(wanted: str, least: float, most: float) -> Option:
    def fits(value: Any) -> bool:
        return value is None or (isinstance(value, (int, float)) and least <= value <= most)

    return Option(None, f"{wanted}, or None", fits)


def _one_of(default: object, *words: object) -> Option:
    def fits(value: Any) -> bool:
        return any(value is word or (isinstance(value, str) and value == word) for word in words)

    return Option(default, " or ".join(", ".join(map(repr, words)).rsplit(", ", 1)), fits)


def _fits_retrieve(value: Any) -> bool:
    is_share = isinstance(value, float) and 0.0 < value <= 0.9
    return is_share or isinstance(value, bool) or (isinstance(value, str) and value == "auto")


def _has_hash(value: Any) -> bool:
    try:
        return hash(value) is not None
    except TypeError:
        return False


def _fits_tool(value: Any) -> bool:
    # For a name that no provider takes this raises an error of its own.
    return isinstance(value, (bool, str)) and bool(recall_tool_name(value))


OPTIONS: Mapping[str, Option] = {
    "max_tokens": _whole_number(None, 1),
    "name": Option("history"),
    "counter": Option("o200k_base"),
    "provider": Option("core"),
    "compact_to": _number("above 0, at most 1", 1e-9, 1.0),
    "recap": _one_of(True, True, False),
    "retrieve": Option(False, "'auto', True, False or a share of at most 0.9", _fits_retrieve),
    "calibration": Option(None),
    "cache_bytes": _whole_number(256 * 2**20, 0),
    "reasoning": _one_of(None, "strip", "keep", None),
    "recall_tool": Option(False, "True, False, or a name for the tool", _fits_tool),
    "mode": _one_of("enforce", "enforce", "shadow"),
    "bus": Option(None),
    "preserve_last_n": _whole_number(None, 0),
    "reserve": _whole_number(0, 0),
    "tail": _one_of(None, "request", "history", None),
    "idle": _number("a number of seconds, at least 0", 0, MOST),
    "key": Option(None, "something hashable, such as the id of the thread", _has_hash),
}
"""Every option by name; `Curator` says what it means."""


class SharedOptions(TypedDict, total=False):
    """The options that every integration takes and hands to its curator unchanged."""

    counter: str | TokenCounter | Callable[..., Any]
    provider: str | ProviderProfile
    compact_to: float | None
    recap: bool
    retrieve: bool | float | Literal["auto"]
    calibration: UsageAnchor | bool | None
    cache_bytes: int
    reasoning: Literal["strip", "keep"] | None
    recall_tool: bool | str
    mode: Literal["enforce", "shadow"]
    bus: EventBus | None
    preserve_last_n: int | None


class CuratorOptions(SharedOptions, total=False):
    """The options that `Curator` takes by name."""

    max_tokens: int | None
    name: str


def check_options(given: Mapping[str, Any], **called: str) -> None:
    """Raise a `ConfigurationError` for values that cannot work; other names are ignored.

    `called` gives the caller's own names of options, by their names here.
    """
    for name, value in given.items():
        if name in OPTIONS and not OPTIONS[name].fits(value):
            problem = f"{called.get(name, name)} is {show_value(value)}"
            raise ConfigurationError(f"{problem}. Fix: {OPTIONS[name].wanted}.")


def check_names(
    owner: str, given: Iterable[str], known: Collection[str], fixes: Mapping[str, str] | None = None
) -> None:
    """Refuse unknown argument names; `fixes` says what to use for names of other libraries."""
    for name in given:
        if name not in known:
            fix = (fixes or {}).get(name) or suggest_name(name, known)
            raise ConfigurationError(f"{owner}: unknown argument {name!r}. Fix: {fix}")


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the closest known word, or all of them."""
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


def explain_problems(
    error: ValidationError,
    model: type[BaseModel],
    *,
    prefix: str = "",
    source: str = "",
    rename: Callable[[str], str] = str,
) -> ConfigurationError:
    """Return one error that lists every problem pydantic found, with its path, value and fix.

    `rename` returns a path as the user wrote it, such as an environment variable.
    """
    lines = []
    for problem in error.errors(include_url=False):
        path = prefix
        for step in problem["loc"]:
            path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
        where = rename(path) if path else model.__name__
        if problem["type"] == "extra_forbidden":
            known = (RetentionConfig if len(problem["loc"]) > 1 else model).model_fields
            lines.append(
                f"{where}: unknown setting; {suggest_name(str(problem['loc'][-1]), known)}"
            )
        else:
            message = problem["msg"].removeprefix("Value error, ")
            lines.append(f"{where}: {message} (got {show_value(problem['input'])})")
    head = f"{model.__name__} cannot be read" + (f" from {source}" if source else "")
    return ConfigurationError(f"{head}:\n  " + "\n  ".join(lines))


_TOML = "tomllib" if sys.version_info >= (3, 11) else "tomli"
_PARSERS = {
    ".json": ("json", "loads", ""), ".toml": (_TOML, "loads", "tomli"),
    ".yaml": ("yaml", "safe_load", "pyyaml"), ".yml": ("yaml", "safe_load", "pyyaml"),
}  # fmt: skip
"""For a file's suffix, the module that reads it, its function, and the distribution it is in."""


def _parse_file(path: Path) -> Any:
    if path.suffix.lower() not in _PARSERS:
        problem = f"{path}: cannot tell the format from {path.suffix!r}"
        raise ConfigurationError(f"{problem}. Fix: name the file {', '.join(_PARSERS)}.")
    module, function, distribution = _PARSERS[path.suffix.lower()]
    try:
        text = path.read_text(encoding="utf-8")
        parse = getattr(importlib.import_module(module), function)
        with ThreadPoolExecutor(1) as pool:  # the caller may be deep in its stack
            return pool.submit(parse, text).result()
    except ImportError as error:
        fix = f"pip install {distribution}, or use JSON"
        raise ConfigurationError(f"{path}: needs {distribution}. Fix: {fix}.") from error
    except Exception as error:  # parsers raise many kinds: nested too deep, a date, a number
        problem = "cannot be read" if isinstance(error, OSError) else f"not valid {module.upper()}"
        raise ConfigurationError(f"{path}: {problem}: {error}") from error


class FileConfig(BaseModel):
    """A frozen configuration, read from a mapping or a file, or from its `block` of a larger one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    block: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, source: str = "") -> Self:
        """Read the fields, or raise an error that lists every problem with its path and fix."""
        found, path = cls._find_block(data)
        if not isinstance(found, Mapping | None):
            problem = f"expected a mapping of settings, got {type(found).__name__}"
            fix = f"use the fields {', '.join(cls.model_fields)}"
            raise ConfigurationError(f"{path or source or cls.__name__}: {problem}. Fix: {fix}.")
        try:
            return cls(**{str(key): value for key, value in (found or {}).items()})
        except ValidationError as error:
            raise explain_problems(error, cls, prefix=path, source=source) from error

    @classmethod
    def _find_block(cls, data: Any) -> tuple[Any, str]:
        """Return the fields and their path in the data."""
        path = ""
        for name in cls.block:
            if isinstance(data, Mapping) and name in data:
                data, path = data[name], f"{path}.{name}".lstrip(".")
        return data, path

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a YAML, TOML or JSON file."""
        return cls.from_dict(_parse_file(Path(path)), source=str(path))


class RetentionConfig(FileConfig):
    """How much of older turns is stored and replayed.

    Read alone or from the block ``conversation.retention`` of a larger file.

    Attributes:
        preserve_turns: the latest turns kept verbatim, with full tool calls and results.
        max_loaded_messages: the most messages read from a store for one request; None for all.
        persist_tool_invocations: how much of older turns' tool details is stored: everything,
            ``{name, status}``, or nothing (also ``true`` and ``false``).
        prune_tools_for_llm: whether the model sees older turns as user and assistant text only.
        preserve_tools_for_latest_turns: whether the latest turns keep theirs; else only a turn that
            is still being answered does.
    """

    block = ("conversation", "retention")

    preserve_turns: int = Field(default=2, ge=0)
    max_loaded_messages: int | None = Field(default=None, ge=1)
    persist_tool_invocations: Literal["full", "trimmed", "none"] = "full"
    prune_tools_for_llm: bool = True
    preserve_tools_for_latest_turns: bool = True

    @field_validator("persist_tool_invocations", mode="before")
    @classmethod
    def _read_switch(cls, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return "full" if value else "none"
        return value.strip().lower() if isinstance(value, str) else value


def declare_field(name: str, **more: Any) -> Any:
    """Return the pydantic field of an option, with its declared default."""
    return Field(default=OPTIONS[name].default, **more)


class CuratorFields(BaseModel):
    """The options of `Curator` that a text can hold, as fields of a pydantic model."""

    max_tokens: int | None = declare_field("max_tokens")
    counter: Any = declare_field("counter")
    provider: Any = declare_field("provider")
    compact_to: float | None = declare_field("compact_to")
    recap: bool = declare_field("recap")
    retrieve: bool | float | Literal["auto"] = declare_field("retrieve")
    cache_bytes: int = declare_field("cache_bytes")
    reasoning: Literal["strip", "keep"] | None = declare_field("reasoning")
    recall_tool: bool | str = declare_field("recall_tool")
    mode: Literal["enforce", "shadow"] = declare_field("mode")
    preserve_last_n: int | None = declare_field("preserve_last_n")

    @field_validator("*", mode="after")
    @classmethod
    def _check_declared(cls, value: Any, info: ValidationInfo) -> Any:
        name = info.field_name or ""
        if name in CuratorFields.model_fields and not OPTIONS[name].fits(value):
            raise ValueError(f"should be {OPTIONS[name].wanted}")
        return value


class CuratorConfig(CuratorFields, FileConfig):
    """The managers and options of a `Curator`, from YAML, TOML, JSON or a mapping.

    `Curator.from_config` builds the curator. A manager is ``passthrough`` alone, ``sliding_window:
    {window_size: 40}``, or ``{name: sliding_window, window_size: 40}``. An option such as
    ``"@summarizer"`` stands for an object given to `Curator.from_config`. In a larger file the
    settings stand under ``curator``, the retention under ``conversation``.

    Examples:
        >>> CuratorConfig.from_dict({"managers": ["passthrough"], "max_tokens": 8000}).managers
        ('passthrough',)
    """

    block = ("curator",)

    managers: tuple[Any, ...] = ()
    counter: str = declare_field("counter", min_length=1)
    provider: str = declare_field("provider")
    name: str = declare_field("name")
    retention: RetentionConfig | None = None

    @field_validator("managers", mode="before")
    @classmethod
    def _read_one_manager(cls, value: Any) -> Any:
        if value is None:
            return ()
        return (value,) if isinstance(value, (str, Mapping)) else value

    @classmethod
    def load(cls, source: CuratorConfig | Mapping[str, Any] | str | Path) -> CuratorConfig:
        """Return a configuration from itself, a mapping, or the path of a file."""
        if isinstance(source, CuratorConfig):
            return source
        return cls.from_dict(source) if isinstance(source, Mapping) else cls.from_file(source)

    @classmethod
    def _find_block(cls, data: Any) -> tuple[Any, str]:
        found, path = super()._find_block(data)
        if not isinstance(found, Mapping):
            return found, path
        settings = {str(key): value for key, value in found.items() if key != "conversation"}
        conversation = data.get("conversation")
        if isinstance(conversation, Mapping) and "retention" in conversation:
            settings.setdefault("retention", conversation["retention"])
        return settings, path
