"""Small conversations and the exact view of each, written out.

A view is written one message a line: the letter of its role as in the testing shorthand, and what it
says without the words that only make it long. The recap is written whole.
"""

from __future__ import annotations

import json
from textwrap import dedent
from typing import Any

from history_curator import ConversationEntry, Curation, Curator
from history_curator.testing import assert_conformant, parse, parse_entries, show

LONG = " word"
LOOP = " ".join(f"A(c{at}) T(c{at})" for at in range(1, 13))
LONGER = f"{LOOP} A(c13) T(c13)"
CHAT = " ".join(["U A"] * 10)
TURNS = (
    "S U A(a1) T(a1) A U A(b1) T(b1) A(b2) T(b2) A(b3) T(b3) A(b4) T(b4) A(b5) T(b5) A(b6) T(b6)"
)


def talk(text: str, *, user: int = 0, assistant: int = 0, tool: int = 0) -> list[dict[str, Any]]:
    """Messages in shorthand, each made longer by so many words; every call names a file."""
    words = {"user": user, "assistant": assistant, "tool": tool, "system": 0}
    messages = parse(text)
    for message in messages:
        if message["content"]:
            message["content"] += LONG * words[message["role"]]
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = json.dumps({"path": f"src/{call['id']}.py"})
    return messages


def written(curation: Curation) -> list[str]:
    """The view, a line for each message; the recap's lines stand by themselves."""
    lines = []
    for message, entry in zip(curation.messages, curation.entries, strict=True):
        text = (entry.content or "").replace(LONG, "")
        if entry.origin == "recap":
            lines += ["recap", *(f"| {line}" for line in text.split("\n"))]
        else:
            lines += f"{show([message])} {text}".strip().split("\n")
    return lines


def view(messages: list[Any], *, budget: int, **options: Any) -> list[str]:
    curation = Curator(max_tokens=budget, **options).curate(messages, tail="request")
    assert_conformant(curation.messages)
    return written(curation)


def lines_of(text: str) -> list[str]:
    return dedent(text).strip().split("\n")


def pinned(messages: list[dict[str, Any]], at: int) -> list[dict[str, Any]]:
    messages[at]["pinned"] = True
    return messages


def barred(text: str, at: int) -> list[ConversationEntry]:
    entries = parse_entries(text)
    entries[at] = entries[at].evolve(barrier=True)
    return entries


def test_everything_that_fits_is_shown_as_it_is() -> None:
    messages = talk("S U A(c1) T(c1) A U")
    assert view(messages, budget=1_000) == lines_of(
        """
        S rules 0
        U user 1
        A(c1)
        T(c1) result 3 of c1
        A answer 4
        U user 5
        """
    )


def test_a_full_view_is_still_whole() -> None:
    messages = talk(f"S U {LOOP}", tool=90)[:18]
    assert view(messages, budget=1_000) == lines_of(
        """
        S rules 0
        U user 1
        A(c1)
        T(c1) result 3 of c1
        A(c2)
        T(c2) result 5 of c2
        A(c3)
        T(c3) result 7 of c3
        A(c4)
        T(c4) result 9 of c4
        A(c5)
        T(c5) result 11 of c5
        A(c6)
        T(c6) result 13 of c6
        A(c7)
        T(c7) result 15 of c7
        A(c8)
        T(c8) result 17 of c8
        """
    )


def test_a_compaction_leaves_the_question_a_recap_and_the_newest() -> None:
    messages = talk(f"S U {LOOP}", tool=90)[:20]
    assert view(messages, budget=1_000) == lines_of(
        """
        S rules 0
        U user 1
        recap
        | [Earlier in this conversation, no longer shown: 10 messages]
        | [Values from there]
        | known > path: src/c5.py, src/c4.py, src/c3.py, src/c2.py, src/c1.py
        | [End]
        A(c6)
        T(c6) result 13 of c6
        A(c7)
        T(c7) result 15 of c7
        A(c8)
        T(c8) result 17 of c8
        A(c9)
        T(c9) result 19 of c9
        """
    )


def test_after_a_compaction_what_is_new_is_added_and_nothing_changes() -> None:
    messages = talk(f"S U {LOOP}", tool=90)[:24]
    assert view(messages, budget=1_000) == lines_of(
        """
        S rules 0
        U user 1
        recap
        | [Earlier in this conversation, no longer shown: 10 messages]
        | [Values from there]
        | known > path: src/c5.py, src/c4.py, src/c3.py, src/c2.py, src/c1.py
        | [End]
        A(c6)
        T(c6) result 13 of c6
        A(c7)
        T(c7) result 15 of c7
        A(c8)
        T(c8) result 17 of c8
        A(c9)
        T(c9) result 19 of c9
        A(c10)
        T(c10) result 21 of c10
        A(c11)
        T(c11) result 23 of c11
        """
    )


