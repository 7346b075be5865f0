"""Replay: what is measured, policies, sources, executors, and runs that are stopped."""

from __future__ import annotations

import gzip
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from history_curator import Curator, check_conversation, count_tokens
from history_curator.errors import ConfigurationError, ConversionError
from history_curator.lab import (
    LabConversation,
    Policy,
    SessionPage,
    load_conversations,
    named_policy,
    policy_names,
    replay,
    sample_conversation,
)
from tests.support.data import load
from tests.support.messages import assistant, call, result, system, user

PEERS = ["trim_messages", "clear-tool-uses", "ChatMemoryBuffer"]


def session(turns: int = 12, words: int = 60) -> list[dict[str, Any]]:
    """A tool loop in which every step names a file the step before revealed."""
    messages = [system(), user("start at file-0000.txt")]
    for step in range(turns):
        messages += [
            call(f"c{step}", name="read", path=f"file-{step:04d}.txt"),
            result(f"c{step}", f"next: file-{step + 1:04d}.txt " + "pad " * words),
        ]
    return [*messages, assistant("done"), user("thanks"), assistant("welcome")]


LOOPING = [*session(30), user("once more"), call("z", name="read", path="file-0000.txt"),
           result("z"), assistant("same")]  # fmt: skip


def run(conversations: Any, policies: Any, **options: Any) -> Any:
    return replay(conversations, policies, **{"progress": False, "executor": "serial", **options})


def numbers(results: Any) -> list[dict[str, Any]]:
    return [result.to_dict() for result in results.policies.values()]


class TestMeasuring:
    def test_tokens_sent_are_the_sum_of_the_requests(self) -> None:
        messages = session(3)
        found = run([messages], ["no curation"])
        expected = [count_tokens(messages[:at]) for at in (2, 4, 6, 8, 10)]
        assert found["no curation"].tokens_sent == sum(expected)
        assert found["no curation"].peak == expected[-1]

    def test_sending_everything_misses_nothing_and_repeats_the_start(self) -> None:
        found = run([session(5)], ["no curation"])["no curation"]
        assert (found.calls, found.missed) == (7, 0)
        assert 0.7 < found.cached_share < 1

    def test_a_greeting_before_any_question_is_no_call(self) -> None:
        talk = [system(), assistant("how can I help?"), user("hi"), assistant("hello")]
        found = run([talk], ["curator"], max_tokens=4_000)["curator"]
        assert (found.calls, found.invalid) == (1, 0)

    def test_a_result_that_left_the_view_is_missed_when_its_call_is_repeated(self) -> None:
        found = run([LOOPING], {"mine": Curator(max_tokens=900), "all": "no curation"})
        assert found["mine"].lost == 1
        assert found["all"].lost == 0

    def test_a_policy_that_always_fails_misses_everything(self) -> None:
        found = run([session(5)], {"broken": Curator(max_tokens=5), "all": "no curation"})
        broken = found["broken"]
        assert broken.failed == broken.calls == 7
        assert broken.missed == 1
        assert broken.needed == found["all"].needed > 0
        assert "BudgetUnsatisfiableError" in broken.note
        assert found.frontier() == ["all"]


class TestTimes:
    def talk(self, *gaps: float) -> list[dict[str, Any]]:
        messages, now = [], 1_000_000.0
        for step, gap in enumerate(gaps):
            now += gap
            messages.append({**user(f"question {step} " + "pad " * 3_000), "timestamp": now})
            messages.append({**assistant(f"answer {step}"), "timestamp": now})
        return messages

    def cost(self, *gaps: float, **options: Any) -> float:
        talk = {"messages": self.talk(*gaps), **options}
        return float(run([talk], ["no curation"])["no curation"].cost)

    def test_a_cold_cache_is_paid_for(self) -> None:
        warm = self.cost(0, 10, 10)
        assert self.cost(0, 10, 301) > 1.5 * warm
        assert self.cost(0, 10, 299) == pytest.approx(warm)

    def test_given_times_win_over_those_of_the_messages(self) -> None:
        assert self.cost(0, 10, 10, times=[0, 1, 2, 3, 900, 901]) > self.cost(0, 10, 10)
        assert self.cost(0, 10, 900, times=[None] * 6) == self.cost(0, 10, 10)

    def test_hidden_tokens_cost_money_but_no_budget_and_stay_cached(self) -> None:
        class Nothing:
            max_tokens = None

            def start(self, conversation: Any, counter: Any) -> Any:
                return lambda upto: []

        policies = {"all": named_policy("no curation", 10_000), "nothing": Nothing()}
        plain = run([LabConversation("t", self.talk(0, 10))], policies, provider=None)
        hidden = run(
            [LabConversation("t", self.talk(0, 10), hidden=20_000)], policies, provider=None
        )
        assert hidden["all"].tokens_sent == plain["all"].tokens_sent + 2 * 20_000
        assert hidden["all"].over_budget == plain["all"].over_budget == 0
        assert hidden["all"].cost > plain["all"].cost
        assert hidden["nothing"].cached == 20_000


class Absent:
    max_tokens = None

    def start(self, conversation: Any, counter: Any) -> Any:
        raise ImportError("acme is not installed. Fix: pip install acme")


