"""Nobody's words in another's view: every manager, both frameworks, threads, tasks and batches."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from history_curator import (
    ComposedManager,
    ConversationRecorded,
    Curator,
    DuplicateResultManager,
    EventBus,
    HistoryCurated,
    HistorySession,
    ObservableManager,
    PassthroughManager,
    PinManager,
    RelevanceManager,
    RoleTruncator,
    SlidingWindowManager,
    SummarizingManager,
    TokenBudgetManager,
    ToolResultClearer,
    ToolResultTruncator,
    TurnRetentionManager,
    managers,
)
from history_curator.formats import read_entries
from history_curator.recall_tool import Recall
from history_curator.config import RetentionConfig
from tests.tenants.world import (
    Listener,
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
    "SummarizingManager": lambda bus: (SummarizingManager(summarise, max_tokens=90),),
    "RelevanceManager": lambda bus: (RelevanceManager(),),
    "retrieve=True": lambda bus: (),
    "ComposedManager": lambda bus: (
        ComposedManager((ToolResultTruncator(max_tokens=30), RelevanceManager())),
    ),
    "PassthroughManager": lambda bus: (PassthroughManager(),),
    "SlidingWindowManager": lambda bus: (SlidingWindowManager(12),),
    "TokenBudgetManager": lambda bus: (TokenBudgetManager(max_tokens=200),),
    "TurnRetentionManager": lambda bus: (TurnRetentionManager(),),
    "ToolResultTruncator": lambda bus: (ToolResultTruncator(max_tokens=20),),
    "ToolResultClearer": lambda bus: (ToolResultClearer(keep=1),),
    "RoleTruncator": lambda bus: (RoleTruncator(),),
    "DuplicateResultManager": lambda bus: (DuplicateResultManager(),),
    "PinManager": lambda bus: (PinManager(),),
    "ObservableManager": lambda bus: (ObservableManager(RelevanceManager(), bus),),
}
STATEFUL = ("none", "SummarizingManager", "retrieve=True")
"""They remember something between calls: looked at with all conversations. What `RelevanceManager`
remembers is what ``retrieve=True`` does."""


@pytest.fixture(scope="module")
def tenants() -> list[Tenant]:
    return make_tenants()


@pytest.fixture(autouse=True)
def impatient_threads() -> Iterator[None]:
    """Threads take turns often, so that a state used by two of them shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def log() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


def foreign(shown: Any, tenant: Tenant) -> set[str]:
    return words(shown) - tenant.own


def seen_of(curation: Any) -> list[Any]:
    """Everything a curation gives its caller."""
    report = curation.report
    return [curation.messages, report.explain(), [repr(one) for one in report.decisions]]


def options_of(name: str) -> dict[str, Any]:
    return {"retrieve": True} if name.startswith("retrieve") else {}


SCALE = ["some", pytest.param("all", marks=pytest.mark.nightly)]
"""How many conversations; all of them, for every manager and in both frameworks, takes long."""


def some(tenants: list[Tenant], name: str, scale: str) -> list[tuple[Tenant, list[Any]]]:
    """All conversations, every fourth as it was and as it is; fewer where nothing is remembered."""
    if name == "none" or scale == "all":
        return requests(tenants)
    if name not in STATEFUL:
        tenants = tenants[:60]
    once = [(tenant, tenant.messages) for tenant in tenants if tenant.number % 4]
    return [*requests(tenants[::4]), *once]


def test_every_manager_is_looked_at() -> None:
    known = {
        name for name in managers.__all__ if name.endswith(("Manager", "Truncator", "Clearer"))
    }
    assert known - {"HistoryManager"} <= MANAGERS.keys()


def test_conversations_are_told_apart_by_their_own_words_only(tenants: list[Tenant]) -> None:
    assert len(tenants) == 1_000
    assert all(tenant.own for tenant in tenants)
    assert len({str(tenant.messages[:3]) for tenant in tenants}) == 1
    assert sum(bool(tenant.own & tenants[tenant.number - 1].own) for tenant in tenants[1:]) > 200


