"""Usage reports and pauses that a curator was told about, by the messages that were sent.

A report belongs to the messages that were sent, not to a conversation: it is found again by these
messages, in any conversation. So the same messages and the same reports give the same view.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from itertools import accumulate
from typing import NamedTuple

from history_curator.tokens.estimate import UsageAnchor

_MOST = 20_000
"""Requests that are remembered."""
_LEAST_RATIO, _MOST_RATIO = 0.4, 2.5
"""A report below this share of our count, or over the limit and above that, is about another request."""


class Request(NamedTuple):
    """A request that was built, with the usage report for it, if there is one.

    Attributes:
        counted: its tokens as we count them, tools and priming included.
        usual: tokens for messages that its cutoff was chosen for.
        available: tokens for messages that it was given.
        anchor: the last usage report before it, or for it once there is one.
        doubted: the last report carried by a message, where it may be about another agent's request.
        is_reported: whether a report for this very request was looked at.
        is_cold: whether the provider's cache had gone cold when it was built.
    """

    counted: int
    usual: int
    available: int
    anchor: UsageAnchor | None = None
    doubted: UsageAnchor | None = None
    is_reported: bool = False
    is_cold: bool = False


class ObservedRequests:
    """Remembers requests by the name of the messages they were built from (`name_prefixes`).

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

    def find(self, name: int) -> Request | None:
        """Return the request that was built from these messages."""
        return self._requests.get(name)

    def add(self, name: int, request: Request) -> Request:
        """Remember the request built from these messages; a report for it stays."""
        known = self._requests.get(name)
        if known is not None and known.is_reported and not request.is_reported:
            request = request._replace(anchor=known.anchor, doubted=known.doubted, is_reported=True)
        if known is not None and known.is_cold:
            request = request._replace(is_cold=True)
        self._requests[name] = request
        self._requests.move_to_end(name)
        self.has_pauses |= request.is_cold
        while len(self._requests) > _MOST:
            self._requests.popitem(last=False)
        return request

    def report(self, name: int, request: Request, reported: int) -> Request:
        """Remember what the provider counted for a request, and return the request with it."""
        anchor, counted = request.anchor, request.counted
        if reported < _LEAST_RATIO * counted:  # it is about something else
            return self.add(name, request._replace(is_reported=True))
        if anchor is None:  # what is over the limit is more likely a ratio than a hidden prompt
            ratio = reported / max(1, counted) if reported > request.usual else 1.0
            anchor = UsageAnchor(counted, reported, ratio)
        self.newest = anchor.after(counted, reported)
        request = request._replace(anchor=self.newest, doubted=None, is_reported=True)
        return self.add(name, request)

    def read_report(self, name: int, request: Request, reported: int, limit: int) -> Request:
        """Take in a report that a message carries: it may be about another agent's request.

        A report within the limit that is a surprise is believed once the next one goes on from it.
        """
        anchor, counted, doubted = request.anchor, request.counted, request.doubted
        most = max(limit, _MOST_RATIO * counted)
        if not _LEAST_RATIO * counted <= reported <= most:
            return self.add(name, request._replace(is_reported=True))
        if anchor is None or reported > limit or anchor.explains(counted, reported):
            return self.report(name, request, reported)
        if doubted is not None and doubted.explains(counted, reported):
            return self.report(name, request._replace(anchor=doubted), reported)
        doubted = UsageAnchor(counted, reported, anchor.ratio)
        return self.add(name, request._replace(doubted=doubted, is_reported=True))


def name_prefixes(keys: Sequence[Hashable]) -> list[int]:
    """Return a number for the first messages up to each one, from what each message says."""
    return list(accumulate(map(hash, keys), lambda name, key: hash((name, key))))
