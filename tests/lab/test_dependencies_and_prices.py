"""Dependencies of calls on earlier messages, edits, and the price of a cached prefix."""

from __future__ import annotations

from typing import Any

import pytest

from history_curator import ConversationEntry, Curator, MessageRole, SlidingWindowManager
from history_curator.errors import ConfigurationError
from history_curator.lab import LabConversation, get_prices, replay
from history_curator.lab.conversations import Dependency
from history_curator.lab.prices import cached_tokens
from tests.support.data import load
from tests.support.messages import assistant, call, result, user

OLD = "rates = [lookup(item) for item in cart]"


def read(*messages: dict[str, Any]) -> LabConversation:
    return LabConversation("c", list(messages))


def edit_session(pad: int, old: str = OLD, key: str = "old_string") -> list[dict[str, Any]]:
    """A file is read, other things are looked at, then a line of the file is replaced."""
    messages = [user("fix it"), call("r", name="read", path="quote.py"),
                result("r", f"def quote(cart):\n    {OLD}\n    return rates")]  # fmt: skip
    for step in range(pad):
        messages += [call(f"l{step}", name="logs", n=step), result(f"l{step}", "line " * 200)]
    change = call("e", name="edit", **{key: old, "new_string": "rates = lookup_many(cart)"})
    return [*messages, change, result("e", "done"), assistant("fixed")]


def run(messages: list[Any], **policies: Any) -> Any:
    return replay([messages], policies, progress=False, executor="serial")


NEEDED: dict[str, tuple[list[dict[str, Any]], list[Dependency]]] = {
    "a value that was said": (
        [user("order #W5490111?"), call("c", order="#W5490111")],
        [Dependency(1, "identifier", "#W5490111", (0,))]),
    "a value nobody said": ([user("hello there"), call("c", order="#W5490111")], []),
    "a short value": ([user("yes 12"), call("c", answer="yes")], []),
    "a value with quotes": (
        [user('say "hi" now'), call("c", a='say "hi" now')],
        [Dependency(1, "identifier", 'say "hi" now', (0,))]),
    "the same call again": (
        [user("go"), call("c1", name="f", q=1), result("c1"), call("c2", name="f", q=1), result("c2")],
        [Dependency(3, "repeat", "f", (2,))]),
    "a reused id, which is of the nearest call": (
        [user("go"), call("c", name="f", q=1), result("c"), call("c", name="f", q=2), result("c"),
         call("c", name="f", q=2)], [Dependency(5, "repeat", "f", (4,))]),
}  # fmt: skip


@pytest.mark.parametrize("name", NEEDED)
def test_what_a_call_depends_on(name: str) -> None:
    messages, expected = NEEDED[name]
    found = read(*messages).dependencies.values()
    assert [each for some in found for each in some] == expected


class TestVisibility:
    record = read(user("go"), call("c1", q="alpha-17"), result("c1", "beta-99 " * 20))
    identifier = Dependency(9, "identifier", "beta-99", (2,))
    repeat = Dependency(9, "repeat", "look", (2,))

    def is_missing(self, needed: Dependency, *sent: ConversationEntry) -> bool:
        return bool(self.record.find_missing([needed], sent))

    def test_a_source_in_the_view_is_enough(self) -> None:
        first, _, result = self.record.entries
        assert not self.is_missing(self.identifier, first, result)
        assert self.is_missing(self.identifier, first)
        note = ConversationEntry(MessageRole.USER, "seen: beta-99", origin="note")
        assert not self.is_missing(self.identifier, first, note)

    @pytest.mark.parametrize(
        ("text", "identifier", "repeat"),
        [("beta-99 …", True, False), ("[cleared]", False, False), ("beta-99 " * 12, True, True)],
    )
    def test_a_shortened_source_shows_its_values_and_a_result_while_half_is_there(
        self, text: str, identifier: bool, repeat: bool
    ) -> None:
        shown = self.record.entries[2].evolve(content=text)
        assert self.is_missing(self.identifier, shown) != identifier
        assert self.is_missing(self.repeat, shown) != repeat


