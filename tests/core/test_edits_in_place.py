"""A host may edit its messages between calls. A curator that knew them sees what a new one does."""

from __future__ import annotations

from typing import Any

import pytest

from history_curator import Curator
from history_curator.entries import ConversationEntry, MessageRole, ToolCall
from history_curator.formats import DictFormat
from tests.support.messages import assistant, call, result, system, user


def blocks(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def looking(turns: int) -> list[dict[str, Any]]:
    """User messages made of blocks."""
    messages = [system("be brief")]
    for turn in range(turns):
        messages += [blocks(f"look at {turn} " + "word " * 15), assistant("seen " * 20)]
    return messages


def in_blocks(turns: int) -> list[dict[str, Any]]:
    """Calls and results as Anthropic writes them."""
    messages = [user("go")]
    for turn in range(turns):
        use = {"type": "tool_use", "id": f"t{turn}", "name": "look", "input": {"q": turn}}
        found = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": f"found {turn} " * 20}
        messages += [
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [found]},
        ]
    return messages


def agrees(curator: Curator, history: list[Any], **options: Any) -> bool:
    """Whether a curator's view is the one of a new one."""
    fresh = Curator(max_tokens=curator.max_tokens, provider=curator.profile)
    known = curator.curate(history, tail="history", **options)
    new = fresh.curate(history, tail="history", **options)
    return (known.messages, known.tokens) == (new.messages, new.tokens)


def grown(curator: Curator, history: list[Any]) -> None:
    for end in range(1, len(history) + 1):
        curator.curate(history[:end], tail="history")


def once(curator: Curator, history: list[Any]) -> None:
    curator.curate(history, tail="history")


@pytest.mark.parametrize("show", [grown, once])
class TestInsideBlocks:
    def test_then_back_to_an_earlier_point(self, show: Any) -> None:
        messages, curator = looking(30), Curator(max_tokens=20_000)
        show(curator, messages)
        history = messages[:24]
        history[21]["content"][0]["text"] = "another question, longer than the one before it was"
        assert agrees(curator, history)

    def test_of_a_result(self, show: Any) -> None:
        messages, curator = in_blocks(30), Curator(max_tokens=20_000, provider="anthropic")
        show(curator, messages)
        messages[8]["content"][0]["content"] = "edited"
        assert agrees(curator, messages)

    def test_of_a_result_that_is_shown_capped(self, show: Any) -> None:
        messages = [user("go")]
        for turn in range(20):
            found = [{"type": "text", "text": f"line {turn}\n" * 300}]
            messages += [call(f"c{turn}"), {**result(f"c{turn}"), "content": found}]
        curator = Curator(max_tokens=3_000)
        show(curator, messages)
        shown = curator.curate(messages, tail="history").messages
        last = max(at for at, each in enumerate(shown) if "middle left out" in str(each))
        capped = next(
            each for each in messages if each.get("tool_call_id") == shown[last]["tool_call_id"]
        )
        capped["content"][0]["text"] = "edited " * 90
        assert agrees(curator, messages)

    def test_before_a_larger_budget_shows_them(self, show: Any) -> None:
        messages, curator = looking(40), Curator(max_tokens=600)
        show(curator, messages)
        messages[9]["content"][0]["text"] = "edited " * 60
        assert agrees(curator, messages, max_tokens=9_000)

    def test_of_a_prompt_that_was_swapped(self, show: Any) -> None:
        history = [system("be brief"), *([user("q"), assistant("a")] * 3)]
        curator = Curator(max_tokens=5_000)
        show(curator, history)
        prompt: dict[str, Any] = {"role": "system", "content": [{"type": "text", "text": "be"}]}
        history[0] = prompt
        show(curator, history)
        history += [user("q"), assistant("a")] * 16
        show(curator, history)
        prompt["content"][0]["text"] = "now quite another prompt, with more words in it"
        assert agrees(curator, history)


