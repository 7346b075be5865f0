"""What a type checker makes of the public names; `make lint` runs it, nothing executes it.

Names that only have to be importable and to be classes are listed; what people call is called, with
the type they get written down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable
from llama_index.core.llms import LLM, ChatMessage
from typing_extensions import assert_type

import history_curator as core
import langchain_history_curator as langchain
import llamaindex_history_curator as llamaindex

CLASSES: list[type[object]] = [
    core.CacheLost, core.ComposedManager, core.ConversationRecorded, core.ConversationRunner,
    core.CurationContext,
    core.CuratorConfig, core.HeuristicCounter, core.HistoryCurated,
    core.HistoryWarning, core.ObservableManager, core.PassthroughManager,
    core.RelevanceManager, core.RoleTruncator, core.SlidingWindowManager, core.SummarizingManager,
    core.TiktokenCounter, core.ToolCall, core.ToolResultClearer,
    core.ToolResultTruncator, core.TurnRetentionManager, langchain.Budget,
    langchain.HistoryCuratorMiddleware, langchain.LangChainFormat, llamaindex.CuratedAgentWorkflow,
    llamaindex.CuratedFunctionAgent, llamaindex.CuratedReActAgent, llamaindex.HistoryCuratedEvent,
    llamaindex.LlamaIndexFormat,
]  # fmt: skip
FUNCTIONS: list[object] = [langchain.fold_back, langchain.handoff_view, langchain.pin]
ERRORS: list[type[core.HistoryCuratorError]] = [
    core.BudgetUnsatisfiableError, core.ConfigurationError, core.ConversionError,
    core.HistoryValidationError,
]  # fmt: skip


def curating(messages: list[dict[str, Any]], manager: core.HistoryManager) -> None:
    curator = core.Curator(manager, max_tokens=16_000, provider="openai", counter="gpt-4o")
    assert_type(curator, core.Curator)
    curation = curator.curate(messages)
    assert_type(curation, core.Curation)
    assert_type(curation.messages, list[Any])
    assert_type(curation.tokens, int)
    assert_type(curation.check_cache({"prompt_tokens": 9}), core.CacheLost | None)
    assert_type(curation.provider_edits(), dict[str, Any])
    report = curation.report
    assert_type(report, core.CurationReport)
    assert_type(report.decisions, tuple[core.Decision, ...])
    assert_type(report.explain(), str)


async def curating_async(messages: list[dict[str, Any]]) -> None:
    assert_type(await core.Curator(max_tokens=16_000).acurate(messages), core.Curation)


def checking(messages: Sequence[Any]) -> None:
    assert_type(core.get_profile("openai"), core.ProviderProfile)
    assert_type(core.check_conversation(messages), list[core.Violation])
    assert_type(core.repair_conversation(messages), list[Any])
    assert_type(core.count_tokens(messages), int)


def converting(message: Mapping[str, Any]) -> None:
    entry = core.provider_message_to_entry(message)
    assert_type(entry, core.ConversationEntry)
    assert_type(entry.role, core.MessageRole)
    assert_type(core.entry_to_provider_message(entry), dict[str, Any])


def guarding(payload: Any, limits: core.HistoryLimits) -> None:
    assert_type(core.validate_history(payload, limits), core.ValidatedHistory)
    core.sanitize_history(payload, limits)
    assert_type(core.format_history(core.validate_history(payload)), str)


def recording(session: core.HistorySession, bus: core.EventBus, recall: core.Recall) -> None:
    assert_type(core.select_all(session), tuple[core.ConversationEntry, ...])
    found = core.select_where(session, core.ConversationEntry, lambda entry: bool(entry.content))
    assert_type(found, tuple[core.ConversationEntry, ...])
    core.get_evaluation_history
    bus.subscribe(core.HistoryCurated, print)
    assert_type(recall(query="x"), str)


def settings(counter: core.TokenCounter) -> None:
    assert_type(core.RetentionConfig(preserve_turns=2), core.RetentionConfig)
    assert_type(counter.count("hi"), int)


def in_langchain(messages: list[BaseMessage], model: Any, store: Any) -> None:
    assert_type(langchain.EVENT_NAME, str)
    step: Runnable[Any, list[BaseMessage]] = langchain.HistoryCurator(max_tokens=16_000)
    assert_type(step.invoke(messages), list[BaseMessage])
    assert_type(langchain.budget_for_model(model), langchain.Budget)
    langchain.pre_model_hook(max_tokens=8_000)
    langchain.model_node(model, 8_000)
    langchain.recall_tool(messages)
    langchain.CuratedChatMessageHistory(store, max_tokens=1_000)
    branches = langchain.ChatHistoryBranches("ann", lambda _: store, max_tokens=1_000)
    assert_type(branches.open(), langchain.CuratedChatMessageHistory)


def in_llamaindex(messages: list[ChatMessage], llm: LLM) -> None:
    memory = llamaindex.CuratedMemory.from_defaults(token_limit=16_000)
    assert_type(memory.get(), list[ChatMessage])
    branches = llamaindex.MemoryBranches("ann", memory.chat_store)
    assert_type(branches.fork("edited", at=1), llamaindex.CuratedMemory)
    assert_type(llamaindex.budget_for_llm(llm), int)
    assert_type(llamaindex.message_to_dict(messages[0]), dict[str, Any])
    assert_type(llamaindex.message_from_dict({}), ChatMessage)
    llamaindex.recall_tool(messages)
    llamaindex.CuratedLLM(llm=llm, token_limit=500)
