"""What a reader of the documentation already has: a model, tools, messages, an index."""

from __future__ import annotations

import json
from typing import Any

from tests.support.messages import assistant, call, result, system, user


def conversation(turns: int = 12) -> list[dict[str, Any]]:
    """A tool loop about the weather."""
    cities = ("Oslo", "Lima", "Pune", "Kyiv", "Cork")
    messages = [system("You know the weather."), user("Which of these cities is warmest?")]
    for turn in range(turns):
        city = cities[turn % len(cities)]
        report = json.dumps({"city": city, "weather": ["rain", "sun"][turn % 2], "n": turn})
        messages += [call(f"call_{turn}", name="weather", city=city, day=turn),
                     result(f"call_{turn}", report + " calm" * 30)]  # fmt: skip
    return [*messages, assistant("It is Lima."), user("And tomorrow?")]


def core() -> dict[str, Any]:
    return {
        "conversation": conversation,
        "conversations": [conversation(20), conversation(45)],
        "messages": conversation(),
    }


def langchain() -> dict[str, Any]:
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.tools import tool

    class Model(FakeListChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

    @tool
    def look(query: str) -> str:
        """Look something up."""
        return query

    return {
        "model": Model(responses=["Lima."]),
        "prompt": ChatPromptTemplate([("placeholder", "{history}"), ("user", "{question}")]),
        "tools": [look],
    }


def llamaindex() -> dict[str, Any]:
    from llama_index.core import SummaryIndex
    from llama_index.core.llms.mock import MockFunctionCallingLLM
    from llama_index.core.schema import TextNode

    return {
        "index": SummaryIndex([TextNode(text="Lima is the warmest.")]),
        "llm": MockFunctionCallingLLM(),
    }
