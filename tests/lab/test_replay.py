from __future__ import annotations

import json
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from history_curator import Curator, SlidingWindowManager
from history_curator.errors import ConfigurationError
from history_curator.lab import (
    LabConversation,
    NoCuration,
    PolicyUnavailableError,
    peer_names,
    replay,
)
from tests.support.messages import assistant, call, exchange, result, system, user

PEERS = ["trim_messages", "clear-tool-uses", "ChatMemoryBuffer",
         "Memory"]  # fmt: skip


def session(turns: int = 12, words: int = 60) -> list[dict[str, Any]]:
    """A tool loop in which every step names a file the step before revealed."""
    messages = [system(), user("start at file-0000.txt")]
    for step in range(turns):
        messages += [
            call(f"c{step}", name="read", path=f"file-{step:04d}.txt"),
            result(f"c{step}", f"next: file-{step + 1:04d}.txt " + "pad " * words),
        ]
    return [*messages, assistant("done"), user("thanks"), assistant("welcome")]


def run(conversations: Any, policies: Any, **options: Any) -> Any:
    return replay(conversations, policies, **{"progress": False, "executor": "serial", **options})


class TestNoCuration:
    def test_every_assistant_message_is_a_call(self) -> None:
        assert run([session(5)], ["no curation"])["no curation"].calls == 7

    def test_everything_but_the_new_messages_repeats(self) -> None:
        found = run([session(5)], ["no curation"])["no curation"]
        assert found.missed == 0
        assert 0.7 < found.cached_share < 1

    def test_tokens_sent_are_the_sum_of_the_requests(self) -> None:
        from history_curator import count_tokens

        messages = session(3)
        found = run([messages], ["no curation"])
        expected = [count_tokens(messages[:at]) for at in (2, 4, 6, 8, 10)]
        assert found.tallies["no curation"][0].tokens == expected
        assert found["no curation"].tokens_sent == sum(expected)
        assert found["no curation"].peak == expected[-1]


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

    def test_hidden_tokens_are_charged_and_do_not_count_against_the_budget(self) -> None:
        talk = self.talk(0, 10)
        plain = LabConversation("plain", talk)
        hidden = LabConversation("hidden", talk, hidden=20_000)
        policy = NoCuration(max_tokens=10_000)
        one = run([plain], {"all": policy})["all"]
        other = run([hidden], {"all": policy})["all"]
        assert other.tokens_sent == one.tokens_sent + 2 * 20_000
        assert other.over_budget == one.over_budget == 0
        assert other.cost > one.cost

    def test_what_is_hidden_stays_cached_behind_an_empty_view(self) -> None:
        hidden = LabConversation("hidden", self.talk(0, 10, 10), hidden=20_000)
        found = run([hidden], {"nothing": Nothing()}, provider=None)
        assert found.tallies["nothing"][0].cached == 2 * 20_000


class Nothing:
    """A policy that sends no message at all."""

    max_tokens = None

    def start(self, conversation: Any, counter: Any) -> Any:
        return lambda upto: []


class TestCurator:
    def test_reported_usage_is_about_what_was_sent_not_about_the_view(self) -> None:
        talk = session(30)
        for message in talk:
            if message["role"] == "assistant":
                message["usage"] = {"prompt_tokens": 50_000, "completion_tokens": 5}
        found = run([talk], ["curator", "sliding"], max_tokens=900)
        assert found["curator"].failed == found["sliding"].failed == 0

    def test_it_stays_in_budget_and_is_never_refused(self) -> None:
        found = run([session(30)], {"mine": Curator(max_tokens=900)})["mine"]
        assert found.sound
        assert found.peak <= 900
        assert 0 < found.budget_use <= 1

    def test_what_it_leaves_out_shows_as_missed(self) -> None:
        looping = [*session(30), user("once more"), call("z", name="read", path="file-0000.txt"),
                   result("z"), assistant("same")]  # fmt: skip
        found = run([looping], {"mine": Curator(max_tokens=900), "all": NoCuration()})
        assert found["mine"].repeated_calls == 1
        assert found["all"].repeated_calls == 0

    def test_a_builder_is_a_policy(self) -> None:
        assert run([session(4)], {"mine": build})["mine"].measured

    def test_a_budget_nothing_fits_counts_as_failed(self) -> None:
        found = run([session(4)], {"mine": Curator(max_tokens=5)})["mine"]
        assert found.failed == found.calls
        assert "BudgetUnsatisfiableError" in found.note
        assert not found.sound


def build() -> Curator:
    return Curator(max_tokens=2_000)


