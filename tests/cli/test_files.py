from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from history_curator.errors import ConversionError
from history_curator.lab.files import read_file
from tests.support.messages import assistant, call, result, system, user

TALK = [system(), user("weather?"), call("c1", name="weather", city="Oslo"), result("c1", "rain"),
        assistant("Rain."), user("thanks")]  # fmt: skip


def store(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


class TestLayouts:
    @pytest.mark.parametrize(
        ("text", "count"),
        [
            (json.dumps(TALK), 1),
            (json.dumps({"id": "x", "messages": TALK}), 1),
            (json.dumps([{"messages": TALK}, {"messages": TALK}]), 2),
            (json.dumps([TALK, TALK]), 2),
            (lines([{"messages": TALK}, {"messages": TALK}]), 2),
            (lines([TALK, TALK]), 2),
            (lines(TALK), 1),
        ],
    )
    def test_each_layout_is_read(self, tmp_path: Path, text: str, count: int) -> None:
        found = read_file(store(tmp_path / "talk.json", text))
        assert [each.messages for each in found] == [TALK] * count

    @pytest.mark.parametrize("row", [{"messages": TALK[:1]}, TALK[:1], TALK[0]])
    def test_one_line_is_one_conversation(self, tmp_path: Path, row: Any) -> None:
        (found,) = read_file(store(tmp_path / "talk.jsonl", lines([row])))
        assert found.messages == TALK[:1]

    @pytest.mark.parametrize("character", ["\u2028", "\u0085", "\u2029"])
    def test_line_separators_inside_a_string(self, tmp_path: Path, character: str) -> None:
        said = [user(f"one{character}two"), assistant("ok")]
        text = "".join(json.dumps(each, ensure_ascii=False) + "\r\n" for each in said)
        assert read_file(store(tmp_path / "t.jsonl", text))[0].messages == said

    def test_gzip_is_recognised_by_content(self, tmp_path: Path) -> None:
        path = tmp_path / "talk"
        path.write_bytes(gzip.compress(json.dumps(TALK).encode()))
        assert read_file(str(path))[0].messages == TALK


class TestFormats:
    def test_anthropic_requests_keep_system_and_tools(self, tmp_path: Path) -> None:
        body = {"model": "m", "system": "be kind", "tools": [{"name": "t"}], "messages": [
            user("hi"), {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}]}  # fmt: skip
        (found,) = read_file(store(tmp_path / "a.json", json.dumps(body)))
        assert found.messages[0] == {"role": "system", "content": "be kind"}
        assert found.tools == [{"name": "t"}]


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("", "empty"),
            ("3", "int"),
            ('{"a": 1}', '"messages" list'),
            ('{"role": "user"}\n{oops', "line 2"),
            ("[1, 2]", "an int"),
        ],
    )
    def test_the_file_and_the_fix_are_named(self, tmp_path: Path, text: str, says: str) -> None:
        path = store(tmp_path / "bad.json", text)
        with pytest.raises(ConversionError, match=says) as caught:
            read_file(path)
        assert "bad.json" in str(caught.value)
