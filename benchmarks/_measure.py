"""CPU time, interleaved: what is compared is measured in turns, side by side."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any

PATIENCE = 30.0
"""What takes more CPU seconds than this once is not measured again."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Somebody's way to do the work.

    Attributes:
        name: short, for the table.
        call: the call that is measured, as its user would write it.
        measure: does the work once and returns its CPU seconds.
        sampled: how the work was sampled and scaled, if it was.
        route: the adapter to compare with besides the core: langchain or llamaindex.
    """

    name: str
    call: str
    measure: Callable[[], float]
    sampled: str = ""
    route: str = ""


def cpu(call: Callable[[], Any]) -> float:
    """CPU seconds of one call, of all threads."""
    gc.collect()
    start = process_time()
    call()
    return process_time() - start


def cpu_each(call: Callable[[], Any], at_least: float = 0.05) -> float:
    """Mean CPU seconds of a call that is too short to be measured once."""
    call()
    gc.collect()
    start, calls, spent = process_time(), 0, 0.0
    while spent < at_least:
        call()
        calls += 1
        spent = process_time() - start
    return spent / calls


class Race:
    """The CPU times of several contenders, measured in turns.

    The first one is measured before and after each of the others, so that both are compared in
    the same moment: a machine is not equally fast all the time.
    """

    def __init__(self, contenders: Sequence[Contender], rounds: int) -> None:
        self.contenders = list(contenders)
        self.times: dict[str, list[float]] = {one.name: [] for one in contenders}
        self._ratios: dict[str, list[float]] = {one.name: [] for one in contenders}
        ours, others = self.contenders[0], self.contenders[1:]
        self._ratios[ours.name].append(1.0)
        impatient: set[str] = set()
        gc.collect()
        gc.freeze()  # what the set-up made is nobody's garbage
        for turn in range(rounds):
            before = self._run(ours, turn)
            for one in others:
                if one.name in impatient:
                    continue
                start = process_time()
                found = self._run(one, turn)
                if process_time() - start > PATIENCE:
                    impatient.add(one.name)
                after = self._run(ours, turn)
                self._ratios[one.name].append(2 * found / (before + after))
                before = after
        gc.unfreeze()

    def _run(self, one: Contender, turn: int) -> float:
        found = one.measure()
        self.times[one.name].append(found)
        note(f"  {one.name}, turn {turn + 1}: {found * 1e3:,.3g} ms CPU")
        return found

    def ratio(self, peer: str, ours: str) -> float:
        """How many times our time the peer took: the median over the turns."""
        return median(self._ratios[peer]) / median(self._ratios[ours])

    def seconds(self, name: str) -> float:
        """The median time of one contender."""
        return median(self.times[name])


def note(text: str) -> None:
    """Say what is going on, on stderr."""
    print(text, file=sys.stderr, flush=True)
