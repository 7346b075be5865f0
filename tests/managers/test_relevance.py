"""The relevance manager: what it brings back, where, and what it leaves alone."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from history_curator import (
    BudgetUnsatisfiableError,
    ConfigurationError,
    Curator,
    RelevanceManager,
)
from history_curator.managers.relevance import HEAD
from history_curator.quoting import read_block
from history_curator.tokens import get_counter
from tests.support.data import load
from tests.support.guarantees import curate_and_check
from tests.support.messages import Message, assistant, call, result, system, user

COUNTER = get_counter("o200k_base")


def chat(turns: int = 60) -> list[Message]:
    messages = [system("be kind"), user("my dog is called Rex"), assistant("a fine name")]
    for turn in range(turns):
        messages += [
            user(f"tell me about topic{turn} " + f"filler{turn} " * 10),
            assistant(f"topic{turn} is about " + f"matter{turn} " * 15),
        ]
    return messages


def agent(steps: int = 40, turns: int = 4) -> list[Message]:
    messages = [system("you work on code"), user("start with the parser")]
    for step in range(steps):
        path = f"/srv/project/module{step}/file{step}.py"
        messages += [
            call(f"c{step}", name="read", path=path),
            result(f"c{step}", f"def function{step}(): pass\n" * 30),
        ]
        if step % (steps // turns) == steps // turns - 1:
            messages += [assistant(f"step {step} done"), user(f"go on with module{step // 2}")]
    return messages


def curator(budget: int = 1_500, **settings: Any) -> Curator:
    return Curator(RelevanceManager(**settings), max_tokens=budget)


def joined(view: list[Message]) -> str:
    """Return all text of a view, without the marks of quoted lines."""
    text = "\n".join(str(message["content"]) for message in view)
    return "\n".join(line.text for line in read_block(text))


class TestRecollection:
    def test_parts_come_back_word_for_word_right_before_the_question(self) -> None:
        messages = [*chat(), user("what was topic7 about?")]
        view = curator().curate(messages).messages
        assert view[-1] is messages[-1]
        assert view[-2]["role"] == "user"
        block = view[-2]["content"]
        assert block.startswith(HEAD)
        said = {line.text for line in read_block(block)}
        assert {messages[17]["content"], messages[18]["content"]} <= said

    def test_neighbours_of_a_hit_come_along(self) -> None:
        messages = [*chat(6), user("where do I keep the spare key?"), assistant("under the mat")]
        messages += [*chat(40)[3:], user("spare key?")]
        assert "under the mat" in joined(curator(1_200).curate(messages).messages)

    def test_parts_that_the_window_shows_are_not_repeated(self) -> None:
        messages = [*chat(), user("what was topic59 about?")]
        view = curator().curate(messages).messages
        assert joined(view).count("topic59 is about") == 1

    def test_nothing_happens_while_the_history_fits(self) -> None:
        messages = [*chat(5), user("what is my dog called?")]
        view = curator(100_000).curate(messages).messages
        assert all(mine is given for mine, given in zip(view, messages, strict=True))

    @pytest.mark.parametrize(
        "asked",
        [
            [assistant("Shall I repeat what topic7 was about?"), user("yes")],
            [user("what was topic7 about?"), assistant("Let me see."), user("and why that?")],
        ],
        ids=["a short reply", "a follow-up"],
    )
    def test_a_reply_is_read_with_the_turn_before(self, asked: list[Message]) -> None:
        assert "matter7" in joined(curator().curate([*chat(), *asked]).messages)


@pytest.mark.parametrize(
    "shared",
    [
        curator(1_500),
        curator(3_000),
        *(
            Curator(max_tokens=1_500, provider=provider)
            for provider in ("core", "anthropic", "gemini", "mistral")
        ),
    ],
)
def test_everything_before_the_block_is_repeated_unless_the_view_compacted(shared: Curator) -> None:
    messages, before, compactions, blocks = list[Message](), None, 0, 0
    for turn in range(80):
        messages = [*messages, user(f"what was topic{turn // 2} about?")]
        now = shared.curate(messages)
        found = [at for at, entry in enumerate(now.entries) if entry.origin == "recollection"]
        assert now.report.prefix_entries >= (found or [len(now.messages)])[0] - 1
        assert now.tokens <= (shared.max_tokens or 0)
        if before is not None and not now.report.compacted:
            promised = before.report.prefix_entries
            assert now.messages[:promised] == before.messages[:promised]
        before, compactions, blocks = now, compactions + now.report.compacted, blocks + bool(found)
        messages = [*messages, assistant(f"topic{turn} is about " + f"matter{turn} " * 15)]
    assert 0 < compactions < 40
    assert blocks >= 20


class TestQuery:
    """What the user asks now, where it is not among the messages yet."""

    def test_parts_for_a_query_end_the_view(self) -> None:
        messages = chat()
        view = curator().curate(messages, tail="history", query="what was topic7 about?").messages
        assert view[-2] is messages[-1]
        assert view[-1]["content"].startswith(HEAD)
        assert "matter7" in view[-1]["content"]

    def test_a_question_among_the_messages_is_not_answered_twice(self) -> None:
        messages = [*chat(), user("what was topic7 about?")]
        view = curator().curate(messages, query="what was topic7 about?").messages
        assert view == curator().curate(messages).messages

    def test_nothing_is_brought_back_for_an_answered_question(self) -> None:
        messages = [*chat(), user("what about topic7 and module3?")]
        asked = curator().curate(messages, tail="history").messages
        assert HEAD in joined(asked)
        answered = [*messages, assistant("as I said")]
        assert HEAD not in joined(curator().curate(answered, tail="history").messages)


class TestBlock:
    def test_of_a_message_that_is_too_long_the_matching_lines_come_back(self) -> None:
        long = "\n".join(f"item {n} costs {n * 7} crowns and is made of wood" for n in range(400))
        messages = [*chat(3), user("list them"), assistant(long), *chat(30)[3:]]
        view = Curator(max_tokens=2_000, retrieve=True).curate(
            [*messages, user("what does item 222 cost?")]
        )
        block = view.messages[-2]["content"]
        assert "> item 222 costs 1554 crowns" in block
        assert "item 2 costs" not in block


class TestRetrieveOption:
    """`Curator(retrieve=…)`: a small block in chats, by default."""

    ASKED: ClassVar[list[Message]] = [
        system("be kind"), user("shall we talk?"), assistant("yes"), *chat()[1:],
        user("what is my dog called?"),
    ]  # fmt: skip

    def test_a_chat_gets_back_what_the_question_is_about(self) -> None:
        curation = Curator(max_tokens=1_500, retrieve="auto").curate(self.ASKED)
        block = curation.messages[-2]["content"]
        assert "my dog is called Rex" in block
        assert curation.tokens <= 1_500
        assert curation.entries[-2].origin == "recollection"
        assert curation.messages[-1] is self.ASKED[-1]

    def test_the_block_is_small(self) -> None:
        messages = [*chat(400), user("what did I tell you about topic7?")]
        for budget, most in ((1_500, 375), (8_000, 400), (16_000, 800), (32_000, 1_000)):
            for entry in Curator(max_tokens=budget, retrieve="auto").curate(messages).entries:
                if entry.origin == "recollection":
                    assert 0.6 * most < COUNTER.count_entry(entry) <= most

    @pytest.mark.parametrize(
        ("retrieve", "in_chats", "in_work"),
        [("auto", True, False), (False, False, False), (True, True, True), (0.2, True, True)],
    )
    def test_tools_turn_it_off_unless_it_is_asked_for(
        self, retrieve: Any, in_chats: bool, in_work: bool
    ) -> None:
        work = [*agent(), user("what was in function3?")]
        for messages, expected in ((self.ASKED, in_chats), (work, in_work)):
            view = Curator(max_tokens=3_500 if messages is work else 1_500, retrieve=retrieve)
            assert (HEAD in joined(view.curate(messages).messages)) is expected

    def test_the_first_call_of_a_tool_is_a_compaction(self) -> None:
        messages = [*chat(38), user("now work")]
        assert not Curator(max_tokens=1_500, retrieve="auto").curate(messages).report.compacted
        messages += [call("c1"), result("c1", "x = 1")]
        assert Curator(max_tokens=1_500, retrieve="auto").curate(messages).report.compacted
        messages += [call("c2"), result("c2", "x = 2")]
        assert not Curator(max_tokens=1_500, retrieve="auto").curate(messages).report.compacted

    @pytest.mark.parametrize("value", ["always", 1.5, 0.0, None])
    def test_another_value_is_refused(self, value: Any) -> None:
        with pytest.raises(ConfigurationError, match="retrieve"):
            Curator(max_tokens=1_000, retrieve=value)

    def test_a_curator_that_retrieves_can_be_pickled_and_starts_as_new(self) -> None:
        used = Curator(max_tokens=1_500, retrieve="auto")
        used.curate(self.ASKED)
        data = pickle.dumps(used)
        assert b"Rex" not in data
        assert b"topic7" not in data
        assert pickle.loads(data).curate(self.ASKED).messages == used.curate(self.ASKED).messages


class TestGuarantees:
    @pytest.mark.parametrize("provider", ["core", "portable", "anthropic", "gemini"])
    @pytest.mark.parametrize("budget", [600, 1_500, 4_000])
    def test_the_guarantees_hold_for_chats_and_agents(self, provider: str, budget: int) -> None:
        for messages in ([*chat(), user("what was topic7 about?")], agent()):
            subject = Curator(RelevanceManager(), max_tokens=budget, provider=provider)
            curate_and_check(messages, curator=subject, idempotent=False)

    @pytest.mark.parametrize("share", [0.7, 0.4])
    @pytest.mark.parametrize("name", ["tau_bench", "tau2_bench", "misc_agents"])
    def test_the_guarantees_hold_for_real_conversations(self, name: str, share: float) -> None:
        for conversation in load(name)[::40]:
            subject = Curator(RelevanceManager(share), max_tokens=2_000, provider="portable")
            curate_and_check(conversation["messages"], curator=subject, idempotent=False)

    def test_a_budget_that_fits_without_the_manager_is_never_refused(self) -> None:
        for budget in range(150, 900, 50):
            try:
                Curator(max_tokens=budget).curate(agent())
            except BudgetUnsatisfiableError:
                continue
            assert curator(budget).curate(agent()).tokens <= budget

    def test_an_edited_history_is_read_anew(self) -> None:
        shared, question = curator(), user("what is my dog called?")
        assert "Rex" in joined(shared.curate([*chat(), question]).messages)
        changed = [system("be kind"), user("my dog is called Max"), *chat()[2:]]
        view = joined(shared.curate([*changed, question]).messages)
        assert "Max" in view
        assert "Rex" not in view


class Letters:
    """A scorer of somebody's own: texts are alike that have the same letters."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        if self.failures:
            self.failures -= 1
            raise TimeoutError("no answer")
        wanted = set(question)
        return [max(0.0, len(wanted & set(text)) / len(wanted | set(text)) - 0.5) for text in texts]


