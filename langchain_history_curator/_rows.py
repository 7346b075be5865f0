"""Alias of `messages` for installations whose entry point still names this module."""

from __future__ import annotations

from langchain_history_curator.messages import DIALECT, FORMAT, dump, from_json, load, to_json

__all__ = ["DIALECT", "FORMAT", "dump", "from_json", "load", "to_json"]