def test_labels_of_real_data_are_found_again() -> None:
    labelled = found = 0
    for row in load("tau_bench")[:60]:
        record = LabConversation(row["id"], row["messages"])
        ours = {(each.call, each.value) for some in record.dependencies.values()
                for each in some if each.kind == "identifier"}  # fmt: skip
        for label in row["dependencies"]:
            labelled += 1
            found += (label["at"], str(label["value"])) in ours
    assert labelled > 100
    assert found / labelled > 0.95


class TestEdits:
    def test_lines_that_were_shown_before_count(self) -> None:
        record = read(*edit_session(1, old=f"    {OLD}\n    brand_new_line_of_code()"))
        assert list(record.edits.values()) == [[[OLD]]]

    @pytest.mark.parametrize(
        ("key", "old", "is_edit"),
        [("old_string", OLD, True), ("old_str", OLD, True), ("oldText", OLD, True),
         ("note", OLD, False), ("old_string", "rates", False)],
    )  # fmt: skip
    def test_editing_tools_are_known_by_their_argument(
        self, key: str, old: str, is_edit: bool
    ) -> None:
        assert bool(read(*edit_session(1, old, key)).edits) == is_edit

    def test_an_edit_is_seen_while_its_lines_are_in_the_view(self) -> None:
        found = run(edit_session(8), all="no curation", tight=Curator(SlidingWindowManager(4)))
        assert (found["all"].edits, found["all"].edits_share) == (1, 1.0)
        assert (found["tight"].edits, found["tight"].edits_share) == (1, 0.0)


class TestPrices:
    @pytest.mark.parametrize(
        ("held", "prompt", "idle", "ttl", "read"),
        [(900, 1_000, 299, 300, 900), (900, 1_000, 300, 300, 0), (900, 1_000, None, 300, 900),
         (900, 1_000, 10**6, None, 900), (900, 700, 1, 300, 0), (900, 880, 1, 300, 880)],
    )  # fmt: skip
    def test_a_warm_cache_is_read_unless_the_prompt_shrank(
        self, held: int, prompt: int, idle: float | None, ttl: float | None, read: int
    ) -> None:
        assert cached_tokens(held, prompt, idle, ttl) == read

    def test_a_short_prefix_is_not_cached(self) -> None:
        dear = get_prices("anthropic")
        assert dear.cost(900, 800) == pytest.approx(900 / 1e6)
        assert dear.cost(2_000, 1_500) == pytest.approx((150 + 500 * 1.25) / 1e6)
        assert get_prices("none").cost(2_000, 1_500) == pytest.approx(2_000 / 1e6)

    @pytest.mark.parametrize(
        ("name", "sheet"), [("openai", "openai"), ("claude-of-mine", "anthropic"),
                            ("gpt-of-mine", "openai"), ("models/gemini-of-mine", "gemini")]
    )  # fmt: skip
    def test_a_sheet_is_found_by_its_name_or_the_family_of_a_model(
        self, name: str, sheet: str
    ) -> None:
        assert get_prices(name) is get_prices(sheet)

    def test_a_model_has_its_list_prices(self) -> None:
        pytest.importorskip("genai_prices", reason="genai-prices is absent")
        listed = get_prices("us.anthropic.claude-opus-4-6-v1:0")
        assert (listed.is_listed, listed.input_per_million, listed.minimum) == (True, 5.0, 1_024)
        assert (listed.read, listed.write, listed.output) == pytest.approx((0.1, 1.25, 5.0))
        assert get_prices("gpt-4o").write == 1.0  # nobody lists a price for writing

    def test_a_name_that_is_neither_is_an_error(self) -> None:
        with pytest.raises(ConfigurationError, match="no price sheet named 'acme'"):
            get_prices("acme")
