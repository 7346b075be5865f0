"""The benchmarks run, and what they write can be read; on conversations too small to mean much."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as runner
from benchmarks._conversation import conversation
from benchmarks._settings import TINY
from benchmarks._table import Results, Row, Target, peer_table, target_table
from benchmarks.session import spaced
from history_curator import check_conversation


class TestTheConversation:
    def test_is_as_long_as_asked_and_the_same_every_time(self) -> None:
        first = conversation(57)
        conversation.cache_clear()
        assert len(first) == 57
        assert conversation(57) == first

    def test_is_one_a_provider_takes(self) -> None:
        messages = list(conversation(200))
        while messages[-1]["role"] != "user":
            messages.pop()
        assert check_conversation(messages, provider="openai") == []

    def test_repeats_no_text(self) -> None:
        texts = [one["content"] for one in conversation(400) if one["content"]]
        assert len(set(texts)) == len(texts)


class TestTheRunner:
    def test_measures_views_and_sessions_against_every_peer(self, tmp_path: Path) -> None:
        for module in ("langchain", "langmem", "litellm", "llama_index.core"):
            pytest.importorskip(module, reason=f"{module} is absent")
        assert runner.main(["warm", "session", "--tiny", "--write", str(tmp_path)]) == 0
        rows = json.loads((tmp_path / "benchmarks.json").read_text(encoding="utf-8"))["rows"]
        named = " ".join(row["against"] for row in rows)
        for peer in (
            "trim_messages`, exact", "trim_messages`, approximate", "trim_messages`, memoised",
            "ClearToolUsesEdit", "SummarizationMiddleware", "langmem", "Memory.aput",
            "ChatMemoryBuffer.get", "litellm",
        ):  # fmt: skip
            assert peer in named
        assert all(row["value"] > 0 for row in rows)

    def test_measures_ourselves(self, tmp_path: Path) -> None:
        works = ["growth", "adapters", "memory", "floor"]
        assert runner.main([*works, "--tiny", "--write", str(tmp_path)]) == 0
        text = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
        assert "log-log slope" in text
        assert "| step | share |\n|---|---|\n| " in text  # which steps take a share varies
        for name in ("targets", "peers", "floor", "shares", "how"):
            assert f"[start:{name}]" in text
            assert f"[end:{name}]" in text

    def test_every_work_is_a_module(self) -> None:
        root = Path(runner.__file__).parent
        assert all((root / f"{name}.py").is_file() for name in (*runner.WORKS, "floor"))


class TestTheTable:
    def test_says_whether_a_target_is_reached(self) -> None:
        fast = Row("a view", "`peer`", 501.0, target=Target(">=", 500))
        heavy = Row("held", "messages", 0.3, "%", target=Target("<=", 0.25))
        table = target_table([fast, heavy])
        assert "| ≥ 500× | 501× | reached |" in table
        assert "| ≤ 25.0% | 30.0% | **missed** |" in table
        assert (fast.met, heavy.met) == (True, False)

    def test_puts_the_lengths_of_one_comparison_side_by_side(self) -> None:
        rows = [Row("a view", "`peer`", float(n), adapter=n / 2, n=n) for n in (10, 100)]
        assert "| `peer` | 10× / 5× | 100× / 50× |" in peer_table(rows)

    def test_keeps_everything_in_json(self) -> None:
        results = Results(TINY.name)
        results.add(Row("a view", "`peer`", 2.0, target=Target(">=", 1)))
        assert json.loads(results.to_json())["rows"][0]["met"] is True


def test_samples_lie_evenly_over_the_session() -> None:
    assert list(spaced(100, 5)) == [11, 31, 51, 71, 91]
