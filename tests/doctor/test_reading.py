from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from history_curator.doctor import Diagnosis, diagnose
from history_curator.errors import ConversionError
from tests.doctor.logs import ClaudeCode, call, text, usage, write_lines


def look(path: Path) -> Diagnosis:
    return diagnose([path], budgets=())


class TestClaudeCode:
    def test_an_answer_on_several_lines_counts_once_with_its_last_usage(
        self, tmp_path: Path
    ) -> None:
        log = ClaudeCode().user("look")
        log.answer("m1", text("I look"), used=usage(write=5_000, out=2))
        log.answer("m1", call("c1", "Read", path="a.py"), used=usage(write=5_000, out=40))
        log.result("c1", "text of a.py").answer("m2", used=usage(read=5_000, write=300))
        found = look(log.write(tmp_path))
        assert found.calls == 2
        assert found.usage == {"input": 20, "cache_read": 5_000, "cache_write": 5_300, "output": 60}

    def test_a_result_between_two_lines_of_one_answer_stays_behind_the_answer(
        self, tmp_path: Path
    ) -> None:
        log = ClaudeCode().user("look")
        log.answer("m1", call("c1", "Read", path="a.py"), used=usage(write=5_000))
        log.result("c1", "text of a.py")
        log.answer("m1", call("c2", "Grep", pattern="x"), used=usage(write=5_000))
        log.result("c2", "a match").answer("m2", used=usage(read=5_000, write=300))
        found = diagnose([log.write(tmp_path)], budgets=(8_000,), peers=(), executor="serial")
        assert {each.name for each in found.tools} == {"Read", "Grep"}
        assert [each.missed for each in found.what_if] == [0.0, 0.0]

    def test_side_chains_are_sessions_of_their_own(self, tmp_path: Path) -> None:
        log = ClaudeCode().user("look").answer("m1", used=usage(write=5_000))
        log.user("sub task", side=True).answer("m2", side=True, used=usage(write=2_000))
        log.user("and?").answer("m3", used=usage(read=5_000, write=100))
        found = look(log.write(tmp_path))
        assert (found.sessions, found.side_sessions, found.calls) == (2, 1, 3)
        assert found.busts == []

    def test_a_resumed_session_is_not_charged_again(self, tmp_path: Path) -> None:
        first = ClaudeCode("first").user("look").answer("m1", used=usage(write=5_000))
        second = ClaudeCode("second")
        second.at = 1_000
        second.user("look").answer("m1", used=usage(write=5_000))
        second.user("again").answer("m2", used=usage(write=5_100))
        first.write(tmp_path), second.write(tmp_path)
        found = look(tmp_path)
        assert found.calls == 2
        assert found.usage["cache_write"] == 10_100

    @pytest.mark.parametrize("names", ["ab", "ba"])
    def test_the_oldest_session_is_charged_whatever_its_file_is_called(
        self, tmp_path: Path, names: str
    ) -> None:
        for number, name in enumerate(names):
            log = ClaudeCode(f"{name} {number}")
            log.at = 1_000.0 * number
            log.user("look").answer("m1", used=usage(write=5_000))
            log.answer("m2", used=usage(read=5_000, write=100 + number))
            log.write(tmp_path)
        found = look(tmp_path)
        assert (found.sessions, found.calls, found.usage["cache_write"]) == (1, 2, 5_100)


