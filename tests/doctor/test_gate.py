"""The doctor as a gate: seeded regressions are caught, the same logs give no alarm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from history_curator.cli.commands import app
from history_curator.doctor import diagnose, judge
from history_curator.errors import ConfigurationError
from tests.doctor.logs import ClaudeCode, call, record_agent, usage

SEEDED: dict[str, tuple[dict[str, Any], str]] = {
    "a clock in the system prompt": ({"clock": True}, "cache lost: tools changed"),
    "tools in a random order": ({"shuffled": True}, "cache lost: tools changed"),
    "a bigger tool result": ({"words": 600}, "result of read_log"),
}


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)])


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    path = tmp_path / "baseline.json"
    done = run(record_agent(tmp_path / "before"), "--no-what-if", "-o", path)
    assert done.exit_code == 0, done.output
    return path


@pytest.mark.parametrize("sessions", [4, 2, 9])
def test_logs_of_another_size_give_no_alarm(tmp_path: Path, baseline: Path, sessions: int) -> None:
    logs = record_agent(tmp_path / "after", sessions=sessions)
    done = run(logs, "--no-what-if", "--against", baseline, "--max-cost", "+0%")
    assert done.exit_code == 0, done.output
    assert "Within the baseline" in done.output


@pytest.mark.parametrize("name", SEEDED)
def test_a_seeded_regression_fails_with_the_calls_that_explain_it(
    tmp_path: Path, baseline: Path, name: str
) -> None:
    options, reason = SEEDED[name]
    logs = record_agent(tmp_path / "after", **options)
    done = run(logs, "--no-what-if", "--against", baseline, "--max-cost", "+5%")
    assert done.exit_code == 1, done.output
    told = done.output[done.output.index("Worse than the baseline") :]
    assert told.count(reason) == 3
    assert run(logs, "--no-what-if", "--against", baseline, "--max-cost", "+900%").exit_code == 0


def test_a_rise_of_what_calls_missed_fails(tmp_path: Path) -> None:
    def write(folder: str, summary: str) -> Path:
        log = ClaudeCode().user("start at src/first_file.py")
        log.answer("m0", call("c0", "Read", path="src/first_file.py"), used=usage(write=20_000))
        log.result("c0", "it names src/other_file.py").answer("m1", used=usage(read=20_000))
        log.compact(summary).user("go on")
        log.answer("m2", call("c1", "Read", path="src/other_file.py"), used=usage(write=9_000))
        (tmp_path / folder).mkdir()
        return (
            log.result("c1", "text").answer("m3", used=usage(read=9_000)).write(tmp_path / folder)
        )

    def look(path: Path) -> Any:
        return diagnose([path], budgets=(50_000,), peers=(), executor="serial")

    found = look(write("before", "src/other_file.py is next"))
    baseline = tmp_path / "baseline.json"
    baseline.write_text(found.to_json())
    assert judge(found, baseline, max_cost=0.0, max_missed=0.0).passed
    verdict = judge(look(write("after", "files were read")), baseline)
    assert not verdict.passed
    assert [(each.call, each.reason) for each in verdict.calls] == [(2, "missed")]
    assert "src/other_file.py" in verdict.calls[0].detail


def test_the_output_may_be_the_next_baseline(tmp_path: Path, baseline: Path) -> None:
    logs = record_agent(tmp_path / "after", clock=True)
    arguments = (logs, "--no-what-if", "--against", baseline, "-o", baseline)
    assert [run(*arguments).exit_code for _ in range(2)] == [1, 0]


class TestInput:
    @pytest.mark.parametrize("text", ["[]", "{}", "no json", '{"calls": 0, "cost": {}}'])
    def test_a_file_that_is_no_baseline(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "b.json").write_text(text)
        logs = record_agent(tmp_path / "logs", sessions=1)
        with pytest.raises(ConfigurationError, match=r"is no baseline. Fix: write one with"):
            judge(diagnose([logs], budgets=()), tmp_path / "b.json")

    def test_a_baseline_in_another_unit(self, tmp_path: Path, baseline: Path) -> None:
        data = json.loads(baseline.read_text())
        data["cost"]["unit"] = "EUR"
        baseline.write_text(json.dumps(data))
        done = run(tmp_path / "before", "--no-what-if", "--against", baseline)
        assert done.exit_code == 2
        assert "is in EUR, these logs are in USD" in done.output

    @pytest.mark.parametrize("rise", ["5", "-5%", "much"])
    def test_a_rise_that_is_no_percentage(self, tmp_path: Path, baseline: Path, rise: str) -> None:
        assert run(tmp_path / "before", "--against", baseline, f"--max-cost={rise}").exit_code == 2