class TestPolicies:
    def test_a_curator_stays_in_budget_and_valid(self) -> None:
        found = run([session(30)], {"mine": Curator(max_tokens=900)})["mine"]
        assert found.sound
        assert found.peak <= 900

    def test_usage_in_the_record_does_not_shrink_the_views(self) -> None:
        talk = session(30)
        for message in talk:
            if message["role"] == "assistant":
                message["usage"] = {"prompt_tokens": 50_000, "completion_tokens": 5}
        found = run([talk], ["curator", "sliding"], max_tokens=900)
        assert found["curator"].failed == found["sliding"].failed == 0

    @pytest.mark.parametrize("name", PEERS)
    def test_each_peer_is_measured(self, name: str) -> None:
        found = run([session(30)], [name], max_tokens=900)[name]
        assert found.measured, found.note
        assert found.failed == 0
        assert found.tokens_sent > 0
        assert name in policy_names()

    def test_a_peer_that_is_not_installed_is_skipped_with_a_note(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "langchain.agents.middleware.context_editing", None)
        chosen = {"absent": Absent(), "all": "no curation", "edit": "clear-tool-uses"}
        found = run([session(4)], chosen, max_tokens=9_000)
        assert not found["absent"].measured
        assert "pip install" in found["absent"].note
        assert 'pip install "history-curator[agents]"' in found["edit"].note
        assert "skipped" in str(found)
        assert found.frontier() == ["all"]

    @pytest.mark.parametrize("policies", [{}, {"x": 3}, ["acme"], ["curator"]])
    def test_a_policy_that_cannot_be_used_is_named(self, policies: Any) -> None:
        with pytest.raises(ConfigurationError, match="Fix"):
            run([session(2)], policies)


def test_the_sample_is_the_same_every_time_and_valid() -> None:
    messages = sample_conversation()
    assert messages == sample_conversation()
    assert check_conversation(messages, "openai") == []
    assert any(len(message.get("tool_calls") or ()) > 1 for message in messages)
    assert count_tokens(messages) > 30_000


class TestInput:
    def test_the_tools_of_a_mapping_are_counted(self) -> None:
        tool = {"type": "function", "function": {"name": "read", "description": "Read a file."}}
        plain = run([{"messages": session(2)}], ["no curation"])
        armed = run([{"messages": session(2), "tools": [tool]}], ["no curation"])
        assert armed["no curation"].peak > plain["no curation"].peak

    def test_an_unreadable_message_is_named_with_its_conversation(self) -> None:
        with pytest.raises(ConversionError, match=r"in odd: .*messages\[1\]|messages\[1\].*in odd"):
            run([{"id": "odd", "messages": [user("hi"), {"role": "wizard"}]}], ["no curation"])


class TestSources:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "deep").mkdir()
        for name, text in (("a.json", "one"), ("deep/b.jsonl.gz", "two")):
            row = json.dumps({"id": name, "messages": [user(text), assistant("ok")]}).encode()
            (tmp_path / name).write_bytes(gzip.compress(row) if name.endswith("gz") else row)
        (tmp_path / "README.md").write_text("not a conversation")
        return tmp_path

    def ids(self, *sources: Any) -> list[str]:
        return [each.id for each in load_conversations(*sources)]

    def test_folders_patterns_and_files_are_read_in_their_order(self, folder: Path) -> None:
        assert self.ids(folder) == ["a.json", "deep/b.jsonl.gz"]
        assert self.ids(f"{folder}/**/*.gz") == ["deep/b.jsonl.gz"]
        assert self.ids(folder / "deep", folder / "a.json") == ["deep/b.jsonl.gz", "a.json"]
        assert run(folder, ["no curation"])["no curation"].conversations == 2


class TestExecutors:
    policies = MappingProxyType({"mine": Curator(max_tokens=900), "all": "no curation"})

    def test_processes_threads_and_serial_agree(self) -> None:
        talks = [{"id": str(n), "messages": session(n, words=40)} for n in (50, 30, 40)]
        serial = run(talks, self.policies)
        assert numbers(run(talks, self.policies, executor=None)) == numbers(serial)
        with ThreadPoolExecutor(2) as threads:
            assert numbers(run(talks, self.policies, executor=threads)) == numbers(serial)

    def test_a_policy_that_cannot_be_pickled_is_an_error_that_names_the_way_out(self) -> None:
        policies = {"mine": Policy(lambda *_: lambda upto: [])}
        with pytest.raises(ConfigurationError, match='Fix: pass executor="serial"'):
            run([session(6), session(6)], policies, executor=None)
        assert run([session(6), session(6)], policies)["mine"].measured


@pytest.mark.parametrize(
    "sessions", [pytest.param(2, id="some"), pytest.param(99, id="all", marks=pytest.mark.nightly)]
)
def test_the_default_is_sound_and_recommended_on_real_sessions(sessions: int) -> None:
    talks = [
        row for row in load("coding_sessions") if sessions == 99 or 150 < len(row["messages"]) < 220
    ]
    found = run(talks[:sessions], ["curator", *PEERS], max_tokens=32_000, executor=None)
    assert found["curator"].sound, found["curator"].note
    assert "curator" in found.frontier(), str(found)
    assert found.recommend() == "Use curator."


def test_the_page_of_a_session_and_its_totals_are_one_computation() -> None:
    page = SessionPage(sample_conversation(), ["curator", "newest that fit"], max_tokens=12_000)
    for drawn, total in zip(page.data["policies"], page.results.policies.values(), strict=True):
        assert sum(view["cost"] for view in drawn["views"]) == pytest.approx(total.cost)
        assert sum(view["cached"] for view in drawn["views"]) == total.cached
        assert sum(view["needed"] for view in drawn["views"]) == total.needed
        assert len(drawn["lost"]) == total.lost
        assert sum("fault" in view for view in drawn["views"]) == total.invalid
