"""A curator that remembers messages makes the views of a new one, and remembers a bounded number."""

from __future__ import annotations

import gc
import random
import tracemalloc
from typing import Any

import pytest

from history_curator import (
    BudgetUnsatisfiableError,
    Curator,
    HeuristicCounter,
    TiktokenCounter,
    check_conversation,
    count_tokens,
)
from history_curator.rules import PROVIDERS
from tests.core.test_growing import session
from tests.support.messages import assistant, call, result, system, user


def outcome(curator: Curator, history: list[Any], reserve: int) -> tuple[Any, ...]:
    try:
        view = curator.curate(history, reserve=reserve, tail="request")
    except BudgetUnsatisfiableError as error:
        return "refused", error.needed
    return view.messages, view.tokens, view.report.prefix_entries, view.report.compacted


@pytest.mark.parametrize("provider", PROVIDERS)
def test_whatever_happened_before_the_outcome_is_that_of_a_new_curator(provider: str) -> None:
    for seed, budget in enumerate((400, 900, 2_500)):
        rng, messages, end = random.Random(seed), session(20, seed), 5
        known = Curator(max_tokens=budget, provider=provider, recall_tool=bool(seed % 2))
        while end < len(messages):
            end += rng.randint(1, 6)
            history, reserve = messages[:end], rng.choice([0, 0, 60])
            edited = rng.choice(history[1:])
            if rng.random() < 0.3 and isinstance(edited.get("content"), str):
                edited["content"] = "edited " + "word " * rng.randint(1, 80)
            new = Curator(max_tokens=budget, provider=provider, recall_tool=bool(seed % 2))
            found = outcome(known, history, reserve)
            assert found == outcome(new, history, reserve)
            if found[0] == "refused":  # what it says is needed is enough
                larger = Curator(max_tokens=found[1], provider=provider, recall_tool=bool(seed % 2))
                assert larger.curate(history, reserve=reserve, tail="request").messages
                continue
            assert count_tokens(found[0]) == found[1] <= budget - reserve
            assert not check_conversation(found[0], provider)


@pytest.mark.parametrize("said", ["user", "user assistant", "user call"])
def test_a_cold_start_counts_a_bounded_stretch_whatever_the_length(said: str) -> None:
    budget, text = 400, "some words that say something else " * 3
    turns = {
        "user": [user(text)],
        "user assistant": [user(text), assistant(text)],
        "user call": [user(text), call("c"), result("c", text), assistant(text)],
    }
    messages = [
        {**message, "content": f"{at}: {message['content'] or ''}"}
        for at in range(2_000)
        for message in turns[said]
    ]
    counter = TiktokenCounter("o200k_base")
    Curator(max_tokens=budget, counter=counter).curate([*messages, user("and now?")])
    assert counter.characters < 40 * budget * 4


