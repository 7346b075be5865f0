"""What is kept between calls saves work and changes nothing."""

from __future__ import annotations

import copy
import pickle
import random
from dataclasses import replace
from typing import Any

import pytest

from history_curator import (
    ConversationEntry,
    Curator,
    MessageRole,
    SlidingWindowManager,
    TiktokenCounter,
    TurnRetentionManager,
)
from history_curator.formats import DictFormat
from history_curator.rules import PROVIDERS
from tests.support.hosts import live, see_an_equal_message_in_the_place_of_another, view
from tests.support.messages import assistant, call, result, system, user


def session(turns: int, seed: int = 1) -> list[dict[str, Any]]:
    """An agent at work: parallel calls, long and short results, some too late or out of order."""
    rng = random.Random(seed)
    messages = [system("be brief")]
    for turn in range(turns):
        messages.append(user(f"question {turn}: " + "why? " * rng.randint(1, 20)))
        for step in range(rng.randint(0, 2)):
            ids = [f"c{turn}-{step}-{place}" for place in range(rng.randint(1, 3))]
            messages.append(call(*ids, path="src/" + "x" * rng.choice([4, 600])))
            answers = [
                result(name, f"line of {name}\n" * rng.choice([1, 8, 120, 400])) for name in ids
            ]
            rng.shuffle(answers)
            messages += answers
        messages.append(assistant(f"answer {turn} " + "so. " * rng.randint(1, 40)))
    return messages


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("budget", [700, 3_000, 9_000])
def test_every_view_of_a_session_is_the_one_of_a_new_curator(provider: str, budget: int) -> None:
    messages = session(45)
    curator = Curator(max_tokens=budget, provider=provider)
    for end in range(1, len(messages) + 1):
        kept = view(curator, messages[:end])
        if end % 9 == 0 or end == len(messages):
            fresh = Curator(max_tokens=budget, provider=provider).curate(
                messages[:end], tail="history"
            )
            assert kept == fresh.messages
            again = curator.curate(messages[:end], tail="history")
            assert again.tokens == fresh.tokens
            assert again.report.prefix_entries == fresh.report.prefix_entries


def test_what_a_caller_does_to_a_written_message_stays_with_the_caller() -> None:
    messages = session(40)
    curator = Curator(max_tokens=3_000)
    given = {id(message) for message in messages}
    for end in range(20, len(messages), 3):
        for message in view(curator, messages[:end]):
            if id(message) not in given:
                message["content"] = "spoiled"
                message["name"] = "spoiled"
                for asked in message.get("tool_calls", ()):
                    asked["function"]["arguments"] = "spoiled"
    assert view(curator, messages) == view(Curator(max_tokens=3_000), messages)
    assert "spoiled" not in str(view(curator, messages))


@pytest.mark.parametrize("seed", range(6))
def test_replaced_content_is_noticed_wherever_it_is_in_the_view(seed: int) -> None:
    rng = random.Random(seed)
    messages = session(40, seed)
    curator = Curator(max_tokens=3_000)
    for end in range(30, len(messages), 5):
        history = messages[:end]
        shown = [each for each in view(curator, history) if any(each is one for one in history)]
        edited = rng.choice(shown)
        edited["content"] = f"edited at {end} " + "word " * rng.randint(0, 60)
        assert view(curator, history) == view(Curator(max_tokens=3_000), history)


@pytest.mark.parametrize("key", ["name", "tool_call_id", "tool_calls"])
@pytest.mark.parametrize("place", [0, 40, -1])
def test_other_edits_are_noticed_wherever_they_are(key: str, place: int) -> None:
    messages = session(40)
    curator = Curator(max_tokens=3_000)
    view(curator, messages)
    edited = [each for each in messages[1:] if key in each or key == "name"][place]
    if key == "tool_calls":
        edited[key][0]["function"]["name"] = "other"
    else:
        edited[key] = "other"
    assert view(curator, messages) == view(Curator(max_tokens=3_000), messages)


