"""A rolling summary: what left the view is folded into it, as much at once as a prompt holds."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from threading import Lock

from history_curator.managers.summaries._prompt import build_prompt
from history_curator.managers.summaries._ride import Ride
from history_curator.tokens import TokenCounter

_KNOWN = 1_024
_WORDS_PER_TOKEN = 0.6
_ENDS = 8
"""Summaries of one beginning that are looked for: those of its last compactions, and of its branches."""

_kept: ContextVar[MutableMapping[str, str] | None] = ContextVar("kept_summaries", default=None)


@contextmanager
def keeping_summaries(kept: MutableMapping[str, str] | None) -> Iterator[None]:
    """Summaries written inside are kept there, unless their manager was given a cache of its own.

    For whoever calls a curator and has a place for them, such as a store or a checkpoint.
    """
    token = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(token)


class RollingSummary:
    """Folds texts into one summary and remembers it by the texts it covers.

    What a known summary covers is not summarised again: only what came since is, in one prompt
    where it fits one, together with that summary. The steps are a generator: it yields prompts
    and is sent answers, so that the same code runs with a model that is called and with one that
    is awaited.

    Args:
        prompt: the template.
        chunk_tokens: the most text one prompt may carry.
        cache: where summaries are kept; give a persistent mapping to keep them over a restart.
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
        self,
        pieces: Sequence[str],
        *,
        max_tokens: int,
        counter: TokenCounter,
        ride: Callable[[int, str, int], str | None] | None = None,
    ) -> Generator[str | Ride, str, str]:
        """Yield a prompt for what no known summary covers; return the summary.

        Args:
            pieces: what left the view, in order.
            max_tokens: the most the summary may take.
            counter: counts.
            ride: given how many pieces are covered, the summary of those and how many words there
                may be, returns an instruction to send behind the live request; None where that
                does not hold what is to be summarised.
        """
        from history_curator.tokens import shorten_tokens

        kept = _kept.get() if self._own else None
        cache = self.cache if kept is None else kept
        names = self._names(pieces, max_tokens)
        done, summary = _furthest(cache, names)
        words = int(max_tokens * _WORDS_PER_TOKEN)
        behind = ride(done, summary, words) if ride is not None and done < len(pieces) else None
        if behind is not None:
            answer = yield Ride(behind)
            if answer:
                summary = shorten_tokens(answer, max_tokens, counter, keep="head")
                self._remember(cache, names, len(pieces), summary)
                return summary
        for end, text in self._prompts(pieces, done, counter):
            answer = yield build_prompt(
                self.prompt, earlier=summary, messages=text, max_words=words
            )
            summary = shorten_tokens(answer, max_tokens, counter, keep="head")
            if end is not None:
                self._remember(cache, names, end, summary)
        return summary

    def _prompts(
        self, pieces: Sequence[str], done: int, counter: TokenCounter
    ) -> Iterator[tuple[int | None, str]]:
        """Yield texts of at most `chunk_tokens`, and how many pieces are covered after each."""
        waiting: list[str] = []
        size = 0
        for place in range(done, len(pieces)):
            parts = chunks(pieces[place], self.chunk_tokens, counter)
            for number, part in enumerate(parts):
                cost = counter.count(part) + 1
                if waiting and size + cost > self.chunk_tokens:
                    yield place if number == 0 else None, "\n".join(waiting)
                    waiting, size = [], 0
                waiting.append(part)
                size += cost
        if waiting:
            yield len(pieces), "\n".join(waiting)

    def _names(self, pieces: Sequence[str], max_tokens: int) -> list[str]:
        """Return a name for every beginning of the pieces."""
        digest = blake2b(digest_size=32)
        names = []
        for text in (self.prompt, str(max_tokens), *pieces):
            data = text.encode("utf-8", "surrogatepass")
            # With its length before it, no text can pass for the end of one and the start of another.
            digest.update(len(data).to_bytes(8, "big") + data)
            names.append(digest.copy().hexdigest())
        return names[2:]

    def _remember(
        self, cache: MutableMapping[str, str], names: Sequence[str], end: int, summary: str
    ) -> None:
        with self._lock:
            cache[names[end - 1]] = summary
            ends = [number for number in _ends(cache, names) if number != end]
            cache[_index(names)] = " ".join(map(str, [*ends, end][-_ENDS:]))
            while cache is self.cache and self._own and len(cache) > _KNOWN:
                del cache[next(iter(cache))]


def _furthest(cache: MutableMapping[str, str], names: Sequence[str]) -> tuple[int, str]:
    """Return the known summary that covers the most pieces, and how many it covers."""
    if not names:
        return 0, ""
    known = cache.get(names[-1])
    if known is not None:
        return len(names), known
    for end in sorted(_ends(cache, names), reverse=True):
        if end < len(names):
            known = cache.get(names[end - 1])
            if known is not None:
                return end, known
    return 0, ""


def _index(names: Sequence[str]) -> str:
    return f"ends-{names[0]}"


def _ends(cache: MutableMapping[str, str], names: Sequence[str]) -> list[int]:
    """Return how many pieces the latest summaries with this beginning covered."""
    return [int(word) for word in (cache.get(_index(names)) or "").split() if word.isdigit()]


def chunks(text: str, max_tokens: int, counter: TokenCounter) -> list[str]:
    r"""Return a text in pieces of at most `max_tokens` tokens; joined, they are the text.

    Cuts after line ends where there are any.

    Examples:
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
