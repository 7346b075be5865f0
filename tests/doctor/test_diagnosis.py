from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from history_curator.doctor import Bust, Diagnosis, diagnose
from tests.doctor.logs import MODEL, ClaudeCode, call, text, usage


def look(log: ClaudeCode, folder: Path, **options: object) -> Diagnosis:
    return diagnose([log.write(folder)], **{"budgets": (), **options})  # type: ignore[arg-type]


def only(found: Diagnosis) -> Bust:
    (bust,) = found.busts
    return bust


class TestBusts:
    def test_a_warm_cache_is_no_bust(self, tmp_path: Path) -> None:
        log = ClaudeCode().user("a").answer("1", used=usage(write=20_000))
        log.user("b", wait=200).answer("2", used=usage(read=20_000, write=500))
        found = look(log, tmp_path)
        assert found.busts == []
        assert found.simulated_read == found.usage["cache_read"] == 20_000

    def test_a_pause_longer_than_the_lifetime_is_idle(self, tmp_path: Path) -> None:
        log = ClaudeCode().user("a").answer("1", used=usage(write=20_000))
        log.user("b", wait=316).answer("2", used=usage(write=20_500))
        found = look(log, tmp_path)
        assert (only(found).reason, only(found).tokens, only(found).call) == ("idle", 20_000, 1)
        assert only(found).cost == pytest.approx(20_000 * 1.15 * 5 / 1e6)
        assert found.simulated_read == 0

    def test_seconds_after_its_time_a_prefix_is_mostly_there(self, tmp_path: Path) -> None:
        log = ClaudeCode().user("a").answer("1", used=usage(write=20_000))
        log.user("b", wait=310).answer("2", used=usage(read=20_000, write=500))
        assert look(log, tmp_path).simulated_read == 20_000
        log = ClaudeCode().user("a").answer("1", used=usage(write=20_000))
        log.user("b", wait=310).answer("2", used=usage(write=20_500))
        assert only(look(log, tmp_path)).reason == "idle"

    def test_an_hour_of_lifetime_is_paid_and_lasts(self, tmp_path: Path) -> None:
        log = ClaudeCode().user("a").answer("1", used=usage(write=20_000, hour=20_000))
        log.user("b", wait=3_000).answer("2", used=usage(read=20_000, write=9, hour=9))
        log.user("c", wait=3_700).answer("3", used=usage(write=20_100, hour=20_100))
        found = look(log, tmp_path)
        assert (only(found).call, only(found).reason) == (2, "idle")
        assert only(found).cost == pytest.approx(20_009 * 1.9 * 5 / 1e6)
        assert found.simulated_read == 20_000

    def test_a_host_summary_is_a_compaction(self, tmp_path: Path) -> None:
        log = ClaudeCode().user("a").answer("1", used=usage(read=9_000, write=90_000))
        log.compact("what was done").user("go on")
        log.answer("2", used=usage(read=9_000, write=12_000))
        found = look(log, tmp_path)
        assert (only(found).reason, only(found).tokens) == ("compaction", 12_010)
        assert found.simulated_read == 9_000 + 9_000

    def test_a_lost_front_is_told_from_a_changed_prefix(self, tmp_path: Path) -> None:
        log = ClaudeCode().user("a").answer("1", used=usage(read=9_000, write=20_000))
        log.user("b").answer("2", used=usage(read=9_000, write=20_500))
        log.user("c").answer("3", used=usage(write=30_000))
        found = look(log, tmp_path)
        reasons = {each.call: each.reason for each in found.busts}
        assert reasons == {1: "prefix changed", 2: "tools changed"}

    def test_another_model_has_another_cache(self, tmp_path: Path) -> None:
        log = ClaudeCode().user("a").answer("1", used=usage(write=20_000))
        log.user("b").answer("2", used=usage(write=20_500), model="claude-sonnet-4-5")
        found = look(log, tmp_path)
        assert only(found).reason == "prefix changed"
        assert found.simulated_read == 0

    def test_a_prompt_below_the_minimum_is_too_small(self, tmp_path: Path) -> None:
        log = ClaudeCode().user("a").answer("1", used=usage(plain=900))
        log.user("b").answer("2", used=usage(plain=1_000))
        assert (only(look(log, tmp_path)).reason) == "too small"


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
        assert list(data["what_if"][1]) == ["policy", "budget", "cost", "missed", "lost", "note"]
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