@pytest.mark.parametrize("scale", SCALE)
@pytest.mark.parametrize("name", MANAGERS)
def test_threads(name: str, scale: str, tenants: list[Tenant], log: Listener) -> None:
    bus = EventBus()
    events: list[Any] = []
    bus.subscribe(object, events.append)
    curator = Curator(
        *MANAGERS[name](bus), max_tokens=BUDGET, recall_tool=True, bus=bus, **options_of(name)
    )

    def ask(request: tuple[Tenant, list[Any]]) -> set[str]:
        tenant, messages = request
        return foreign(seen_of(curator.curate(messages)), tenant)

    with ThreadPoolExecutor(THREADS) as pool:
        leaks = [leak for leak in pool.map(ask, some(tenants, name, scale)) if leak]
    assert leaks == []
    assert events
    assert words([event.to_dict() for event in events]) == set()
    assert words(log.lines) == set()


@pytest.mark.parametrize(
    "name", ["none", "SummarizingManager", "retrieve=True"]
)
async def test_tasks(name: str, tenants: list[Tenant], log: Listener) -> None:
    prompts: list[str] = []

    async def slowly(prompt: str) -> str:
        prompts.append(prompt)
        await asyncio.sleep(0)
        return summarise(prompt)

    made = (
        (SummarizingManager(slowly, max_tokens=90),)
        if "Summ" in name
        else MANAGERS[name](EventBus())
    )
    curator = Curator(*made, max_tokens=BUDGET, **options_of(name))

    async def ask(tenant: Tenant, messages: list[Any]) -> set[str]:
        return foreign(seen_of(await curator.acurate(messages)), tenant)

    found = await asyncio.gather(*(ask(*request) for request in requests(tenants[:200], seed=1)))
    assert [leak for leak in found if leak] == []
    # Nor was a summariser ever shown the words of two conversations.
    owners = [tenant.own for tenant in tenants[:200]]
    assert all(any(words(prompt) <= own for own in owners) for prompt in prompts)
    assert words(log.lines) == set()


class TestLangChain:
    """Batches of one runnable, agents that share a middleware, and histories over one table."""

    @pytest.mark.parametrize("scale", SCALE)
    @pytest.mark.parametrize("name", MANAGERS)
    def test_batch(self, name: str, scale: str, tenants: list[Tenant], log: Listener) -> None:
        core = pytest.importorskip("langchain_core.messages")
        from langchain_history_curator import HistoryCurator

        made = MANAGERS[name](EventBus())
        curator = HistoryCurator(managers=list(made), max_tokens=BUDGET, **options_of(name))
        many = tenants if scale == "all" else tenants[: 300 if name in STATEFUL else 30]
        for said in (requests(many)[: len(many)], requests(many)[len(many) :]):
            given = [core.convert_to_messages(messages) for _, messages in said]
            views = curator.batch(given, {"max_concurrency": THREADS})
            for (tenant, _), view in zip(said, views, strict=True):
                assert foreign([message.model_dump() for message in view], tenant) == set()
        assert words(log.lines) == set()

    @pytest.mark.parametrize("name", STATEFUL)
    async def test_abatch_and_its_events(
        self, name: str, tenants: list[Tenant], log: Listener
    ) -> None:
        core = pytest.importorskip("langchain_core.messages")
        from langchain_core.callbacks import AsyncCallbackHandler

        from langchain_history_curator import EVENT_NAME, HistoryCurator

        events: list[Any] = []

        class Hears(AsyncCallbackHandler):
            async def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
                if name == EVENT_NAME:
                    events.append(data)

        made = MANAGERS[name](EventBus())
        curator = HistoryCurator(managers=list(made), max_tokens=BUDGET, **options_of(name))
        said = requests(tenants[:60], seed=2)
        given = [core.convert_to_messages(messages) for _, messages in said]
        views = await curator.abatch(given, {"callbacks": [Hears()]})
        for (tenant, _), view in zip(said, views, strict=True):
            assert foreign([message.model_dump() for message in view], tenant) == set()
        assert events
        assert words(events) == set()
        assert words(log.ours) == set()

    @pytest.mark.parametrize("name", STATEFUL)
    def test_agents_that_share_a_middleware(
        self, name: str, tenants: list[Tenant], log: Listener
    ) -> None:
        agents = pytest.importorskip("langchain.agents")
        core = pytest.importorskip("langchain_core.messages")
        from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

        from langchain_history_curator import HistoryCuratorMiddleware

        sent: list[tuple[Any, str]] = []

        class Model(GenericFakeChatModel):
            def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
                sent.append((threading.get_ident(), str([one.model_dump() for one in messages])))
                return super()._generate(messages, *args, **kwargs)

        made = MANAGERS[name](EventBus())
        agent = agents.create_agent(
            Model(messages=repeat(core.AIMessage("ok"))),
            tools=[],
            middleware=[HistoryCuratorMiddleware(*made, max_tokens=BUDGET, **options_of(name))],
        )

        def ask(tenant: Tenant) -> set[str]:
            agent.invoke({"messages": core.convert_to_messages(tenant.messages)})
            mine = [text for thread, text in sent if thread == threading.get_ident()]
            return foreign(mine[-1:], tenant)

        with ThreadPoolExecutor(THREADS) as pool:
            leaks = [leak for leak in pool.map(ask, tenants[:16]) if leak]
        assert leaks == []
        assert len(sent) == 16
        assert words(log.ours) == set()

    def test_histories_in_one_table(
        self, tmp_path: Path, tenants: list[Tenant], log: Listener
    ) -> None:
        core = pytest.importorskip("langchain_core.messages")
        stores = pytest.importorskip("langchain_community.chat_message_histories")
        from langchain_history_curator import CuratedChatMessageHistory, recall_tool

        url = f"sqlite:///{tmp_path / 'chat.db'}?timeout=30"
        stores.SQLChatMessageHistory("first", connection=url)  # makes the table
        relevance = RelevanceManager()
        retention = RetentionConfig(persist_tool_invocations="trimmed", preserve_turns=3)

        def live(tenant: Tenant) -> set[str]:
            store = stores.SQLChatMessageHistory(f"t{tenant.number}", connection=url)
            history = CuratedChatMessageHistory(
                store, relevance, max_tokens=BUDGET, retention=retention
            )
            history.add_messages(core.convert_to_messages(tenant.messages[: tenant.earlier]))
            shown = [message.model_dump() for message in history.messages]
            history.add_messages(core.convert_to_messages(tenant.messages[tenant.earlier :]))
            shown += [message.model_dump() for message in history.messages]
            shown.append(recall_tool(history).invoke({"query": "where is the order packed"}))
            store.engine.dispose()
            return foreign(shown, tenant)

        with ThreadPoolExecutor(4) as pool:
            assert [leak for leak in pool.map(live, tenants[:40]) if leak] == []
        assert words(log.ours) == set()


