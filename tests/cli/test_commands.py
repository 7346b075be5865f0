from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("typer", reason="typer is absent")

from typer.testing import CliRunner

from history_curator import Curator, count_tokens
from history_curator.cli.commands import app
from history_curator.lab import sample_conversation
from tests.report.test_page_text import embedded
from tests.support.messages import assistant, call, exchange, result, system, user


def run(*arguments: str | Path, stdin: str | None = None) -> Any:
    return CliRunner().invoke(app, [str(each) for each in arguments], input=stdin)


def write(path: Path, *rows: Any) -> Path:
    """Write one JSON document, or several as JSON lines."""
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    return write(tmp_path / "talk.json", sample_conversation())


class TestDemo:
    def test_one_screen_says_what_happens_and_what_it_costs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "100")
        target = tmp_path / "demo.html"
        done = run("demo", "-o", target)
        assert done.exit_code == 0, done.output
        assert len(done.output.splitlines()) <= 30
        assert str(target) in done.output.replace("\n", "")
        went_in = f"{count_tokens(sample_conversation()):,} tokens"
        for said in ("went in", went_in, "is sent", "left out", "curator", "newest that fit",
                     "cached", "cost", "missed", "invalid", "over"):  # fmt: skip
            assert said in done.output
        assert "24 calls of a session" in target.read_text(encoding="utf-8")

    def test_it_needs_no_framework(self, tmp_path: Path) -> None:
        code = (
            "import sys\n"
            "for name in ('langchain_core', 'llama_index', 'yaml', 'pandas', 'matplotlib'):\n"
            "    sys.modules[name] = None\n"
            f"sys.argv = ['history-curator', 'demo', '-o', {str(tmp_path / 'demo.html')!r}]\n"
            "from history_curator.cli import main\nmain()\n"
        )
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


class TestCurate:
    def test_the_view_fits_and_goes_to_standard_output(self, talk: Path) -> None:
        done = run("curate", talk, "--max-tokens", "6000")
        assert done.exit_code == 0, done.output
        view = json.loads(done.stdout)
        assert count_tokens(view) <= 6_000
        assert view == Curator(max_tokens=6_000).curate(sample_conversation()).messages

    def test_views_of_several_conversations_are_lines_with_their_ids(self, tmp_path: Path) -> None:
        rows = [{"id": f"no {n}", "messages": [user(f"hi {n}")], "model": "m"} for n in (1, 2)]
        done = run("curate", write(tmp_path / "talks.json", rows))
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert found == [{"id": row["id"], "messages": row["messages"]} for row in rows]

    def test_what_is_asked_for_wins_over_the_configuration(
        self, talk: Path, tmp_path: Path
    ) -> None:
        config = tmp_path / "curator.yaml"
        config.write_text("provider: openai\ncounter: cl100k_base\n", encoding="utf-8")
        asked = ("explain", talk, "--json", "--config", config)
        plain = json.loads(run(*asked).stdout)
        own = json.loads(run(*asked, "-p", "anthropic", "--counter", "o200k_base").stdout)
        assert (plain["provider"], plain["counter"]) == ("openai", "cl100k_base")
        assert (own["provider"], own["counter"]) == ("anthropic", "o200k_base")

    @pytest.mark.parametrize(
        ("command", "code"),
        [("curate", 2), ("check", 2), ("compare --policy curator", 0)],
    )
    def test_an_error_names_the_conversation(self, tmp_path: Path, command: str, code: int) -> None:
        rows: list[Any] = [[user("hi"), assistant("yes")], [user("hi"), {"role": "wizard"}]]
        done = run(*command.split(), write(tmp_path / "talks.jsonl", *rows))
        assert done.exit_code == code, done.output
        assert "talks.jsonl#1" in done.stderr
        assert "messages[1].role" in done.stderr

    def test_a_budget_error_names_the_conversation(self, tmp_path: Path) -> None:
        rows = [{"id": "small", "messages": [user("hi")]},
                {"id": "large", "messages": [system("x " * 900), user("hi")]}]  # fmt: skip
        done = run("curate", write(tmp_path / "talks.json", rows), "-n", "100")
        assert done.exit_code == 2
        assert "large: The smallest view needs" in done.stderr

    def test_a_conversation_that_ends_on_an_answer_is_a_history(self) -> None:
        said = json.dumps([user("hi"), assistant("hello")])
        assert json.loads(run("curate", "-", stdin=said).stdout) == json.loads(said)


