"""What is asked: a message by itself, or with the turn it leans on."""

from __future__ import annotations

import pytest

from history_curator.managers.relevance._query import leans, query_at
from history_curator.entries import ConversationEntry, MessageRole

pytest.importorskip("Stemmer")


def user(text: str) -> ConversationEntry:
    return ConversationEntry(MessageRole.USER, text)


def assistant(text: str) -> ConversationEntry:
    return ConversationEntry(MessageRole.ASSISTANT, text)


@pytest.mark.parametrize(
    "said",
    [
        "yes",
        "Oslo",
        "the second one, please",
        "And who paid?",
        "what about the hotel?",
        "When was that?",
        "Why did she leave?",
        "What colour?",
        "",
    ],
)
def test_what_leans_on_the_last_turn(said: str) -> None:
    assert leans(said)


@pytest.mark.parametrize(
    "said",
    [
        "What is the colour of my kitchen?",
        "Which cities did I visit?",
        "Who is Jill?",
        "Which libraries are used in this project?",
        "What did Melanie do after her charity race?",
        "I would like to talk about the budget of the new project now",
        "And finally I want a whole new plan for the garden, the kitchen, the roof and the cellar",
    ],
)
def test_what_stands_by_itself(said: str) -> None:
    assert not leans(said)


def test_a_follow_up_is_read_with_the_question_before() -> None:
    entries = [user("When is my sister's wedding?"), assistant("In June."), user("And who comes?")]
    assert query_at(entries, 2) == {"When is my sister's wedding?": 0.5, "And who comes?": 1.0}


def test_a_reply_is_read_with_what_the_assistant_asked() -> None:
    entries = [user("Book a flight"), assistant("Sure. From where? To where?"), user("Oslo")]
    assert query_at(entries, 2) == {"To where?": 0.5, "Book a flight": 0.5, "Oslo": 1.0}


def test_what_is_about_to_be_said_is_read_the_same_way() -> None:
    entries = [user("When is my sister's wedding?"), assistant("In June.")]
    assert query_at(entries, 2, "where is it?") == query_at([*entries, user("where is it?")], 2)


def test_the_question_itself_counts_most() -> None:
    entries = [user("hm"), assistant("ok?"), user("hm")]
    assert max(query_at(entries, 2).items(), key=lambda each: each[1]) == ("hm", 1.0)
