"""`RetentionConfig`: what a store keeps of older turns, and what the model sees of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from history_curator.errors import ConfigurationError
from history_curator.config._problems import configuration_error
from history_curator.config._text import dump_yaml, load_mapping

ToolPersistence = Literal["full", "trimmed", "none"]

BLOCK = ("conversation", "retention")
"""Where the settings live in a larger file."""


class RetentionConfig(BaseModel):
    """How much of older turns is stored and replayed.

    A turn is a user entry and everything up to the next user entry. The latest `preserve_turns`
    turns keep everything; older ones keep what was said, and of their tool details what
    `persist_tool_invocations` allows. Nothing is ever summarised. Frozen; unknown fields are
    refused.

    Examples:
        >>> config = RetentionConfig.from_dict(
        ...     {"conversation": {"retention": {"persist_tool_invocations": False}}}
        ... )
        >>> config.persist_tool_invocations, config.preserve_turns
        ('none', 2)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    preserve_turns: int = Field(default=2, ge=0)
    """The latest turns kept verbatim, with full tool calls and results."""

    max_loaded_messages: int | None = Field(default=None, ge=1)
    """The most messages read from a store for one request; None reads them all."""

    persist_tool_invocations: ToolPersistence = "full"
    """What is stored of older turns' tool details: everything, ``{name, status}``, or nothing.
    ``true`` means ``full``; ``false`` and ``null`` mean ``none``."""

    prune_tools_for_llm: bool = True
    """Whether the model sees older turns as user and assistant text only."""

    preserve_tools_for_latest_turns: bool = True
    """Whether the latest turns keep their tool details. When false only a turn that is still
    being answered does."""

    @field_validator("persist_tool_invocations", mode="before")
    @classmethod
    def _accept_switches(cls, value: Any) -> Any:
        if value is None or value is False:
            return "none"
        if value is True:
            return "full"
        return value.strip().lower() if isinstance(value, str) else value

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RetentionConfig:
        """Read the fields, either alone or under ``conversation.retention``.

        Raises:
            ConfigurationError: naming every field that is wrong.
        """
        block: Any = data
        path: list[str] = []
        for name in BLOCK:
            if isinstance(block, Mapping) and name in block:
                block = block[name]
                path.append(name)
        if block is None:
            block = {}
        if not isinstance(block, Mapping):
            raise ConfigurationError(
                f"{'.'.join(path)}: expected a mapping of settings, got {type(block).__name__}. "
                f"Fix: use the fields {', '.join(cls.model_fields)}."
            )
        try:
            return cls(**{str(key): value for key, value in block.items()})
        except ValidationError as error:
            raise configuration_error(error, cls, prefix=".".join(path)) from error

    @classmethod
    def from_file(cls, path: str | Path) -> RetentionConfig:
        """Read a YAML, TOML or JSON file, such as one with a ``conversation.retention`` block."""
        return cls.from_dict(load_mapping(path))

    @classmethod
    def from_yaml(cls, text: str) -> RetentionConfig:
        """Read YAML text."""
        return cls.from_dict(load_mapping(text, kind="yaml"))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return self.model_dump()

    def to_yaml(self) -> str:
        """Return the ``conversation.retention`` block as YAML text."""
        return dump_yaml({BLOCK[0]: {BLOCK[1]: self.to_dict()}})
