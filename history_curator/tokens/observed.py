"""What a curator was told about requests it built: usage reports and pauses, by what was sent.

A report belongs to the messages that were sent, not to a conversation: it is found again by the very
messages, whoever sends them. So the same messages and the same reports give the same view.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from history_curator.tokens.estimate import UsageAnchor

_MOST = 20_000
"""Requests that are remembered."""


class Request(NamedTuple):
    """A request that was built, and what is known of how the provider counted it.

    Attributes:
        counted: its tokens as we count them, tools and priming included.
        available: tokens for messages that its view was built with.
        anchor: the last usage report before it, or for it once there is one.
        is_reported: whether the anchor is the report for this very request.
        is_cold: whether the provider's cache had gone cold when it was built.
    """

    counted: int
    available: int
    anchor: UsageAnchor | None = None
    is_reported: bool = False
    is_cold: bool = False


class ObservedRequests:
    """Remembers requests by the messages they were built from. What is forgotten is counted anew.

    Attributes:
        newest: the newest usage report.
        has_pauses: whether any request found the provider's cache cold.
    """

    def __init__(self) -> None:
        self.newest: UsageAnchor | None = None
        self.has_pauses = False
        self._requests: OrderedDict[int, Request] = OrderedDict()

    def __len__(self) -> int:
        return len(self._requests)

    def find(self, keys: Sequence[Hashable], count: int) -> Request | None:
        """Return the request that was built from the first messages of a conversation.

        Args:
            keys: what each message says.
            count: how many of them.
        """
        return self._requests.get(_name(keys[:count]))

    def add(self, keys: Sequence[Hashable], request: Request) -> None:
        """Remember the request built from these messages; a report for it stays."""
        name = _name(keys)
        known = self._requests.get(name)
        if known is not None and known.is_reported and not request.is_reported:
            request = request._replace(anchor=known.anchor, is_reported=True)
        if known is not None and known.is_cold:
            request = request._replace(is_cold=True)
        self._requests[name] = request
        self._requests.move_to_end(name)
        self.has_pauses |= request.is_cold
        while len(self._requests) > _MOST:
            self._requests.popitem(last=False)

    def report(self, keys: Sequence[Hashable], request: Request, reported: int) -> Request:
        """Remember what the provider counted for a request, and return the request with it."""
        anchor = UsageAnchor(request.counted, reported)
        if request.anchor is not None:
            anchor = request.anchor.after(request.counted, reported)
        self.newest = anchor
        request = request._replace(anchor=anchor, is_reported=True)
        self.add(keys, request)
        return request

    def pauses(self, keys: Sequence[Hashable]) -> Iterable[int]:
        """Yield how many messages each earlier request had that found the cache cold."""
        for count, name in enumerate(accumulate(map(hash, keys), _combine), start=1):
            request = self._requests.get(name)
            if request is not None and request.is_cold:
                yield count


def _combine(name: int, key: int) -> int:
    return hash((name, key))


def _name(keys: Sequence[Hashable]) -> int:
    """Return a number for these messages in this order."""
    name = 0
    for name in accumulate(map(hash, keys), _combine):
        pass
    return name