class TestRequests:
    def test_an_answer_that_stands_twice_in_a_session_counts_once(self, tmp_path: Path) -> None:
        row = {"session": "s", "id": "1", "time": 100, "model": "m", "usage": usage(plain=50)}
        found = look(write_lines(tmp_path / "twice.jsonl", [row, row, {**row, "id": "2"}]))
        assert (found.calls, found.usage["input"]) == (2, 100)

    def test_answers_without_ids_in_files_of_one_name_are_different(self, tmp_path: Path) -> None:
        for number in range(2):
            (tmp_path / str(number)).mkdir()
            row = {"time": 100 + number, "model": "m", "usage": usage(plain=50)}
            write_lines(tmp_path / str(number) / "run.jsonl", [row])
        assert look(tmp_path).calls == 2

    def test_json_lines_from_anywhere(self, tmp_path: Path) -> None:
        said: list[Any] = [{"role": "user", "content": "hello"}]
        answer = {"role": "assistant", "content": "hi"}
        rows = [
            {"session": "s", "id": "1", "time": 100, "model": "gpt-5.6", "messages": said,
             "response": answer,
             "usage": {"prompt_tokens": 1_500, "completion_tokens": 5,
                       "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 1_500}}},
            {"session": "s", "id": "2", "time": 110, "model": "gpt-5.6",
             "messages": [*said, answer, {"role": "user", "content": "more"}],
             "usage": {"prompt_tokens": 1_600, "completion_tokens": 7,
                       "prompt_tokens_details": {"cached_tokens": 1_500,
                                                 "cache_write_tokens": 100}}},
        ]  # fmt: skip
        found = look(write_lines(tmp_path / "requests.jsonl", rows))
        assert found.usage == {"input": 0, "cache_read": 1_500, "cache_write": 1_600, "output": 12}
        assert found.simulated_read == 1_500
        assert found.cost["unit"] == "USD"

    def test_changed_tools_are_told_from_a_changed_prefix(self, tmp_path: Path) -> None:
        def request(number: int, tools: Any, first: str, **used: int) -> Any:
            said = [{"role": "user", "content": first}] + [
                {"role": "user", "content": str(each)} for each in range(number)
            ]
            return {"id": str(number), "time": 100 + number, "model": "claude-opus-4-6",
                    "tools": tools, "messages": said, "usage": usage(**used)}  # fmt: skip

        rows = [
            request(1, [{"name": "a"}], "x", write=20_000),
            request(2, [{"name": "a"}, {"name": "b"}], "x", write=20_100),
            request(3, [{"name": "a"}, {"name": "b"}], "y", read=9_000, write=11_200),
        ]
        found = look(write_lines(tmp_path / "r.jsonl", rows))
        assert [(each.call, each.reason) for each in sorted(found.busts, key=lambda b: b.call)] == [
            (1, "tools changed"),
            (2, "prefix changed"),
        ]

    def test_an_unknown_model_is_priced_in_tokens(self, tmp_path: Path) -> None:
        used = {"prompt_tokens": 10, "completion_tokens": 1}
        rows = [{"model": "my-model", "usage": used, "tools": 5}]  # odd tools cost no tokens
        found = look(write_lines(tmp_path / "own.jsonl", rows))
        assert found.cost["unit"].startswith("million tokens")
        assert found.cost["total"] == pytest.approx(1e-5)

    def test_messages_that_cannot_be_read_are_named_and_their_usage_counts(
        self, tmp_path: Path
    ) -> None:
        rows = [{"session": "odd", "messages": [{"role": "user", "content": 5}],
                 "response": {"role": "assistant", "content": "x"}, "usage": usage(plain=70)}]  # fmt: skip
        found = diagnose([write_lines(tmp_path / "odd.jsonl", rows)], executor="serial")
        assert found.usage["input"] == 70
        assert "odd" in found.problems[0]
        assert found.what_if == []


class TestFiles:
    def test_a_bad_file_never_stops_the_others(self, tmp_path: Path) -> None:
        ClaudeCode("good").user("x").answer("m", used=usage(write=5_000)).write(tmp_path)
        whole = gzip.compress(b'{"usage": {"input_tokens": 5}}' * 50)
        bad = {"cut.json.gz": whole[:-12], "flipped.json.gz": whole[:20] + b"!!" + whole[22:],
               "latin.json": b'{"a": "\xe9"}', "deep.jsonl": b"[" * 100_000,
               "deep_object.json": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
               "odd.jsonl": b'{"run_type": "llm", "inputs": 5, "usage": 3}\n[1]\n"x"'}  # fmt: skip
        for name, data in bad.items():
            (tmp_path / name).write_bytes(data)
        found = look(tmp_path)
        assert found.calls == 1
        assert {name for name in bad if any(name in each for each in found.problems)} == set(bad)

    def test_a_file_that_unpacks_to_too_much_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("history_curator.lab.files.MAX_BYTES", 1_000)
        (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b" " * 100_000))
        with pytest.raises(ConversionError, match="more than 1,000 bytes"):
            look(tmp_path)

    @pytest.mark.parametrize(
        ("text", "said"),
        [(None, "No such file or directory. Fix: check the path."),
         ("[]", "no request with usage in it. Fix: pass logs"),
         ("{", r"not JSON .*Fix: the file must be one JSON document")],
    )  # fmt: skip
    def test_one_file_without_usage_is_one_problem_with_one_fix(
        self, tmp_path: Path, text: str | None, said: str
    ) -> None:
        path = tmp_path / "nothing.json"
        if text is not None:
            path.write_text(text)
        with pytest.raises(ConversionError, match=f"nothing.json.*{said}") as caught:
            look(path)
        assert str(caught.value).count("Fix:") == 1
