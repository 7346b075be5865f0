"""Every option declared once, and policy as data: a pipeline from YAML, TOML or a dict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from history_curator._lazy import lazily
from history_curator.config._options import (
    OPTIONS,
    CuratorOptions,
    Option,
    SharedOptions,
    ViewOptions,
    check_names,
    check_options,
)

if TYPE_CHECKING:
    from history_curator.config._curator import CuratorConfig
    from history_curator.config._manager import ManagerConfig, manager_names, register_manager
    from history_curator.config._retention import RetentionConfig

__all__ = [
    "OPTIONS",
    "CuratorConfig",
    "CuratorOptions",
    "ManagerConfig",
    "Option",
    "RetentionConfig",
    "SharedOptions",
    "ViewOptions",
    "check_names",
    "check_options",
    "manager_names",
    "register_manager",
]

# Imported on first use: the options are for everybody, configurations need pydantic.
_HOMES = {
    "CuratorConfig": "_curator",
    "ManagerConfig": "_manager",
    "RetentionConfig": "_retention",
    "manager_names": "_manager",
    "register_manager": "_manager",
}

__getattr__ = lazily(__name__, _HOMES)
