from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from history_curator.doctor import Diagnosis, diagnose
from tests.doctor.logs import MODEL, ClaudeCode, call, text, usage


def look(log: ClaudeCode, folder: Path, **options: object) -> Diagnosis:
    return diagnose([log.write(folder)], **{"budgets": (), **options})  # type: ignore[arg-type]


def chat(*steps: tuple[float, dict[str, int]]) -> ClaudeCode:
    """A question and an answer for each step: the seconds before it, and the answer's usage."""
    log = ClaudeCode()
    for number, (wait, used) in enumerate(steps):
        log.user(f"question {number}", wait=wait).answer(str(number), used=usage(**used))
    return log


COLD = {"write": 20_000}
BUSTS: dict[str, tuple[ClaudeCode, list[tuple[int, str, int]], int]] = {
    "a warm cache": (chat((1, COLD), (200, {"read": 20_000, "write": 500})), [], 20_000),
    "a pause longer than the lifetime": (
        chat((1, COLD), (316, {"write": 20_500})), [(1, "idle", 20_000)], 0),
    "seconds after its time a prefix is mostly there": (
        chat((1, COLD), (310, {"read": 20_000, "write": 500})), [], 20_000),
    "and lost where it is not": (
        chat((1, COLD), (310, {"write": 20_500})), [(1, "idle", 20_000)], 20_000),
    "an hour of lifetime that was paid": (
        chat((1, {"write": 20_000, "hour": 20_000}), (3_000, {"read": 20_000, "write": 9, "hour": 9}),
             (3_700, {"write": 20_100, "hour": 20_100})), [(2, "idle", 20_009)], 20_000),
    "a summary of the host": (
        chat((1, {"read": 9_000, "write": 90_000})).compact("what was done").user("go on")
        .answer("2", used=usage(read=9_000, write=12_000)), [(1, "compaction", 12_010)], 18_000),
    "a changed prefix, then a lost front": (
        chat((1, {"read": 9_000, "write": 20_000}), (1, {"read": 9_000, "write": 20_500}),
             (1, {"write": 30_000})), [(1, "prefix changed", 20_000), (2, "tools changed", 29_500)],
        67_500),
    "another model": (
        chat((1, COLD)).user("b").answer("2", used=usage(write=20_500), model="claude-sonnet-4-5"),
        [(1, "prefix changed", 20_000)], 0),
    "a prompt below the minimum": (
        chat((1, {"plain": 900}), (1, {"plain": 1_000})), [(1, "too small", 1_000)], 0),
}  # fmt: skip


@pytest.mark.parametrize("name", BUSTS)
def test_why_a_cache_was_lost(tmp_path: Path, name: str) -> None:
    log, busts, simulated = BUSTS[name]
    found = look(log, tmp_path)
    assert sorted((each.call, each.reason, each.tokens) for each in found.busts) == busts
    assert found.simulated_read == simulated


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("a pause longer than the lifetime", 20_000 * 1.15),
        ("an hour of lifetime that was paid", 20_009 * 1.9),
    ],
)
def test_a_lost_cache_costs_its_rewriting(tmp_path: Path, name: str, cost: float) -> None:
    (bust,) = look(BUSTS[name][0], tmp_path).busts
    assert bust.cost == pytest.approx(cost * 5 / 1e6)


def session(turns: int = 6) -> ClaudeCode:
    """A tool loop; every result is read by the next call only, but for the first path."""
    log, held = ClaudeCode().user("start at src/first_file.py"), 30_000
    log.answer("m0", call("c0", "Read", path="src/first_file.py"), used=usage(write=held))
    for turn in range(1, turns):
        log.result(f"c{turn - 1}", f"see src/file_{turn:03d}.py " + "line of text " * 400)
        path = f"src/file_{turn:03d}.py"
        log.answer(f"m{turn}", text("on"), call(f"c{turn}", "Read", path=path),
                   used=usage(read=held, write=1_500))  # fmt: skip
        held += 1_500
    log.result(f"c{turns - 1}", "the end")
    return log.answer("last", used=usage(read=held, write=40))


