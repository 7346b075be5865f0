"""Provider, window and counter of an LLM, the curator that fits it, and messages it takes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    CacheControl,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.llms import LLM

from history_curator.config import SharedOptions, check_options
from history_curator.curator import Curator
from history_curator.errors import ConfigurationError
from history_curator.formats import parse_object
from history_curator.integrations import Asked, Window, as_managers, budget_of, rules_for
from history_curator.tokens import find_family
from history_curator.tokens.models import provider_for
from llamaindex_history_curator.messages import ROLES, citable_text, read_calls, write_call

RESULTS = frozenset((MessageRole.TOOL, MessageRole.FUNCTION))
"""Roles that carry no cache point: adapters write it inside the result, where it is refused."""
CURATOR_OPTIONS = (*SharedOptions.__annotations__, "managers", "name")
"""The arguments beside a limit from which a memory, an LLM or an agent makes its curator."""
_BEDROCK_POINT = CachePoint(cache_control=CacheControl(type="default"))
_CACHE_POINTS = ("anthropic", "bedrock")
FIXES = {  # for arguments of LlamaIndex that have no equal
    "max_tokens": "did you mean 'token_limit'?",
    "tokenizer_fn": "pass counter=, the name of an encoding or a model, or a TokenCounter.",
    "summarize_prompt": "pass managers=[SummarizingManager(…)].",
    "memory": "pass it to run(): agent.run(question, memory=memory).",
    "memory_blocks": "put fixed texts into the system message, and pass "
    "managers=[SummarizingManager(…)] or retrieve=True for what left the view.",
}


def budget_for_llm(llm: LLM, *, output: int | None = None, margin: int | None = None) -> int:
    """Return the tokens left for messages and tools: window − output − margin.

    `output` is the LLM's ``num_output`` by default, else at most 4,096, and `margin` 5 % of the
    window. An LLM that does not know its window has LlamaIndex's default, with a warning.
    """
    metadata, name = llm.metadata, llm.class_name()
    limit, default = metadata.context_window, DEFAULT_CONTEXT_WINDOW
    if limit <= 0 or limit == default:
        problem = f"{name} does not know its context window: {default} tokens are assumed. "
        fix = "Fix: set context_window on the LLM, or pass token_limit."
        warnings.warn(problem + fix, UserWarning, stacklevel=2)
        limit = default
    window = Window(name, limit, asked=max(0, metadata.num_output), called="context_window")
    return budget_of(window, output=output, margin=margin).max_tokens


def counter_for_llm(llm: LLM | None) -> str:
    """Return the name of the counter that fits an LLM's model, as far as it is known."""
    model = "" if llm is None else llm.metadata.model_name
    return model if model and find_family(model) else "o200k_base"


def provider_of(llm: LLM | None) -> str:
    """Return the profile for an LLM, told from its class, then from its model's name."""
    if llm is None:
        return "core"
    found = provider_for(llm.class_name())
    return found if found != "core" else provider_for(llm.metadata.model_name)


def tool_schemas(tools: Sequence[Any] | None) -> list[dict[str, Any]] | None:
    """Return tools as the schemas they are sent as."""
    if not tools:
        return None
    return [
        tool if isinstance(tool, dict) else tool.metadata.to_openai_tool(skip_length_check=True)
        for tool in tools
    ]


def make_curator(
    llm: LLM | None = None,
    curator: Curator | None = None,
    token_limit: int | None = None,
    **options: Any,
) -> Curator:
    """Return the curator that was given, or one made of options; the LLM says what they do not."""
    given = {name: value for name, value in options.items() if value not in (None, "auto", (), [])}
    if curator is not None:
        names = [*given, *(() if token_limit is None else ("token_limit",))]
        if names:
            raise ConfigurationError(
                f"a curator is given together with what it is made of: {', '.join(names)}. "
                "Fix: put them into the one, and leave the other out."
            )
        return curator
    check_options({"max_tokens": token_limit}, max_tokens="token_limit")
    if token_limit is None and llm is not None:
        token_limit = budget_for_llm(llm)
    asked = Asked() if llm is None else Asked((llm.metadata.model_name or None,))
    provider = given.pop("provider", provider_of(llm))
    rules = rules_for(provider, asked, given.get("reasoning"))
    managers = as_managers(given.pop("managers", ()))
    counter = given.pop("counter", counter_for_llm(llm))
    return Curator(*managers, max_tokens=token_limit, counter=counter, provider=rules, **given)


