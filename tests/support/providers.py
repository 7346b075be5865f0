"""A provider that counts with a tokenizer of its own, and reports what it counted."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pytest

KINDS = (
    "The engineers met on Tuesday to talk about the rollout, and nobody had read the report. ",
    "for index, entry in enumerate(entries):\n    total += counter.count_entry(entry)  # exact\n",
    '{"id": 48213, "status": "open", "labels": ["bug", "p1"], "score": 0.8125, "url": null}\n',
    "昨天晚上工程师们发现冷却系统出现故障，今天早上已经修好了。",
    "2024-05-03T12:04:55.123Z ERROR [w-7] o.a.k.Consumer - failed 0x7f3a91 after 1500 ms\n",
)


@lru_cache(maxsize=1024)
def said(number: int) -> str:
    """A text of some kind that begins with its number; the same every time."""
    return f"{number} " + random.Random(number).choice(KINDS)


@lru_cache(maxsize=4)
def tokenizer(name: str) -> Callable[[str], int]:
    """What counts the tokens of a text: ``mistral``, or ``llama3`` and ``qwen2`` of splintr."""
    if name == "mistral":
        mistral = pytest.importorskip("mistral_common.tokens.tokenizers.mistral")
        encode = mistral.MistralTokenizer.v3(is_tekken=True).instruct_tokenizer.tokenizer.encode
        return lru_cache(maxsize=65_536)(lambda text: len(encode(text, bos=False, eos=False)))
    splintr = pytest.importorskip("splintr")
    plain = splintr.Tokenizer.from_pretrained(name).encode
    return lru_cache(maxsize=65_536)(lambda text: len(plain(text)))


class Provider:
    """Counts requests and remembers the counts.

    Args:
        limit: the most a request may hold.
        encoding: whose tokenizer.
        hidden: tokens of a system prompt that nobody sees.
        versions: by what each version of the model multiplies the tokenizer's counts.
        unsaid: the request from which on every version multiplies with something else, and what.
            Nobody can know before it is counted, so this one request may be over the limit.
    """

    def __init__(
        self,
        limit: int,
        encoding: str,
        *,
        hidden: int = 0,
        versions: dict[str, float],
        unsaid: tuple[int, float] | None = None,
    ) -> None:
        self.limit, self.hidden, self.versions, self.unsaid = limit, hidden, versions, unsaid
        self._count = tokenizer(encoding)
        self.counts: list[int] = []

    def count(self, model: str, messages: Iterable[Any], tools: Iterable[Any] = ()) -> int:
        """Count a request: its messages and tools as plain data."""
        parts = [json.dumps(each, ensure_ascii=False) for each in (*tools, *messages)]
        factor = self.versions[model]
        if self.unsaid is not None and len(self.counts) >= self.unsaid[0]:
            factor = self.unsaid[1]
        total = self.hidden + round(sum(map(self._count, parts)) * factor)
        self.counts.append(total)
        return total

    def over(self) -> list[int]:
        """Return the numbers of the requests over the limit, but for the one nobody could know."""
        unknown = self.unsaid and self.unsaid[0]
        return [n for n, count in enumerate(self.counts) if count > self.limit and n != unknown]

    def fills(self, *, versions: Iterable[int] = (0,)) -> list[list[float]]:
        """Return how full views were when the next one was cut, five calls after each version began.

        A second cut right after one is that of an estimate that moved, which is rare and is left out.

        Args:
            versions: the numbers of the requests at which another version of the model began.
        """
        counts = self.counts
        cuts = [
            [
                at
                for at in range(first + 6, last)
                if counts[at] < counts[at - 1] and counts[at - 1] >= counts[at - 2]
            ]
            for first, last in pairwise((*versions, len(counts)))
        ]
        return [[round(counts[at - 1] / self.limit, 3) for at in some] for some in cuts]

    def check(self, *, versions: Iterable[int] = (0,)) -> None:
        """No request was too long, and each view was full when the next one was cut."""
        over = self.over()
        assert not over, f"requests {over} of {len(self.counts)} are over the limit"
        for fill in self.fills(versions=versions):
            assert len(fill) >= 2, "the conversation is too short to see anything"
            assert min(fill) >= 0.8, fill