class TestContents:
    def test_kinds_add_up_to_the_prompts(self, tmp_path: Path) -> None:
        found = look(session(), tmp_path)
        sent = sum(found.usage[key] for key in ("input", "cache_read", "cache_write"))
        assert sum(found.kinds.values()) == pytest.approx(sent, rel=1e-3)
        assert found.kinds["not in the log"] > found.kinds["tool results"] > 0
        assert found.tools[0].name == "Read"
        assert 0 < found.tools[0].unused < found.tools[0].tokens


class TestWhatIf:
    def test_as_it_was_costs_what_was_reported(self, tmp_path: Path) -> None:
        found = look(session(8), tmp_path, budgets=(2_000, 100_000), peers=(), executor="serial")
        was, small, large = found.what_if
        assert was.policy == "as it was"
        assert was.cost == pytest.approx(found.cost["total"])
        assert large.cost == pytest.approx(was.cost)  # nothing is ever left out
        assert small.cost < was.cost
        assert (was.missed, large.missed) == (0.0, 0.0)

    def test_a_policy_that_is_not_installed_has_dashes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "langchain.agents.middleware.context_editing", None)
        peers = ("clear-tool-uses",)
        found = look(session(3), tmp_path, budgets=(9_000,), peers=peers, executor="serial")
        assert found.tables(9)[-1].rows[-1][2:6] == ("–",) * 4
        assert "Budgets are for what the logs hold" in " ".join(found.notes())

    def test_where_nothing_is_saved_there_is_no_advice(self, tmp_path: Path) -> None:
        found = look(session(8), tmp_path, budgets=(100_000,), peers=(), executor="serial")
        was, ours = found.what_if
        for cost in (was.cost, was.cost * 0.9951):  # 100 %, when it is printed
            same = replace(found, what_if=[was, replace(ours, cost=cost)])
            assert same.sentences()[-1].endswith("what was sent is fine as it was.")
        for better in (replace(ours, cost=was.cost * 0.98), ours):
            lossy = replace(was, missed=0.03 if better is ours else 0.0)
            less = replace(found, what_if=[lossy, replace(better, cost=better.cost * 0.999)])
            assert "curator at 100,000 tokens would have" in less.sentences()[-1]

    def test_a_summary_loses_what_it_does_not_name(self, tmp_path: Path) -> None:
        log = session(4)
        log.compact("files were read").user("once more")
        log.answer("n1", call("d1", "Read", path="src/file_002.py"), used=usage(write=20_000))
        log.result("d1", "text").answer("n2", used=usage(read=20_000, write=50))
        found = look(log, tmp_path, budgets=(100_000,), peers=(), executor="serial")
        was, ours = found.what_if
        assert was.missed > ours.missed == 0.0


class TestShape:
    def test_json_has_the_documented_shape(self, tmp_path: Path) -> None:
        log = session().user("x", wait=900).answer("z", used=usage(write=40_000))
        data = json.loads(
            look(log, tmp_path, budgets=(4_000,), peers=(), executor="serial").to_json()
        )
        assert list(data["usage"]) == ["input", "cache_read", "cache_write", "output"]
        assert set(data["cost"]) == {*data["usage"], "total", "unit"}
        assert list(data["busts"][0]) == ["session", "call", "reason", "tokens", "cost"]
        assert list(data["tools"][0]) == ["name", "tokens", "share", "unused"]
        fields = ["policy", "budget", "cost", "missed", "lost", "note", "skipped"]
        assert list(data["what_if"][1]) == fields
        assert data["sessions"] == 1
        assert data["problems"] == []

    def test_hostile_names_are_inert_in_the_page(self, tmp_path: Path) -> None:
        evil = "<img src=x onerror=alert(1)>"
        log = ClaudeCode(evil.replace("/", "")).user("a")
        log.answer("1", call("c", evil, path="x" * 9), used=usage(write=20_000))
        log.result("c", "r").compact("s").user("b")
        log.answer("2", call("d", evil, path="x" * 9), used=usage(write=20_500), model=MODEL)
        path = tmp_path / "evil.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in log.lines))
        page = diagnose([path], budgets=()).to_html(tmp_path / "d.html").read_text()
        assert "<img" not in page
        assert "&lt;img src=x" in page
        assert "default-src 'none'" in page
        assert not re.search(
            r"<script|https?://|\son\w+=", page.replace("&lt;img src=x onerror=", "")
        )
