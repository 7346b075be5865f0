"""From scores to a selection: neighbours count, short texts are cheap, the budget is hard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from history_curator.relevance._text import numpy

__all__ = ["NEIGHBOURS", "rank", "spread", "take"]

NEIGHBOURS = (0.5, 0.3, 0.2)
"""How much a hit lends to the texts one, two and three places away from it."""

DENSITY = 0.4
"""How much length weighs against a text: 0 not at all, 1 takes relevance per token."""

_LABEL_CHARS = 32


def spread(scores: Any, weights: Sequence[float] = NEIGHBOURS) -> Any:
    """Return scores in which every text also has a share of its neighbours' scores.

    An answer often does not repeat the words of its question.

    Example:
        >>> import numpy as np
        >>> spread(np.array([0.0, 4.0, 0.0, 0.0]), (0.5, 0.25)).tolist()
        [2.0, 4.0, 2.0, 1.0]
    """
    out = scores.copy()
    for distance, weight in enumerate(weights, 1):
        if distance >= len(scores):
            break
        out[distance:] += weight * scores[:-distance]
        out[:-distance] += weight * scores[distance:]
    return out


def rank(scores: Any, sizes: Any, density: float = DENSITY) -> Any:
    """Return positions, best first: relevance against length, so that the budget holds more.

    Args:
        scores: one per text.
        sizes: characters of each text.
        density: see `DENSITY`.
    """
    np = numpy()
    return np.argsort(-scores / (sizes + _LABEL_CHARS) ** density, kind="stable")


def take(
    order: Iterable[int], cost: Callable[[int], int], room: int, *, misses: int = 40
) -> tuple[list[int], int]:
    """Return the positions, best first, whose costs fit `room`, in their natural order.

    Stops after `misses` positions in a row that do not fit, so that a huge record is not
    tokenised to fill the last gap.

    Returns:
        The positions taken, ascending, and the room left.
    """
    taken: list[int] = []
    missed = 0
    for position in order:
        price = cost(position)
        if price <= room:
            taken.append(position)
            room -= price
            missed = 0
        else:
            missed += 1
            if missed >= misses:
                break
    return sorted(taken), room