def test_the_next_compaction_writes_the_recap_again() -> None:
    messages = talk(f"S U {LONGER}", tool=90)
    assert view(messages, budget=1_000) == lines_of(
        """
        S rules 0
        U user 1
        recap
        | [Earlier in this conversation, no longer shown: 18 messages]
        | [Values from there]
        | known > path: src/c9.py, src/c8.py, src/c7.py, src/c6.py, src/c5.py, src/c4.py, src/c3.py, src/c2.py, src/c1.py
        | [End]
        A(c10)
        T(c10) result 21 of c10
        A(c11)
        T(c11) result 23 of c11
        A(c12)
        T(c12) result 25 of c12
        A(c13)
        T(c13) result 27 of c13
        """
    )


def test_without_a_recap() -> None:
    messages = talk(f"S U {LOOP}", tool=90)[:20]
    assert view(messages, budget=1_000, recap=False) == lines_of(
        """
        S rules 0
        U user 1
        A(c5)
        T(c5) result 11 of c5
        A(c6)
        T(c6) result 13 of c6
        A(c7)
        T(c7) result 15 of c7
        A(c8)
        T(c8) result 17 of c8
        A(c9)
        T(c9) result 19 of c9
        """
    )


def test_a_large_result_is_capped_where_it_arrives() -> None:
    messages = talk("S U A(c1) T(c1) A(c2) T(c2)", tool=200)
    assert view(messages, budget=400) == lines_of(
        """
        S rules 0
        U user 1
        A(c1)
        T(c1) result 3 of c1
        [… 1,014 characters in all, middle left out …]
        A(c2)
        T(c2) result 5 of c2
        [… 1,014 characters in all, middle left out …]
        """
    )


def test_an_answer_that_fits_the_target_brings_its_question() -> None:
    messages = talk(f"S {CHAT} U", user=80, assistant=100)[:18]
    assert view(messages, budget=900, retrieve=False) == lines_of(
        """
        S rules 0
        U user 1
        A [Answered; the answer is no longer shown.]
        recap
        | [Earlier in this conversation, no longer shown: 9 messages]
        U user 11
        A answer 12
        U user 13
        A answer 14
        U user 15
        A answer 16
        U user 17
        """
    )


def test_the_question_in_whose_turn_the_cutoff_falls_stays() -> None:
    messages = talk(TURNS, tool=100)
    assert view(messages, budget=700) == lines_of(
        """
        S rules 0
        U user 1
        A [Answered; the answer is no longer shown.]
        recap
        | [Earlier in this conversation, no longer shown: 3 messages]
        U user 5
        recap
        | [Earlier in this conversation, no longer shown: 4 messages]
        A(b3)
        T(b3) result 11 of b3
        A(b4)
        T(b4) result 13 of b4
        A(b5)
        T(b5) result 15 of b5
        A(b6)
        T(b6) result 17 of b6
        """
    )


def test_a_question_above_a_quarter_is_not_kept() -> None:
    messages = [*talk("S U", user=200), *talk(f"S U A U {LOOP}", tool=90)[2:]]
    assert view(messages, budget=800) == lines_of(
        """
        S rules 0
        recap
        | [Earlier in this conversation, no longer shown: 2 messages]
        U user 3
        recap
        | [Earlier in this conversation, no longer shown: 16 messages]
        A(c9)
        T(c9) result 21 of c9
        A(c10)
        T(c10) result 23 of c10
        A(c11)
        T(c11) result 25 of c11
        A(c12)
        T(c12) result 27 of c12
        """
    )


def test_a_pinned_exchange_stays() -> None:
    messages = pinned(talk(f"S U {LOOP}", tool=90), 4)
    assert view(messages, budget=1_000) == lines_of(
        """
        S rules 0
        U user 1
        A(c2)
        T(c2) result 5 of c2
        recap
        | [Earlier in this conversation, no longer shown: 10 messages]
        | [What was done, 1 of 5]
        | call > look(src/c6.py) → ok
        | [Values from there]
        | known > path: src/c5.py, src/c4.py, src/c3.py, src/c1.py
        | [End]
        A(c7)
        T(c7) result 15 of c7
        A(c8)
        T(c8) result 17 of c8
        A(c9)
        T(c9) result 19 of c9
        A(c10)
        T(c10) result 21 of c10
        A(c11)
        T(c11) result 23 of c11
        A(c12)
        T(c12) result 25 of c12
        """
    )


def test_a_pinned_exchange_costs_what_is_left_without_its_reasoning() -> None:
    messages = pinned(talk(f"S U A(p1) T(p1) U {LOOP}", tool=90)[:21], 2)
    messages[2]["reasoning_content"] = "hmm " * 120
    assert view(messages, budget=1_000) == lines_of(
        """
        S rules 0
        U user 1
        A(p1)
        T(p1) result 3 of p1
        U user 4
        recap
        | [Earlier in this conversation, no longer shown: 8 messages]
        | [Values from there]
        | known > path: src/c4.py, src/c3.py, src/c2.py, src/c1.py
        | [End]
        A(c5)
        T(c5) result 14 of c5
        A(c6)
        T(c6) result 16 of c6
        A(c7)
        T(c7) result 18 of c7
        A(c8)
        T(c8) result 20 of c8
        """
    )


