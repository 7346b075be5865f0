"""Whom a question is about: names, short forms of them, I and you."""

from __future__ import annotations

import pytest

from history_curator.managers.relevance._speakers import Speakers
from history_curator.entries import ConversationEntry, MessageRole

pytest.importorskip("numpy")


def speakers(*names: str) -> Speakers:
    made = Speakers()
    for turn in range(20):
        for place, name in enumerate(names):
            role = (MessageRole.USER, MessageRole.ASSISTANT)[place % 2]
            made.add(ConversationEntry(role, f"turn {turn}", name=name or None))
    return made


def favoured(question: str, *names: str) -> str | None:
    factors = speakers(*names).factors(question, 20 * len(names))
    if factors is None:
        return None
    first, second = factors[:2]
    assert first != second
    return names[0] if first > second else names[1]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What did Melanie paint?", "Melanie"),
        ("What did Mel paint?", "Melanie"),
        ("what did caroline paint?", "Caroline"),
        ("What did Melanie give to Caroline?", None),
        ("What did Mel give to Caroline?", None),
        ("Which car did they buy?", None),
        ("Will it rain?", None),
    ],
)
def test_the_one_speaker_named(question: str, expected: str | None) -> None:
    assert favoured(question, "Caroline", "Melanie") == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Where does Bill live?", "William"),
        ("Where does Bob live?", "Robert"),
        ("Where does Rob live?", "Robert"),
        ("Where does Robin live?", None),
    ],
)
def test_short_forms_that_begin_otherwise(question: str, expected: str | None) -> None:
    assert favoured(question, "William", "Robert") == expected


def test_a_short_form_of_two_names_is_nobodys() -> None:
    assert favoured("What did Jo say?", "Joanna", "Jolene") is None


def test_a_full_name_means_the_one_who_goes_by_a_short_one() -> None:
    assert favoured("What did Deborah cook?", "Deb", "Jolene") == "Deb"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When is my flight?", MessageRole.USER),
        ("Can you tell me what I said about it?", MessageRole.USER),
        ("Do you remember what I told you?", MessageRole.USER),
        ("What did you recommend for my resume?", MessageRole.ASSISTANT),
        ("Which steps have you suggested I take?", MessageRole.ASSISTANT),
        ("The recipe you gave me, how long did it bake?", MessageRole.ASSISTANT),
        ("What was your advice on my garden?", MessageRole.ASSISTANT),
        ("Who won the match?", None),
    ],
)
def test_i_and_you(question: str, expected: MessageRole | None) -> None:
    made = speakers("", "")
    factors = made.factors(question, 40)
    if expected is None:
        assert factors is None
    else:
        assert bool(factors[0] > factors[1]) is (expected is MessageRole.USER)