class TestScorer:
    def test_a_scorer_of_ones_own_decides(self) -> None:
        messages = [*chat(3), user("zzzzzz zzzzz zzz"), assistant("noted"), *chat(40)[3:]]
        view = curator(scorer=Letters()).curate([*messages, user("zzz zzz zz")]).messages
        assert "zzzzzz zzzzz zzz" in joined(view)

    def test_bm25_takes_over_when_a_scorer_fails_and_the_scorer_is_tried_again(self) -> None:
        shared, messages = curator(scorer=Letters(failures=1)), [*chat(), user("what was topic7?")]
        first, second = (shared.curate(messages) for _ in range(2))
        assert "matter7" in first.messages[-2]["content"]
        assert "Letters failed (TimeoutError)" in "".join(first.report.warnings)
        assert "no answer" not in "".join(first.report.warnings)
        assert not second.report.warnings
        assert second.messages == curator(scorer=Letters()).curate(messages).messages

    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            ({"scorer": "bm42"}, r"score\(question, texts\)"),
            ({"scorer": object()}, r"score\(question, texts\)"),
            ({"share": 1.5}, "share"),
        ],
    )
    def test_settings_that_cannot_work_are_refused(
        self, settings: dict[str, Any], problem: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=problem):
            RelevanceManager(**settings)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("provider", ["core", "bedrock"])
def test_a_prefix_that_changes_is_reported_where_usage_is_known(provider: str, seed: int) -> None:
    """The tokens set aside for a block were set aside for the request before as well."""
    rng, words = random.Random(seed), ["alpha", "river", "stone", "cloud", "paper", "metal"]
    curator = Curator(max_tokens=300, provider=provider)
    messages: list[Message] = []
    before = None
    for turn in range(30):
        messages.append(user(f"{turn} " + " ".join(rng.choices(words, k=rng.randint(1, 50)))))
        try:
            now = curator.curate(messages, reserve=50)
        except BudgetUnsatisfiableError:
            before = None
        else:
            if before is not None and not now.report.compacted:
                promised = before.report.prefix_entries
                assert now.entries[:promised] == before.entries[:promised]
            now.observe({"prompt_tokens": int(now.tokens * 1.3), "completion_tokens": 1})
            before = now
        messages.append(assistant(" ".join(rng.choices(words, k=rng.randint(1, 70)))))
