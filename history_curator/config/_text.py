"""Reads mappings from YAML, TOML and JSON, and writes YAML and TOML; parsers are imported late."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from history_curator.errors import ConfigurationError

Kind = Literal["yaml", "toml", "json"]

_SUFFIXES: dict[str, Kind] = {
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".json": "json",
}


_PARSERS: dict[Kind, tuple[str, str, str, str]] = {
    "json": ("json", "loads", "JSONDecodeError", ""),
    "toml": (
        "tomllib" if sys.version_info >= (3, 11) else "tomli",
        "loads",
        "TOMLDecodeError",
        "TOML on Python 3.10 needs tomli. Fix: pip install tomli, or use a YAML or JSON file.",
    ),
    "yaml": (
        "yaml",
        "safe_load",
        "YAMLError",
        "YAML needs PyYAML. Fix: pip install pyyaml, or use a TOML or JSON file.",
    ),
}
"""Who reads a format: the module, its function and its error, and what to say where it is absent."""


def load_mapping(source: str | Path, *, kind: Kind | None = None) -> dict[str, Any]:
    """Return the mapping in a file, or in a text when `kind` says what the text is.

    Raises:
        ConfigurationError: the file is absent, of an unknown kind, malformed, or not a mapping.
    """
    where = f"the {kind} text"
    if kind is None:
        path = Path(source)
        where = str(path)
        found = _SUFFIXES.get(path.suffix.lower())
        if found is None:
            raise ConfigurationError(
                f"{path}: cannot tell the format from {path.suffix!r}. "
                f"Fix: name the file {', '.join(_SUFFIXES)}."
            )
        kind = found
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path}: cannot be read: {error}") from error
    else:
        text = str(source)
    data = _parse(text, kind, where)
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise ConfigurationError(
            f"{where}: expected a mapping at the top, got {type(data).__name__}. "
            "Fix: write `name: value` lines."
        )
    return {str(key): value for key, value in data.items()}


def dump_yaml(data: Mapping[str, Any]) -> str:
    """Return YAML text with the fields in their given order."""
    yaml = _module("yaml")
    try:
        text: str = yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True)
    except yaml.YAMLError as error:
        raise ConfigurationError(
            f"YAML cannot hold these settings: {error}. "
            "Fix: give objects to build() and write '@name' in their place."
        ) from error
    return text


def dump_toml(data: Mapping[str, Any]) -> str:
    """Return TOML text, one line per field. What is None is left out: TOML has no null."""
    lines = [f"{key} = {_toml_value(value)}" for key, value in data.items() if value is not None]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = (
            f"{json.dumps(str(key))} = {_toml_value(item)}"
            for key, item in value.items()
            if item is not None
        )
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, (bool, int, float, str)):
        # A JSON scalar is a TOML one, but for the one control character JSON lets through.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    raise ConfigurationError(
        f"TOML cannot hold {type(value).__name__}. "
        "Fix: give objects to build() and write '@name' in their place."
    )


def _parse(text: str, kind: Kind, where: str) -> Any:
    module, (_, load, refused, _) = _module(kind), _PARSERS[kind]
    try:
        return getattr(module, load)(text)
    except getattr(module, refused) as error:
        raise ConfigurationError(f"{where}: not valid {kind.upper()}: {error}") from error


def _module(kind: Kind) -> Any:
    name, _, _, missing = _PARSERS[kind]
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigurationError(missing) from error
