from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from operator import is_
from typing import Any
from uuid import uuid4

import pytest

from history_curator import Curator, SlidingWindowManager
from history_curator.entries import ConversationEntry
from history_curator.errors import ConfigurationError, ConversionError
from history_curator.record import (
    ConversationRecorded,
    EventBus,
    HistoryCurated,
    HistorySession,
    select_all,
    select_where,
)
from tests.support.messages import assistant, call, exchange, result, system, texts, user


class TestRecording:
    def test_every_entry_is_stamped(self) -> None:
        session = HistorySession()
        recorded = session.record([system("s"), user("hi"), assistant("yo")])
        assert [entry.sequence for entry in recorded] == [0, 1, 2]
        assert {entry.evaluation_id for entry in recorded} == {session.evaluation_id}
        assert all(entry.created_at is not None for entry in recorded)

    def test_sequences_count_per_evaluation(self) -> None:
        session, run = HistorySession(), uuid4()
        recorded = [session.append(user("a"), evaluation_id=one) for one in (None, run, run, None)]
        assert [entry.sequence for entry in recorded] == [0, 0, 1, 1]

    def test_messages_come_back_as_the_same_objects(self) -> None:
        said = [user("hi"), *exchange("c1")]
        session = HistorySession()
        session.record(said)
        assert all(mine is given for mine, given in zip(session.messages, said, strict=True))

    def test_a_message_of_several_entries_is_recorded_as_such(self) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": each, "content": "1"} for each in "ab"]
        session = HistorySession()
        last = session.append({"role": "user", "content": blocks})
        assert [entry.tool_call_id for entry in session] == ["a", "b"]
        assert session.entries[-1] is last

    def test_a_bad_message_records_nothing(self) -> None:
        session = HistorySession()
        with pytest.raises(ConversionError):
            session.record([user("ok"), {"role": "nobody", "content": "x"}])
        assert len(session) == 0

    def test_threads_may_record_at_once(self) -> None:
        session = HistorySession()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: session.append(user(str(n))), range(200)))
        assert sorted(entry.sequence for entry in session) == list(range(200))


def anthropic_messages() -> list[Any]:
    uses: list[Any] = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "looking"},
    ]
    uses += [{"type": "tool_use", "id": f"t{n}", "name": "find", "input": {"q": n}} for n in (1, 2)]
    results = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "a", "is_error": True},
        {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "b"}]},
        {"type": "text", "text": "both, please", "cache_control": {"type": "ephemeral"}},
    ]
    return [
        {"role": "user", "content": "hi", "vendor_field": {"kept": [1, None]}},
        {"role": "assistant", "content": uses},
        {"role": "user", "content": results},
        {"role": "assistant", "content": "done"},
    ]


