"""No conversation shows the words of another: every manager, both frameworks, threads and tasks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from history_curator import (
    ComposedManager,
    ConversationRecorded,
    Curator,
    EventBus,
    HistoryCurated,
    HistorySession,
    ObservableManager,
    PassthroughManager,
    Recall,
    RelevanceManager,
    RoleTruncator,
    SlidingWindowManager,
    SummarizingManager,
    ToolResultClearer,
    ToolResultTruncator,
    TurnRetentionManager,
)
from history_curator.config import RetentionConfig
from history_curator.entries import handle_of
from history_curator.formats import read_entries
from tests.support.messages import assistant, user
from tests.tenants.world import (
    Tenant,
    listening,
    make_tenants,
    requests,
    summarise,
    words,
)

# Packages silence warnings of their own around a call, for the whole process: where threads meet,
# one of them sees what another meant to silence.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

BUDGET = 260
THREADS = 8

MANAGERS: dict[str, Callable[[EventBus], tuple[Any, ...]]] = {
    "none": lambda bus: (),
    "retrieve=True": lambda bus: (),
    "SummarizingManager": lambda bus: (SummarizingManager(summarise, max_tokens=90),),
    "RelevanceManager": lambda bus: (ObservableManager(RelevanceManager(), bus),),
    "selecting": lambda bus: (
        TurnRetentionManager(),
        ComposedManager((PassthroughManager(), SlidingWindowManager(12))),
    ),
    "shortening": lambda bus: (
        ToolResultClearer(keep=1),
        ToolResultTruncator(max_tokens=20),
        RoleTruncator(),
    ),
}
STATEFUL = ("none", "retrieve=True", "SummarizingManager")
"""Where most is remembered between calls."""


@pytest.fixture(scope="module")
def tenants() -> list[Tenant]:
    return make_tenants(300)


@pytest.fixture(autouse=True)
def impatient_threads() -> Iterator[None]:
    """Threads take turns often, so that a state used by two of them shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(autouse=True)
def nothing_private_is_logged(request: pytest.FixtureRequest) -> Iterator[None]:
    with listening() as log:
        yield
    # A driver logs its statements when it is told to.
    lines = log.ours if "one_table" in request.node.name else log.lines
    assert words(lines) == set()


def foreign(shown: Any, tenant: Tenant) -> set[str]:
    """Return the private words in something shown that are not this tenant's."""
    return words(shown) - tenant.own


def everything_of(curation: Any) -> list[Any]:
    """Return everything a curation gives its caller."""
    report = curation.report
    return [curation.messages, report.explain(), [repr(one) for one in report.decisions]]


def options_of(name: str) -> dict[str, Any]:
    return {"retrieve": True} if name.startswith("retrieve") else {}


def run_in_threads(live: Callable[..., set[str]], given: Any) -> list[set[str]]:
    """Return what leaked."""
    with ThreadPoolExecutor(THREADS) as pool:
        return [leak for leak in pool.map(live, given) if leak]


def test_conversations_are_told_apart_by_their_own_words_only(tenants: list[Tenant]) -> None:
    assert all(tenant.own for tenant in tenants)
    assert len({str(tenant.messages[:3]) for tenant in tenants}) == 1
    assert sum(bool(tenant.own & tenants[tenant.number - 1].own) for tenant in tenants[1:]) > 60


@pytest.mark.parametrize("name", MANAGERS)
def test_threads_that_share_a_curator(name: str, tenants: list[Tenant]) -> None:
    bus = EventBus()
    events: list[Any] = []
    bus.subscribe(object, events.append)
    managers = MANAGERS[name](bus)
    curator = Curator(*managers, max_tokens=BUDGET, recall_tool=True, bus=bus, **options_of(name))

    def ask(request: tuple[Tenant, list[Any]]) -> set[str]:
        tenant, messages = request
        return foreign(everything_of(curator.curate(messages)), tenant)

    some = tenants if name in STATEFUL else tenants[:60]
    assert run_in_threads(ask, requests(some)) == []
    assert events
    assert words([event.to_dict() for event in events]) == set()


@pytest.mark.parametrize("name", STATEFUL)
async def test_tasks_that_share_a_curator(name: str, tenants: list[Tenant]) -> None:
    prompts: list[str] = []

    async def summarise_slowly(prompt: str) -> str:
        prompts.append(prompt)
        await asyncio.sleep(0)
        return summarise(prompt)

    managers = MANAGERS[name](EventBus())
    if name == "SummarizingManager":
        managers = (SummarizingManager(summarise_slowly, max_tokens=90),)
    curator = Curator(*managers, max_tokens=BUDGET, **options_of(name))

    async def ask(tenant: Tenant, messages: list[Any]) -> set[str]:
        return foreign(everything_of(await curator.acurate(messages)), tenant)

    found = await asyncio.gather(*(ask(*request) for request in requests(tenants[:150], seed=1)))
    assert [leak for leak in found if leak] == []
    # Nor was a summariser ever shown the words of two conversations.
    assert all(any(words(prompt) <= tenant.own for tenant in tenants) for prompt in prompts)


