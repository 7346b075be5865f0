"""The closest known word for one that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint naming the closest known word, or all of them."""
    from difflib import get_close_matches

    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}."
