from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
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
        ("text", "layout", "count"),
        [
            (json.dumps(TALK), "json", 1),
            (json.dumps({"id": "x", "messages": TALK}), "json", 1),
            (json.dumps([{"messages": TALK}, {"messages": TALK}]), "list", 2),
            (json.dumps([TALK, TALK]), "list", 2),
            (lines([{"messages": TALK}, {"messages": TALK}]), "jsonl", 2),
            (lines([TALK, TALK]), "jsonl", 2),
            (lines(TALK), "message lines", 1),
        ],
    )
    def test_each_layout_is_read_and_written_back(
        self, tmp_path: Path, text: str, layout: str, count: int
    ) -> None:
        found = read_file(store(tmp_path / "talk.json", text))
        assert (found.layout, len(found.conversations)) == (layout, count)
        assert found.conversations[0].messages == TALK
        again = found.dumps([each.messages for each in found.conversations])
        assert (
            [json.loads(row) for row in again.splitlines()]
            == [json.loads(row) for row in text.splitlines()]
            if "lines" in layout or layout == "jsonl"
            else json.loads(again) == json.loads(text)
        )

    @pytest.mark.parametrize("row", [{"messages": TALK}, TALK, TALK[1]])
    def test_one_line_stays_one_line(self, tmp_path: Path, row: Any) -> None:
        found = read_file(store(tmp_path / "talk.jsonl", lines([row])))
        again = found.dumps([each.messages for each in found.conversations])
        assert again == lines([row])

    @pytest.mark.parametrize("character", ["\u2028", "\u0085", "\u2029"])
    def test_line_separators_inside_a_string(self, tmp_path: Path, character: str) -> None:
        said = [user(f"one{character}two"), assistant("ok")]
        text = "".join(json.dumps(each, ensure_ascii=False) + "\r\n" for each in said)
        assert read_file(store(tmp_path / "t.jsonl", text)).conversations[0].messages == said

    def test_gzip_is_recognised_by_content(self, tmp_path: Path) -> None:
        path = tmp_path / "talk"
        path.write_bytes(gzip.compress(json.dumps(TALK).encode()))
        assert read_file(str(path)).conversations[0].messages == TALK

    def test_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(TALK).encode())))
        assert read_file("-").conversations[0].messages == TALK

    def test_several_files(self, tmp_path: Path) -> None:
        one = store(tmp_path / "a.json", json.dumps(TALK))
        two = store(tmp_path / "b.jsonl", lines([{"id": "y", "messages": TALK}, TALK]))
        assert [
            each.id for each in [each for p in (one, two) for each in read_file(p).conversations]
        ] == [one, "y", f"{two}#1"]


