"""The recall tool, the instrumentation event, cache marks, and calls that are written as text."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from llama_index.core.agent.react.types import ActionReasoningStep, ObservationReasoningStep
from llama_index.core.base.llms.types import (
    CacheControl,
    CachePoint,
    ChatMessage,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base.event import BaseEvent

from history_curator.caching import Breakpoint, Mark, find_cache_rules, place_marks, ttl_of
from history_curator.curator import Curation
from history_curator.entries import RECALL_TOOL_NAME
from history_curator.events import action_totals
from history_curator.formats import read_entries
from history_curator.record.recall import RECALL_DESCRIPTION, Recall, RecallRequest
from history_curator.tokens import TokenCounter, shorten_tokens
from llamaindex_history_curator.messages import FORMAT
from llamaindex_history_curator.models import RESULTS

logger = logging.getLogger("llamaindex_history_curator")
dispatcher = get_dispatcher("llamaindex_history_curator")
span = dispatcher.span
"""Decorates the method in which an event happens: an exporter drops an event outside of a span."""
_REPORTED = ("original_count", "curated_count", "tokens", "prefix_tokens", "provider")


class HistoryCuratedEvent(BaseEvent):
    """One curation of a ``memory``, an ``agent`` or an ``llm``, in flat numbers and words.

    The next call repeats `prefix_tokens` unless the view is compacted. A `degraded` view is the
    latest turn alone, because the budget could not be met.

    Examples:
        >>> HistoryCuratedEvent(integration="memory", original_count=9, curated_count=4).degraded
        False
    """

    integration: str
    original_count: int
    curated_count: int
    dropped_count: int = 0
    truncated_count: int = 0
    cleared_count: int = 0
    summarised_count: int = 0
    inserted_count: int = 0
    repaired_count: int = 0
    tokens: int = 0
    max_tokens: int = 0
    prefix_tokens: int = 0
    degraded: bool = False
    provider: str = ""

    @classmethod
    def class_name(cls) -> str:
        """Return the name exporters show."""
        return "HistoryCuratedEvent"


def publish(curation: Curation, place: str, *, is_degraded: bool = False) -> None:
    """Dispatch the event of one curation to LlamaIndex's handlers."""
    report = curation.report
    actions = action_totals(report.record, report.view)
    fields = {name: getattr(report, name) for name in _REPORTED}
    fields |= {f"{action}_count": number for action, number in actions.items()}
    fields |= {"max_tokens": report.max_tokens or 0, "degraded": is_degraded}
    dispatcher.event(HistoryCuratedEvent(integration=place, **fields))


def mark_cache(
    messages: Sequence[ChatMessage], curation: Curation, model: str | None
) -> list[ChatMessage]:
    """Return the messages of a view with a `CachePoint` where the cache plan says that it pays."""
    own = [
        Mark(position, ttl_of({"ttl": getattr(block.cache_control, "ttl", None)}))
        for position, message in enumerate(messages, 1)
        for block in message.blocks
        if isinstance(block, CachePoint)
    ]
    rules = find_cache_rules(model)
    pricing = model if rules is not None and rules.breakpoints else "anthropic"
    return place_marks(messages, curation.report.plan_cache(pricing), own, _mark)


def _mark(message: ChatMessage, point: Breakpoint) -> ChatMessage | None:
    blocks = message.blocks
    if message.role in RESULTS or not blocks:
        return None
    # A point marks the block before it, and thinking or an empty text cannot be marked.
    last: Any = blocks[-1]
    if isinstance(last, (CachePoint, ThinkingBlock)) or getattr(last, "text", "x") == "":
        return None
    control = CacheControl(type="ephemeral", ttl="1h" if point.ttl >= 3600 else "5m")
    return message.model_copy(update={"blocks": [*blocks, CachePoint(cache_control=control)]})


# A ReAct agent writes its calls as text and gets its results as user messages. They are curated as
# calls and results, or a result of 20,000 tokens would be a question that must not be shortened.

_REACT_ID = "react-"
_OBSERVATION = "Observation:"


def read_react_steps(messages: Sequence[ChatMessage], steps: Sequence[Any]) -> list[ChatMessage]:
    """Return formatted messages with their last ``len(steps)`` as calls and results."""
    out = list(messages)
    for number, (action, answer) in enumerate(pairwise(steps)):
        is_call = isinstance(action, ActionReasoningStep)
        if not is_call or not isinstance(answer, ObservationReasoningStep):
            continue
        call_id, place = f"{_REACT_ID}{number}", len(out) - len(steps) + number
        # A name that every provider's rules let through: no repair would reach the text.
        name = re.sub(r"^(?![A-Za-z])", "t", re.sub(r"[^A-Za-z0-9]", "_", action.action))[:64]
        call = ToolCallBlock(tool_call_id=call_id, tool_name=name)
        result = {"role": MessageRole.TOOL, "additional_kwargs": {"tool_call_id": call_id}}
        out[place] = out[place].model_copy(update={"blocks": [*out[place].blocks, call]})
        out[place + 1] = out[place + 1].model_copy(update=result)
    return out


def write_react_steps(messages: Sequence[ChatMessage], role: MessageRole) -> list[ChatMessage]:
    """Return curated messages with these calls and results as text again."""
    out = []
    for message in messages:
        blocks = [one for one in message.blocks if not _is_react(getattr(one, "tool_call_id", ""))]
        if _is_react(message.additional_kwargs.get("tool_call_id")):
            text = (message.content or "").removeprefix(_OBSERVATION).lstrip()
            message = ChatMessage(role=role, content=f"{_OBSERVATION} {text}")  # noqa: PLW2901
        elif len(blocks) < len(message.blocks):
            message = message.model_copy(update={"blocks": blocks})  # noqa: PLW2901
        out.append(message)
    return out


