"""What was learned from the usage that providers report, for all conversations of a curator.

How one conversation is followed is `_meter`; here are the models, shared by all of them, and what
is saved and loaded.
"""

from __future__ import annotations

import json
import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from history_curator.entries import write_private
from history_curator.errors import ConfigurationError
from history_curator.tokens._families import find_family
from history_curator.tokens._meter import Learned, Meter
from history_curator.tokens.base import TokenCounter
from history_curator.tokens._reports import Reports
from history_curator.tokens.usage import Usage, read_usage

__all__ = ["Calibration", "Prediction"]

_UNKNOWN = 1.3
"""Where a model of no known family starts."""
_EXACT_DOUBT = 0.1
"""How far the first prompt may be from our count, where the encoding is the model's own."""
_CONVERSATIONS = 4_096
"""Conversations that are remembered."""
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a provider will count for a view.

    Attributes:
        tokens: the most likely count.
        error: in 99 of 100 calls the real count is no more than this above `tokens`.
    """

    tokens: int
    error: int

    @property
    def bound(self) -> int:
        """The count that is not exceeded in 99 of 100 calls."""
        return self.tokens + self.error


class Calibration:
    """How a provider's token counts relate to ours, learned from the usage it reports.

    One ratio is learned for each model, from how much its prompts grow; it starts where the
    model's family is known to be, and stays within 0.5 and 2.5 times that. Each conversation is
    anchored on its last reported prompt. The same observations in the same order give the same
    predictions. Safe to share between threads, and between curators that use the same counter.

    Args:
        counter: who counts the tokens given as `counted`; an encoding, a model or a counter. The
            ratio is relative to its counts, so a counter that already multiplies with the
            family's factor starts at 1. By default plain ``o200k_base``.

    Examples:
        >>> calibration = Calibration()
        >>> calibration.factor("claude-sonnet-4-5")
        1.25
        >>> for tokens in (10_000, 12_000, 14_000, 16_000):
        ...     calibration.observe("claude-sonnet-4-5", tokens, {"input_tokens": tokens + 5_000})
        >>> calibration.factor("claude-sonnet-4-5") < 1.15
        True
        >>> calibration.predict("claude-sonnet-4-5", 16_100).tokens
        21105
    """

    def __init__(self, counter: str | TokenCounter | None = None) -> None:
        from history_curator.tokens import get_counter

        resolved = get_counter(counter)
        self.counter = resolved.name
        self._applied = float(getattr(resolved, "factor", 1.0))
        self._models: dict[str, Learned] = {}
        self._loaded: dict[str, Learned] = {}
        self._last: OrderedDict[Hashable, tuple[str, Meter]] = OrderedDict()
        self._lock = threading.Lock()
        self.reports = Reports()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {key: value for key, value in self.__dict__.items() if key != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def factor(self, model: str) -> float:
        """Return what our counts are multiplied with for a model, to two digits."""
        with self._lock:
            return round(self._find(model).ratio, 2)

    def learned(self, model: str) -> int:
        """Return from how many calls the factor of a model was learned."""
        with self._lock:
            known = self._models.get(model)
            return known.calls if known else 0

    def known(self, model: str | None = None) -> Learned:
        """Return what was known about a model when this calibration was made or loaded.

        What is learned meanwhile is not in it, so that a view does not depend on what other
        conversations were told in between. A copy, to be learned further. Without a model: what
        most is known about.
        """
        loaded = self._loaded.get(self.counter if model is None else model)
        if loaded is None and model is None and self._loaded:
            loaded = max(self._loaded.values(), key=attrgetter("calls"))
        return self._new(model) if loaded is None else loaded.copy()

    def predict(self, model: str, counted: int, *, key: Hashable = None) -> Prediction:
        """Return what the provider will count for a view.

        Args:
            model: who is asked.
            counted: tokens of the view as we count them, tools included.
            key: names the conversation, as in `observe`.
        """
        with self._lock:
            meter = self._meter(model, key)
            return Prediction(round(meter.tokens(counted)), math.ceil(meter.error(counted)))

    def bound(self, model: str, counted: int, *, key: Hashable = None) -> int:
        """Return the count that is not exceeded in 99 of 100 calls: tokens plus error."""
        return self.predict(model, counted, key=key).bound

    def room(self, model: str, limit: int, *, key: Hashable = None) -> int:
        """Return a `counted` whose `bound` is within a limit: the largest, but for some tokens.

        Examples:
            >>> calibration = Calibration()
            >>> room = calibration.room("claude-sonnet-4-5", 32_000)
            >>> calibration.bound("claude-sonnet-4-5", room) <= 32_000
            True
        """
        with self._lock:
            return self._meter(model, key).room(limit)

    def observe(self, model: str, counted: int, usage: Any, *, key: Hashable = None) -> None:
        """Learn from what was reported for a view.

        Args:
            model: who answered.
            counted: tokens of the view that was sent, as we count them, tools included.
            usage: what was reported, in any form `read_usage` takes. Nothing is learned from
                None, nor from a report that can only be part of the prompt.
            key: names the conversation, any hashable value. Conversations that are not named
                are taken for one.
        """
        given = usage if isinstance(usage, Usage) else read_usage(usage)
        if given is None:
            return
        with self._lock:
            last, meter = self._last.get(key, (None, None))
            if meter is None or last != model:
                meter = Meter(self._find(model))
            if not meter.observe(counted, given.input):
                return
            self._models[model] = meter.learned
            self._last[key] = (model, meter)
            self._last.move_to_end(key)
            while len(self._last) > _CONVERSATIONS:
                self._last.popitem(last=False)

    def _find(self, model: str) -> Learned:
        known = self._models.get(model)
        return self._new(model) if known is None else known

    def _new(self, model: str | None) -> Learned:
        if model is None or model == self.counter:  # a counter of a family counts as it does
            return Learned.at(1.0 if ":" in self.counter else _UNKNOWN / self._applied)
        family = find_family(model)
        if family is None:
            return Learned.at(_UNKNOWN / self._applied)
        exact = family.factor == 1.0
        return Learned.at(family.factor / self._applied, *([_EXACT_DOUBT] if exact else []))

    def _meter(self, model: str, key: Hashable) -> Meter:
        """What a conversation is measured with, when a model is asked."""
        known = self._find(model)
        last, meter = self._last.get(key, (None, None))
        if meter is None:
            return Meter(known)
        if last == model:
            return meter
        # What another model was sent beside the view is sent to this one, too.
        beside = meter.reported / meter.learned.ratio - meter.counted
        return Meter(replace(known, hidden=max(0.0, beside * known.ratio)))

    def to_dict(self) -> dict[str, Any]:
        """Return what was learned as plain data, for JSON.

        What was reported for conversations is in it where their name is text.

        Examples:
            >>> Calibration.from_dict(Calibration().to_dict()).to_dict()["models"]
            {}
        """
        with self._lock:
            return {
                "version": _VERSION,
                "counter": self.counter,
                "models": {
                    name: {
                        "reported": known.reported,
                        "counted": known.counted,
                        "calls": known.calls,
                        "hidden": known.hidden,
                        "worst": list(known.worst),
                        "seen": known.seen,
                    }
                    for name, known in sorted(self._models.items())
                },
                "conversations": self.reports.to_list(),
            }

    def save(self, path: str | Path) -> None:
        """Write what was learned to a JSON file, whole or not at all, and for its owner only."""
        write_private(path, json.dumps(self.to_dict()))

    @classmethod
    def load(cls, path: str | Path, counter: str | TokenCounter | None = None) -> Calibration:
        """Return the calibration that `save` wrote to a file.

        Args:
            path: the file.
            counter: who counts; has to be the counter it was learned with.

        Raises:
            ConfigurationError: naming what is missing or odd.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise _refused(str(path), f"is not JSON: {error}") from error
        return cls.from_dict(data if isinstance(data, dict) else {}, counter)

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], counter: str | TokenCounter | None = None
    ) -> Calibration:
        """Return the calibration that `to_dict` made this data from.

        Args:
            data: what was saved.
            counter: who counts; has to be the counter it was learned with.

        Raises:
            ConfigurationError: naming the field that is missing, odd, or of another counter.
        """
        made = cls(counter)
        if data.get("version") != _VERSION:
            raise _refused("version", f"{data.get('version')!r} is not {_VERSION}")
        if data.get("counter") != made.counter:
            raise _refused(
                "counter", f"learned with {data.get('counter')!r}, and {made.counter!r} counts"
            )
        models = data.get("models")
        if not isinstance(models, Mapping):
            raise _refused("models", "is not a mapping")
        for name, given in models.items():
            made._models[name] = made._restored(name, given)
            made._loaded[name] = made._models[name].copy()
        try:
            made.reports = Reports.from_list(data.get("conversations") or [])
        except (KeyError, TypeError, ValueError) as error:
            raise _refused("conversations", f"{type(error).__name__}: {error}") from error
        return made

    def _restored(self, name: str, given: Any) -> Learned:
        known = self._find(name)
        try:
            known.reported, known.counted = float(given["reported"]), float(given["counted"])
            known.calls, known.hidden = int(given["calls"]), float(given["hidden"])
            known.worst = sorted((max(0, int(each)) for each in given["worst"]), reverse=True)[:8]
            known.seen = max(0, int(given["seen"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise _refused(f"models[{name!r}]", f"{type(error).__name__}: {error}") from error
        numbers = (known.reported, known.counted, known.hidden)
        if not (all(map(math.isfinite, numbers)) and min(numbers) >= 0 and known.counted > 0):
            raise _refused(f"models[{name!r}]", "its numbers are not positive and finite")
        return known


def _refused(where: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"calibration.{where}: {why}. Fix: pass the data of Calibration.to_dict unchanged, with "
        "the counter it was learned with, or start anew with Calibration()."
    )
