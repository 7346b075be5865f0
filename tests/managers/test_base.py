"""Running managers: the form they take, how they combine, and what none of them can leave out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from history_curator import (
    ComposedManager,
    Curator,
    HistorySession,
    ObservableManager,
    PassthroughManager,
    RelevanceManager,
    RoleTruncator,
    SlidingWindowManager,
    SummarizingManager,
    ToolResultClearer,
    ToolResultTruncator,
    TurnRetentionManager,
)
from history_curator.entries import ConversationEntry
from history_curator.errors import ConfigurationError
from history_curator.managers import (
    CurationContext,
    ObservableSlidingWindowManager,
    Step,
    apply_managers,
)
from history_curator.record import EventBus, HistoryCurated
from history_curator.run_steps import run_sync
from history_curator.tokens import HeuristicCounter
from tests.support.messages import (
    Message,
    assistant,
    entries,
    exchange,
    system,
    texts,
    user,
)

CONVERSATION = [system("s"), user("a"), *exchange("c1", text="x " * 50), assistant("b"), user("c")]


class MessageManager:
    """A manager that takes messages and a session, and keeps what it was given."""

    def __init__(self, change: Any) -> None:
        self.change = change
        self.given: list[Any] = []

    def curate(self, messages: Any, *, session: Any) -> Any:
        self.given.append((list(messages), session))
        return self.change(messages)


class EntryManager:
    """A manager that takes entries."""

    def __init__(self, change: Any) -> None:
        self.change = change

    def curate(self, entries: Any, *, context: CurationContext) -> Any:
        return self.change(entries)


class AsyncManager:
    async def curate(self, entries: Any, *, context: CurationContext) -> Any:
        return entries[-1:]


def apply(
    change: Any, messages: Sequence[Message], **options: Any
) -> tuple[list[ConversationEntry], list[ConversationEntry], list[Step]]:
    record = entries(messages)
    given = CurationContext(HeuristicCounter(), **options)
    return record, *run_sync(apply_managers([EntryManager(change)], record, given))


def context() -> CurationContext:
    return CurationContext(HeuristicCounter())


class TestManagersOfMessages:
    """A manager can be called with messages of any format and a session, without a curator."""

    @pytest.mark.parametrize(
        "manager",
        [
            PassthroughManager(),
            SlidingWindowManager(4),
            TurnRetentionManager(1),
            ToolResultTruncator(10),
            ToolResultClearer(),
            RoleTruncator(assistant=10),
            RelevanceManager(),
            SummarizingManager(lambda prompt: "short"),
            ComposedManager((ToolResultTruncator(10), SlidingWindowManager(4))),
            ObservableSlidingWindowManager(SlidingWindowManager(4), EventBus(), "support"),
        ],
        ids=lambda manager: type(manager).__name__,
    )
    def test_messages_come_back_as_messages_and_entries_as_entries(self, manager: Any) -> None:
        session = HistorySession()
        view = manager.curate(CONVERSATION, session=session)
        assert view[0] is CONVERSATION[0]
        assert view[-1] is CONVERSATION[-1]
        assert manager.curate(entries(CONVERSATION), session=session)[-1].content == "c"
        assert manager.curate([], session=session) == []


class TestMessageManagers:
    def test_messages_and_the_session_are_given(self) -> None:
        session = HistorySession()
        manager: Any = MessageManager(list)
        view = Curator(manager).curate(CONVERSATION, session=session).messages
        ((given, given_session),) = manager.given
        assert given == CONVERSATION
        assert given_session is session
        assert all(one is other for one, other in zip(view, CONVERSATION, strict=True))

    def test_a_left_out_message_is_left_out_and_the_rest_is_untouched(self) -> None:
        manager: Any = MessageManager(lambda messages: messages[-2:])
        curation = Curator(manager).curate(CONVERSATION)
        assert curation.messages[0] is CONVERSATION[0]  # the system message always stays
        assert curation.messages[-1] is CONVERSATION[-1]
        assert curation.report.actions["dropped"] == 3

    @pytest.mark.parametrize("copies", [True, False])
    def test_a_changed_text_is_changed_in_the_view_only(self, copies: bool) -> None:
        def shorten(messages: Any) -> Any:
            out = [dict(message) if copies else message for message in messages]
            out[3]["content"] = "short"
            return out

        manager: Any = MessageManager(shorten)
        view = Curator(manager).curate(CONVERSATION).messages
        assert view[3] == {**CONVERSATION[3], "content": "short"}
        same = [one is other for one, other in zip(view, CONVERSATION, strict=True)]
        assert same.count(False) == 1
        assert CONVERSATION[3]["content"] == "x " * 50

    def test_a_message_of_its_own_is_sent_too(self) -> None:
        note = {"role": "user", "content": "a note"}
        manager: Any = MessageManager(lambda messages: [*messages, note])
        assert Curator(manager).curate(CONVERSATION).messages[-1]["content"].endswith("a note")

    def test_messages_of_a_framework_are_given_as_dicts(self) -> None:
        core = pytest.importorskip("langchain_core.messages")
        messages = [core.HumanMessage("a"), core.AIMessage("b"), core.HumanMessage("c")]
        manager: Any = MessageManager(lambda given: given[-1:])
        assert Curator(manager).curate(messages).messages[0] is messages[-1]
        assert manager.given[0][0][1] == {"role": "assistant", "content": "b"}

    async def test_async_message_managers_mix_with_others(self) -> None:
        class WithoutSystem:
            async def acurate(self, messages: Any, *, session: Any) -> Any:
                return [message for message in messages if message["role"] != "system"]

        parts: Any = (ToolResultTruncator(max_tokens=10), MessageManager(list))
        without_system: Any = WithoutSystem()
        curator = Curator(ComposedManager(parts), without_system)
        view = (await curator.acurate(CONVERSATION)).messages
        assert [one["role"] for one in view] == [one["role"] for one in CONVERSATION]
        assert len(view[3]["content"]) < len(CONVERSATION[3]["content"])

    @pytest.mark.parametrize("kind", [MessageManager, EntryManager])
    def test_anything_else_returned_is_refused(self, kind: Any) -> None:
        with pytest.raises(ConfigurationError, match="returned something other"):
            Curator(kind(lambda messages: "no")).curate(CONVERSATION)


class TestApplyManagers:
    def test_entries_nobody_touched_are_the_same_objects(self) -> None:
        record, left, steps = apply(list, CONVERSATION)
        assert all(one is other for one, other in zip(left, record, strict=True))
        assert [step.name for step in steps] == ["EntryManager"]

    @pytest.mark.parametrize(
        ("last", "expected"), [(None, ["s", "c"]), (3, ["s", "x " * 50, "b", "c"])]
    )
    def test_system_the_latest_user_and_the_last_n_entries_come_back(
        self, last: int | None, expected: list[str]
    ) -> None:
        _, left, steps = apply(lambda given: [], CONVERSATION, preserve_last_n=last)
        assert texts(left) == expected
        assert steps[0].entries == []

    def test_a_pinned_entry_comes_back_with_its_exchange(self) -> None:
        def pin(given: Any) -> Any:
            return [replace(e, pinned=e.role.value == "tool") for e in given]

        record = pin(entries(CONVERSATION))
        managers = [EntryManager(lambda given: given[-1:])]
        left, _ = run_sync(apply_managers(managers, record, context()))
        assert [entry.role.value for entry in left] == ["system", "assistant", "tool", "user"]

    def test_a_pin_of_one_manager_holds_for_the_next(self) -> None:
        record = entries([user("a"), assistant("b"), user("c"), user("d")])
        pin = EntryManager(lambda given: [given[0].evolve(pinned=True), *given[1:]])
        drop = EntryManager(lambda given: given[-1:])
        left, steps = run_sync(apply_managers([pin, drop], record, context()))
        assert texts(left) == ["a", "d"]
        assert left[0].pinned
        assert len(steps[1].entries) == 1

    def test_order_and_duplicates_are_mended_and_a_note_stays_behind_its_predecessor(self) -> None:
        _, left, _ = apply(lambda given: [*reversed(given), given[1]], CONVERSATION)
        assert texts(left) == texts(entries(CONVERSATION))
        note = ConversationEntry(entries([user("x")])[0].role, "note", origin="note")
        _, left, _ = apply(lambda given: [given[4], note, given[5]], CONVERSATION)
        assert texts(left) == ["s", "b", "note", "c"]

    def test_a_copy_made_by_replace_is_linked_to_its_original(self) -> None:
        def change(given: Any) -> Any:
            return [replace(entry, content="new") for entry in given]

        record, left, _ = apply(change, CONVERSATION)
        assert all(entry.root is recorded for entry, recorded in zip(left, record, strict=True))
        assert {entry.action for entry in left} == {"repaired"}

    def test_reasons_are_kept_with_the_step_that_gave_them(self) -> None:
        record = entries([user("1"), user("2")])
        managers = [PassthroughManager(), SlidingWindowManager(1)]
        _, steps = run_sync(apply_managers(managers, record, context()))
        assert not steps[0].reasons
        assert "window" in steps[1].reasons[id(record[0])]

    @pytest.mark.parametrize("budget", [10_000_000, None])
    def test_a_manager_with_nothing_to_do_counts_each_entry_once(self, budget: int | None) -> None:
        record = entries([user("q"), assistant("a")] * 1_200)
        counted: list[int] = []

        def count(entry: ConversationEntry) -> int:
            counted.append(1)
            return 5

        given = CurationContext(HeuristicCounter(), max_tokens=budget, count_entry=count)
        managers = [SummarizingManager(lambda prompt: "never")]
        left, _ = run_sync(apply_managers(managers, record, given))
        assert len(counted) == (len(record) if budget else 0)
        assert left == record


class TestComposedManager:
    def test_managers_run_in_the_callers_order(self) -> None:
        manager = ComposedManager([ToolResultTruncator(10), SlidingWindowManager(2)])  # type: ignore[arg-type]
        record = entries([user("1"), user("2"), *exchange("c1", text="x" * 50)])
        view = manager.curate(record, context=context())
        assert [entry.role.value for entry in view] == ["assistant", "tool"]
        assert len(view[1].content or "") == 10

    def test_an_async_manager_needs_acurate(self) -> None:
        manager = ComposedManager((AsyncManager(),))  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="acurate"):
            manager.curate(entries([user()]), context=context())

    def test_an_object_without_curate_is_refused_by_position(self) -> None:
        with pytest.raises(ConfigurationError, match=r"managers\[1\].*Fix"):
            ComposedManager((PassthroughManager(), object()))  # type: ignore[arg-type]


class TestObservableManager:
    def test_an_event_says_how_many_entries_met_which_fate(self) -> None:
        bus, events = EventBus(), list[HistoryCurated]()
        bus.subscribe(HistoryCurated, events.append)
        inner = ComposedManager((ToolResultTruncator(10), SlidingWindowManager(2)))
        record = entries([user("1"), *exchange("c1", text="x" * 50)])
        ObservableManager(inner, bus, "support").curate(record, context=context())
        (event,) = events
        assert (event.prompt_name, event.strategy) == ("support", "composed")
        assert (event.original_count, event.curated_count) == (3, 2)
        assert event.actions == {"dropped": 1, "kept": 1, "truncated": 1}

    async def test_an_async_manager_is_observed_too(self) -> None:
        bus, events = EventBus(), list[HistoryCurated]()
        bus.subscribe(HistoryCurated, events.append)
        manager = ObservableManager(AsyncManager(), bus)  # type: ignore[arg-type]
        await manager.acurate(entries([user("1"), user("2")]), context=CurationContext())
        assert events[0].actions == {"dropped": 1, "kept": 1}
