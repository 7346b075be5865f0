"""A stand-in for Anthropic's prompt cache: what a request would read, write and be refused for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from history_curator.caching._apply import ttl_of
from history_curator.caching._prices import PriceSheet, get_prices
from history_curator.errors import ConfigurationError

__all__ = ["CacheEmulator"]


class CacheEmulator:
    """Remembers the prefixes of requests the way Anthropic documents it.

    A request is a sequence of blocks: tools, system, content of the messages. A prefix is
    remembered at each breakpoint, if it is as long as the least prefix, for as long as the mark
    asks. A later request finds it when the prefix is equal and one of its own breakpoints stands
    there or at most ``lookback`` blocks behind it; that also renews it. The longest one found is
    read, what follows up to the last breakpoint is written, the rest is plain input.

    Examples:
        >>> cache = CacheEmulator("claude-opus-5", count=len)
        >>> mark = {"cache_control": {"type": "ephemeral"}}
        >>> said = {"role": "user", "content": [{"type": "text", "text": "x" * 2000, **mark}]}
        >>> cache.send({"messages": [said]}, at=0)["cache_read_input_tokens"]
        0
        >>> cache.send({"messages": [said]}, at=200)["cache_read_input_tokens"] > 2000
        True
        >>> cache.send({"messages": [said]}, at=600)["cache_read_input_tokens"]
        0

    Args:
        pricing: a model or a price sheet, for the least prefix, the number of breakpoints and the
            look-back.
        count: tokens of a text.
    """

    def __init__(self, pricing: str | PriceSheet, *, count: Callable[[str], int]) -> None:
        self.sheet = get_prices(pricing)
        self._count = count
        self._until: dict[bytes, tuple[float, float]] = {}
        self._sizes: dict[str, int] = {}

    def send(self, request: Mapping[str, Any], *, at: float) -> dict[str, Any]:
        """Return the usage of a request sent at a moment, in seconds, in Anthropic's fields.

        Raises:
            ConfigurationError: where the provider answers with an error: too many breakpoints, or
                a shorter ttl in front of a longer one.
        """
        blocks = _blocks(request)
        marks = [(place, ttl) for place, (_, ttl) in enumerate(blocks) if ttl is not None]
        self._refuse([ttl for _, ttl in marks])
        names, upto = self._prefixes([text for text, _ in blocks])
        read_upto = self._found(marks, names, at)
        read = upto[read_upto]
        written = {300.0: 0, 3600.0: 0}
        start = read
        for place, ttl in marks:
            size = upto[place + 1]
            if size < self.sheet.minimum:
                continue
            if size > start:
                written[ttl] += size - start
                start = size
            self._until[names[place]] = (at + ttl, ttl)
        return {
            "input_tokens": upto[-1] - start,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": sum(written.values()),
            "cache_creation": {
                "ephemeral_5m_input_tokens": written[300.0],
                "ephemeral_1h_input_tokens": written[3600.0],
            },
        }

    def cost(self, usage: Mapping[str, Any]) -> float:
        """Return what a request costs, in the unit of the sheet."""
        sheet, written = self.sheet, usage["cache_creation"]
        hour = written["ephemeral_1h_input_tokens"]
        tokens = usage["input_tokens"] + usage["cache_read_input_tokens"] * sheet.read
        tokens += written["ephemeral_5m_input_tokens"] * sheet.write
        tokens += hour * sheet.lasting(3600.0).write if hour else 0.0
        return float(tokens) * sheet.input_per_million / 1e6

    def _refuse(self, ttls: Sequence[float]) -> None:
        if len(ttls) > self.sheet.breakpoints:
            raise ConfigurationError(
                f"{len(ttls)} breakpoints, and at most {self.sheet.breakpoints} are taken."
            )
        if list(ttls) != sorted(ttls, reverse=True):
            raise ConfigurationError("a shorter ttl stands in front of a longer one.")

    def _prefixes(self, texts: Sequence[str]) -> tuple[list[bytes], list[int]]:
        digest, names, upto = hashlib.sha256(), [], [0]
        for text in texts:
            digest.update(text.encode(errors="replace") + b"\0")
            names.append(digest.digest())
            if text not in self._sizes:
                self._sizes[text] = self._count(text)
            upto.append(upto[-1] + self._sizes[text])
        return names, upto

    def _found(self, marks: Sequence[tuple[int, float]], names: Sequence[bytes], at: float) -> int:
        """Return how many blocks the longest prefix has that is remembered; renew it."""
        back = self.sheet.lookback or len(names)
        best = 0
        for place, _ in marks:
            for candidate in range(place, max(-1, place - back), -1):
                until, ttl = self._until.get(names[candidate], (at, 0.0))
                if until > at:
                    self._until[names[candidate]] = (at + ttl, ttl)
                    best = max(best, candidate + 1)
                    break
        return best


def _blocks(request: Mapping[str, Any]) -> list[tuple[str, float | None]]:
    """Return each block of a request as text, and the ttl of its mark."""
    found: list[tuple[str, float | None]] = [
        _block(each, "") for each in request.get("tools") or ()
    ]
    system = request.get("system")
    if isinstance(system, str):
        system = [{"type": "text", "text": system}] if system else []
    found += [_block(each, "system") for each in system or ()]
    for message in request.get("messages") or ():
        content, role = message.get("content"), str(message.get("role"))
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        found += [_block(each, role) for each in content or ()]
    automatic = request.get("cache_control")
    if automatic and found and found[-1][1] is None:
        found[-1] = (found[-1][0], ttl_of(automatic))
    return found


def _block(block: Mapping[str, Any], role: str) -> tuple[str, float | None]:
    control = block.get("cache_control")
    plain = {key: value for key, value in block.items() if key != "cache_control"}
    if isinstance(plain.get("content"), str):  # short for one block of text
        plain["content"] = [{"type": "text", "text": plain["content"]}]
    text = f"{role} {json.dumps(plain, sort_keys=True, ensure_ascii=False, default=str)}"
    return text, ttl_of(control) if control else None