def test_the_last_entries_stay_past_the_target() -> None:
    messages = talk(f"S U {LOOP}", tool=90)[:20]
    assert view(messages, budget=1_000, preserve_last_n=12) == lines_of(
        """
        S rules 0
        U user 1
        recap
        | [Earlier in this conversation, no longer shown: 6 messages]
        A(c4)
        T(c4) result 9 of c4
        A(c5)
        T(c5) result 11 of c5
        A(c6)
        T(c6) result 13 of c6
        A(c7)
        T(c7) result 15 of c7
        A(c8)
        T(c8) result 17 of c8
        A(c9)
        T(c9) result 19 of c9
        """
    )


def test_a_late_result_moves_up_to_its_call() -> None:
    messages = talk("S U A(c1) U A T(c1) A U")
    assert view(messages, budget=1_000) == lines_of(
        """
        S rules 0
        U user 1
        A(c1)
        T(c1) result 5 of c1
        U user 3
        A answer 4
        A answer 6
        U user 7
        """
    )


def test_a_late_result_changes_what_was_shown_and_the_report_says_so() -> None:
    messages, curator = talk("S U A(c1) U A(c2) T(c2) T(c1) A U", tool=20), Curator(max_tokens=400)
    before = curator.curate(messages[:6], tail="request")
    assert written(before) == lines_of(
        """
        S rules 0
        U user 1
        A(c1)
        T(c1) [No result: the call was not answered, and it may have run.]
        U user 3
        A(c2)
        T(c2) result 5 of c2
        """
    )
    assert not before.report.compacted
    after = curator.curate(messages[:7], tail="request")
    assert written(after) == lines_of(
        """
        S rules 0
        U user 1
        A(c1)
        T(c1) result 6 of c1
        U user 3
        A(c2)
        T(c2) result 5 of c2
        """
    )
    assert after.report.compacted
    assert not curator.curate(messages, tail="request").report.compacted


def test_a_second_result_takes_the_place_of_the_first() -> None:
    messages = talk("S U A(c1) T(c1) A U T(c1) A U")
    assert view(messages, budget=1_000) == lines_of(
        """
        S rules 0
        U user 1
        A(c1)
        T(c1) result 6 of c1
        A answer 4
        U user 5
        A answer 7
        U user 8
        """
    )


def test_a_result_belongs_to_the_latest_call_of_its_id() -> None:
    messages = talk("S U A(c1) T(c1) U A(c1) T(c1) A U")
    assert view(messages, budget=1_000) == lines_of(
        """
        S rules 0
        U user 1
        A(c1)
        T(c1) result 3 of c1
        U user 4
        A(call_3629be50d1a5516f)
        T(call_3629be50d1a5516f) result 6 of c1
        A answer 7
        U user 8
        """
    )


def test_an_open_exchange_is_answered_by_a_placeholder() -> None:
    messages = talk("S U A(c1,c2) T(c1)")
    assert view(messages, budget=1_000) == lines_of(
        """
        S rules 0
        U user 1
        A(c1,c2)
        T(c1) result 3 of c1
        T(c2) [No result: the call was not answered, and it may have run.]
        """
    )


def test_nothing_before_a_barrier_is_sent() -> None:
    messages = barred("S U A U A(c1) T(c1) A U", 3)
    assert view(messages, budget=1_000) == lines_of(
        """
        S rules 0
        U user 3
        A(c1)
        T(c1) result 5 of c1
        A answer 6
        U user 7
        """
    )


def test_a_chat_gets_back_what_its_question_is_about_in_a_block_before_it() -> None:
    messages = talk(f"S {CHAT} U", user=10, assistant=80)
    messages[5]["content"] = "the spare key is with Ada"
    messages[-1]["content"] = "who has the spare key?"
    assert view(messages, budget=700) == lines_of(
        """
        S rules 0
        U user 1
        A [Answered; the answer is no longer shown.]
        recap
        | [Earlier in this conversation, no longer shown: 13 messages]
        U user 15
        A answer 16
        U user 17
        A answer 18
        U user 19
        A answer 20
        U [Earlier messages of this conversation that may matter now, quoted]
        user 4 > user 3
        assistant 5 > answer 4
        user 6 > the spare key is with Ada
        user 8 > user 7
        [End of earlier messages]
        U who has the spare key?
        """
    )


def test_the_recap_of_a_chat_says_how_much_it_was() -> None:
    messages = talk(f"S {CHAT} U", user=10, assistant=80)
    assert view(messages, budget=700, retrieve=False) == lines_of(
        """
        S rules 0
        U user 1
        A [Answered; the answer is no longer shown.]
        recap
        | [Earlier in this conversation, no longer shown: 9 messages]
        U user 11
        A answer 12
        U user 13
        A answer 14
        U user 15
        A answer 16
        U user 17
        A answer 18
        U user 19
        A answer 20
        U user 21
        """
    )
