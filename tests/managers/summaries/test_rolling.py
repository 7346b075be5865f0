"""A rolling summary: in one step where it fits one, and never of what is covered already."""

from __future__ import annotations

from history_curator.managers.summaries import RollingSummary, keeping_summaries
from history_curator.tokens import get_counter

COUNTER = get_counter("o200k_base")
PIECES = [f"user: fact {n} " + "indeed " * 20 for n in range(12)]


class Folding:
    """Folds pieces and keeps the prompts."""

    def __init__(self, rolling: RollingSummary) -> None:
        self.rolling = rolling
        self.prompts: list[str] = []

    def __call__(self, *pieces: str) -> str:
        steps = self.rolling.steps(pieces, max_tokens=100, counter=COUNTER)
        answer = None
        while True:
            try:
                self.prompts.append(steps.send(answer))  # type: ignore[arg-type]
            except StopIteration as done:
                return str(done.value)
            answer = f"summary {len(self.prompts)}"


def folding(chunk_tokens: int = 8_000, **options: dict[str, str]) -> Folding:
    return Folding(RollingSummary("{earlier}|{messages}", chunk_tokens=chunk_tokens, **options))


class TestSteps:
    def test_all_at_once(self) -> None:
        fold = folding()
        assert fold(*PIECES) == "summary 1"
        assert all(piece in fold.prompts[0] for piece in PIECES)

    def test_then_only_what_is_new(self) -> None:
        fold = folding()
        fold(*PIECES[:8])
        assert fold(*PIECES) == "summary 2"
        assert fold.prompts[1].startswith("summary 1|user: fact 8")
        assert "fact 7" not in fold.prompts[1]

    def test_and_nothing_twice(self) -> None:
        fold = folding()
        fold(*PIECES[:8])
        fold(*PIECES)
        assert fold(*PIECES) == "summary 2"
        assert fold(*PIECES[:8]) == "summary 1"
        assert len(fold.prompts) == 2

    def test_in_as_many_prompts_as_it_takes(self) -> None:
        fold = folding(chunk_tokens=120)
        fold(*PIECES)
        assert 2 < len(fold.prompts) < len(PIECES)
        assert all(COUNTER.count(prompt) < 140 for prompt in fold.prompts)

    def test_what_was_done_before_a_failure_is_not_done_again(self) -> None:
        fold = folding(chunk_tokens=120)
        steps = fold.rolling.steps(PIECES, max_tokens=100, counter=COUNTER)
        next(steps)
        second = steps.send("so far")  # the second prompt fails
        fold(*PIECES)
        assert fold.prompts[0] == second

    def test_branches_of_one_beginning_each_find_their_own(self) -> None:
        fold = folding()
        left, right = [*PIECES[:6], "left"], [*PIECES[:6], "right"]
        mine, theirs = fold(*left), fold(*right)
        assert fold(*left, PIECES[7]) != fold(*right, PIECES[7])
        assert fold.prompts[2].startswith(f"{mine}|")
        assert fold.prompts[3].startswith(f"{theirs}|")

    def test_nothing_is_no_summary(self) -> None:
        fold = folding()
        assert fold() == ""
        assert fold.prompts == []


class TestKeeping:
    def test_what_the_caller_keeps_is_found_again(self) -> None:
        kept: dict[str, str] = {}
        for expected in (1, 0):
            fold = folding()
            with keeping_summaries(kept):
                fold(*PIECES)
            assert len(fold.prompts) == expected

    def test_a_cache_of_its_own_comes_first(self) -> None:
        kept: dict[str, str] = {}
        cache: dict[str, str] = {}
        fold = folding(cache=cache)
        with keeping_summaries(kept):
            fold(*PIECES)
        assert cache
        assert not kept