class TestPeers:
    @pytest.mark.parametrize("name", PEERS)
    def test_each_peer_is_measured(self, name: str) -> None:
        found = run([session(30)], [name], max_tokens=900)[name]
        assert found.measured, found.note
        assert found.failed == 0
        assert found.tokens_sent > 0

    def test_every_name_is_known(self) -> None:
        assert {"curator", "no curation", *PEERS} <= set(peer_names())

    def test_peers_come_back_as_recorded_entries(self) -> None:
        """Within a budget that holds everything each peer sends the record itself."""
        found = run([session(4)], [*PEERS, "no curation"], max_tokens=100_000)
        sent = {name: found[name].tokens_sent for name in found.policies}
        assert len(set(sent.values())) == 1, sent

    def test_clearing_is_seen_as_an_edit_and_as_missed(self) -> None:
        looping = [*session(30), user("once more"), call("z", name="read", path="file-0000.txt"),
                   result("z"), assistant("same")]  # fmt: skip
        assert run([looping], ["clear-tool-uses"], max_tokens=900)["clear-tool-uses"].missed > 0

    def test_a_peer_that_is_not_installed_is_skipped_with_a_note(self) -> None:
        found = run([session(4)], {"absent": Absent(), "all": NoCuration()})
        assert not found["absent"].measured
        assert "pip install" in found["absent"].note
        assert "skipped" in str(found)
        assert found.recommend().name == "all"


class Absent:
    max_tokens = None

    def start(self, conversation: Any, counter: Any) -> Any:
        raise PolicyUnavailableError("acme is not installed. Fix: pip install acme")


def test_the_buffer_counts_joined_text_as_its_tokenizer_would() -> None:
    from history_curator.lab.policies import JoinedCounter
    from history_curator.tokens import get_counter

    counter = get_counter("o200k_base")
    contents = ["hello world", "", 'a tool said: {"x": 1}', "次の質問です", "None", "end."]
    joined = JoinedCounter(contents, counter)
    for upto in range(1, len(contents) + 1):
        joined.upto = upto
        for start in range(upto):
            text = " ".join(contents[start:upto])
            assert len(joined(text)) == counter.count(text), (start, upto)


class TestEvidence:
    def test_recall_is_the_share_of_questions_with_all_their_evidence(self) -> None:
        messages = [user("my cat is Ada"), assistant("noted")]
        for turn in range(40):
            messages += [user(f"tell me fact {turn}"), assistant("fact " * 40)]
        talk = LabConversation("t", messages, questions=[
            {"question": "cat?", "evidence": [2], "ask_after": 81},
            {"question": "last?", "evidence": [81], "ask_after": 81},
            {"question": "nothing known", "evidence": [], "ask_after": 81},
        ])  # fmt: skip
        found = run([talk], {"all": NoCuration(), "tight": Curator(max_tokens=600)})
        assert found["all"].evidence_recall == 1
        assert found["tight"].evidence_recall == 0.5
        assert found["all"].questions == 2


class TestExecutors:
    def test_processes_threads_and_serial_agree(self) -> None:
        talks = [session(turns, words=40) for turns in (30, 40, 50)]
        policies = {"mine": Curator(max_tokens=900), "all": NoCuration()}
        serial = _numbers(run(talks, policies))
        assert _numbers(run(talks, policies, executor=None)) == serial
        with ThreadPoolExecutor(2) as threads:
            assert _numbers(run(talks, policies, executor=threads)) == serial

    def test_a_dask_cluster_agrees(self) -> None:
        distributed = pytest.importorskip("distributed", reason="dask.distributed is absent")
        talks = [session(turns, words=40) for turns in (30, 60)]
        policies = {"mine": Curator(max_tokens=900), "all": NoCuration()}
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            executor: Executor = client.get_executor()
            assert _numbers(run(talks, policies, executor=executor)) == _numbers(
                run(talks, policies)
            )

    def test_a_policy_that_cannot_travel_is_explained(self) -> None:
        talks = [session(60), session(60)]
        with pytest.raises(ConfigurationError, match="module-level"):
            run(talks, {"mine": lambda: Curator(max_tokens=900)}, executor=None)

    def test_something_that_is_no_executor_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="executor"):
            run([session(2)], ["no curation"], executor=3)

    def test_a_bar_is_drawn_on_standard_error(self, capsys: pytest.CaptureFixture[str]) -> None:
        run([session(2)], ["no curation"], progress=True)
        assert capsys.readouterr().out == ""


def _numbers(results: Any) -> list[dict[str, Any]]:
    rows = [result.to_dict() for result in results.policies.values()]
    for row in rows:
        del row["ms_per_view"]
    return rows


