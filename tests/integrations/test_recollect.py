"""One word, ``retrieve=True``, brings back what matters to the question, in every socket."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from history_curator import Curator
from history_curator.managers.relevance._compose import RECOLLECTION_HEAD
from history_curator.window._recap import IDENTIFIERS
from tests.support.messages import assistant, call, result, system, user

BUDGET = 1_500
SECRET = "the greenhouse key hangs behind the zebra painting"
QUESTION = "where did I say the greenhouse key hangs?"
RECAP = "[Earlier in this conversation, no longer shown: "
FILLER = "we went on about the weather and the harvest of this year and the next "

Message = dict[str, Any]
Socket = Callable[[list[Message], dict[str, Any]], Awaitable[str]]


def chat() -> list[Message]:
    """A long chat without tools; what is asked for in the end was said early."""
    said = [system("be kind"), user("hello"), assistant("hello to you"), user(SECRET)]
    for turn in range(40):
        said += [assistant(f"answer {turn}: {FILLER * 2}"), user(f"remark {turn}: {FILLER * 2}")]
    return [*said, assistant("indeed")]


def work() -> list[Message]:
    """An agent at work; what is asked for is a name that a result held."""
    said = [system("be kind"), user("look through all of it")]
    for at in range(40):
        said.append(call(f"c{at}", path=f"src/part_{at}.py"))
        said.append(result(f"c{at}", f"defined in lib/module_{at}.py " + FILLER * 3))
    return [*said, assistant("done")]


def text_of(message: Any) -> str:
    if isinstance(message, dict):
        return str(message.get("content") or "") + json.dumps(message.get("tool_calls") or ())
    return str(getattr(message, "content", None) or "")


def joined(messages: Any) -> str:
    return "\n".join(map(text_of, messages))


async def core(history: list[Message], options: dict[str, Any]) -> str:
    curator = Curator(max_tokens=BUDGET, **options)
    return joined(curator.curate([*history, user(QUESTION)], tail="request").messages)


async def config(history: list[Message], options: dict[str, Any]) -> str:
    curator = Curator.from_config({"max_tokens": BUDGET, **options})
    return joined((await curator.acurate([*history, user(QUESTION)], tail="request")).messages)


def langchain_messages(history: list[Message]) -> list[Any]:
    messages = pytest.importorskip("langchain_core.messages")
    return list(messages.convert_to_messages([*history, user(QUESTION)]))


async def runnable(history: list[Message], options: dict[str, Any]) -> str:
    said = langchain_messages(history)
    from langchain_history_curator import HistoryCurator

    return joined(await HistoryCurator(max_tokens=BUDGET, **options).ainvoke(said))


async def chat_history(history: list[Message], options: dict[str, Any]) -> str:
    said = langchain_messages(history)
    from langchain_core.chat_history import InMemoryChatMessageHistory

    from langchain_history_curator import CuratedChatMessageHistory

    store = InMemoryChatMessageHistory(messages=said)
    return joined(CuratedChatMessageHistory(store, max_tokens=BUDGET, **options).messages)


async def hook(history: list[Message], options: dict[str, Any]) -> str:
    said = langchain_messages(history)
    from langchain_history_curator import pre_model_hook

    update = await pre_model_hook(BUDGET, **options).ainvoke({"messages": said})
    return joined(update["llm_input_messages"])


def noting_model(sent: list[Any]) -> Any:
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

        def _generate(self, messages: Any, *given: Any, **named: Any) -> Any:
            sent.extend(messages)
            return super()._generate(messages, *given, **named)

    return Model(messages=iter([AIMessage("ok")]))


async def node(history: list[Message], options: dict[str, Any]) -> str:
    said, sent = langchain_messages(history), list[Any]()
    from langchain_history_curator import model_node

    model_node(noting_model(sent), BUDGET, **options).invoke({"messages": said})
    return joined(sent)


async def middleware(history: list[Message], options: dict[str, Any]) -> str:
    said, sent = langchain_messages(history), list[Any]()
    agents = pytest.importorskip("langchain.agents")
    from langchain_history_curator import HistoryCuratorMiddleware

    curated = HistoryCuratorMiddleware(max_tokens=BUDGET, **options)
    agents.create_agent(noting_model(sent), [], middleware=[curated]).invoke({"messages": said})
    return joined(sent)


def llamaindex_messages(history: list[Message]) -> list[Any]:
    pytest.importorskip("llama_index.core")
    from tests.llamaindex.factories import from_dict

    return [from_dict(message) for message in history]


async def memory(history: list[Message], options: dict[str, Any]) -> str:
    said = llamaindex_messages([*history, user(QUESTION)])
    from llamaindex_history_curator import CuratedMemory

    made = CuratedMemory.from_defaults(chat_history=said, token_limit=BUDGET, **options)
    return joined(made.get())


async def llm(history: list[Message], options: dict[str, Any]) -> str:
    said = llamaindex_messages([*history, user(QUESTION)])
    from llamaindex_history_curator import CuratedLLM
    from tests.llamaindex.models import RecordingLLM

    inner = RecordingLLM()
    await CuratedLLM(llm=inner, token_limit=BUDGET, **options).achat(said)
    return joined(inner.sent[0])


def agent(kind: str, **given: Any) -> Socket:
    async def run(history: list[Message], options: dict[str, Any]) -> str:
        said = llamaindex_messages(history)
        import llamaindex_history_curator as adapter
        from tests.llamaindex.factories import assistant as answer
        from tests.llamaindex.models import RecordingLLM

        inner = RecordingLLM(lambda number, messages: answer("Thought: I know.\nAnswer: done"))
        made = getattr(adapter, kind)(llm=inner, token_limit=BUDGET, **given, **options)
        record = adapter.CuratedMemory.from_defaults(chat_history=said, token_limit=200_000)
        await made.run(QUESTION, memory=record)
        return joined(inner.sent[0])

    return run


SOCKETS: dict[str, Socket] = {
    "core": core,
    "config": config,
    "HistoryCurator": runnable,
    "CuratedChatMessageHistory": chat_history,
    "pre_model_hook": hook,
    "model_node": node,
    "HistoryCuratorMiddleware": middleware,
    "CuratedMemory": memory,
    "CuratedLLM": llm,
    "CuratedFunctionAgent": agent("CuratedFunctionAgent"),
    "CuratedReActAgent": agent("CuratedReActAgent"),
}


@pytest.mark.parametrize("name", SOCKETS)
async def test_a_chat_gets_back_what_the_question_is_about(name: str) -> None:
    plain = await SOCKETS[name](chat(), {})
    assert SECRET not in plain
    assert RECOLLECTION_HEAD not in plain
    found = await SOCKETS[name](chat(), {"retrieve": True})
    assert SECRET in found
    assert found.count(RECOLLECTION_HEAD) == 1
    assert RECAP not in found  # the recollection tells what was before the cut


@pytest.mark.parametrize("name", SOCKETS)
async def test_where_tools_are_used_one_recap_names_the_identifiers(name: str) -> None:
    found = await SOCKETS[name](work(), {"retrieve": True})
    assert RECOLLECTION_HEAD not in found
    assert found.count(RECAP) == 1
    assert found.count(IDENTIFIERS) == 1
    assert found == await SOCKETS[name](work(), {})
