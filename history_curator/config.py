"""Every option of a curator, and the configurations that hold them, read from files.

`OPTIONS` declares each option once: default and check. `CuratorConfig` and `RetentionConfig` are
read from YAML, TOML, JSON or a mapping.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypedDict

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
)
from typing_extensions import Self

from history_curator.entries import recall_tool_name
from history_curator.errors import ConfigurationError, a_type

if TYPE_CHECKING:
    from history_curator.events import EventBus
    from history_curator.rules import ProviderProfile
    from history_curator.tokens import TokenCounter
    from history_curator.tokens.estimate import UsageAnchor

__all__ = ["OPTIONS", "CuratorConfig", "CuratorOptions", "RetentionConfig", "SharedOptions"]

MOST = 10**15
"""The largest whole number an option takes; a larger one is a typing error."""


def _declare(default: Any, wanted: str = "", **limits: Any) -> Any:
    return Field(default=default, description=wanted, **limits)


_COUNT = {"ge": 0, "le": MOST}
_WHOLE = f"a whole number, at least {{}}, at most {MOST:,}".format
_KEY = "something hashable, such as the id of the thread"
_TOOL = "True, False, or a name for the tool: letters, digits, _ and -, at most 64"
_SHARE = Annotated[float, Field(gt=0, le=0.9)]
_RETRIEVE = "'auto', True, False or a share of at most 0.9"


class CuratorFields(BaseModel):
    """The options of `Curator` that a text can hold, as fields of a pydantic model."""

    max_tokens: int | None = _declare(None, f"{_WHOLE(1)}, or None", ge=1, le=MOST)
    counter: Any = _declare("o200k_base")
    provider: Any = _declare("core")
    compact_to: float | None = _declare(None, "above 0, at most 1, or None", gt=0, le=1)
    recap: bool = _declare(True, "True or False")
    retrieve: bool | Literal["auto"] | _SHARE = _declare("auto", _RETRIEVE)
    cache_bytes: int = _declare(256 * 2**20, _WHOLE(0), **_COUNT)
    reasoning: Literal["strip", "keep"] | None = _declare(None, "'strip', 'keep' or None")
    recall_tool: bool | Annotated[str, AfterValidator(recall_tool_name)] = _declare(False, _TOOL)
    mode: Literal["enforce", "shadow"] = _declare("enforce", "'enforce' or 'shadow'")
    preserve_last_n: int | None = _declare(None, f"{_WHOLE(0)}, or None", **_COUNT)


class CallFields(BaseModel):
    """The options that no text can hold, and those of one call."""

    name: Any = _declare("history")
    calibration: Any = _declare(None)
    bus: Any = _declare(None)
    reserve: int = _declare(0, _WHOLE(0), **_COUNT)
    tail: Literal["request", "history"] | None = _declare(None, "'request', 'history' or None")
    idle: float | None = _declare(None, "a number of seconds, at least 0, or None", **_COUNT)
    key: Annotated[Any, AfterValidator(hash)] = _declare(None, _KEY)


OPTIONS: Mapping[str, Any] = {**CuratorFields.model_fields, **CallFields.model_fields}
"""The field of every option by name; `Curator` says what it means."""


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
        if name in OPTIONS and not _fits(name, value):
            problem = f"{called.get(name, name)} is {show_value(value)}"
            raise ConfigurationError(f"{problem}. Fix: {OPTIONS[name].description}.")


@cache
def _option_type(name: str) -> TypeAdapter[Any]:
    kind: Any = Annotated[OPTIONS[name].annotation, OPTIONS[name]]
    return TypeAdapter(kind)


def _fits(name: str, value: Any) -> bool:
    """Whether a value can work as it is: the text "8" is no number, and True is not 1."""
    try:
        _option_type(name).validate_python(value, strict=True)
    except (ValidationError, TypeError):  # of a key that has no hash
        return False
    return True


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
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}."


def show_value(value: Any) -> str:
    """Return a value for an error: shortened, and by its type where it has no short text."""
    if isinstance(value, int) and abs(value) > MOST:  # Python writes no number of 5,000 digits
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
        path, steps, message = prefix, problem["loc"], problem["msg"]
        field = model.model_fields.get(str(steps[0])) if steps else None
        if field is not None and field.description:  # one line for all types that it may have
            steps, message = steps[:1], f"should be {field.description}"
        for step in steps:
            path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
        where = rename(path) if path else model.__name__
        if problem["type"] == "extra_forbidden":
            hint = suggest_name(str(steps[-1]), model.model_fields)
            lines.append(f"{where}: unknown setting; {hint}")
        else:
            lines.append(f"{where}: {message} (got {show_value(problem['input'])})")
    head = f"{model.__name__} cannot be read" + (f" from {source}" if source else "")
    return ConfigurationError(f"{head}:\n  " + "\n  ".join(dict.fromkeys(lines)))


_TOML = "tomllib" if sys.version_info >= (3, 11) else "tomli"
_PARSERS = {".json": "json.loads", ".toml": f"{_TOML}.loads", ".yaml": "yaml.safe_load"}
_PARSERS[".yml"] = _PARSERS[".yaml"]
"""The function that reads the files of a suffix."""


def _parse_file(path: Path) -> Any:
    if path.suffix.lower() not in _PARSERS:
        problem = f"{path}: cannot tell the format from {path.suffix!r}"
        raise ConfigurationError(f"{problem}. Fix: name the file {', '.join(_PARSERS)}.")
    module, _, function = _PARSERS[path.suffix.lower()].partition(".")
    try:
        parse = getattr(importlib.import_module(module), function)
        return parse(path.read_text(encoding="utf-8"))
    except ImportError as error:
        fix = f"pip install {module.replace('yaml', 'pyyaml')}, or use JSON"
        raise ConfigurationError(f"{path}: needs {module}. Fix: {fix}.") from error
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
        found: Any = data
        path = ""
        for name in cls.block:
            if isinstance(found, Mapping) and name in found:
                found, path = found[name], f"{path}.{name}".lstrip(".")
        if not isinstance(found, Mapping | None):
            problem = f"expected a mapping of settings, got {type(found).__name__}"
            fix = f"use the fields {', '.join(cls.model_fields)}"
            raise ConfigurationError(f"{path or source or cls.__name__}: {problem}. Fix: {fix}.")
        try:
            return cls(**{str(key): value for key, value in (found or {}).items()})
        except ValidationError as error:
            raise explain_problems(error, cls, prefix=path, source=source) from error

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a YAML, TOML or JSON file."""
        return cls.from_dict(_parse_file(Path(path)), source=str(path))