class CountingReads(DictFormat):
    """Dicts, counting what is read."""

    reads = 0

    def read(self, message: Any, index: int) -> Any:
        self.reads += 1
        return super().read(message, index)


def test_an_edit_that_changes_nothing_read_costs_one_message() -> None:
    messages, format = session(40), CountingReads()
    curator = Curator(max_tokens=3_000)
    before = curator.curate(messages, tail="history", format=format).messages
    format.reads = 0
    messages[-1]["id"] = "given by the host"
    after = curator.curate(messages, tail="history", format=format).messages
    assert after == before
    assert after[-1] is messages[-1]
    assert format.reads == 1
    format.reads = 0
    curator.curate(messages, tail="history", format=format)
    assert format.reads == 0


@pytest.mark.parametrize("sequence", [0, 1, 99])
def test_what_a_manager_brings_along_is_shown_as_it_is(sequence: int) -> None:
    note = user("a note")
    entry = replace(*DictFormat().read(note, 0), sequence=sequence)

    class Noting:
        def curate(self, entries: Any, *, context: Any) -> Any:
            return [*entries[:-1], entry, entries[-1]]

    messages = [user("hi"), assistant("hello"), user("and now?")]
    assert view(Curator(Noting()), messages) == [*messages[:-1], note, messages[-1]]


def test_values_that_cannot_be_compared_are_read_again() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("ambiguous")

        __hash__ = None  # type: ignore[assignment]

    messages = [user("q"), assistant("a", annotations=[Odd()]), user("next")]
    curator = Curator(max_tokens=1_000)
    curator.curate(messages)
    messages[1]["annotations"], messages[1]["content"] = [Odd()], "b"
    assert [message["content"] for message in curator.curate(messages).messages] == [
        "q",
        "b",
        "next",
    ]


def test_a_history_of_copies_gives_the_copies() -> None:
    messages = session(20)
    curator = Curator(max_tokens=3_000)
    view(curator, messages)
    copies = copy.deepcopy(messages)
    shown = view(curator, copies)
    assert shown == view(Curator(max_tokens=3_000), messages)
    originals = {id(message) for message in messages}
    assert not any(id(message) in originals for message in shown)


def test_equal_entries_are_the_ones_that_were_given() -> None:
    curator = Curator(max_tokens=500)
    for number in range(3):  # metadata does not take part in comparing entries
        given = [
            ConversationEntry(role=MessageRole.USER, content="hi", metadata={"of": number}),
            ConversationEntry(role=MessageRole.ASSISTANT, content="yes"),
            ConversationEntry(role=MessageRole.USER, content="so?"),
        ]
        shown = curator.curate(given).messages
        assert all(one is other for one, other in zip(shown, given, strict=True))


class TestCuration:
    def test_the_report_is_made_once_and_is_about_its_own_view(self) -> None:
        messages = session(30)
        curator = Curator(max_tokens=3_000)
        early = curator.curate(messages[:40], tail="history")
        later = curator.curate(messages, tail="history")
        fresh = Curator(max_tokens=3_000).curate(messages[:40], tail="history")
        assert early.report is early.report is not later.report
        assert early.report.to_dict() == fresh.report.to_dict()
        assert early.report.original_count == 40

    @pytest.mark.parametrize("managers", [[], [SlidingWindowManager(9)], [TurnRetentionManager(1)]])
    def test_survives_pickling(self, managers: list[Any]) -> None:
        curation = Curator(*managers, max_tokens=3_000).curate(session(20), tail="history")
        again = pickle.loads(pickle.dumps(curation))
        assert again == curation
        assert again.report.to_dict() == curation.report.to_dict()


@pytest.mark.parametrize("size", [40, 400])
def test_what_a_host_adds_to_a_message_reaches_its_shortened_copy(size: int) -> None:
    history = [user("go"), call("c1"), result("c1", "line of the log\n" * size)]
    history += [call("c2"), result("c2", "short"), call("c3"), result("c3", "short")]
    curator = Curator(max_tokens=1_200)
    before = view(curator, history)
    assert ("left out" in str(before)) is (size == 400)
    history[2]["id"] = "given by the host"
    assert view(curator, history) == view(Curator(max_tokens=1_200), history)