class TestLlamaIndex:
    """Memories that share a curator and a store, in tasks and in threads."""

    @staticmethod
    def told(messages: list[Any]) -> list[Any]:
        from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock

        said: list[Any] = []
        for one in messages:
            blocks: list[Any] = [TextBlock(text=one["content"])] if one.get("content") else []
            for call in one.get("tool_calls") or ():
                name, arguments = call["function"]["name"], call["function"]["arguments"]
                blocks.append(
                    ToolCallBlock(tool_call_id=call["id"], tool_name=name, tool_kwargs=arguments)
                )
            extra = {"tool_call_id": one["tool_call_id"]} if one["role"] == "tool" else {}
            said.append(ChatMessage(role=one["role"], blocks=blocks, additional_kwargs=extra))
        return said

    @pytest.mark.parametrize("scale", SCALE)
    @pytest.mark.parametrize("name", MANAGERS)
    async def test_memories_in_tasks(
        self, name: str, scale: str, tenants: list[Tenant], log: Listener
    ) -> None:
        pytest.importorskip("llama_index.core")
        from llama_index.core.storage.chat_store import SimpleChatStore

        from llamaindex_history_curator import CuratedMemory

        store = SimpleChatStore()
        made = MANAGERS[name](EventBus())
        curator = Curator(*made, max_tokens=BUDGET, **options_of(name))

        async def live(tenant: Tenant) -> set[str]:
            memory = CuratedMemory.from_defaults(
                chat_store=store, chat_store_key=f"t{tenant.number}", curator=curator
            )
            await memory.aput_messages(self.told(tenant.messages[: tenant.earlier]))
            shown = [one.model_dump() for one in await memory.aget()]
            await memory.aput_messages(self.told(tenant.messages[tenant.earlier :]))
            await asyncio.sleep(0)
            shown += [one.model_dump() for one in await memory.aget("where is my order?")]
            return foreign(shown, tenant)

        many = tenants if scale == "all" else tenants[: 150 if name in STATEFUL else 20]
        found = await asyncio.gather(*map(live, many))
        assert [leak for leak in found if leak] == []
        assert words(log.lines) == set()

    @pytest.mark.parametrize("name", STATEFUL)
    def test_memories_in_threads_and_what_they_recall(
        self, name: str, tenants: list[Tenant], log: Listener
    ) -> None:
        pytest.importorskip("llama_index.core")
        from llama_index.core.instrumentation.event_handlers import BaseEventHandler
        from llama_index.core.storage.chat_store import SimpleChatStore
        from llama_index_instrumentation import get_dispatcher

        from llamaindex_history_curator import CuratedMemory, HistoryCuratedEvent, recall_tool

        events: list[Any] = []

        class Hears(BaseEventHandler):
            @classmethod
            def class_name(cls) -> str:
                return "Hears"

            def handle(self, event: Any, **_: Any) -> None:
                if isinstance(event, HistoryCuratedEvent):
                    events.append(event.model_dump())

        root, hears = get_dispatcher(), Hears()
        root.add_event_handler(hears)
        store = SimpleChatStore()
        made = MANAGERS[name](EventBus())
        curator = Curator(*made, max_tokens=BUDGET, recall_tool=True, **options_of(name))

        def live(tenant: Tenant) -> set[str]:
            memory = CuratedMemory.from_defaults(
                chat_store=store, chat_store_key=f"t{tenant.number}", curator=curator
            )
            memory.put_messages(self.told(tenant.messages))
            shown: list[Any] = [one.model_dump() for one in memory.get()]
            shown.append(str(recall_tool(memory).call(query="where is the order packed")))
            return foreign(shown, tenant)

        try:
            with ThreadPoolExecutor(THREADS) as pool:
                assert [leak for leak in pool.map(live, tenants[:60]) if leak] == []
        finally:
            root.event_handlers.remove(hears)
        assert events
        assert words(events) == set()
        assert words(log.ours) == set()