class RetentionConfig(FileConfig):
    """How much of older turns is stored and shown: ``conversation.retention`` of a larger file.

    Attributes:
        preserve_turns: the latest turns kept verbatim, with full tool calls and results.
        max_loaded_messages: the most messages read from a store for one request; None for all.
        persist_tool_invocations: whether older tool details are stored whole (also ``true``), as
            ``{name, status}``, or not at all (also ``false``).
        prune_tools_for_llm: whether the model sees older turns as user and assistant text only.
        preserve_tools_for_latest_turns: whether the latest turns keep theirs, not only an open one.
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


class CuratorConfig(CuratorFields, FileConfig):
    """The managers and options of a `Curator`, from YAML, TOML, JSON or a mapping.

    A manager is ``passthrough`` alone or ``sliding_window: {window_size: 40}``. An option such as
    ``"@summarizer"`` stands for an object given to `Curator.from_config`. In a larger file the
    settings stand under ``curator``.

    Examples:
        >>> CuratorConfig.from_dict({"managers": ["passthrough"], "max_tokens": 8000}).managers
        ('passthrough',)
    """

    block = ("curator",)

    managers: tuple[Any, ...] = _declare((), "a list of managers")
    counter: str = Field(default=OPTIONS["counter"].default, min_length=1)
    provider: str = OPTIONS["provider"].default
    name: str = OPTIONS["name"].default

    @classmethod
    def load(cls, source: CuratorConfig | Mapping[str, Any] | str | Path) -> CuratorConfig:
        """Return a configuration from itself, a mapping, or the path of a file."""
        if isinstance(source, CuratorConfig):
            return source
        return cls.from_dict(source) if isinstance(source, Mapping) else cls.from_file(source)