class TestCheck:
    def test_a_clean_conversation_is_code_0(self, talk: Path) -> None:
        done = run("check", talk, "--provider", "anthropic")
        assert done.exit_code == 0, done.output
        assert "valid for anthropic" in done.output

    def test_violations_are_a_table_and_code_1(self) -> None:
        said = json.dumps([user("hi"), result("c9", "stray"), call("c1"), user("so?")])
        done = run("check", "-", "-p", "openai", stdin=said)
        assert done.exit_code == 1
        assert "P6" in done.output
        assert "2 violations in 1 of 1 conversation." in done.output
        assert (
            "Fix: history-curator curate - -p openai -o fixed.json\nRules: https://" in done.output
        )


class TestExplain:
    def test_it_names_every_decision(self, talk: Path) -> None:
        done = run("explain", talk, "-n", "6000")
        assert done.exit_code == 0, done.output
        assert "of 6000 tokens" in done.output
        assert "kept" in done.output

    def test_several_conversations_are_said_and_chosen_with_which(self, tmp_path: Path) -> None:
        for number, name in enumerate(("one", "two", "three")):
            write(tmp_path / f"{number}.json", {"id": name, "messages": [user(f"hi {name}")]})
        done = run("explain", tmp_path)
        assert "holds 3 conversations; this is number 0. Choose with --which: 0 one" in done.stderr
        run("explain", tmp_path, "--which", "1", "--html", page := tmp_path / "page.html")
        assert "hi two" in str(embedded(page.read_text(encoding="utf-8")))

    @pytest.mark.parametrize("command", ["explain", "session -o {0}/s.html", "check"])
    def test_a_broken_file_of_a_folder_does_not_stop_the_others(
        self, tmp_path: Path, command: str
    ) -> None:
        (tmp_path / "a.json").write_text("{oops", encoding="utf-8")
        write(tmp_path / "b.json", [user("hi")])
        done = run(*command.format(tmp_path).split(), tmp_path)
        assert done.exit_code == (2 if command == "check" else 0), done.output
        assert "a.json, not JSON" in done.stderr

    def test_a_long_text_and_its_reason_fill_the_width_of_the_terminal(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        path = write(tmp_path / "talk.json", [user("word " * 100), call("c1"), user("so?")])
        lines = run("explain", path).output.splitlines()
        assert max(map(len, lines)) <= 80
        assert sum(line.count("word") for line in lines) > 12
        assert any(line.rstrip().endswith("…") for line in lines)

    CALLS: ClassVar = [{"type": "tool_use", "id": f"c{n}", "name": "f", "input": {}} for n in "12"]
    RESULTS: ClassVar = [
        {"type": "tool_result", "tool_use_id": f"c{n}", "content": ""} for n in "12"
    ]
    CALL: ClassVar = [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                      {"type": "function_call_output", "call_id": "c", "output": "rain"}]  # fmt: skip

    @pytest.mark.parametrize(
        ("said", "expected"),
        [
            ([user("go"), assistant(CALLS), user(RESULTS), assistant("done"), user("")],
             [0, 1, 2, 2, 3, 4]),
            ([user("go"), *CALL, {"type": "reasoning", "id": "r", "summary": []},
              {"type": "message", **assistant("rain")}, user("")], [0, 1, 2, 3, 5]),
        ],
        ids=["a message of two results", "two items of one answer"],
    )  # fmt: skip
    def test_messages_have_the_numbers_of_the_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any, expected: list[int]
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        path = write(tmp_path / "talk.json", said)
        lines = run("explain", path).output.splitlines()
        numbers = [line.split()[0] for line in lines[2:] if line[:2].strip().isdigit()]
        assert numbers == list(map(str, expected))
        assert f" {expected[-1]} " in run("check", path).output
        for command in ("explain --html", "explain -o", "session --html", "session -o"):
            name, option = command.split()
            done = run(name, path, option, page := tmp_path / "page.html")
            assert f"Written: {page}" in done.stderr
            data = embedded(page.read_text(encoding="utf-8"))
            rows = data.get("decisions") or data["entries"]
            if name == "explain":
                assert data["tokens_before"] == count_tokens(said)
            shown = [row["message"] for row in rows if row["message"] is not None]
            assert shown == expected


class TestCount:
    def test_it_says_when_it_estimates(self, talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        exact = json.loads(run("count", talk, "--json").stdout)
        assert exact["tokens"] == count_tokens(sample_conversation())
        monkeypatch.setattr("history_curator.tokens.tiktoken_counter._loaded", {"o200k_base": None})
        estimate = json.loads(run("count", talk, "--json", "--counter", "o200k_base").stdout)
        assert (exact["is_estimate"], estimate["is_estimate"]) == (False, True)
        assert estimate["tokens"] == pytest.approx(exact["tokens"], rel=0.08)
        assert "o200k_base estimated" in run("count", talk).output


class TestPrune:
    SAID: ClassVar = [user("one"), *exchange("a", text="big " * 200), assistant("done"),
                      user("two"), assistant("ok"), user("three"), assistant("ok")]  # fmt: skip

    @pytest.mark.parametrize("dry", [True, False])
    def test_a_database_is_cleaned(self, tmp_path: Path, dry: bool) -> None:
        pytest.importorskip("langchain_community", reason="langchain-community is absent")
        from langchain_community.chat_message_histories import SQLChatMessageHistory
        from langchain_core.messages import convert_to_messages

        url = f"sqlite:///{tmp_path / 'chat.db'}"
        history = SQLChatMessageHistory("s1", connection=url)
        history.add_messages(convert_to_messages(self.SAID))
        done = run("prune", url, *([] if dry else ["--apply"]))
        assert done.exit_code == 0, done.output
        assert "trimmed" in done.output
        stored = SQLChatMessageHistory("s1", connection=url).messages
        assert any("big" in str(message.content) for message in stored) == dry


class TestTheCommandItself:
    """What a shell sees: versions, exit codes, pipes, narrow terminals, missing packages."""

    def shell(self, *arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "history_curator.cli", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, **options)

    def test_the_version_is_the_package_s(self) -> None:
        from history_curator import __version__

        assert self.shell("--version").stdout.strip() == f"history-curator {__version__}"

    def test_without_typer_one_sentence_and_code_2(self, tmp_path: Path) -> None:
        (tmp_path / "typer.py").write_text("raise ModuleNotFoundError('no', name='typer')")
        path = f"{tmp_path}:{Path(__file__).resolve().parents[2]}"
        done = self.shell("demo", env={"PYTHONPATH": path})
        assert done.returncode == 2
        assert self.shell("--version", env={"PYTHONPATH": path}).returncode == 0
        assert done.stderr.strip() == (
            "The command line needs typer, which is not installed. "
            'Fix: pip install "history-curator[cli]"'
        )

    @pytest.mark.parametrize("command", ["explain {} -n 6000", "curate {} -n 6000", "--help"])
    def test_a_closed_pipe_ends_quietly(self, talk: Path, command: str) -> None:
        line = f"{sys.executable} -m history_curator.cli {command.format(talk)} | head -n 1"
        done = subprocess.run(
            ["bash", "-c", line + "; echo ${PIPESTATUS[0]}"], capture_output=True, text=True,
            check=False, env={"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1",
                              "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        assert "Errno" not in done.stderr
        assert done.stdout.split()[-1] in {"0", "141"}  # 0 when it was done before the pipe closed

    @pytest.mark.parametrize("command", ["demo", "check"])
    def test_it_fits_the_terminal(
        self, talk: Path, command: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        lines = run(command, *(() if command == "demo" else (talk,))).output.splitlines()
        assert max(len(line) for line in lines if "/" not in line) <= 80

    def test_help_of_every_command_has_an_example(self) -> None:
        for command in app.registered_commands:
            name = getattr(command.callback, "__name__", "")
            assert f"Example: history-curator {name}" in run(name, "--help").output

    @pytest.mark.parametrize(
        ("command", "says"),
        [
            ("check nowhere.json", "nowhere.json: No such file or directory. Fix: check the path."),
            ("explain {} --which 7", "holds 1 conversation, and no number 7. Fix: leave --which out."),
            ("compare {} --policy acme", "no policy named 'acme'. Fix: one of curator, "),
            ("compare {} --policy =c.yaml", "'=c.yaml' has no name. Fix: NAME=c.yaml."),
            *((f"{command} -o no/x", "error: no/x: there is no folder {}/no. Fix: make it")
              for command in ("curate {}", "session {}", "compare {}", "demo", "doctor {}")),
            ("doctor {} --html no/x", "error: no/x: there is no folder {}/no. Fix: make it"),
        ],
    )  # fmt: skip
    def test_an_error_is_one_line_with_its_fix_and_code_2(
        self, talk: Path, command: str, says: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(talk.parent)
        done = run(*command.format(talk).split())
        assert done.exit_code == 2
        assert says.format(talk.parent) in done.stderr


def test_a_session_is_written_as_a_page(talk: Path, tmp_path: Path) -> None:
    target = tmp_path / "session.html"
    done = run("session", talk, "-n", "8000", "--policy", "no curation", "-o", target)
    assert done.exit_code == 0, done.output
    assert "under curator and no curation" in target.read_text(encoding="utf-8")


class TestCompare:
    def test_it_fits_80_columns_has_a_legend_and_writes_a_page_that_loads_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        path = write(tmp_path / "talks.jsonl", sample_conversation())
        shown = run("compare", path, "-n", "8000", "--policy", "curator", "--policy",
                    "no curation", "--html", tmp_path / "page.html", "-o", tmp_path / "r.json")  # fmt: skip
        assert shown.exit_code == 0, shown.output
        table = [line for line in shown.output.splitlines() if "curat" in line or "─" in line]
        assert max(map(len, table)) <= 80
        for head in ("sent", "cached", "cost", "missed", "invalid", "over", "refused"):
            assert f"\n{head} " in shown.output
        assert "On the cost/missed frontier: curator." in shown.output
        assert "Use curator." in shown.output
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert "<h1>Use curator.</h1>" in page
        assert "a budget of 8,000 tokens" in page
        assert "a budget of 8,000 tokens" in shown.output
        assert "Written:" in shown.stderr
        assert "<script" not in page
        assert "http:" not in page.replace("http-equiv", "")
        assert (tmp_path / "r.json").stat().st_size > 0

    def test_where_nothing_can_be_missed_nothing_is_recommended(self, tmp_path: Path) -> None:
        path = write(tmp_path / "plain.json", [user("hi"), assistant("hello")])
        done = run("compare", path, "--policy", "curator", "--policy", "no curation")
        assert done.exit_code == 0, done.output
        assert "No policy is recommended: no call used anything said before" in done.output
        assert "frontier:" not in done.output


class TestHalfACharacter:
    """A lone surrogate: JSON can say it, UTF-8 cannot."""

    RECORD = (user("list caf\udce9"), assistant("a \ud800 b"), user("bye \udc80"))

    @pytest.fixture
    def odd(self, tmp_path: Path) -> Path:
        return write(tmp_path / "odd.json", self.RECORD)

    @pytest.mark.parametrize("name", ["view.json", "view.json.gz", None])
    def test_a_view_has_none(self, odd: Path, name: str | None) -> None:
        target = odd.with_name(name or "unused")
        done = run("curate", odd, *(("-o", target) if name else ()))
        data = target.read_bytes() if name else done.stdout.encode()
        view = json.loads(gzip.decompress(data) if target.suffix == ".gz" else data)
        assert [each["content"] for each in view] == ["list caf\ufffd", "a \ufffd b", "bye \ufffd"]

    def test_it_is_found_and_explained(self, odd: Path) -> None:
        found = run("check", odd)
        assert found.exit_code == 1
        assert "half a character" in found.output
        told = run("explain", odd)
        assert told.exit_code == 0, told.output
        assert "half a character" in told.output
        assert json.loads(run("explain", odd, "--json").stdout)
        page = run("explain", odd, "--html", odd.with_suffix(".html"))
        assert page.exit_code == 0, page.output