def test_sessions_their_forks_and_their_events(tenants: list[Tenant], log: Listener) -> None:
    bus = EventBus()
    recorded: list[ConversationRecorded] = []
    curated: list[HistoryCurated] = []
    bus.subscribe(ConversationRecorded, recorded.append)
    bus.subscribe(HistoryCurated, curated.append)
    curator = Curator(RelevanceManager(), max_tokens=BUDGET, bus=bus)
    owners: dict[Any, Tenant] = {}
    leaks: list[set[str]] = []

    def live(tenant: Tenant) -> None:
        session = HistorySession(bus=bus)
        owners[session.session_id] = tenant
        session.record(tenant.messages[: tenant.earlier])
        branch = session.fork(at=tenant.earlier - 2)
        owners[branch.session_id] = tenant
        branch.record(tenant.messages[tenant.earlier :])
        leaks.extend(
            foreign(seen_of(curator.curate(one.messages, session=one)), tenant)
            for one in (session, branch, HistorySession.from_json(branch.to_json()))
        )

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(live, tenants[:120]))
    assert [leak for leak in leaks if leak] == []
    for event in recorded:
        assert words(repr(event.entry)) <= owners[event.session_id].own
    assert words([event.to_dict() for event in curated]) == set()
    assert words(log.lines) == set()


def test_numbers_reported_for_one_are_not_taken_for_another() -> None:
    """Both begin alike, are equally long and end on the same words; neither has a key."""
    curator = Curator(max_tokens=8_000)
    said = [
        [
            *[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello!"}],
            *[{"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}],
            {"role": "user", "content": "yes"},
        ]
        for text in ("a long story " * 900, "a short one")
    ]
    first = curator.curate(said[0])
    first.observe({"prompt_tokens": 2 * first.tokens})
    assert curator.curate(said[1]).tokens == Curator(max_tokens=8_000).curate(said[1]).tokens


def test_recall_answers_from_its_own_conversation(tenants: list[Tenant], log: Listener) -> None:
    """By query, by its own handles and by those of others, from several threads at once."""
    handles: list[str] = []
    lock = threading.Lock()

    def live(tenant: Tenant) -> set[str]:
        recall = Recall(read_entries(tenant.messages), max_tokens=300)
        curation = Curator(max_tokens=BUDGET, recall_tool=True).curate(tenant.messages)
        mine = [entry.handle for entry in curation.report._view if entry.handle]
        with lock:
            others = handles[-20:]
            handles.extend(mine)
        asked = [
            recall(query="where is the order packed"),
            recall(query=f"zq{tenant.number + 3:04d}a"),
        ]
        asked += [recall(handle=handle) for handle in (*mine, *others)]
        return words(asked) - tenant.own - {f"zq{tenant.number + 3:04d}a"}

    with ThreadPoolExecutor(THREADS) as pool:
        assert [leak for leak in pool.map(live, tenants[:100]) if leak] == []
    assert words(log.lines) == set()
