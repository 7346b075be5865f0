"""Policy as data: the retention rules and the whole pipeline from YAML, TOML or a dict."""

from __future__ import annotations

from history_curator.config._curator import CuratorConfig
from history_curator.config._manager import ManagerConfig
from history_curator.config._registry import manager_names, register_manager
from history_curator.config._retention import RetentionConfig

__all__ = [
    "CuratorConfig",
    "ManagerConfig",
    "RetentionConfig",
    "manager_names",
    "register_manager",
]
