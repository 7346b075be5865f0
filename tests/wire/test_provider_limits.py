"""What providers refuse of their own formats is found, and mended without a word lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from history_curator import Curator, check_conversation, get_profile
from history_curator.formats import find_format, read_entries
from history_curator.rules import repair_conversation
from tests.support.messages import call, result
from tests.wire.blocks import (
    ASKED,
    CALL,
    IMAGE,
    OUTPUT,
    REASONED,
    SAID,
    THOUGHT,
    USER,
    YES,
    answered,
    found,
    says,
    text,
    use,
    user,
)

RESPONDED = {
    "role": "user",
    "parts": [{"functionResponse": {"name": "f", "response": {"output": "x"}}}],
}


def mend(given: list[Any], provider: Any) -> list[Any]:
    """Repair what is found, and make sure that nothing is found any more."""
    assert check_conversation(given, provider), "nothing was found"
    view = Curator(provider=provider).curate(given, tail="request").messages
    assert check_conversation(view, provider) == []
    assert repair_conversation(view, provider) == view
    assert check_conversation(repair_conversation(given, provider), provider) == []
    json.dumps(view, ensure_ascii=False, default=repr).encode()
    return view


def marked(said: str, ttl: str | None = None) -> dict[str, Any]:
    control = {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}
    return user([text(said) | {"cache_control": control}])


class TestCacheMarks:
    def marks(self, view: list[Any]) -> list[str]:
        blocks = [(each["content"][0], each["content"][0].get("cache_control")) for each in view]
        return [block["text"] for block, mark in blocks if mark]

    @pytest.mark.parametrize("provider", ["anthropic", "core"])
    def test_a_fifth_goes_and_its_block_stays(self, provider):
        given = [marked(f"text {n}") for n in range(6)]
        view = mend(given, provider)
        assert self.marks(view) == ["text 0", "text 3", "text 4", "text 5"]
        assert [each["content"][0]["text"] for each in view] == [f"text {n}" for n in range(6)]

    def test_those_of_five_minutes_go_before_one_of_an_hour(self):
        given = [marked("a", "1h"), marked("b"), marked("c", "1h"), marked("d")]
        assert self.marks(mend(given, "anthropic")) == ["a", "c", "d"]
        assert check_conversation([marked("a", "1h"), marked("b"), marked("c")], "anthropic") == []

    def test_marks_of_calls_and_results_count(self):
        mark = {"cache_control": {"type": "ephemeral"}}
        given = [
            marked("a"),
            says(use(**mark)),
            user([found(**mark)]),
            marked("b"),
            marked("c"),
        ]
        view = mend(given, "anthropic")
        assert (view[0], view[3:]) == (given[0], given[3:])
        assert view[1] == says(use())
        assert view[2] == given[2]

    def test_cache_points_of_bedrock(self):
        point = {"cachePoint": {"type": "default"}}
        said = [{"text": f"text {n}"} for n in range(5)]
        given = [{"role": "user", "content": [said[0], point]}]
        for block in said[1:]:
            given += [
                {"role": "assistant", "content": [{"text": "yes"}]},
                {"role": "user", "content": [block, point]},
            ]
        view = mend(given, "bedrock")
        assert str(view).count("cachePoint") == 4
        assert [each["content"][0] for each in view[::2]] == said


class TestGeminiSignatures:
    def steps(self, *extras: dict[str, Any]) -> list[Any]:
        out: list[Any] = [ASKED]
        for extra in extras:
            call = {"functionCall": {"name": "f", "args": {}}, **extra}
            out += [{"role": "model", "parts": [call]}, RESPONDED]
        return out

    @pytest.mark.parametrize("model", ["gemini-3-pro-preview", "models/gemini-3.1-flash"])
    def test_the_current_turn_without_any_gets_the_bypass(self, model):
        view = mend(self.steps({}, {}), get_profile("gemini", model=model))
        signed = [view[n]["parts"][0]["thoughtSignature"] for n in (1, 3)]
        assert signed == ["skip_thought_signature_validator"] * 2

    def test_older_models_need_none(self):
        given = self.steps({}, {})
        assert check_conversation(given, get_profile("gemini", model="gemini-2.5-pro")) == []

    @pytest.mark.parametrize("role", [{}, {"role": None}, {"role": "user"}])
    def test_a_call_is_the_models(self, role):
        called = {**role, "parts": [{"functionCall": {"name": "f", "args": {}}}]}
        view = mend([ASKED, called, RESPONDED], "gemini")
        assert [each["role"] for each in view] == ["user", "model", "user"]


def test_names_of_bedrock_documents():
    def filed(name: str) -> dict[str, Any]:
        return {"document": {"name": name, "format": "txt", "source": {"bytes": b"x"}}}

    names = ["notes", "notes", "Q1_report.v2  (final)", "[ok] 1-2"]
    given = [user([{"text": "read"}, *map(filed, names)])]
    (view,) = mend(given, "bedrock")
    assert [block["document"]["name"] for block in view["content"][1:]] == [
        "notes",
        "notes-2",
        "Q1-report-v2 (final)",
        "[ok] 1-2",
    ]


class TestResponses:
    @pytest.mark.parametrize("name", ["resp_7", "3fa85f64", "msg_" + "x" * 70])
    def test_an_id_that_is_not_the_providers_goes(self, name):
        view = mend([USER, SAID | {"id": name}, USER], "openai-responses")
        assert view[1] == {"type": "message", "role": "assistant", "content": "yes"}
        view = mend([USER, CALL | {"id": name}, OUTPUT], "openai-responses")
        assert view == [USER, CALL, OUTPUT]

    def test_input_text_by_an_assistant_is_output_text(self):
        view = mend([USER, says({"type": "input_text", "text": "yes"}), USER], "openai-responses")
        assert "input_text" not in str(view)
        assert "yes" in str(view[1])

    @pytest.mark.parametrize("beside", [{"timestamp": 1}, {"tool_calls": []}, {"role": "tool"}])
    @pytest.mark.parametrize("at", [1, 2, 3])
    def test_fields_that_an_item_cannot_have_go(self, at, beside):
        given = [USER, REASONED, CALL, OUTPUT]
        view = mend([*given[:at], given[at] | beside, *given[at + 1 :]], "openai-responses")
        assert view == given

    def test_the_name_of_an_output_follows_its_call(self):
        view = mend([USER, CALL | {"name": "a b"}, OUTPUT | {"name": "a b"}], "openai-responses")
        assert (view[1]["name"], view[2]["name"]) == ("a_b", "a_b")


class TestAnthropic:
    @pytest.mark.parametrize("provider", ["anthropic", "core"])
    def test_an_error_that_shows_an_image_says_that_it_is_one(self, provider):
        failed = found(content=[IMAGE], is_error=True)
        view = mend([USER, says(use()), user([failed])], provider)
        (block,) = view[2]["content"]
        assert "is_error" not in block
        assert block["content"] == [text("[The tool reported an error.]"), IMAGE]

    def test_results_of_a_message_of_the_role_tool(self):
        given = [USER, says(use()), {"role": "tool", "content": [found()]}]
        assert mend(given, "anthropic")[2] == answered("c1")

    @pytest.mark.parametrize(
        ("blocks", "expected"),
        [
            ([text("x"), THOUGHT, use()], [THOUGHT, text("x"), use()]),
            ([use(), THOUGHT, use()], [THOUGHT, use()]),
        ],
        ids=["text", "a call"],
    )
    def test_thinking_stands_before_everything_in_a_message_with_calls(self, blocks, expected):
        view = mend([USER, says(*blocks), answered("c1")], "anthropic")
        assert view == [USER, says(*expected), answered("c1")]


class TestGemini:
    @pytest.mark.parametrize("body", [{"name": "", "args": {}}, {"args": {}}])
    def test_a_call_without_a_name_gets_one_as_its_result(self, body):
        called = {"role": "model", "parts": [{"functionCall": body}]}
        nameless = {"role": "user", "parts": [{"functionResponse": {"response": {"output": "x"}}}]}
        view = mend([ASKED, called, nameless], "gemini")
        assert view[1]["parts"][0]["functionCall"]["name"] == "unknown_tool"
        assert view[2]["parts"][0]["functionResponse"]["name"] == "unknown_tool"


HALF = "a\udc80"
SUMMARY = [{"type": "summary_text", "text": HALF}]
SIGNED = call("c1")["tool_calls"][0] | {"signature": HALF}
HALVES: dict[str, tuple[str, list[Any]]] = {
    "thinking": ("anthropic", [USER, says(THOUGHT | {"thinking": HALF}, use()), answered("c1")]),
    "summary": ("openai-responses", [USER, REASONED | {"summary": SUMMARY}, CALL, OUTPUT]),
    "thought": (
        "gemini",
        [
            ASKED,
            {"role": "model", "parts": [{"text": HALF, "thought": True}, {"text": "x"}]},
            ASKED,
        ],
    ),
    "document": ("anthropic", [user([{"type": "document", "title": HALF, "source": {}}])]),
    "signature": ("anthropic", [USER, says(use(caller={"x": HALF})), answered("c1")]),
    "beside a call": ("openai", [USER, call("c1") | {"tool_calls": [SIGNED]}, result("c1")]),
    "status of an item": ("openai-responses", [USER, SAID | {"status": HALF}, USER]),
    "key of a part": ("gemini", [{"role": "user", "parts": [{"text": "x", "odd": HALF}]}]),
    "id of a call": (
        "openai-responses",
        [USER, CALL | {"call_id": HALF}, OUTPUT | {"call_id": HALF}],
    ),
}


@pytest.mark.parametrize("place", HALVES)
def test_half_a_character_in_thinking_a_block_or_a_call(place):
    provider, given = HALVES[place]
    assert HALF not in str(mend(given, provider))


def test_the_opening_tells_whether_messages_were_left_out():
    entries = read_entries([USER, {"role": "assistant", "content": "a"}, YES, USER])
    profile = get_profile("anthropic")
    assert profile.repair(entries[1:])[0].content == "[Earlier messages are not shown.]"
    assert profile.repair(read_entries([YES, USER]))[0].content == "[Start of the conversation.]"


@pytest.mark.parametrize("provider", ["anthropic", "core", "portable"])
def test_what_was_compacted_opens_the_list(provider):
    given = [says({"type": "compaction", "content": "said"}), USER]
    assert Curator(provider=provider).curate(given).messages == given


def test_an_image_of_the_user_is_not_removed_without_a_word(caplog):
    png = b"\x89PNG\r\n\x1a\n" + bytes(8) + (9_000).to_bytes(4, "big") * 2
    shown = {"image": {"format": "png", "source": {"bytes": png}}}
    given = [user([{"text": "what is this?"}, shown])]
    (view,) = mend(given, "bedrock")
    assert view["content"][1] == {"text": "[image removed]"}
    assert "messages[0]: images beyond what the provider takes" in caplog.text
    assert find_format(given).name == "bedrock"