class TestFormats:
    def test_anthropic_requests_keep_system_and_tools(self, tmp_path: Path) -> None:
        body = {"model": "m", "system": "be kind", "tools": [{"name": "t"}], "messages": [
            user("hi"), {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}]}  # fmt: skip
        found = read_file(store(tmp_path / "a.json", json.dumps(body)))
        stored = found.conversations[0]
        assert stored.messages[0] == {"role": "system", "content": "be kind"}
        assert stored.tools == [{"name": "t"}]
        assert json.loads(found.dumps([stored.messages])) == body

    def test_a_system_field_beside_a_system_message_is_left_alone(self, tmp_path: Path) -> None:
        body = {"system": "linux", "messages": TALK}
        found = read_file(store(tmp_path / "a.json", json.dumps(body)))
        assert found.conversations[0].messages == TALK
        assert json.loads(found.dumps([TALK])) == body

    def test_a_system_field_beside_langchain_dumps(self, tmp_path: Path) -> None:
        core = pytest.importorskip("langchain_core.messages", reason="langchain-core is absent")
        from langchain_core.load import dumpd

        rows = [dumpd(message) for message in core.convert_to_messages(TALK[1:])]
        body = {"system": "be kind", "messages": rows}
        found = read_file(store(tmp_path / "lc.json", json.dumps(body)))
        stored = found.conversations[0]
        assert (stored.messages[0].type, stored.messages[0].content) == ("system", "be kind")
        assert json.loads(found.dumps([stored.messages])) == body

    @pytest.mark.parametrize("nested", [False, True])
    def test_a_chat_store_has_one_conversation_per_key(self, tmp_path: Path, nested: bool) -> None:
        llms = pytest.importorskip("llama_index.core.llms", reason="llama-index-core is absent")
        rows = {
            key: [llms.ChatMessage(role="user", content=key).model_dump(mode="json")]
            for key in ("ann", "bob")
        }
        body: Any = {"store": rows, "class_name": "SimpleChatStore"}
        body = {"chat_store": body, "token_limit": 9} if nested else body
        path = store(tmp_path / "li.json", json.dumps(body))
        found = read_file(path)
        assert [each.id for each in found.conversations] == [f"{path}#ann", f"{path}#bob"]
        assert [each.messages[0].content for each in found.conversations] == ["ann", "bob"]
        again = found.dumps([each.messages for each in found.conversations])
        assert json.loads(again) == body
        changed = json.loads(found.dumps([[], found.conversations[1].messages]))
        kept = changed["chat_store"]["store"] if nested else changed["store"]
        assert kept == {"ann": [], "bob": rows["bob"]}

    @pytest.mark.parametrize("form", ["dumpd", "messages_to_dict", "model_dump"])
    def test_langchain_dumps(self, tmp_path: Path, form: str) -> None:
        core = pytest.importorskip("langchain_core.messages", reason="langchain-core is absent")
        from langchain_core.load import dumpd

        messages = core.convert_to_messages(TALK)
        dumps: dict[str, Callable[[], Any]] = {
            "dumpd": lambda: [dumpd(message) for message in messages],
            "messages_to_dict": lambda: core.messages_to_dict(messages),
            "model_dump": lambda: [message.model_dump(mode="json") for message in messages],
        }
        rows = dumps[form]()
        found = read_file(store(tmp_path / "lc.json", json.dumps(rows)))
        stored = found.conversations[0]
        assert [type(each) for each in stored.messages] == [type(each) for each in messages]
        assert stored.messages[2].tool_calls == messages[2].tool_calls
        assert json.loads(found.dumps([stored.messages])) == json.loads(json.dumps(rows))

    @pytest.mark.parametrize("inside_store", [False, True])
    def test_llamaindex_dumps(self, tmp_path: Path, inside_store: bool) -> None:
        llms = pytest.importorskip("llama_index.core.llms", reason="llama-index-core is absent")
        messages = [llms.ChatMessage(role="user", content="hi"),
                    llms.ChatMessage(role="assistant", content="hello")]  # fmt: skip
        rows: Any = [message.model_dump(mode="json") for message in messages]
        body = {"store": {"chat_history": rows}, "class_name": "x"} if inside_store else rows
        found = read_file(store(tmp_path / "li.json", json.dumps(body)))
        stored = found.conversations[0]
        assert [each.content for each in stored.messages] == ["hi", "hello"]
        assert json.loads(found.dumps([stored.messages])) == body


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("", "empty"),
            ("3", "int"),
            ('{"a": 1}', '"messages" list'),
            ('{"type": "user", "sessionId": "s", "message": {}}', "history-curator doctor"),
            ('{"role": "user"}\n{oops', "line 2"),
            ("[1, 2]", "no conversation"),
        ],
    )
    def test_the_file_and_the_fix_are_named(self, tmp_path: Path, text: str, says: str) -> None:
        path = store(tmp_path / "bad.json", text)
        with pytest.raises(ConversionError, match=says) as caught:
            read_file(path)
        assert "bad.json" in str(caught.value)

    def test_binary_rubbish(self, tmp_path: Path) -> None:
        path = tmp_path / "bad.gz"
        path.write_bytes(b"\x1f\x8b rubbish")
        with pytest.raises(ConversionError, match="gzip"):
            read_file(str(path))

    def test_a_broken_dump_names_the_message(self, tmp_path: Path) -> None:
        pytest.importorskip("langchain_core", reason="langchain-core is absent")
        rows = [{"type": "human", "data": {"content": "hi"}}, {"type": "human"}]
        with pytest.raises(ConversionError, match=r"messages\[1\]"):
            read_file(store(tmp_path / "bad.json", json.dumps(rows)))