class TestLangChain:
    """Agents that share a middleware, and histories over one table."""

    @pytest.mark.parametrize("name", STATEFUL)
    def test_agents_that_share_a_middleware(self, name: str, tenants: list[Tenant]) -> None:
        agents = pytest.importorskip("langchain.agents")
        core = pytest.importorskip("langchain_core.messages")
        from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

        from langchain_history_curator import HistoryCuratorMiddleware

        sent: list[str] = []

        class Model(GenericFakeChatModel):
            def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
                sent.append(str([one.model_dump() for one in messages]))
                return super()._generate(messages, *args, **kwargs)

        managers = MANAGERS[name](EventBus())
        agent = agents.create_agent(
            Model(messages=repeat(core.AIMessage("ok"))),
            tools=[],
            middleware=[HistoryCuratorMiddleware(*managers, max_tokens=BUDGET, **options_of(name))],
        )
        with ThreadPoolExecutor(THREADS) as pool:
            states = [
                {"messages": core.convert_to_messages(tenant.messages)} for tenant in tenants[:16]
            ]
            list(pool.map(agent.invoke, states))
        assert len(sent) == 16
        assert all(any(words(text) <= tenant.own for tenant in tenants[:16]) for text in sent)

    def test_histories_in_one_table(self, tmp_path: Path, tenants: list[Tenant]) -> None:
        core = pytest.importorskip("langchain_core.messages")
        stores = pytest.importorskip("langchain_community.chat_message_histories")
        from langchain_history_curator import CuratedChatMessageHistory, recall_tool

        url = f"sqlite:///{tmp_path / 'chat.db'}?timeout=30"
        stores.SQLChatMessageHistory("first", connection=url).engine.dispose()  # makes the table
        relevance = RelevanceManager()
        retention = RetentionConfig(persist_tool_invocations="trimmed", preserve_turns=3)

        def live(tenant: Tenant) -> set[str]:
            store = stores.SQLChatMessageHistory(f"t{tenant.number}", connection=url)
            history = CuratedChatMessageHistory(
                store, relevance, max_tokens=BUDGET, retention=retention
            )
            shown = []
            for some in (tenant.messages[: tenant.earlier], tenant.messages[tenant.earlier :]):
                history.add_messages(core.convert_to_messages(some))
                shown += [message.model_dump() for message in history.messages]
            shown.append(recall_tool(history).invoke({"query": "where is the order packed"}))
            store.engine.dispose()
            return foreign(shown, tenant)

        assert run_in_threads(live, tenants[:40]) == []


class TestLlamaIndex:
    """Memories that share a curator and a store, in threads."""

    @staticmethod
    def to_messages(messages: list[Any]) -> list[Any]:
        from llamaindex_history_curator import LlamaIndexFormat

        entries = [replace(entry, source=None) for entry in read_entries(messages)]
        return LlamaIndexFormat().write(entries)

    @pytest.mark.parametrize("name", STATEFUL)
    def test_memories_in_threads_and_what_they_recall(
        self, name: str, tenants: list[Tenant]
    ) -> None:
        pytest.importorskip("llama_index.core")
        from llama_index.core.storage.chat_store import SimpleChatStore

        from llamaindex_history_curator import CuratedMemory, recall_tool

        store = SimpleChatStore()
        managers = MANAGERS[name](EventBus())
        curator = Curator(*managers, max_tokens=BUDGET, recall_tool=True, **options_of(name))

        def live(tenant: Tenant) -> set[str]:
            memory = CuratedMemory.from_defaults(
                chat_store=store, chat_store_key=f"t{tenant.number}", curator=curator
            )
            memory.put_messages(self.to_messages(tenant.messages))
            shown: list[Any] = [one.model_dump() for one in memory.get()]
            shown.append(str(recall_tool(memory).call(query="where is the order packed")))
            return foreign(shown, tenant)

        assert run_in_threads(live, tenants[:60]) == []


def test_sessions_their_forks_and_their_events(tenants: list[Tenant]) -> None:
    bus = EventBus()
    recorded: list[ConversationRecorded] = []
    curated: list[HistoryCurated] = []
    bus.subscribe(ConversationRecorded, recorded.append)
    bus.subscribe(HistoryCurated, curated.append)
    curator = Curator(RelevanceManager(), max_tokens=BUDGET, bus=bus)
    owners: dict[Any, Tenant] = {}

    def live(tenant: Tenant) -> set[str]:
        session = HistorySession(bus=bus)
        owners[session.session_id] = tenant
        session.record(tenant.messages[: tenant.earlier])
        branch = session.fork(at=tenant.earlier - 2)
        owners[branch.session_id] = tenant
        branch.record(tenant.messages[tenant.earlier :])
        restored = HistorySession.from_json(branch.to_json())
        views = [curator.curate(one.messages, session=one) for one in (session, branch, restored)]
        return foreign(list(map(everything_of, views)), tenant)

    assert run_in_threads(live, tenants[:120]) == []
    for event in recorded:
        assert words(repr(event.entry)) <= owners[event.session_id].own
    assert words([event.to_dict() for event in curated]) == set()


def test_usage_reported_for_one_conversation_is_not_taken_for_another() -> None:
    """Both begin alike, are equally long and end on the same words; neither has a key."""
    curator = Curator(max_tokens=8_000)
    conversations = [
        [user("hi"), assistant("Hello!"), user(text), assistant("Noted."), user("yes")]
        for text in ("a long story " * 900, "a short one")
    ]
    first = curator.curate(conversations[0])
    first.observe({"prompt_tokens": 2 * first.tokens})
    alone = Curator(max_tokens=8_000).curate(conversations[1])
    assert curator.curate(conversations[1]).tokens == alone.tokens


def test_recall_answers_from_its_own_conversation(tenants: list[Tenant]) -> None:
    """By query, by its own handles and by those of others, from several threads at once."""
    handles = [list(map(handle_of, read_entries(tenant.messages))) for tenant in tenants[:60]]

    def live(tenant: Tenant) -> set[str]:
        recall = Recall(tenant.messages, max_tokens=300)
        near = handles[tenant.number - 1 : tenant.number + 2]
        answers = [recall(query="where is the order packed")]
        answers += [recall(handle=handle) for some in near for handle in some]
        return foreign(answers, tenant)

    assert run_in_threads(live, tenants[1:30]) == []