def pictures(turns: int) -> list[dict[str, Any]]:
    """A conversation whose user messages are made of blocks."""
    messages = [system("be brief")]
    for turn in range(turns):
        blocks = [{"type": "text", "text": f"look at {turn}"}, {"type": "text", "text": "and say"}]
        messages += [{"role": "user", "content": blocks}, assistant(f"seen {turn} " + "so " * 20)]
    return messages


def disturb(rng: random.Random, history: list[dict[str, Any]], shown: list[Any]) -> None:
    """What a host may do between two calls."""
    act = rng.randrange(6)
    place = rng.randrange(1, len(history))
    if act == 0:  # an equal message in the place of another
        history[place] = copy.copy(history[place])
    elif act == 1:
        history[place] = copy.deepcopy(history[place])
    elif act == 2:  # other words, in place, wherever the view shows them
        known = [each for each in history if any(each is one for one in shown)]
        rng.choice(known or history)["content"] = f"edited {rng.random()} " + "word " * rng.randint(
            0, 40
        )
    elif act == 3:  # another name, in place, near the end
        rng.choice(history[-16:])["name"] = f"name{rng.randrange(9)}"
    elif act == 4:  # back to an earlier point
        del history[rng.randrange(max(2, len(history) - 20), len(history)) :]
    else:  # a prompt made anew
        history[0] = system("be brief" if rng.random() < 0.5 else f"be {rng.random()}")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("budget", [700, 3_000])
def test_whatever_a_host_does_the_view_is_that_of_a_new_curator(seed: int, budget: int) -> None:
    live(seed, session(60, seed), budget, disturb)


def test_an_equal_message_in_the_place_of_another_is_the_one_that_is_shown() -> None:
    see_an_equal_message_in_the_place_of_another(session(30), 3_000, dict)


def test_a_capped_result_that_gets_other_content_is_noticed() -> None:
    curator = Curator(max_tokens=3_000)
    for end in range(200, 1, -1):
        messages = session(40)[:end]
        shown = view(curator, messages)
        ids = [each["tool_call_id"] for each in shown if "middle left out" in str(each["content"])]
        if ids:
            break
    capped = next(each for each in messages if each.get("tool_call_id") == ids[-1])
    capped["content"] = "something else, and short"
    again = view(curator, messages)
    assert again == view(Curator(max_tokens=3_000), messages)
    assert again != shown


@pytest.mark.parametrize("later", range(0, 24, 2))
def test_an_edit_inside_blocks_is_noticed_however_old_they_are(later: int) -> None:
    messages = pictures(30)
    curator = Curator(max_tokens=20_000)
    view(curator, messages[:20])
    history = messages[: 20 + later]
    messages[9]["content"][1]["text"] = "edited"
    shown = view(curator, history)
    assert "edited" in str(shown)
    assert shown == view(Curator(max_tokens=20_000), history)


def test_results_that_come_one_by_one_are_capped_once_and_shown_as_a_new_curator_does() -> None:
    calls = [f"c{number}" for number in range(3)]
    asked = [user("look"), {"role": "assistant", "content": None, "tool_calls": [
        {"id": each, "type": "function", "function": {"name": "read", "arguments": "{}"}}
        for each in calls
    ]}]  # fmt: skip
    results = [result(each, f"{each} " + "some words of a file\n" * 900) for each in calls]
    counter = TiktokenCounter("o200k_base")
    curator = Curator(max_tokens=9_000, counter=counter)
    curator.curate([*asked, results[0]])
    once = counter.characters
    for number in range(2, len(results) + 1):
        given = [*asked, *results[:number]]
        assert curator.curate(given).messages == Curator(max_tokens=9_000).curate(given).messages
    assert counter.characters < 1.5 * once * len(results)
