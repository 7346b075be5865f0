"""What goes along with a fold: reports, room and the clock."""

from __future__ import annotations

from typing import Any

import pytest

from history_curator.caching import NOTHING, Along, Facts, State, facts_of, mark_of, reported_on
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.tokens import Calibration, Report, TiktokenCounter, Usage

COUNTER = TiktokenCounter("o200k_base")


class Follower:
    """Follows a track from the start, as a fold does."""

    def __init__(self, limit: int = 10_000, overhead: int = 500, **options: Any) -> None:
        known = options.pop("known", Calibration(COUNTER).known)
        self.track = Along(known, **options).track(limit, overhead, limit - overhead)
        self.state = self.track.start()

    def reach(self, start: int, size: int, facts: Facts = NOTHING) -> bool:
        self.state = self.track.reach(self.state, start, size, facts)
        return self.state.cold

    def compacted(self, before: int, after: int) -> None:
        self.state = self.track.compacted(self.state, before, after)

    @property
    def room(self) -> int:
        return self.state.room

    @property
    def meter(self) -> Any:
        assert self.state.meter is not None
        return self.state.meter


track = Follower


def report(reported: int, **options: Any) -> Facts:
    return Facts(Report(Usage(reported), **options))


class TestRoom:
    def test_stays_what_it_is_until_something_is_reported(self) -> None:
        along = track()
        for start in range(9):
            assert not along.reach(start, start * 1_000)
        assert along.room == 9_500

    def test_is_what_the_provider_has_left(self) -> None:
        along = track()
        for start in range(1, 8):  # counts 1.5 as much, and 1,000 on top
            along.reach(start, start * 400, report(round((500 + start * 400) * 1.5) + 1_000))
        real = (10_000 - 1_000) / 1.5 - 500
        assert 0.9 * real < along.room <= real

    def test_a_history_reported_by_somebody_else_is_passed_over(self) -> None:
        along = track()
        for start in range(1, 9):
            along.reach(start, start * 400, report(round((500 + start * 400) * 1.2)))
        before = along.room
        along.reach(9, 3_600, report(70_000))  # what was sent before we came, uncurated
        along.reach(10, 4_000, report(900))  # what a helper agent was sent
        along.reach(11, 4_400, report(round(4_900 * 1.2 * 0.7)))
        assert along.room == before

    def test_counts_may_be_taken_as_they_are(self) -> None:
        along = track(known=None, ttl=300)
        hour = Report(Usage(90_000, cache_write=100, cache_write_1h=100))
        along.reach(1, 400, Facts(hour, answered=0))
        assert along.room == 9_500
        assert along.state.meter is None
        assert along.state.clock.ttl == 3_600

    def test_what_was_observed_is_believed_even_beyond_the_limit(self) -> None:
        along = track(observed={1: Report(Usage(12_000), 900)})
        along.reach(1, 400)
        assert along.room == 0

    def test_an_observation_wins_over_what_the_message_says(self) -> None:
        along = track(observed={3: Report(Usage(5_000), 1_500)})
        along.reach(3, 1_000, report(1_600))
        assert along.meter.reported == 5_000

    def test_a_view_that_was_shorter_than_the_fold_is_no_surprise(self) -> None:
        along = track(observed={3: Report(Usage(1_200), 1_000), 4: Report(Usage(1_230), 1_020)})
        along.reach(3, 4_000)
        along.reach(4, 4_020)
        assert along.meter.counted == 4_520
        assert 4_500 <= along.meter.reported <= 6_000

    def test_a_message_reports_on_the_view_that_was_made_for_it(self) -> None:
        along = track(shorter={3: 1_000})
        along.reach(2, 3_900, report(5_720))
        along.reach(3, 4_000, report(1_400))
        assert along.meter.counted == 4_500  # what the next one goes on from
        assert along.meter.reported == pytest.approx(5_850, rel=0.02)

    def test_system_entries_that_came_later_were_not_sent_before(self) -> None:
        known = Calibration(COUNTER).known
        late = Along(known).track(10_000, 1_500, 9_500, [(6, 1_000)])
        plain = Along(known).track(10_000, 500, 9_500)
        states = [late.start(), plain.start()]
        for start in range(1, 6):
            facts = report(round((500 + start * 400) * 1.5))
            states = [
                each.reach(state, start, start * 400, facts)
                for each, state in zip((late, plain), states, strict=True)
            ]
        assert states[0].room == states[1].room
        after = late.reach(states[0], 7, 2_800, NOTHING)
        assert after.room == states[0].room - 1_000

    def test_another_model_is_another_tokenizer(self) -> None:
        along = track()
        for start in range(1, 8):
            said = round((500 + start * 400) * 1.1)
            along.reach(start, start * 400, report(said, model="mistral-1"))
        ratio = along.meter.learned.ratio
        along.reach(8, 3_200, report(6_000, model="mistral-2"))
        assert along.meter.learned.ratio == pytest.approx(1.3)
        assert ratio < 1.2
        along.reach(9, 3_600, report(6_400))  # nobody says that it is another one
        assert along.meter.learned.ratio != pytest.approx(1.3)

    def test_a_silent_change_of_version_is_noticed(self) -> None:
        along = track(40_000)
        for start in range(1, 30):
            along.reach(start, start * 400, report(round((500 + start * 400) * 1.1)))
        for start in range(30, 36):
            along.reach(start, start * 400, report(round((500 + start * 400) * 1.6)))
        assert along.meter.learned.ratio == pytest.approx(1.6, rel=0.05)

    @pytest.mark.parametrize("size", [4_000, 8_000])
    def test_a_change_that_nobody_says(self, size: int) -> None:
        """Within the limit it may be another agent's, and is believed the second time."""
        along = track()
        for start in range(1, size // 400):
            along.reach(start, start * 400, report(round((500 + start * 400) * 1.2)))
        before, prompt = along.room, round((500 + size) * 1.6)
        along.reach(20, size, report(prompt))
        assert (along.room == before) == (prompt <= 10_000)
        along.reach(21, size, report(prompt))
        assert along.room < 6_500
        along.compacted(size, 3_000)
        along.reach(22, 3_000, report(round(3_500 * 1.6)))
        assert along.meter.learned.ratio == pytest.approx(1.6, rel=0.05)

    def test_a_second_one_beyond_the_limit_takes_the_first_one_back(self) -> None:
        """The view was cut for the first one, and the prompt did not get shorter: not ours."""
        along = track()
        for start in range(1, 20):
            along.reach(start, start * 400, report(round((500 + start * 400) * 1.2)))
        before = along.meter.learned.ratio
        along.reach(20, 7_600, report(12_000))
        assert along.room < 6_000
        along.compacted(7_600, 4_000)
        along.reach(21, 4_400, report(12_500))
        assert along.meter.learned.ratio == before
        assert along.meter.tokens(4_500) == pytest.approx(4_500 * 1.2, rel=0.05)
        along.reach(22, 4_800, report(13_000))
        assert along.meter.learned.ratio == before

    def test_a_change_that_comes_with_a_jump(self) -> None:
        """Beyond the limit it is no uncut history: to doubt it would mean to be over it again."""
        along = track()
        for start, size in enumerate([*range(400, 7_201, 400), 3_600, *range(3_600, 7_201, 400)]):
            if size == 3_600 and along.meter.counted > 4_100:
                along.compacted(7_200, 3_600)
            along.reach(start, size, report(round((500 + size) * 1.2)))
        along.compacted(7_200, 5_600)
        along.reach(40, 5_600, report(round(6_100 * 1.65)))  # nearly what the whole would be
        assert along.meter.reported == round(6_100 * 1.65)

    def test_a_first_report_beyond_the_limit_is_believed(self) -> None:
        along = track()
        along.reach(1, 9_000, report(14_000, model="m-1"))
        assert along.room < 7_000
        along.reach(2, 9_000, report(15_000, model="m-2"))  # and so does another model
        assert along.meter.reported == 15_000

    def test_a_history_that_was_sent_whole_teaches_nothing_once_ours_is_cut(self) -> None:
        along = track(20_000)
        whole = shown = 0
        for start in range(1, 200):
            whole, shown = whole + 400, shown + 400
            along.reach(start, shown, report(round((500 + whole) * 1.2)))
            if shown > along.room:
                along.compacted(shown, 8_000)
                shown = 8_000
        assert along.meter.learned.ratio == pytest.approx(1.2, rel=0.05)
        assert along.meter.tokens(500 + shown) == pytest.approx((500 + shown) * 1.2, rel=0.05)
        assert along.meter.bound(500 + 10_000) <= 20_000

    def test_other_versions_and_other_models_answered_before(self) -> None:
        along = track(asked="mistral-2512")
        along.reach(1, 400, report(1_100, model="gpt-4o"))
        assert along.state.meter is None
        along.reach(2, 800, report(1_700, model="mistral-2411"))
        assert not along.meter.anchored
        assert along.room < 9_500 / 1.3 / 1.3  # its family's factor, and that it may be off
        along.reach(3, 1_200, report(1_700, model="mistral-2512"))
        assert along.meter.reported == 1_700
        along.reach(4, 1_600, report(4_000, model="mistral-2411"))
        assert along.meter.reported == 1_700

    def test_a_jump_moves_the_anchor(self) -> None:
        along = track()
        for start in range(1, 8):
            along.reach(start, start * 1_000, report(round((500 + start * 1_000) * 1.1)))
        along.compacted(7_000, 3_000)
        assert along.meter.counted == 3_500
        assert along.meter.tokens(3_500) == pytest.approx(3_500 * 1.1, rel=0.05)


class TestCold:
    def test_a_user_who_comes_back_late(self) -> None:
        along = track(ttl=300)
        assert not along.reach(0, 0, Facts(said=0))
        assert not along.reach(1, 9, Facts(answered=10))
        assert not along.reach(2, 9, Facts(said=320))
        assert not along.reach(3, 9, Facts(answered=325))
        assert along.reach(4, 9, Facts(said=700))

    def test_is_cold_once(self) -> None:
        along = track(ttl=300)
        along.reach(0, 0, Facts(answered=10))
        assert along.reach(1, 9, Facts(said=700))
        assert not along.reach(2, 9, Facts(said=800))

    def test_a_tool_that_ran_for_long(self) -> None:
        along = track(ttl=300)
        assert along.reach(0, 0, Facts(answered=10, said=900))

    def test_writes_for_an_hour_last_an_hour(self) -> None:
        hour = Facts(Report(Usage(900, cache_write=100, cache_write_1h=100)), answered=10)
        along = track(ttl=300)
        along.reach(0, 400, hour)
        assert not along.reach(1, 9, Facts(said=2_000))
        along.reach(2, 400, Facts(Report(Usage(900, cache_write=100)), answered=2_000))
        assert along.reach(3, 9, Facts(said=2_400))

    def test_the_model_says_how_long(self) -> None:
        told = Report(Usage(900, cache_write=100), None, "gpt-5.6")
        along = track(ttl=300)
        along.reach(0, 400, Facts(told, answered=10))
        assert not along.reach(1, 9, Facts(said=1_700))

    def test_nobody_keeps_a_prefix_for_longer_than_an_hour(self) -> None:
        along = track(ttl=None)
        along.reach(0, 0, Facts(answered=10))
        assert not along.reach(1, 9, Facts(said=3_000))
        along.reach(2, 9, Facts(answered=3_010))
        assert along.reach(3, 9, Facts(said=7_000))

    def test_a_caller_may_say_so(self) -> None:
        along = track(cold=[2])
        assert [along.reach(start, 0) for start in range(4)] == [False, False, True, False]


class TestFacts:
    def test_of_an_exchange(self) -> None:
        call: dict[str, Any] = {
            "role": "assistant", "content": "", "time": 50, "model": "m-1",
            "usage": {"prompt_tokens": 80, "completion_tokens": 2},
        }  # fmt: skip
        entries = [
            ConversationEntry(MessageRole.ASSISTANT, "", source=call),
            ConversationEntry(MessageRole.TOOL, "a", source={"time": 70}),
            ConversationEntry(MessageRole.TOOL, "b", source={"time": 60}),
        ]
        found = facts_of(entries)
        assert (found.answered, found.said) == (50, 70)
        assert found.report == Report(Usage(80, output=2), None, "m-1")

    def test_of_what_says_nothing(self) -> None:
        assert facts_of([ConversationEntry(MessageRole.USER, "x", source={})]) == Facts()

    def test_only_answers_are_looked_at(self) -> None:
        source = {"role": "user", "content": "x", "usage": {"prompt_tokens": 80}}
        assert reported_on(ConversationEntry(MessageRole.USER, "x", source=source)) is None

    def test_of_framework_messages(self) -> None:
        messages = pytest.importorskip("langchain_core.messages")
        usage = {"input_tokens": 80, "output_tokens": 2, "total_tokens": 82}
        said = messages.AIMessage(
            "x", usage_metadata=usage, response_metadata={"model_name": "gpt-4o-2024"}
        )
        found = reported_on(ConversationEntry(MessageRole.ASSISTANT, "x", source=said))
        assert found == Report(Usage(80, output=2), None, "gpt-4o-2024")
        llms = pytest.importorskip("llama_index.core.llms")
        answer = llms.ChatMessage(
            role="assistant", content="x", additional_kwargs={"usage": {"prompt_tokens": 80}}
        )
        found = reported_on(ConversationEntry(MessageRole.ASSISTANT, "x", source=answer))
        assert found is not None
        assert found.usage.input == 80

    def test_marks_tell_records_apart(self) -> None:
        one, two = (ConversationEntry(MessageRole.USER, text) for text in ("hi", "ho"))
        assert mark_of(one) == mark_of(ConversationEntry(MessageRole.USER, "hi"))
        assert mark_of(one) != mark_of(two)


class TestRestart:
    """Where a cold start begins, it knows what a warm one knows: nothing else decides."""

    def steps(self, ratio: float = 1.4, hidden: int = 2_000) -> list[tuple[int, int, Facts]]:
        found, size = [], 0
        for start in range(60):
            told = report(round((500 + size) * ratio) + hidden) if start % 2 else NOTHING
            found.append((start, 100, told))
            size = size + 100 if size < 4_000 else 2_000
        return found

    def test_the_ratio_is_that_of_the_stretch_before_and_hidden_that_of_the_start(self) -> None:
        steps = self.steps()
        state = Follower().track.restart(steps, steps[30:])
        assert state.meter is not None
        assert state.meter.tokens(500) == pytest.approx(500 * 1.4 + 2_000, rel=0.05)
        assert state.meter.learned.ratio == pytest.approx(1.4, rel=0.03)
        assert state.meter.learned.hidden == pytest.approx(2_000, rel=0.1)
        assert 0 < state.room < (10_000 - 2_000) / 1.4 - 500

    def test_without_reports_it_is_the_start(self) -> None:
        steps = [(start, 100, NOTHING) for start in range(60)]
        along = Follower()
        assert along.track.restart(steps, steps[30:]) == along.track.start()._replace(place=59)

    def test_the_clock_goes_on(self) -> None:
        steps = [(0, 100, Facts(said=0)), (1, 100, Facts(answered=5))]
        along = Follower(ttl=300)
        state = along.track.restart(steps, steps)
        assert along.track.reach(state, 2, 200, Facts(said=900)).cold

    def test_states_are_not_changed(self) -> None:
        along = Follower()
        along.reach(1, 400, report(1_500))
        kept: State = along.state
        assert kept.meter is not None
        before = (kept.room, kept.meter.reported, kept.meter.learned.ratio)
        along.reach(2, 800, report(2_500))
        along.compacted(800, 100)
        assert (kept.room, kept.meter.reported, kept.meter.learned.ratio) == before
