"""What a curator remembers saves work and changes nothing: its view is the one of a new curator."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import random
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import pytest

from history_curator import (
    BudgetUnsatisfiableError,
    ConversationEntry,
    Curator,
    HeuristicCounter,
    MessageRole,
    RelevanceManager,
    SlidingWindowManager,
    SummarizingManager,
    TiktokenCounter,
    TurnRetentionManager,
    check_conversation,
    count_tokens,
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


def in_blocks(turns: int) -> list[dict[str, Any]]:
    """Texts, calls and results as Anthropic writes them."""
    messages = [system("be brief")]
    for turn in range(turns):
        use = {"type": "tool_use", "id": f"t{turn}", "name": "look", "input": {"q": turn}}
        found = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": f"found {turn} " * 20}
        asked = [{"type": "text", "text": f"look at {turn}"}, {"type": "text", "text": "and say"}]
        messages += [
            {"role": "user", "content": asked},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [found]},
            assistant(f"seen {turn} " + "so " * 20),
        ]
    return messages


def capped_results(turns: int) -> list[dict[str, Any]]:
    """Results in blocks that are shown with their middle left out."""
    messages = [user("go")]
    for turn in range(turns):
        found = [{"type": "text", "text": f"line {turn}\n" * 300}]
        messages += [call(f"c{turn}"), {**result(f"c{turn}"), "content": found}]
    return messages


def outcome(curator: Curator, history: list[Any], **options: Any) -> tuple[Any, ...]:
    try:
        found = curator.curate(history, **{"tail": "request", **options})
    except BudgetUnsatisfiableError as error:
        return "refused", error.needed
    report = found.report
    return found.messages, found.tokens, report.prefix_entries, report.compacted, report.cut


def agrees(curator: Curator, history: list[Any], **options: Any) -> bool:
    """Whether a curator's view and report are those of a new one, and another one's after a restart."""
    fresh = pickle.loads(pickle.dumps(curator))
    return outcome(curator, history, **options) == outcome(fresh, history, **options)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_whatever_happened_before_the_outcome_is_that_of_a_new_curator(provider: str) -> None:
    for seed, budget in enumerate((400, 900, 2_500)):
        rng, messages, end = random.Random(seed), session(20, seed), 5
        known = Curator(max_tokens=budget, provider=provider, recall_tool=bool(seed % 2))
        while end < len(messages):
            end += rng.randint(1, 6)
            history, reserve = messages[:end], rng.choice([0, 0, 60])
            if rng.random() < 0.3:  # back to an earlier place, and on from there
                history = [*history[: rng.randrange(3, end)], user(f"or {end}?")]
            if rng.random() < 0.3:  # decoded anew
                history = json.loads(json.dumps(history))
            edited = rng.choice(history[1:])
            if rng.random() < 0.3 and isinstance(edited.get("content"), str):
                edited["content"] = "edited " + "word " * rng.randint(1, 80)
            new = Curator(max_tokens=budget, provider=provider, recall_tool=bool(seed % 2))
            found = outcome(known, history, reserve=reserve)
            assert found == outcome(new, history, reserve=reserve)
            if found[0] == "refused":  # what it says is needed is enough
                larger = Curator(max_tokens=found[1], provider=provider, recall_tool=bool(seed % 2))
                assert larger.curate(history, reserve=reserve, tail="request").messages
                continue
            assert count_tokens(found[0]) == found[1] <= budget - reserve
            assert not check_conversation(found[0], provider)


@pytest.mark.parametrize("provider", ["core", "openai", "anthropic", "gemini"])
def test_options_in_any_mix_do_not_meet(provider: str) -> None:
    choose = random.Random(7)
    record = [system("s"), user("find it")]
    for step in range(40):
        record += [call(f"c{step}"), result(f"c{step}", f"{step} " * choose.randint(1, 60))]
        if choose.random() < 0.15:
            record.append(system("mind " * choose.randint(1, 20)))
    schema = {"type": "function", "function": {"name": "look", "description": "d " * 50}}
    shared = Curator(max_tokens=900, provider=provider)
    for _ in range(150):
        messages = record[: choose.randrange(2, len(record))]
        options = {
            "max_tokens": choose.choice([300, 900, 2_500]),
            "tools": choose.choice([None, [schema]]),
            "reserve": choose.choice([0, 30]),
            "tail": choose.choice(["request", "history"]),
        }
        assert agrees(shared, messages, **options)


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
        edited = f"edited {rng.random()} " + "word " * rng.randint(0, 40)
        rng.choice(known or history)["content"] = edited
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


Edit = Callable[[list[dict[str, Any]]], Any]
EDITS: dict[str, tuple[list[dict[str, Any]], int, Edit]] = {
    "a text in a block": (in_blocks(12), 20_000, lambda m: m[21]["content"][1].update(text="so")),
    "a block more": (
        in_blocks(12),
        900,
        lambda m: m[1]["content"].append({"type": "text", "text": "w " * 900}),
    ),
    "a result in a block": (
        in_blocks(12),
        20_000,
        lambda m: m[7]["content"][0].update(content="edited"),
    ),
    "a block that becomes three entries": (
        in_blocks(3),
        2_000,
        lambda m: m[7]["content"].extend([{"type": "text", "text": "and?"}]),
    ),
    "a result that is shown capped": (
        capped_results(20),
        3_000,
        lambda m: m[-1]["content"][0].update(text="edited " * 90),
    ),
    "an id that nobody reads": (capped_results(20), 3_000, lambda m: m[-1].update(id="its own")),
    "a name": (session(40), 3_000, lambda m: m[-1].update(name="other")),
    "a pin": (session(40), 3_000, lambda m: m[1].update(pinned=True)),
    "a name of a call": (
        capped_results(20),
        3_000,
        lambda m: m[-2]["tool_calls"][0]["function"].update(name="other"),
    ),
    "a number that becomes a truth": (
        in_blocks(12),
        3_000,
        lambda m: m[6]["content"][0].update(input={"q": True}),
    ),
    "a prompt that is swapped": (
        session(40),
        3_000,
        lambda m: m.__setitem__(0, system("quite another prompt " * 9)),
    ),
    "a prompt in the middle": (
        session(40),
        3_000,
        lambda m: m.insert(len(m) - 9, system("a note " * 30)),
    ),
    "reasoning that arrives": (
        session(40),
        3_000,
        lambda m: m.extend([{**assistant("fine"), "reasoning_content": "hm"}, user("next")]),
    ),
}


@pytest.mark.parametrize("provider", ["core", "openai", "anthropic"])
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_between_two_calls_is_noticed(name: str, provider: str) -> None:
    messages, budget, edit = copy.deepcopy(EDITS[name])
    curator = Curator(max_tokens=budget, provider=provider)
    for end in range(1, len(messages) + 1):
        view(curator, messages[:end])
    edit(messages)
    assert agrees(curator, messages)
    assert agrees(curator, messages, max_tokens=2 * budget)
    assert agrees(curator, messages[:-3])


def test_an_edit_that_makes_a_message_unreadable_is_an_error_until_it_is_mended() -> None:
    history, curator = in_blocks(10), Curator(max_tokens=20_000)
    view(curator, history)
    role, history[21]["role"] = history[21]["role"], "nobody"
    for _ in range(2):
        with pytest.raises(ValueError, match="nobody"):
            view(curator, history[:24])
    history[21]["role"] = role
    assert agrees(curator, history)


def test_values_that_cannot_be_compared_are_read_again() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("ambiguous")

        __hash__ = None  # type: ignore[assignment]

    messages = [user("q"), assistant("a", at=[Odd()]), user("next")]
    curator = Curator(max_tokens=1_000)
    curator.curate(messages)
    messages[1]["at"], messages[1]["content"] = [Odd()], "b"
    assert [each["content"] for each in curator.curate(messages).messages] == ["q", "b", "next"]


class TestLateArrivals:
    """What changes something that was there before, in a list that is known."""

    def test_results_that_come_later_join_their_calls(self) -> None:
        rng = random.Random(3)
        for budget in (500, 1_150, 1_300, 6_000):
            history, known = [user("look at everything")], Curator(max_tokens=budget)
            late: list[Any] = []
            for at in range(40):
                text = " ".join(f"src/{at}/part{word}.py" for word in range(rng.choice([3, 30])))
                history.append(call(f"c{at}", path=f"src/{at}.py"))
                (late if rng.random() < 0.3 else history).append(result(f"c{at}", text))
                if late and rng.random() < 0.2:
                    history.append(late.pop(0))
                if rng.random() < 0.2:
                    history.append(user(f"and {at}?"))
                assert agrees(known, history)

    def test_a_system_message_behind_the_last_entries_that_stay(self) -> None:
        history = [user("begin " * 40)]
        known = Curator(max_tokens=500, provider="openai", preserve_last_n=4, compact_to=0.5)
        for at in range(6):
            history += [assistant(f"answer {at} " * 40), user(f"question {at}? " * 40)]
            history += [system("note " * at)] * (at % 3)
            assert agrees(known, history)
            assert agrees(known, [*history, user("now?")])

    def test_a_system_message_comes_while_the_provider_reports_what_it_counts(self) -> None:
        history = [user("begin")]
        for at in range(6):
            usage = {"prompt_tokens": 60 + 40 * at, "completion_tokens": 9}
            history += [{**assistant(f"answer {at} " * 5), "usage": usage}, user(f"question {at}?")]
        known = Curator(max_tokens=8_000, provider="gemini")
        view(known, history)
        assert agrees(known, [*history, system("be brief, please")])

    def test_reasoning_that_a_compaction_has_replaced(self) -> None:
        thought = {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "encrypted_content": "b3BhcXVl",
        }
        early = [user("go " * 80), assistant("so. " * 20), user("more"), thought, assistant("so.")]
        late = [user("and? " * 80), assistant("ok"), user("on " * 20), assistant("ok")]
        compacted = {"type": "compaction", "id": "cmp_1", "encrypted_content": "b3BhcXVl"}
        history = [*early, *late, compacted, user("now?"), assistant("yes"), user("sure?")]
        known = Curator(max_tokens=300, provider="openai-responses", reasoning="strip")
        view(known, early)
        assert agrees(known, history)

    def test_results_that_come_one_by_one_are_capped_once(self) -> None:
        calls = [f"c{number}" for number in range(3)]
        asked = [user("look"), call(*calls)]
        results = [result(each, f"{each} " + "some words of a file\n" * 900) for each in calls]
        counter = TiktokenCounter("o200k_base")
        curator = Curator(max_tokens=9_000, counter=counter)
        curator.curate([*asked, results[0]])
        once = counter.characters
        for number in range(2, len(results) + 1):
            curator.curate([*asked, *results[:number]])
        assert counter.characters < 1.5 * once * len(results)


def test_a_record_longer_than_the_recap_looks_back() -> None:
    """Also where a host goes back to a place before what the recap has let go of."""
    messages = [system("be brief")]
    for at in range(450):
        messages += [user(f"look at f{at}"), call(f"c{at}", path=f"src/f{at}.py")]
        messages += [result(f"c{at}", f"src/f{at}.py uses lib{at % 7}/x{at}.py"), assistant("ok")]
    known = Curator(max_tokens=500, recall_tool=True)
    for end in [*range(40, len(messages), 93), 700, 1_500, 260, len(messages)]:
        assert agrees(known, [*messages[:end], user("and now?")]), end


class TestWhoseMessages:
    """The view holds the very messages that were given, and nothing of the library's own."""

    def test_equal_messages_at_two_places_stay_apart(self) -> None:
        history = [user("yes"), assistant("a"), user("yes"), assistant("b"), user("yes")]
        curation = Curator(max_tokens=1_000).curate(history, tail="request")
        assert [id(each) for each in curation.messages] == [id(each) for each in history]
        assert [entry.sequence for entry in curation.entries] == [0, 1, 2, 3, 4]

    def test_a_history_of_copies_gives_the_copies(self) -> None:
        messages, curator = session(20), Curator(max_tokens=3_000)
        view(curator, messages)
        copies = copy.deepcopy(messages)
        originals = {id(message) for message in messages}
        assert not any(id(message) in originals for message in view(curator, copies))
        see_an_equal_message_in_the_place_of_another(session(30), 3_000, dict)

    def test_equal_entries_are_the_ones_that_were_given(self) -> None:
        curator = Curator(max_tokens=500)
        for number in range(3):  # metadata does not take part in comparing entries
            given = [
                ConversationEntry(role=MessageRole.USER, content="hi", metadata={"of": number}),
                ConversationEntry(role=MessageRole.ASSISTANT, content="yes"),
                ConversationEntry(role=MessageRole.USER, content="so?"),
            ]
            shown = curator.curate(given).messages
            assert all(one is other for one, other in zip(shown, given, strict=True))

    @pytest.mark.parametrize("text", ["found " * 600, [{"type": "text", "text": "found " * 600}]])
    def test_what_was_handed_out_may_be_edited(self, text: Any) -> None:
        history = [user("go")]
        for turn in range(6):
            history += [call(f"c{turn}"), result(f"c{turn}", text)]
        curator = Curator(max_tokens=1_500, provider="portable")
        given = {id(message) for message in history}
        for _ in range(2):
            shown = curator.curate(history, tail="history").messages
            edited = [message for message in shown if id(message) not in given]
            assert edited
            assert agrees(curator, history)
            for message in edited:
                for asked in message.get("tool_calls", ()):
                    asked["function"]["arguments"] = "mine"
                if isinstance(message["content"], list):
                    message["content"][0]["text"] = "mine"
                message["content"] = "mine"

    @pytest.mark.parametrize("sequence", [0, 1, 99])
    def test_an_entry_that_a_manager_brings_along_is_shown_as_it_is(self, sequence: int) -> None:
        note = user("a note")
        entry = replace(*DictFormat().read(note, 0), sequence=sequence)

        class Noting:
            def curate(self, entries: Any, *, context: Any) -> Any:
                return [*entries[:-1], entry, entries[-1]]

        messages = [user("hi"), assistant("hello"), user("and now?")]
        assert view(Curator(Noting()), messages) == [*messages[:-1], note, messages[-1]]

    def test_a_view_is_written_by_the_format_of_the_call(self) -> None:
        class Signing(DictFormat):
            def __init__(self, signature: str) -> None:
                self.signature = signature

            def write(self, entries: Any) -> list[Any]:
                return [
                    {**message, "by": self.signature} if entry.original is not None else message
                    for entry, message in zip(entries, super().write(entries), strict=True)
                ]

        curator = Curator(max_tokens=1_500)
        for name in "ab":
            shown = curator.curate(capped_results(40), format=Signing(name)).messages
            assert {message["by"] for message in shown if "by" in message} == {name}