def responses_items() -> list[Any]:
    call = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "f"}
    return [
        {"role": "user", "content": "hi"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {**call, "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "found"},
    ]


class TestJson:
    def test_a_session_comes_back_with_its_ids_and_stamps(self) -> None:
        session = HistorySession()
        session.record([system("s"), user("hi"), call("c1", at=1), result("c1", "é漢")])
        again = HistorySession.from_json(session.to_json())
        assert again.entries == session.entries
        assert again.session_id == session.session_id
        assert again.evaluation_id == session.evaluation_id
        assert again.append(user("more")).sequence == 4

    @pytest.mark.parametrize(
        "said", [anthropic_messages(), responses_items()], ids=["anthropic", "responses"]
    )
    def test_messages_keep_their_format_and_every_field(self, said: list[Any]) -> None:
        session = HistorySession()
        session.record(said)
        again = HistorySession.from_json(session.to_json())
        assert again.messages == said == session.messages
        assert HistorySession.from_json(again.to_json()).messages == said
        assert again.fork(at=1).messages == said[:1]
        curator = Curator(max_tokens=4_000)
        assert curator.curate(again.messages).messages == curator.curate(said).messages

    def test_messages_of_a_framework_come_back_as_dicts(self) -> None:
        messages = pytest.importorskip("langchain_core.messages")
        session = HistorySession()
        session.record([messages.HumanMessage("hi", name="ann"), messages.AIMessage("hello")])
        assert [type(one).__name__ for one in session.messages] == ["HumanMessage", "AIMessage"]
        assert HistorySession.from_json(session.to_json()).messages == [
            {"role": "user", "content": "hi", "name": "ann"},
            {"role": "assistant", "content": "hello"},
        ]

    def test_an_edited_entry_stays_edited(self) -> None:
        session = HistorySession()
        entry = session.append(user("secret number 7"))
        other = HistorySession()
        other.record([entry.evolve(content="[removed]")])
        other.append(assistant("ok"))
        again = HistorySession.from_json(other.to_json())
        assert [one["content"] for one in again.messages] == ["[removed]", "ok"]

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"session_id": "x"}', "[" * 100_000])
    def test_text_that_is_no_session_is_refused(self, text: str) -> None:
        with pytest.raises(ConversionError, match="Fix"):
            HistorySession.from_json(text)


class TestFork:
    def test_a_branch_shares_entries_up_to_a_point(self) -> None:
        session = HistorySession()
        recorded = session.record([user("a"), assistant("b"), user("c"), assistant("d")])
        branch = session.fork(at=2)
        branch.append(user("c, but better"))
        assert all(map(is_, branch.entries[:2], recorded))
        assert texts(session.entries) == ["a", "b", "c", "d"]
        assert texts(branch.entries) == ["a", "b", "c, but better"]
        assert branch.parent_id == session.session_id != branch.session_id
        assert texts(session.fork(at=-1).entries) == ["a", "b", "c"]
        assert len(session.fork()) == 4

    @pytest.mark.parametrize("at", [4, -4])
    def test_a_place_outside_the_conversation_is_refused(self, at: int) -> None:
        session = HistorySession()
        session.record([user("a"), assistant("b"), user("c")])
        with pytest.raises(ConfigurationError, match=r"conversation of 3.*Fix: pass -3 to 3"):
            session.fork(at=at)


class TestReducers:
    def test_a_slice_of_what_the_sessions_own_events_say(self) -> None:
        bus = EventBus()
        ann, bob = HistorySession(bus=bus), HistorySession(bus=bus)

        def count(known: Any, event: Any, *, context: Any) -> Any:
            return (*known, len(context))

        stop = ann.register_reducer(ConversationRecorded, count, slice_type=int)
        ann.append(user("a"))
        bob.append(user("b"))
        ann.append(user("c"))
        assert select_all(ann, int) == (1, 2)
        assert select_where(ann, int, lambda size: size > 1) == (2,)
        assert select_all(bob, int) == ()
        stop()
        ann.append(user("d"))
        assert select_all(ann, int) == (1, 2)

    def test_a_reducer_can_replace_the_default_slice(self) -> None:
        session = HistorySession()

        def keep_two(known: Any, event: Any, *, context: Any) -> Any:
            return (*known, event.entry)[-2:]

        session.register_reducer(ConversationRecorded, keep_two, slice_type=ConversationEntry)
        session.record([user(text) for text in "abc"])
        assert texts(select_all(session)) == ["b", "c"]
        assert texts(session.entries) == ["a", "b", "c"]

    def test_a_reducer_that_raises_leaves_the_slice(self) -> None:
        session = HistorySession()
        session.register_reducer(ConversationRecorded, lambda *_, **__: 1 / 0, slice_type=int)
        session.append(user("a"))
        assert select_all(session, int) == ()


def test_a_curator_announces_its_work_to_the_bus() -> None:
    bus, seen = EventBus(), list[HistoryCurated]()
    bus.subscribe(HistoryCurated, seen.append)
    session = HistorySession()
    curator = Curator(SlidingWindowManager(1), bus=bus, name="support")
    curation = curator.curate([user("1"), user("2"), user("3")], session=session)
    (event,) = seen
    assert (event.original_count, event.curated_count) == (3, 1)
    assert (event.tokens, event.prompt_name) == (curation.tokens, "support")
    assert event.session_id == session.session_id
    assert event.to_dict()["actions"] == {"dropped": 2, "kept": 1}
