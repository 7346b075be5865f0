"""The rules of each provider; they live in `history_curator.rules`."""

from __future__ import annotations

from history_curator.rules import PROVIDERS, ProviderProfile, Tail, get_profile

__all__ = ["PROVIDERS", "ProviderProfile", "Tail", "get_profile"]
