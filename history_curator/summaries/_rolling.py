"""A rolling summary: cell after cell is folded into it, each cell once."""

from __future__ import annotations

from collections.abc import Generator, MutableMapping, Sequence
from hashlib import blake2b
from threading import Lock

from history_curator.summaries._prompt import build_prompt
from history_curator.tokens import TokenCounter

__all__ = ["RollingSummary", "chunks"]

_KNOWN = 1_024
_WORDS_PER_TOKEN = 0.6


class RollingSummary:
    """Folds texts into one summary and remembers every step by its content.

    The steps are a generator: it yields prompts and is sent answers, so that the same code runs
    with a model that is called and with one that is awaited.

    Args:
        prompt: the template.
        chunk_tokens: the most text one prompt may carry.
        cache: where steps are kept; give a persistent mapping to keep them over a restart.
    """

    def __init__(
        self,
        prompt: str,
        *,
        chunk_tokens: int,
        cache: MutableMapping[str, str] | None = None,
    ) -> None:
        self.prompt = prompt
        self.chunk_tokens = chunk_tokens
        self.cache: MutableMapping[str, str] = {} if cache is None else cache
        self._own = cache is None
        self._lock = Lock()

    def steps(
        self, cells: Sequence[str], *, max_tokens: int, counter: TokenCounter
    ) -> Generator[str, str, str]:
        """Yield a prompt for every chunk not summarised before; return the summary."""
        from history_curator.shorten import shorten_tokens

        summary = ""
        for cell in cells:
            for chunk in chunks(cell, self.chunk_tokens, counter):
                key = self._key(summary, chunk, max_tokens)
                known = self.cache.get(key)
                if known is None:
                    words = int(max_tokens * _WORDS_PER_TOKEN)
                    answer = yield build_prompt(
                        self.prompt, earlier=summary, messages=chunk, max_words=words
                    )
                    known = shorten_tokens(answer, max_tokens, counter, keep="head")
                    self._remember(key, known)
                summary = known
        return summary

    def _key(self, earlier: str, chunk: str, max_tokens: int) -> str:
        digest = blake2b(digest_size=16)
        for text in (self.prompt, str(max_tokens), earlier, chunk):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
        return digest.hexdigest()

    def _remember(self, key: str, summary: str) -> None:
        with self._lock:
            self.cache[key] = summary
            while self._own and len(self.cache) > _KNOWN:
                del self.cache[next(iter(self.cache))]


def chunks(text: str, max_tokens: int, counter: TokenCounter) -> list[str]:
    r"""Return a text in pieces of at most `max_tokens` tokens; joined, they are the text.

    Cuts after line ends where there are any.

    Example:
        >>> from history_curator.tokens import get_counter
        >>> pieces = chunks("one two three\n" * 50, 40, get_counter("heuristic"))
        >>> len(pieces) > 1, "".join(pieces) == "one two three\n" * 50
        (True, True)
    """
    pieces: list[str] = []
    waiting = [text]
    while waiting:
        piece = waiting.pop()
        if len(piece) <= max_tokens or (
            len(piece) <= max_tokens * 12 and counter.count(piece) <= max_tokens
        ):
            pieces.append(piece)
            continue
        middle = len(piece) // 2
        line = piece.rfind("\n", 1, middle + 1)
        cut = line + 1 if line > middle // 2 else middle
        waiting.extend((piece[cut:], piece[:cut]))
    return _joined(pieces, max_tokens, counter)


def _joined(pieces: Sequence[str], max_tokens: int, counter: TokenCounter) -> list[str]:
    """Put small neighbours together again, where the sum stays within the limit."""
    out: list[str] = []
    size = 0
    for piece in pieces:
        cost = counter.count(piece) + 1
        if out and size + cost <= max_tokens:
            out[-1] += piece
            size += cost
        else:
            out.append(piece)
            size = cost
    return out
