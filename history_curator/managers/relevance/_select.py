"""From scores to a selection: neighbours count, short texts are cheap, the budget is hard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from history_curator.managers.relevance._text import numpy

__all__ = ["BACKWARD", "FORWARD", "REPLY", "rank", "spread", "take"]

BACKWARD = (0.5, 0.3, 0.2, 0.15, 0.1)
"""How much a hit lends to the texts one, two … places before it."""

FORWARD = (0.5, 0.3, 0.2, 0.15, 0.1)
"""How much a hit lends to the texts one, two … places after it."""

REPLY = 0.7
"""How much a hit that ends in a question lends to the next text, which likely is the answer."""

DENSITY = 0.4
"""How much length weighs against a text: 0 not at all, 1 takes relevance per token."""

_LABEL_CHARS = 32


def spread(
    scores: Any,
    backward: Sequence[float] = BACKWARD,
    forward: Sequence[float] = FORWARD,
    reply: float | None = None,
    asks: Any = None,
) -> Any:
    """Return scores in which every text also has a share of its neighbours' scores.

    An answer often does not repeat the words of its question.

    Args:
        scores: one per text.
        backward: shares for the texts before a hit, the nearest first.
        forward: shares for the texts after it.
        reply: the share of the next text, where the hit asks something.
        asks: which texts ask something.

    Examples:
        >>> import numpy as np
        >>> spread(np.array([0.0, 4.0, 0.0, 0.0]), (0.5,), (0.5, 0.25)).tolist()
        [2.0, 4.0, 2.0, 1.0]
    """
    np = numpy()
    out = scores.copy()
    for distance, weight in enumerate(backward[: len(scores) - 1], 1):
        out[:-distance] += weight * scores[distance:]
    for distance, weight in enumerate(forward[: len(scores) - 1], 1):
        lent: Any = weight
        if distance == 1 and reply is not None and asks is not None:
            lent = np.where(asks[:-1], reply, weight)
        out[distance:] += lent * scores[:-distance]
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
    order: Iterable[int], cost: Callable[[int, set[int]], int], room: int, *, misses: int = 40
) -> list[int]:
    """Return the positions, best first, that fit `room` together.

    Stops after `misses` positions in a row that do not fit, so that a huge record is not
    tokenised to fill the last gap.

    Args:
        order: positions, best first.
        cost: what one more position adds to those already taken.
        room: for all of them.
        misses: how many in a row may be too large.
    """
    taken: list[int] = []
    chosen: set[int] = set()
    missed = 0
    for position in order:
        price = cost(position, chosen)
        if price <= room:
            taken.append(position)
            chosen.add(position)
            room -= price
            missed = 0
        else:
            missed += 1
            if missed >= misses:
                break
    return taken
