from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from history_curator.cli.commands import app
from tests.doctor.logs import ClaudeCode, usage


def log(folder: Path) -> Path:
    talk = ClaudeCode("[bold]s[/bold]").user("a").answer("1", used=usage(write=20_000))
    talk.user("b", wait=400).answer("2", used=usage(write=20_500))
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in talk.lines))
    return path


class TestDoctor:
    def test_says_what_was_spent_and_why(self, tmp_path: Path) -> None:
        result = CliRunner().invoke(app, ["doctor", str(log(tmp_path)), "--no-what-if"])
        assert result.exit_code == 0, result.output
        assert "2 calls in 1 session" in result.output
        assert "idle" in result.output
        assert "written to the cache" in result.output

    def test_all_numbers_are_written_as_json(self, tmp_path: Path) -> None:
        target = tmp_path / "found.json"
        CliRunner().invoke(app, ["doctor", str(log(tmp_path)), "-b", "8000", "-o", str(target)])
        data = json.loads(target.read_text())
        assert data["calls"] == 2
        assert data["what_if"][1]["budget"] == 8_000

    def test_a_page(self, tmp_path: Path) -> None:
        page = tmp_path / "page.html"
        CliRunner().invoke(app, ["doctor", str(log(tmp_path)), "--no-what-if", "--html", str(page)])
        assert "Why the cache was lost" in page.read_text()