class TestWork:
    """Work is done once, and what is remembered is bounded."""

    @pytest.mark.parametrize("said", ["user", "user assistant", "user call"])
    def test_a_cold_start_counts_a_bounded_stretch_whatever_the_length(self, said: str) -> None:
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

    def test_messages_decoded_anew_are_neither_read_nor_counted_again(self) -> None:
        class CountingReads(DictFormat):
            reads = 0

            def read(self, message: Any, index: int) -> Any:
                self.reads += 1
                return super().read(message, index)

        messages, format, counter = session(40), CountingReads(), TiktokenCounter("o200k_base")
        curator = Curator(max_tokens=3_000, counter=counter)
        before = curator.curate(messages, tail="history", format=format).messages
        format.reads, counted = 0, counter.calls
        messages = copy.deepcopy(messages)
        assert curator.curate(messages, tail="history", format=format).messages == before
        assert (format.reads, counter.calls) == (0, counted)
        messages[-1]["id"] = "given by the host"
        assert curator.curate(messages, tail="history", format=format).messages[-1] is messages[-1]
        assert format.reads == 1

    def test_a_forgotten_message_is_not_tokenised_again(self) -> None:
        counter = TiktokenCounter("o200k_base")
        curator = Curator(max_tokens=8_000, counter=counter, cache_bytes=20_000)
        views = [curator.curate(session(6, seed)).messages for seed in range(7)]
        counted = counter.characters
        assert curator.curate(session(6, 0)).messages == views[0]
        assert counter.characters - counted < 400, "the recap's lines and nothing more"

    @pytest.mark.parametrize("cache_bytes", [0, 5_000, 2**28])
    def test_the_bound_never_changes_a_view(self, cache_bytes: int) -> None:
        messages, new = session(30, 4), Curator(max_tokens=900)
        curator = Curator(max_tokens=900, cache_bytes=cache_bytes)
        for end in range(3, len(messages), 4):
            assert outcome(curator, messages[:end]) == outcome(new, messages[:end])

    def test_remembered_messages_stay_below_the_bound(self) -> None:
        def count_held(cache_bytes: int) -> int:
            curator = Curator(max_tokens=2_000, counter=HeuristicCounter(), cache_bytes=cache_bytes)
            curator.curate(session(12, 100))
            gc.collect()
            tracemalloc.start()
            try:
                for seed in range(60):
                    curator.curate(session(12, seed))
                gc.collect()
                return tracemalloc.get_traced_memory()[0]
            finally:
                tracemalloc.stop()

        assert count_held(2**17) < 0.75 * count_held(2**30)


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


def summarise(prompt: str) -> str:
    return f"so far: {len(prompt)} characters"


@pytest.mark.parametrize(
    ("managers", "options"),
    [
        ((), {"retrieve": True}),
        ((), {"retrieve": "auto", "recall_tool": True}),
        ((RelevanceManager(),), {}),
        ((SummarizingManager(summarise),), {}),
    ],
)
def test_a_fork_or_a_worker_starts_as_new(managers: Any, options: dict[str, Any]) -> None:
    """A curator that was used can be pickled, and gives the same views in another process."""
    messages = session(20)
    curator = Curator(*managers, max_tokens=900, **options)
    views = [curator.curate(messages[:end]).messages for end in (30, len(messages))]
    given = [messages[:30], messages]
    for copied in (pickle.loads(pickle.dumps(curator)), copy.deepcopy(curator)):
        assert [copied.curate(each).messages for each in given] == views
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        assert list(pool.map(partial(view, curator, tail=None), given)) == views
