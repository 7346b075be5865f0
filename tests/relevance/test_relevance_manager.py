"""The relevance manager: what it brings back, where, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from history_curator import (
    BudgetUnsatisfiableError,
    ConfigurationError,
    Curator,
    RelevanceManager,
)
from history_curator.relevance._compose import IDENTIFIERS_HEAD, RECOLLECTION_HEAD
from tests.support.data import load
from tests.support.guarantees import curate_and_check
from tests.support.messages import Message, assistant, call, result, system, user

pytest.importorskip("numpy")
pytest.importorskip("Stemmer")


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
    return "\n".join(str(message["content"]) for message in view)


class TestRecollection:
    def test_an_early_fact_is_back_in_the_view(self) -> None:
        messages = [*chat(), user("what is my dog called?")]
        assert "Rex" not in joined(Curator(max_tokens=1_500).curate(messages[2:]).messages)
        assert "my dog is called Rex" in joined(curator().curate(messages[1:]).messages)

    def test_the_block_is_right_before_the_question(self) -> None:
        messages = [*chat(), user("what was topic7 about?")]
        view = curator().curate(messages).messages
        assert view[-1] is messages[-1]
        assert view[-2]["role"] == "user"
        assert view[-2]["content"].startswith(RECOLLECTION_HEAD)
        assert "matter7" in view[-2]["content"]

    def test_parts_come_back_word_for_word(self) -> None:
        messages = [*chat(), user("what was topic7 about?")]
        block = curator().curate(messages).messages[-2]["content"]
        assert messages[17]["content"] in block
        assert messages[18]["content"] in block

    def test_neighbours_of_a_hit_come_along(self) -> None:
        messages = [*chat(6), user("where do I keep the spare key?"), assistant("under the mat")]
        messages += [*chat(40)[3:], user("spare key?")]
        assert "under the mat" in joined(curator(1_200).curate(messages).messages)

    def test_what_the_window_shows_is_not_repeated(self) -> None:
        messages = [*chat(), user("what was topic59 about?")]
        view = curator().curate(messages).messages
        assert joined(view).count("topic59 is about") == 1

    def test_nothing_happens_while_the_history_fits(self) -> None:
        messages = [*chat(5), user("what is my dog called?")]
        view = curator(100_000).curate(messages).messages
        assert all(mine is given for mine, given in zip(view, messages, strict=True))

    def test_a_short_reply_is_read_with_the_question_it_answers(self) -> None:
        messages = [*chat(), assistant("Shall I repeat what topic7 was about?"), user("yes")]
        assert "matter7" in joined(curator().curate(messages).messages)

    def test_everything_before_the_block_is_repeated_unless_the_cut_jumps(self) -> None:
        repeated = 0
        for length in range(50, 62):
            messages = [*chat(length), user("what was topic7 about?")]
            shared = curator()
            first = shared.curate(messages)
            more = [*messages, assistant("about matter7"), user("and topic9?")]
            second = shared.curate(more)
            block = next(
                at
                for at, message in enumerate(first.messages)
                if str(message["content"]).startswith(RECOLLECTION_HEAD)
            )
            repeated += second.messages[:block] == first.messages[:block]
            assert "matter9" in second.messages[-2]["content"]
        assert repeated >= 6

    def test_in_order_puts_the_parts_where_they_were(self) -> None:
        messages = [*chat(), user("what was topic7 about?")]
        view = curator(placement="in_order").curate(messages).messages
        places = [messages.index(message) for message in view]
        assert places == sorted(places)
        assert 17 in places
        assert 18 in places
        assert all(message is messages[at] for message, at in zip(view, places, strict=True))


class TestQuery:
    """What the user asks now, where it is not among the messages yet."""

    def test_its_block_ends_the_view(self) -> None:
        messages = chat()
        view = curator().curate(messages, tail="history", query="what was topic7 about?").messages
        assert view[-2] is messages[-1]
        assert view[-1]["content"].startswith(RECOLLECTION_HEAD)
        assert "matter7" in view[-1]["content"]

    def test_a_short_query_is_read_with_the_question_it_answers(self) -> None:
        messages = [*chat(), assistant("Shall I repeat what topic7 was about?")]
        view = curator().curate(messages, tail="history", query="yes").messages
        assert "matter7" in view[-1]["content"]

    def test_another_query_finds_other_parts(self) -> None:
        shared, messages = curator(), chat()
        for topic in (7, 23):
            query = f"what was topic{topic} about?"
            view = shared.curate(messages, tail="history", query=query).messages
            assert f"matter{topic} " in view[-1]["content"]

    def test_a_question_among_the_messages_is_not_answered_twice(self) -> None:
        messages = [*chat(), user("what was topic7 about?")]
        view = curator().curate(messages, query="what was topic7 about?").messages
        assert view == curator().curate(messages).messages

    @pytest.mark.parametrize("make", [chat, agent])
    def test_nothing_is_brought_back_for_an_answered_question(self, make: Any) -> None:
        messages = [*make(), user("what about topic7 and module3?")]
        asked = curator().curate(messages, tail="history").messages
        assert RECOLLECTION_HEAD in joined(asked)
        answered = [*messages, assistant("as I said")]
        assert RECOLLECTION_HEAD not in joined(curator().curate(answered, tail="history").messages)

    def test_agents_have_a_block_at_the_end_too(self) -> None:
        messages = [*agent(200, turns=100), assistant("all done")]
        query = "what is in /srv/project/module3/file3.py?"
        view = curator(4_000, share=0.5).curate(messages, tail="history", query=query).messages
        assert joined(view).count(RECOLLECTION_HEAD) > 1
        assert view[-1]["content"].startswith(RECOLLECTION_HEAD)
        assert "function3()" in view[-1]["content"]

    @pytest.mark.parametrize("provider", ["core", "portable", "anthropic", "gemini"])
    def test_the_budget_holds(self, provider: str) -> None:
        made = Curator(RelevanceManager(), max_tokens=1_500, provider=provider)
        curation = made.curate(chat(), tail="history", query="what was topic7 about?")
        assert curation.tokens <= 1_500
        assert "matter7" in joined(curation.messages)


class TestAgents:
    def test_identifiers_of_parts_no_longer_shown_are_listed(self) -> None:
        messages = agent()
        plain = joined(Curator(max_tokens=1_500).curate(messages).messages)
        view = joined(curator().curate(messages).messages)
        assert IDENTIFIERS_HEAD in view
        lost = [n for n in range(40) if f"module{n}/file{n}.py" not in plain]
        assert any(f"module{n}/file{n}.py" in view for n in lost)

    def test_an_argument_used_often_is_listed_before_others(self) -> None:
        messages = agent(20)
        for n in range(6):
            messages += [call(f"x{n}", name="grep", pattern="needleValue"), result(f"x{n}", "-")]
        messages += agent(30)[2:]
        assert "needleValue" in joined(curator().curate(messages).messages)

    def test_no_list_without_room_for_one(self) -> None:
        view = curator(identifiers=0).curate(agent()).messages
        assert IDENTIFIERS_HEAD not in joined(view)

    def test_views_repeat_each_other_as_often_as_without_blocks(self) -> None:
        messages = agent(60)

        def repeated(subject: Curator) -> float:
            again = total = 0
            before: list[Any] = []
            for at in range(2, len(messages)):
                if messages[at]["role"] != "assistant":
                    continue
                sent = subject.curate(messages[:at]).entries
                same = True
                for position, entry in enumerate(sent):
                    same = same and position < len(before) and before[position] == entry
                    total += subject.counter.count_entry(entry)
                    again += subject.counter.count_entry(entry) if same else 0
                before = list(sent)
            return again / total

        assert repeated(curator(3_000)) > repeated(Curator(max_tokens=3_000)) - 0.05


class TestGuarantees:
    @pytest.mark.parametrize("provider", ["core", "portable", "anthropic", "gemini"])
    @pytest.mark.parametrize("budget", [600, 1_500, 4_000])
    def test_hold_for_chats_and_agents(self, provider: str, budget: int) -> None:
        for messages in ([*chat(), user("what was topic7 about?")], agent()):
            subject = Curator(RelevanceManager(), max_tokens=budget, provider=provider)
            curate_and_check(messages, curator=subject, idempotent=False)

    @pytest.mark.parametrize("placement", ["recollection", "in_order"])
    @pytest.mark.parametrize("name", ["tau_bench", "tau2_bench", "misc_agents"])
    def test_hold_for_real_conversations(self, name: str, placement: str) -> None:
        for conversation in load(name)[::40]:
            manager = RelevanceManager(placement=placement)  # type: ignore[arg-type]
            subject = Curator(manager, max_tokens=2_000, provider="portable")
            curate_and_check(conversation["messages"], curator=subject, idempotent=False)

    def test_what_a_curator_without_blocks_can_fit_is_never_refused(self) -> None:
        for budget in range(150, 900, 50):
            try:
                Curator(max_tokens=budget).curate(agent())
            except BudgetUnsatisfiableError:
                continue
            assert curator(budget).curate(agent()).tokens <= budget

    def test_a_curator_that_saw_more_gives_the_same_view(self) -> None:
        messages = agent()
        used = curator()
        for at in range(2, len(messages) + 1):
            used.curate(messages[:at])
        used.curate([*chat(), user("what was topic7 about?")])
        for at in range(2, len(messages) + 1, 7):
            assert used.curate(messages[:at]).messages == curator().curate(messages[:at]).messages

    def test_another_question_at_the_same_place_is_answered_afresh(self) -> None:
        shared = curator()
        shared.curate([*chat(), user("what was topic7 about?")])
        view = joined(shared.curate([*chat(), user("what was topic9 about?")]).messages)
        assert "matter9" in view
        assert "[Recollection" in view

    def test_edited_history_is_noticed(self) -> None:
        shared = curator()
        shared.curate([*chat(), user("what is my dog called?")])
        changed = [system("be kind"), user("my dog is called Max"), *chat()[2:]]
        view = joined(shared.curate([*changed, user("what is my dog called?")]).messages)
        assert "Max" in view
        assert "Rex" not in view

    def test_the_report_says_what_was_quoted(self) -> None:
        report = curator().curate([*chat(), user("what was topic7 about?")]).report
        reasons = [decision.reason or "" for decision in report.decisions]
        assert any("quoted in the recollection" in reason for reason in reasons)


class Letters:
    """Embeds by counting letters; as LangChain and as LlamaIndex call it."""

    def __init__(self) -> None:
        self.embedded = 0

    def embed_query(self, text: str) -> list[float]:
        return [float(text.lower().count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.embedded += len(texts)
        return [self.embed_query(text) for text in texts]


class LlamaLetters:
    """The same, with the methods of a LlamaIndex embedding."""

    def get_query_embedding(self, text: str) -> list[float]:
        return Letters().embed_query(text)

    def get_text_embedding_batch(self, texts: list[str]) -> list[list[float]]:
        return Letters().embed_documents(texts)


class TestScorers:
    @pytest.mark.parametrize(
        "settings",
        [
            {"scorer": Letters()},
            {"scorer": LlamaLetters()},
            {"scorer": "embeddings", "embeddings": Letters()},
            {"scorer": "hybrid", "embeddings": LlamaLetters()},
        ],
    )
    def test_embeddings_of_both_frameworks_find_what_is_alike(
        self, settings: dict[str, Any]
    ) -> None:
        messages = [*chat(3), user("zzzzzz zzzzz zzz"), assistant("noted"), *chat(40)[3:]]
        view = curator(**settings).curate([*messages, user("zzz")]).messages
        assert "zzzzzz zzzzz zzz" in joined(view)

    @pytest.mark.parametrize("scorer", ["embeddings", "hybrid"])
    @pytest.mark.parametrize("method", ["embed_query", "embed_documents"])
    def test_words_take_over_when_embeddings_fail(self, scorer: str, method: str) -> None:
        letters = Letters()

        def broken(_: Any) -> Any:
            raise TimeoutError("no answer")

        setattr(letters, method, broken)
        shared = curator(scorer=scorer, embeddings=letters)
        messages = [*chat(), user("what was topic7 about?")]
        for _ in range(2):
            curation = shared.curate(messages)
            assert "matter7" in curation.messages[-2]["content"]
            assert "TimeoutError: no answer" in "".join(curation.report.warnings)

    def test_embeddings_are_tried_again_with_the_next_question(self) -> None:
        letters = Letters()
        working, answers = letters.embed_documents, [TimeoutError("no answer")]

        def flaky(texts: list[str]) -> list[list[float]]:
            if answers:
                raise answers.pop()
            return working(texts)

        letters.embed_documents = flaky  # type: ignore[method-assign]
        shared = curator(scorer="hybrid", embeddings=letters)
        messages = [*chat(), user("what was topic7 about?")]
        assert shared.curate(messages).report.warnings
        more = [*messages, assistant("about matter7"), user("and topic9?")]
        curation = shared.curate(more)
        assert not curation.report.warnings
        fresh = curator(scorer="hybrid", embeddings=Letters()).curate(more)
        assert curation.messages == fresh.messages

    def test_a_text_is_embedded_once(self) -> None:
        letters = Letters()
        shared = curator(scorer=letters)
        messages = [*chat(), user("first?")]
        shared.curate(messages)
        once = letters.embedded
        shared.curate([*messages, assistant("yes"), user("second?")])
        assert letters.embedded <= once + 2

    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            ({"scorer": "bm42"}, "unknown"),
            ({"scorer": "hybrid"}, "needs embeddings"),
            ({"scorer": object()}, "embeds nothing"),
            ({"share": 1.5}, "share"),
            ({"placement": "end"}, "placement"),
            ({"neighbours": 9}, "neighbours"),
            ({"identifiers": 0.9}, "identifiers"),
        ],
    )
    def test_settings_that_cannot_work_are_refused(
        self, settings: dict[str, Any], problem: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=problem):
            RelevanceManager(**settings)


class TestRealConversations:
    def test_the_budget_holds_far_more_evidence_than_a_window(self) -> None:
        conversation = load("locomo")[0]
        messages = conversation["messages"]
        relevant, plain = curator(4_000), Curator(max_tokens=4_000)
        found = {"relevant": 0, "plain": 0}
        questions = [q for q in conversation["questions"] if q["evidence"]][::4]
        for question in questions:
            asked = [*messages, user(question["question"])]
            for name, subject in (("relevant", relevant), ("plain", plain)):
                view = joined(subject.curate(asked).messages)
                found[name] += all(messages[at]["content"] in view for at in question["evidence"])
        assert found["relevant"] > 0.75 * len(questions)
        assert found["relevant"] > 2 * found["plain"]
