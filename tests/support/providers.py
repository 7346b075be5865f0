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
    """

    def __init__(
        self, limit: int, encoding: str, *, hidden: int = 0, versions: dict[str, float]
    ) -> None:
        self.limit, self.hidden, self.versions = limit, hidden, versions
        self._count = tokenizer(encoding)
        self.counts: list[int] = []

    def count(self, model: str, messages: Iterable[Any], tools: Iterable[Any] = ()) -> int:
        """Count a request: its messages and tools as plain data."""
        parts = [json.dumps(each, ensure_ascii=False) for each in (*tools, *messages)]
        total = self.hidden + round(sum(map(self._count, parts)) * self.versions[model])
        self.counts.append(total)
        return total

    def check(self, *, versions: Iterable[int] = (0,)) -> None:
        """No request was too long, and each view was full when the next one was cut.

        Args:
            versions: the numbers of the requests at which another version of the model began.
        """
        counts, limit = self.counts, self.limit
        over = [at for at, count in enumerate(counts) if count > limit]
        assert not over, f"requests {over} of {len(counts)} are over the limit"
        for first, last in pairwise((*versions, len(counts))):
            cuts = [at for at in range(first + 6, last) if counts[at] < counts[at - 1]]
            fill = [round(counts[at - 1] / limit, 3) for at in cuts]
            assert len(fill) >= 2, "the conversation is too short to see anything"
            assert min(fill) >= 0.95, fill