def warm_and_new(
    history: list[Any], *before: list[Any], **options: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The outcome of a curator that has seen something before, and of a new one."""
    known = Curator(**options)
    for each in before:
        outcome(known, each, 0)
    return outcome(known, history, 0), outcome(Curator(**options), history, 0)


def test_a_system_message_between_two_others_is_edited() -> None:
    """OpenAI takes it where it stands, so what it costs is part of where the cut lies."""
    history = [user("begin")]
    for at in range(12):
        history += [
            assistant(f"answer {at} " * 12),
            system("a note"),
            user(f"question {at}? " * 12),
        ]
    for at in range(2, len(history), 3):
        edited = [*history]
        edited[at] = system("a much longer note " * 30)
        known, new = warm_and_new(edited, history, max_tokens=600, provider="openai")
        assert known == new


def test_a_system_message_behind_the_last_entries_that_stay() -> None:
    history = [user("begin " * 40)]
    for at in range(6):
        history += [assistant(f"answer {at} " * 40), user(f"question {at}? " * 40)]
        history += [system("note " * at)] * (at % 3)
        known, new = warm_and_new(
            [*history, user("now?")],
            *(history[:end] for end in range(1, len(history) + 1)),
            max_tokens=500,
            provider="openai",
            preserve_last_n=4,
            compact_to=0.5,
        )
        assert known == new


def test_a_result_that_comes_late_is_no_longer_listed_as_out_of_view() -> None:
    """The recap names what is not shown; what it names may come back with a late result."""
    history = [user("look at everything")]
    for at in range(8):
        text = " ".join(f"src/{at}/part{word}.py" for word in range(30))
        history += [call(f"c{at}", path=f"src/{at}.py"), result(f"c{at}", text)]
    history += [call("late", path="src/late.py"), call("c8"), result("c8", "so " * 90)]
    shown = " ".join(f"src/5/part{word}.py" for word in range(8))
    for budget in (1_150, 1_300):
        known, new = warm_and_new(
            [*history, result("late", shown)], history, max_tokens=budget, provider="openai"
        )
        assert known == new


def test_a_system_message_comes_while_the_provider_reports_what_it_counts() -> None:
    """What is sent beside the units is part of what the reports say about them."""
    history = [user("begin")]
    for at in range(6):
        usage = {"prompt_tokens": 60 + 40 * at, "completion_tokens": 9}
        history += [{**assistant(f"answer {at} " * 5), "usage": usage}, user(f"question {at}?")]
    known = Curator(max_tokens=8_000, provider="gemini")
    new = Curator(max_tokens=8_000, provider="gemini")
    known.curate(history, tail="request")
    history.append(system("be brief, please"))
    one, other = (each.curate(history, tail="request") for each in (known, new))
    assert (one.messages, one.tokens, one.error) == (other.messages, other.tokens, other.error)


def test_a_record_longer_than_the_recap_looks_back_is_shown_as_a_new_curator_does() -> None:
    """Also where a host goes back to a place before what the recap has let go of."""
    messages = [system("be brief")]
    for at in range(450):
        messages += [user(f"look at f{at}"), call(f"c{at}", path=f"src/f{at}.py")]
        messages += [result(f"c{at}", f"src/f{at}.py uses lib{at % 7}/x{at}.py"), assistant("ok")]
    known = Curator(max_tokens=500, recall_tool=True)
    for end in [*range(40, len(messages), 93), 700, 1_500, 260, len(messages)]:
        history = [*messages[:end], user("and now?")]
        new = Curator(max_tokens=500, recall_tool=True)
        assert outcome(known, history, 0) == outcome(new, history, 0), end


def test_reasoning_that_a_compaction_has_replaced_is_not_refused() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3BhcXVl"}
    early = [user("go " * 80), assistant("so. " * 20), user("more"), thought, assistant("so.")]
    late = [user("and? " * 80), assistant("ok"), user("on " * 20), assistant("ok")]
    compacted = {"type": "compaction", "id": "cmp_1", "encrypted_content": "b3BhcXVl"}
    history = [*early, *late, compacted, user("now?"), assistant("yes"), user("sure?")]

    def curator() -> Curator:
        return Curator(max_tokens=300, provider="openai-responses", reasoning="refuse")

    known = curator()
    known.curate(early)
    assert known.curate(history).messages == curator().curate(history).messages


def talk(name: str, length: int) -> list[dict[str, Any]]:
    """A conversation nobody else has."""
    said = [user(f"{name}: look at src/{name}.py")]
    for at in range(length):
        text = " ".join(f"{name}{at}/{word}.py" for word in range(40))
        said += [call(f"c{at}"), result(f"c{at}", text), assistant(f"{name} read {at}")]
    return [*said, user("and now?")]


def bytes_held(cache_bytes: int) -> int:
    curator = Curator(max_tokens=2_000, counter=HeuristicCounter(), cache_bytes=cache_bytes)
    curator.curate(talk("first", 12))
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(100):
            curator.curate(talk(f"t{number}", 12))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_remembered_messages_stay_below_the_bound() -> None:
    assert bytes_held(2**17) < 0.75 * bytes_held(2**30)


def test_messages_decoded_anew_are_neither_read_nor_counted_again() -> None:
    counter = TiktokenCounter("o200k_base")
    curator = Curator(max_tokens=8_000, counter=counter)
    curator.curate(talk("a", 6))
    counted = counter.calls
    curator.curate(talk("a", 6))
    assert counter.calls == counted


def test_a_forgotten_message_is_not_tokenised_again() -> None:
    counter = TiktokenCounter("o200k_base")
    curator = Curator(max_tokens=8_000, counter=counter, cache_bytes=20_000)
    first = talk("a", 6)
    views = [curator.curate(talk(name, 6)).messages for name in ("a", "b", "c", "d")]
    counted = counter.characters
    assert curator.curate(first).messages == views[0]
    assert counter.characters - counted < 200, "the recap's lines and nothing more"


@pytest.mark.parametrize("cache_bytes", [0, 5_000, 64 * 2**20])
def test_the_bound_never_changes_a_view(cache_bytes: int) -> None:
    messages = session(30, 4)
    curator = Curator(max_tokens=900, cache_bytes=cache_bytes)
    for end in range(3, len(messages), 4):
        assert outcome(curator, messages[:end], 0) == outcome(
            Curator(max_tokens=900), messages[:end], 0
        )


def test_equal_messages_at_two_places_stay_apart() -> None:
    history = [user("yes"), assistant("a"), user("yes"), assistant("b"), user("yes")]
    curation = Curator(max_tokens=1_000).curate(history, tail="request")
    assert [id(each) for each in curation.messages] == [id(each) for each in history]
    assert [entry.sequence for entry in curation.entries] == [0, 1, 2, 3, 4]


def test_a_long_list_edited_in_place_is_another_one() -> None:
    history = [
        message for number in range(300) for message in (user(f"q{number}"), assistant("a" * 40))
    ]
    history.append(user("and now?"))
    curator = Curator(max_tokens=2_000)
    curator.curate(history)
    for place in (len(history) - 1, len(history) - 3, 0):
        history[place]["content"] = f"edited {place}"
        assert outcome(curator, history, 0) == outcome(Curator(max_tokens=2_000), history, 0)