def test_an_argument_and_then_back_to_there() -> None:
    history = [user("go")]
    for turn in range(40):
        history += [call(f"c{turn}"), result(f"c{turn}", "r")]
    curator = Curator(max_tokens=5_000)
    once(curator, history)
    history[21]["tool_calls"][0]["function"]["arguments"] = '{"now": "quite another argument"}'
    del history[23:]
    assert agrees(curator, history)


def test_an_edit_that_makes_a_message_unreadable_is_an_error_as_for_a_new_curator() -> None:
    history = looking(30)
    curator = Curator(max_tokens=20_000)
    once(curator, history)
    role, history[21]["role"] = history[21]["role"], "nobody"
    for _ in range(2):
        with pytest.raises(ValueError, match="nobody"):
            once(curator, history[:24])
    history[21]["role"] = role
    assert agrees(curator, history[:24])
    assert agrees(curator, history)


def test_a_message_that_is_equal_may_not_read_the_same() -> None:
    def asked(arguments: dict[str, Any]) -> dict[str, Any]:
        made = call("c1")
        made["tool_calls"][0]["function"]["arguments"] = arguments
        return made

    history = [user("go"), asked({"flag": 1, "size": 2.0}), result("c1")]
    curator = Curator(max_tokens=5_000)
    once(curator, history)
    other = asked({"flag": True, "size": 2})
    assert other == history[1]
    history[1] = other
    assert agrees(curator, history)


def test_budgets_that_leave_the_same_room_have_their_own_cut() -> None:
    history = []
    for turn in range(300):
        history += [user(f"q{turn} " + "word " * 60), assistant(f"a{turn} " + "reply " * 60)]
    curator = Curator(max_tokens=9_000)
    once(curator, history)
    assert agrees(curator, history, max_tokens=9_004, reserve=4)


class Signing(DictFormat):
    """Signs what it writes."""

    def __init__(self, signature: str) -> None:
        self.signature = signature

    def write(self, entries: Any) -> list[Any]:
        return [
            {**message, "by": self.signature} if entry.original is not None else message
            for entry, message in zip(entries, super().write(entries), strict=True)
        ]


def test_a_view_is_written_by_the_format_of_the_call() -> None:
    history = [user("go")]
    for turn in range(40):
        history += [call(f"c{turn}"), result(f"c{turn}", "found " * 600)]
    curator = Curator(max_tokens=1_500)
    for name in "ab":
        view = curator.curate(history, format=Signing(name)).messages
        assert {message["by"] for message in view if "by" in message} == {name}


def test_entries_are_not_copied() -> None:
    entries = [entry for at in range(40) for entry in DictFormat().read(user(f"q{at}"), at)]
    curator = Curator(max_tokens=5_000)
    view = curator.curate(entries).messages
    assert all(shown is given for shown, given in zip(view, entries, strict=True))


@pytest.mark.parametrize("text", ["found " * 600, [{"type": "text", "text": "found " * 600}]])
def test_what_was_handed_out_may_be_edited(text: Any) -> None:
    history = [user("go")]
    for turn in range(6):
        history += [call(f"c{turn}"), result(f"c{turn}", text)]
    curator = Curator(max_tokens=1_500, provider="portable")
    given = {id(message) for message in history}
    for _ in range(2):
        view = curator.curate(history, tail="history").messages
        edited = [message for message in view if id(message) not in given]
        assert edited
        assert agrees(curator, history)
        for message in edited:
            if isinstance(message["content"], list):
                message["content"][0]["text"] = "mine"
            message["content"] = "mine"


def test_calls_are_written_in_the_style_of_the_view_they_are_in() -> None:
    """An entry of somebody's own, with calls, that stands in two conversations."""
    called = ConversationEntry(MessageRole.ASSISTANT, tool_calls=(ToolCall("mine", "look"),))
    answered = ConversationEntry(MessageRole.TOOL, "seen", tool_call_id="mine")
    for history in ([user("go"), call("c1"), result("c1")], in_blocks(1)):
        entries = [e for at, each in enumerate(history) for e in DictFormat().read(each, at)]
        written = DictFormat().write([*entries, called, answered])
        assert ("tool_calls" in written[-2]) is ("tool_calls" in history[1])