def _is_react(call_id: Any) -> bool:
    return str(call_id).startswith(_REACT_ID)


# An agent with an `output_cls` asks for it with the whole conversation written as text, in one user
# message. It is curated as the messages it was made of.

FRAME_TOKENS = 60
"""Tokens set aside for the words around such a text, or around a prompt."""
LEFT_OUT = "\n[Shortened to fit.]\n"
_OPENS = "<current_conversation>\n"
_CLOSES_ONE = re.compile(r"\t</(\w+)>\n")


class Transcript(NamedTuple):
    """The messages that such a text was made of, each with its frame, and the text behind them."""

    messages: list[ChatMessage]
    ending: list[str]

    @classmethod
    def read(cls, messages: Sequence[ChatMessage]) -> Transcript | None:
        """Return the transcript that a request consists of; None for another request."""
        blocks = messages[-1].blocks if messages else []
        texts = [block.text for block in blocks if isinstance(block, TextBlock)]
        if texts[:1] != [_OPENS]:
            return None
        out, start = list(messages[:-1]), 1
        for end, text in enumerate(texts, 1):
            closes = _CLOSES_ONE.fullmatch(text)
            if closes and closes[1] != "system":  # which stands in front already
                message = ChatMessage(role=closes[1], content="".join(texts[start:end]))
                _pair_result(message, out)
                out.append(message)
            start = end if closes else start
        return cls(out, texts[start:])

    def write(self, view: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return curated messages as one text again, behind the system messages."""
        system = [message for message in view if message.role is MessageRole.SYSTEM]
        rest = [one.content or "" for one in view if one.role is not MessageRole.SYSTEM]
        blocks = [TextBlock(text=text) for text in (_OPENS, *rest, *self.ending)]
        return [*system, ChatMessage(role=MessageRole.USER, blocks=blocks)]


def _pair_result(message: ChatMessage, before: Sequence[ChatMessage]) -> None:
    """Give a result in a transcript a call in the answer before it: the text names neither."""
    answers = [one for one in before if one.role is MessageRole.ASSISTANT]
    if message.role in RESULTS and answers:
        call = ToolCallBlock(tool_call_id=f"text-{len(before)}", tool_name="tool")
        answers[-1].blocks.append(call)
        message.additional_kwargs["tool_call_id"] = call.tool_call_id


def shorten_context(
    messages: Sequence[ChatMessage], excess: int, counter: TokenCounter
) -> list[ChatMessage]:
    """Return messages with retrieved text shortened: in a system message, or in the only other one.

    An engine writes it into the system message, or into a prompt that has no history.
    """
    out = list(messages)
    is_alone = sum(one.role is not MessageRole.SYSTEM for one in out) == 1
    found = [n for n, one in enumerate(out) if is_alone or one.role is MessageRole.SYSTEM]
    sizes = {place: counter.count(out[place].content or "") for place in found}
    if found:
        longest = max(found, key=sizes.__getitem__)
        limit = max(1, sizes[longest] - excess - counter.count(LEFT_OUT))
        logger.warning("retrieved text does not fit: %d tokens of it are left out", excess)
        text = shorten_tokens(out[longest].content or "", limit, counter, marker=LEFT_OUT)
        out[longest] = ChatMessage(role=out[longest].role, content=text)
    return out


def recall_tool(
    record: BaseMemory | Sequence[ChatMessage] | None = None,
    *,
    counter: Any = "o200k_base",
    max_tokens: int = 2_000,
    name: str = RECALL_TOOL_NAME,
) -> FunctionTool:
    """Return a tool that answers from one conversation's record, and from nothing else.

    `record` is a memory or messages. Without one the tool reads the run it is called in: its memory
    and the steps not yet in memory. An answer costs at most `max_tokens`. Tell the curator of
    another `name`: ``recall_tool=name``.

    Examples:
        >>> tool = recall_tool([ChatMessage("the code is 4711"), ChatMessage("and now?")])
        >>> "4711" in tool(query="code").content
        True
    """
    options = {"counter": counter, "max_tokens": max_tokens, "name": name}
    Recall((), **options)  # refuses options that cannot work
    words: dict[str, Any] = {"name": name, "description": RECALL_DESCRIPTION}

    async def answer(messages: Sequence[ChatMessage], request: dict[str, Any]) -> str:
        return await Recall(read_entries(messages, FORMAT), **options).acall(**request)

    async def recall_record(**request: Any) -> str:
        messages = await record.aget_all() if isinstance(record, BaseMemory) else record
        return await answer(messages or (), request)

    async def recall_run(ctx: Context, **request: Any) -> str:
        memory: BaseMemory = await ctx.store.get("memory")
        messages = await memory.aget_all()
        known = {(message.role, message.content) for message in messages}
        # A handle may name a shortened form, which names the handle of the original in turn.
        messages += [one for one in await memory.aget() if (one.role, one.content) not in known]
        messages += await ctx.store.get("scratchpad", default=[])
        steps = await ctx.store.get("current_reasoning", default=[])
        texts = [ChatMessage(role="assistant", content=step.get_content()) for step in steps]
        return await answer([*messages, *read_react_steps(texts, steps)], request)

    # LlamaIndex finds the parameter that wants the context by its type, not by the type's name.
    recall_run.__annotations__["ctx"] = Context
    function = recall_run if record is None else recall_record
    return FunctionTool.from_defaults(async_fn=function, fn_schema=RecallRequest, **words)
