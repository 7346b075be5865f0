"""Turns pydantic's errors into one `ConfigurationError` a person can act on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import get_args

from pydantic import BaseModel, ValidationError

from history_curator.errors import ConfigurationError
from history_curator.config._options import did_you_mean


def dotted(location: Iterable[int | str], prefix: str = "") -> str:
    """Write a path such as ``managers[2].max_tokens``."""
    path = prefix
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path


def _model_at(model: type[BaseModel], location: Iterable[int | str]) -> type[BaseModel]:
    """Return the settings that stand at a path within others, as far as they are known."""
    for step in location:
        field = model.model_fields.get(str(step))
        kinds = () if field is None else (field.annotation, *get_args(field.annotation))
        model = next(
            (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)),
            model,
        )
    return model


def configuration_error(
    error: ValidationError,
    model: type[BaseModel],
    *,
    prefix: str = "",
    source: str = "",
    name: Callable[[str], str] = str,
) -> ConfigurationError:
    """Return one error that lists every problem with its path, value and fix.

    Args:
        error: what pydantic found.
        model: the settings that could not be read.
        prefix: where they stand in a larger file.
        source: the file's name.
        name: how a path is called where the user wrote it, such as an environment variable.
    """
    lines = []
    for problem in error.errors(include_url=False):
        path = dotted(problem["loc"], prefix)
        where = name(path) if path else model.__name__
        if problem["type"] == "extra_forbidden":
            *outer, last = problem["loc"]
            hint = did_you_mean(str(last), _model_at(model, outer).model_fields)
            lines.append(f"{where}: unknown setting; {hint}")
            continue
        message = problem["msg"].removeprefix("Value error, ")
        given = problem["input"]
        shown = repr(given) if not isinstance(given, (dict, list)) else type(given).__name__
        lines.append(f"{where}: {message} (got {shown})")
    head = f"{model.__name__} cannot be read" + (f" from {source}" if source else "")
    return ConfigurationError(f"{head}:\n  " + "\n  ".join(lines))
