"""A chat model that needs no network: it knows three services and reads the conversation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool

SERVICES = {
    "Cincinnati": {"owner": "the update team", "needs": "Quay and Telemetry"},
    "Telemetry": {"owner": "the insights team", "needs": "Quay"},
    "Quay": {"owner": "the registry team", "needs": "nothing else"},
}


@tool
def look_up_service(name: str) -> str:
    """Return what is known about a service."""
    return json.dumps({"name": name, **SERVICES.get(name, {}), "log": "line " * 200})


class OfflineChatModel(BaseChatModel):
    """Answers from what was said, so a follow-up works only when the history arrives."""

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[one.name for one in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = self._answer(messages, bool(kwargs.get("tools")))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        message = self._answer(messages, bool(kwargs.get("tools")))
        chunks = [
            {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": n}
            for n, call in enumerate(message.tool_calls)
        ]
        if chunks:
            yield ChatGenerationChunk(
                message=AIMessageChunk("", tool_call_chunks=chunks)  # type: ignore[arg-type]
            )
        for word in re.findall(r"\S+\s*", str(message.content)):
            yield ChatGenerationChunk(message=AIMessageChunk(word))

    def _answer(self, messages: list[BaseMessage], with_tools: bool) -> AIMessage:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            service = _mentioned(str(last.content))  # the view may show a long result in part
            owner = SERVICES[service]["owner"] if service else "nobody I know of"
            return AIMessage(f"{service} is owned by {owner}.")
        question = str(last.content)
        if "list" in question.lower():
            return AIMessage("\n".join(f"{n}. {name}" for n, name in enumerate(SERVICES, 1)))
        service = _mentioned(question) or _referred_to(question, messages[:-1])
        if service is None:
            return AIMessage(f"Which service? I was sent {len(messages)} messages.")
        if with_tools:
            call = {"name": "look_up_service", "args": {"name": service}, "id": f"c{len(messages)}"}
            return AIMessage("", tool_calls=[call])
        known = SERVICES[service]
        if "depend" in question.lower():
            return AIMessage(f"{service} needs {known['needs']}.")
        return AIMessage(f"{service} is owned by {known['owner']} and needs {known['needs']}.")


def _mentioned(text: str) -> str | None:
    return next((name for name in SERVICES if name.lower() in text.lower()), None)


def _referred_to(question: str, earlier: Sequence[BaseMessage]) -> str | None:
    """Return the service that "its" or "the first one" stands for."""
    texts = [str(message.content) for message in reversed(earlier)]
    if "first" in question.lower():
        found = (re.search(r"^1\. (\w+)", text, re.MULTILINE) for text in texts)
        return next((match[1] for match in found if match), None)
    if re.search(r"\b(its|it|that)\b", question.lower()):
        return next((name for text in texts if (name := _mentioned(text))), None)
    return None