class TestInput:
    def test_one_list_of_messages_is_one_conversation(self) -> None:
        assert run(session(2), ["no curation"])["no curation"].conversations == 1

    def test_mappings_keep_their_id_and_tools_count(self) -> None:
        tool = {"type": "function", "function": {"name": "read", "description": "Read a file."}}
        plain = run([{"id": "x", "messages": session(2)}], ["no curation"])
        armed = run([{"id": "x", "messages": session(2), "tools": [tool]}], ["no curation"])
        assert plain.tallies["no curation"][0].conversation == "x"
        assert armed["no curation"].peak > plain["no curation"].peak

    def test_anthropic_style_conversations_are_read(self) -> None:
        messages = [
            user("go"),
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "file-1.txt"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "see file-2.txt"}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "t2", "name": "read", "input": {"path": "file-2.txt"}}]},
        ]  # fmt: skip
        found = run([messages], ["no curation"])["no curation"]
        assert (found.calls, found.identifiers) == (2, 1)

    @pytest.mark.parametrize("policies", [{}, {"x": 3}, ["acme"], ["curator"]])
    def test_a_policy_that_cannot_be_used_is_named(self, policies: Any) -> None:
        with pytest.raises(ConfigurationError, match="Fix"):
            run([session(2)], policies)

    def test_sampling_is_labelled_and_scaled(self) -> None:
        whole = run([session(40)], ["no curation"])["no curation"]
        part = run([session(40)], ["no curation"], max_calls=21)["no curation"]
        assert part.sampled == pytest.approx(21 / 42)
        assert part.tokens_sent == pytest.approx(whole.tokens_sent, rel=0.1)
        assert "(50% of calls)" in str(run([session(40)], ["no curation"], max_calls=21))


class TestResults:
    results = None

    @pytest.fixture(scope="class")
    @classmethod
    def found(cls) -> Any:
        return run(
            [session(30)],
            {"mine": Curator(max_tokens=900), "all": NoCuration(900), "trim": "trim_messages"},
            max_tokens=900,
        )

    def test_the_text_table_has_a_row_per_policy(self, found: Any) -> None:
        lines = str(found).splitlines()
        assert [line.split()[0] for line in lines[2:5]] == ["mine", "all", "trim"]

    def test_the_frame_has_a_row_per_policy(self, found: Any) -> None:
        frame = found.to_frame()
        assert list(frame.index) == ["mine", "all", "trim"]
        assert frame.loc["mine", "costs.none"] > 0

    def test_json_round_trips(self, found: Any, tmp_path: Any) -> None:
        text = found.to_json(tmp_path / "results.json")
        assert json.loads(text) == json.loads((tmp_path / "results.json").read_text())
        assert [row["name"] for row in json.loads(text)["policies"]] == ["mine", "all", "trim"]

    def test_html_is_escaped(self) -> None:
        page = run([session(2)], {"<b>": NoCuration()})._repr_html_()
        assert "<b>" not in page
        assert "&lt;b&gt;" in page

    def test_every_sheet_is_priced(self, found: Any) -> None:
        assert {"anthropic", "openai", "gemini", "none"} <= set(found["mine"].costs)
        assert found["mine"].cost == found["mine"].costs["anthropic"]


def test_real_sessions_keep_the_promise() -> None:
    from tests.support.data import load

    talks = [row for row in load("coding_sessions") if len(row["messages"]) < 150][:4]
    found = run(talks, {"mine": Curator(max_tokens=8_000)})["mine"]
    assert found.sound, found.note


def test_exchange_factory_is_a_conversation() -> None:
    assert run([[user(), *exchange("a"), assistant()]], ["no curation"])["no curation"].calls == 2


def test_markdown_has_a_row_per_policy(tmp_path: Path) -> None:
    results = run([session(3)], {"all": NoCuration()})
    text = results.to_markdown(tmp_path / "table.md")
    assert (tmp_path / "table.md").read_text(encoding="utf-8") == text + "\n"
    names = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")]
    assert names == ["policy", "---", "all"]


@pytest.mark.parametrize(
    "sessions", [pytest.param(4, id="some"), pytest.param(99, id="all", marks=pytest.mark.nightly)]
)
def test_the_default_is_on_the_frontier_of_real_sessions(sessions: int) -> None:
    from tests.support.data import load

    talks = [
        row for row in load("coding_sessions") if sessions == 99 or 150 < len(row["messages"]) < 220
    ]
    found = run(talks[:sessions], ["curator", *PEERS], max_tokens=32_000, executor=None)
    assert found["curator"].sound, found.note
    assert "curator" in found.frontier(), str(found)
    assert found.recommend().name == "curator"


class TestFailing:
    def test_a_policy_that_always_fails_loses_everything(self) -> None:
        found = run([session(5)], {"broken": Curator(max_tokens=5), "all": "no curation"})
        broken = found["broken"]
        assert broken.failed == broken.calls == 7
        assert broken.missed == 1
        assert broken.identifiers == found["all"].identifiers > 0
        assert found.frontier() == ["all"]

    def test_totals_are_those_of_the_conversations(self) -> None:
        found = run([session(5)], {"skipped": Absent(), "all": "no curation"}, max_calls=1)
        assert found.notes()[0] == (
            "7 calls in 1 conversation; later calls used 5 identifiers said before, "
            "repeated 0 calls and edited 0 times"
        )


def test_a_manager_is_not_a_policy() -> None:
    with pytest.raises(ConfigurationError, match=r"Curator\(SlidingWindowManager\(...\)"):
        run([session(2)], {"a": SlidingWindowManager(4)})