def takes_cache_points(llm: LLM) -> bool:
    """Whether the adapter of an LLM knows a `CachePoint`, and its model a cache."""
    kind = llm.class_name().lower()
    if "anthropic" in kind:
        return True
    name = llm.metadata.model_name.lower()
    return "bedrock" in kind and "converse" in kind and ("claude" in name or "nova" in name)


class AdapterWriter:
    """Writes messages in the roles and blocks that an LLM's adapter takes.

    A message that needs nothing is the same object. A memory does not know the LLM.
    """

    def __init__(self, provider: str, llm: LLM | None = None) -> None:
        self._provider, kind = provider, "" if llm is None else llm.class_name().lower()
        self._is_known = llm is not None or provider not in ("core", "portable")
        self._takes_citations = provider == "anthropic" or not self._is_known
        self._takes_points = takes_cache_points(llm) if llm else provider in _CACHE_POINTS
        # As the arguments of a call, and no text.
        self._takes_objects = provider in (*_CACHE_POINTS, "gemini")
        self._sends_calls_twice = "responses" in kind or self._takes_objects
        self._joins = provider_of(llm) == "gemini"

    def __call__(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the messages, one for one."""
        out = list(map(self._write, messages))
        if self._joins:  # neighbours of one role, by writing into the blocks of the first
            out = [message.model_copy(update={"blocks": [*message.blocks]}) for message in out]
        return out

    def _write(self, message: ChatMessage) -> ChatMessage:
        keywords, role = message.additional_kwargs, self._write_role(message)
        found = [self._write_block(block, message) for block in message.blocks]
        blocks = [block for block in found if block is not None]
        in_blocks = any(isinstance(block, ToolCallBlock) for block in blocks)
        if keywords.get("tool_calls") and (self._sends_calls_twice or not in_blocks):
            calls = read_calls(message)
            # Signatures that Gemini's adapter wrote have no other place.
            if not any((call.extra or {})["thought_signature"] for call in calls):
                blocks = [one for one in blocks if not isinstance(one, ToolCallBlock)]
                blocks += [self._write_block(write_call(call), message) for call in calls]
                keywords = {key: one for key, one in keywords.items() if key != "tool_calls"}
        if role is MessageRole.TOOL and keywords.get("call_id"):
            keywords = {"tool_call_id": keywords["call_id"], **keywords}
        update = {"role": role, "blocks": blocks, "additional_kwargs": keywords}
        written = message.model_copy(update=update)
        return message if written == message else written

    def _write_role(self, message: ChatMessage) -> MessageRole:
        if message.role is MessageRole.DEVELOPER and self._provider == "openai":
            return message.role
        role = MessageRole(ROLES[message.role].value)
        is_signed = self._provider == "gemini" and message.additional_kwargs.get(
            "thought_signatures"
        )
        # Its adapter answers as the assistant, and sends signatures of the model alone.
        return MessageRole.MODEL if is_signed and role is MessageRole.ASSISTANT else role

    def _write_block(self, block: Any, message: ChatMessage) -> Any:
        """Return a block as the adapter takes it, None where it takes none."""
        match block:
            case TextBlock(text="") if self._takes_objects and len(message.blocks) > 1:
                return None
            case ToolCallBlock(tool_kwargs=str(text)) if self._takes_objects:
                arguments = parse_object(text or "{}")
                kwargs = {"arguments": text} if arguments is None else arguments
                return block.model_copy(update={"tool_kwargs": kwargs})
            case CachePoint() if self._is_known:
                if not self._takes_points or message.role in RESULTS:
                    return None
                return _BEDROCK_POINT if self._provider == "bedrock" else block
            case CitableBlock() if not self._takes_citations:
                return TextBlock(text=citable_text(block))
            case CitationBlock() if not self._takes_citations:
                return None
        return block
