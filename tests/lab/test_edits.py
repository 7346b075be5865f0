"""The measure of edits: are the lines a call replaces in the view it was made from?"""

from __future__ import annotations

from typing import Any

from history_curator import Curator, SlidingWindowManager
from history_curator.lab import LabConversation, replay
from history_curator.lab.metrics import find_edits
from tests.support.messages import assistant, call, result, user

OLD = "rates = [lookup(item) for item in cart]"


def edited(pad: int, old: str = OLD, key: str = "old_string") -> list[dict[str, Any]]:
    """A file is read, other things are looked at, then a line of the file is replaced."""
    messages = [user("fix it"), call("r", name="read", path="quote.py"),
                result("r", f"def quote(cart):\n    {OLD}\n    return rates")]  # fmt: skip
    for step in range(pad):
        messages += [call(f"l{step}", name="logs", n=step), result(f"l{step}", "line " * 200)]
    change = call("e", name="edit", **{key: old, "new_string": "rates = lookup_many(cart)"})
    return [*messages, change, result("e", "done"), assistant("fixed")]


def run(messages: list[Any], **policies: Any) -> Any:
    return replay([messages], policies, progress=False, executor="serial")


class TestFinding:
    def test_lines_that_were_shown_before_count(self) -> None:
        read = LabConversation(
            "t", edited(1, old=f"    {OLD}\n    brand_new_line_of_code()")
        ).read()
        assert list(find_edits(read).values()) == [((OLD,),)]

    def test_the_names_editing_tools_use_are_known(self) -> None:
        for key in ("old_string", "old_str", "oldText"):
            assert find_edits(LabConversation("t", edited(1, key=key)).read())
        assert not find_edits(LabConversation("t", edited(1, key="note")).read())

    def test_short_lines_and_other_calls_do_not(self) -> None:
        assert not find_edits(LabConversation("t", edited(1, old="rates")).read())


class TestMeasuring:
    def test_everything_in_view_sees_every_edit(self) -> None:
        found = run(edited(8), all="no curation")["all"]
        assert (found.edits, found.edits_seen, found.edits_share) == (1, 1, 1.0)

    def test_a_view_that_lost_the_file_sees_none(self) -> None:
        found = run(edited(8), tight=Curator(SlidingWindowManager(4)))["tight"]
        assert (found.edits, found.edits_seen, found.edits_share) == (1, 0, 0.0)

    def test_without_edits_there_is_no_share_and_no_column(self) -> None:
        results = run([user("hi"), assistant("hello")], all="no curation")
        assert results["all"].edits_share is None
        assert "edits" not in results.columns()
        assert "edits" in run(edited(1), all="no curation").columns()


def test_an_identifier_listed_by_the_policy_is_held() -> None:
    """What a policy puts in itself counts: the model can read it there."""

    class Notes:
        max_tokens = None

        def __init__(self, note: str) -> None:
            self.note = note

        def start(self, conversation: Any, counter: Any) -> Any:
            from history_curator import ConversationEntry, MessageRole

            note = ConversationEntry(MessageRole.USER, self.note, origin="note")
            return lambda upto: [note, conversation.entries[upto - 1]]

    messages = [user("go"), call("a", name="find"), result("a", "the order is order-55871"),
                call("b", name="wait"), result("b", "ok"),
                call("c", name="open", id="order-55871")]  # fmt: skip
    found = run(messages, with_it=Notes("seen: order-55871"), without=Notes("nothing"))
    assert found["with_it"].lost_identifiers == 0
    assert found["without"].lost_identifiers == 1
