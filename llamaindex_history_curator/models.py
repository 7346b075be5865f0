"""Provider, window and counter of an LLM, the curator that fits it, and messages it takes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count as numbers
from operator import is_
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
from llama_index.core.tools import BaseTool
from pydantic import BaseModel, Field

from history_curator.config import CuratorConfig, check_names, check_options
from history_curator.curator import Curator
from history_curator.errors import ConfigurationError
from history_curator.formats import parse_object
from history_curator.integrations import (
    Asked,
    ConfigSource,
    Window,
    as_managers,
    budget_of,
    load_settings,
    rules_for,
)
from history_curator.managers import HistoryManager
from history_curator.tokens import MessageCounter, TokenCounter, find_family, get_counter
from history_curator.tokens.models import provider_for
from llamaindex_history_curator.messages import (
    CALL_KEYS,
    RESULT_ID_KEYS,
    citable_text,
    read_calls,
    write_block,
)

RESULTS = frozenset((MessageRole.TOOL, MessageRole.FUNCTION))
"""Roles that carry no cache point: adapters write it inside the result, where it is refused."""
_PLAIN_ROLES = frozenset(
    (MessageRole.SYSTEM, MessageRole.USER, MessageRole.ASSISTANT, MessageRole.TOOL)
)
_TAKE_OBJECTS = frozenset(("anthropic", "bedrock", "gemini"))
"""Providers that want the arguments of a call as an object, not as text."""
_FIXES = {
    "max_tokens": "did you mean 'token_limit'?",
    "image_token_size_estimate": "leave it out; images are counted by their size.",
    "audio_token_size_estimate": "pass counter=TiktokenCounter(media={'audio': …}).",
    "summarize_prompt": "pass managers=[SummarizingManager(…)].",
    "count_initial_tokens": "leave it out; they always count.",
    "memory_blocks": "put fixed texts into the system message, and pass "
    "managers=[SummarizingManager(…)] or retrieve=True for what left the view.",
}
"""Fixes for arguments of LlamaIndex's memories that have no equal."""
_serial = numbers(1)


def budget_for_llm(
    llm: LLM,
    tools: Sequence[BaseTool] | None = None,
    *,
    output: int | None = None,
    margin: int | None = None,
    counter: str | TokenCounter | None = None,
) -> int:
    """Return the tokens left for messages: window − output − tools − margin.

    Warns when the adapter does not know its window and reports LlamaIndex's default.

    Args:
        llm: its ``metadata`` says how large the window is, input and output together.
        tools: tools sent along. Leave out where the curator is given them anyway.
        output: tokens of the answer; the LLM's ``num_output`` by default, else at most 4,096.
        margin: tokens for what no counter sees; 5 % of the window by default.
        counter: counts the tools; fitting the model by default.

    Examples:
        >>> from llama_index.core.llms import MockLLM
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     budget_for_llm(MockLLM(max_tokens=900), margin=0)
        3000
    """
    metadata, name = llm.metadata, llm.class_name()
    limit = metadata.context_window
    if limit <= 0 or limit == DEFAULT_CONTEXT_WINDOW:
        warnings.warn(
            f"{name} does not know its context window and reports LlamaIndex's default of "
            f"{DEFAULT_CONTEXT_WINDOW} tokens. "
            "Fix: set context_window on the LLM, or pass token_limit.",
            UserWarning,
            stacklevel=2,
        )
        limit = DEFAULT_CONTEXT_WINDOW
    schemas = 0
    if tools:
        schemas = get_counter(counter or counter_for_llm(llm)).count_tools(tool_schemas(tools))
    window = Window(name, limit, asked=max(0, metadata.num_output), called="context_window")
    return budget_of(window, output=output, margin=margin, taken=schemas).max_tokens


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


class TokenizerCounter(MessageCounter):
    """Counts with a tokenizer of LlamaIndex: a function from a text to its tokens.

    Examples:
        >>> TokenizerCounter(str.split).count("four words of text")
        4
    """

    def __init__(self, tokenize: Callable[[str], Sequence[Any]]) -> None:
        # Counts are cached under the name: two functions of one name must not be mixed up.
        name = getattr(tokenize, "__qualname__", type(tokenize).__name__)
        super().__init__(f"{name}#{next(_serial)}")
        self._tokenize = tokenize

    def _count_text(self, text: str) -> int:
        return len(self._tokenize(text))


# Curators.


def make_curator(managers: Any = (), *, llm: LLM | None = None, **given: Any) -> Curator:
    """Return a curator; the arguments are those of `load_curator_settings`."""
    return curator_from(load_curator_settings(managers, llm=llm, **given), llm)


def curator_from(settings: Mapping[str, Any], llm: LLM | None) -> Curator:
    """Return the curator of loaded settings, with the rules for the LLM's model."""
    options = {name: value for name, value in settings.items() if name != "managers"}
    asked = Asked() if llm is None else Asked((llm.metadata.model_name or None,))
    options["provider"] = rules_for(options["provider"], asked, options.get("reasoning"))
    return Curator(*settings["managers"], **options)


def load_curator_settings(
    managers: Sequence[HistoryManager] | HistoryManager | None = (),
    *,
    llm: LLM | None = None,
    token_limit: int | None = None,
    provider: Any = "auto",
    counter: Any = None,
    config: ConfigSource | None = None,
    objects: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return the arguments of a curator: as given, else from the config, else from the LLM."""
    if config is not None:
        check_alone("a config", managers=managers)
    check_options({"max_tokens": token_limit}, max_tokens="token_limit")
    provider = None if provider == "auto" else provider
    named = {"max_tokens": token_limit, "counter": counter, "provider": provider}
    given = {**options, **{name: value for name, value in named.items() if value is not None}}
    settings = {"managers": as_managers(managers), **load_settings(config, objects, given)}
    if settings.get("max_tokens") is None and llm is not None:
        settings["max_tokens"] = budget_for_llm(llm)
    settings.setdefault("counter", counter_for_llm(llm))
    settings.setdefault("provider", provider_of(llm))
    return settings


def settings_to_save(loaded: Mapping[str, Any], config: ConfigSource | None) -> dict[str, Any]:
    """Return the settings of a curator that JSON can hold, as a configuration."""
    plain = {
        name: value
        for name, value in loaded.items()
        if name in CuratorConfig.model_fields and isinstance(value, (str, int, float, type(None)))
    }
    base = CuratorConfig() if config is None else CuratorConfig.load(config)
    return base.model_copy(update=plain).to_dict()


def restore_curator(
    data: Mapping[str, Any], managers: Any = None, counter: Any = None, objects: Any = None
) -> Curator:
    """Return the curator of a saved memory, and warn of what JSON could not hold."""
    config = CuratorConfig.load(data["settings"])
    lost = [] if managers is not None or config.managers else list(data["managers"])
    if managers is not None:
        config = config.model_copy(update={"managers": ()})
    settings = load_curator_settings(
        config=config,
        objects=objects,
        token_limit=data["token_limit"],
        provider=data["provider"],
        counter=counter,
    )
    if managers is not None:
        settings["managers"] = as_managers(managers)
    curator = curator_from(settings, None)
    if counter is None and curator.counter.name != data["counter"]:
        lost.append(f"counter {data['counter']}")
    if lost:
        warnings.warn(
            f"cannot be restored from JSON: {', '.join(lost)}. Fix: call from_dict with managers=, "
            "counter= or curator=, or make the memory with config=.",
            UserWarning,
            stacklevel=4,
        )
    return curator


def check_alone(owner: str, **given: Any) -> None:
    """Refuse a curator or a config together with what it is made of."""
    names = [name for name, one in given.items() if one is not None and one not in ("auto", (), [])]
    if names:
        raise ConfigurationError(
            f"{owner} is given together with what it is made of: {', '.join(names)}. "
            "Fix: put them into the one, and leave the other out."
        )


def check_keywords(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse unknown keyword arguments, naming the closest one or the replacement."""
    check_names(owner, given, set(known), _FIXES)


class CurationSettings(BaseModel):
    """The settings that a curated LLM and a curated agent share."""

    token_limit: int | None = Field(default=None, gt=0)
    managers: Any = Field(default=(), exclude=True)
    provider: str = "auto"
    counter: Any = Field(default=None, exclude=True)
    mark_cache: bool = False
    retrieve: bool | None = None
    curator: Any = Field(default=None, exclude=True)
    config: Any = Field(default=None, exclude=True)
    objects: Any = Field(default=None, exclude=True)

    def _current_settings(self) -> tuple[Any, ...]:
        if self.config is not None and not isinstance(self.config, CuratorConfig):
            self.__dict__["config"] = CuratorConfig.load(self.config)
        return tuple(getattr(self, name) for name in CurationSettings.model_fields)

    def _curator_options(self) -> dict[str, Any]:
        """Return further options of the curator."""
        return {} if self.retrieve is None else {"retrieve": self.retrieve}

    def _make_curator(self, llm: LLM | None) -> Curator:
        names = ("token_limit", "managers", "provider", "counter", "config", "objects")
        settings = {name: getattr(self, name) for name in names}
        if self.curator is not None:
            check_alone("a curator", **settings, retrieve=self.retrieve)
            return self.curator  # type: ignore[no-any-return]
        return make_curator(llm=llm, **settings, **self._curator_options())


# Messages as the adapter of an LLM takes them.


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
        self._provider = provider
        self._is_known = llm is not None or provider not in ("core", "portable")
        self._takes_points = (
            provider in ("anthropic", "bedrock") if llm is None else takes_cache_points(llm)
        )
        self._is_responses = llm is not None and "responses" in llm.class_name().lower()
        self._joins = provider_of(llm) == "gemini"

    def __call__(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the messages, one for one."""
        out = [self._write(message) for message in messages]
        if self._joins:
            # Gemini's adapter joins neighbours of one role by writing into the blocks of the first.
            answers = [one.role in (MessageRole.ASSISTANT, MessageRole.MODEL) for one in out]
            for index, message in enumerate(out[:-1]):
                is_lead = index == 0 and message.role is MessageRole.SYSTEM
                is_joined = answers[index] == answers[index + 1] and not is_lead
                if is_joined and message.role is not MessageRole.TOOL:
                    out[index] = _copy_message(message, blocks=[*message.blocks])
        return out

    def _write(self, message: ChatMessage) -> ChatMessage:
        blocks, keywords = message.blocks, message.additional_kwargs
        is_text = len(blocks) == 1 and type(blocks[0]) is TextBlock
        if is_text and message.role in _PLAIN_ROLES and not keywords:
            return message
        found = [self._write_block(block, message, index) for index, block in enumerate(blocks)]
        written = [block for block in found if block is not None]
        wires = any(keywords.get(key) for key in CALL_KEYS)
        if wires and not any(isinstance(block, ToolCallBlock) for block in blocks):
            calls = read_calls(message)
            # Signatures that Gemini's adapter wrote have no other place.
            if self._provider != "gemini" or not any(_signature_of(call) for call in calls):
                written += [self._write_call(write_block(call)) for call in calls]
        is_same = len(written) == len(blocks) and all(map(is_, written, blocks))
        role, changed = self._write_role(message), keywords
        if role is MessageRole.TOOL and not keywords.get("tool_call_id"):
            ids = [keywords[key] for key in (*RESULT_ID_KEYS, "name") if keywords.get(key)]
            changed = {**keywords, "tool_call_id": ids[0]} if ids else keywords
        has_calls = any(isinstance(block, ToolCallBlock) for block in written)
        if wires and has_calls and (not is_same or self._is_responses):
            # Responses would send those of the keywords as they are, in any shape.
            changed = {key: one for key, one in changed.items() if key not in CALL_KEYS}
        if is_same and role is message.role and changed is keywords:
            return message
        return _copy_message(message, role=role, blocks=written, additional_kwargs=changed)

    def _write_role(self, message: ChatMessage) -> MessageRole:
        role = message.role
        if self._provider == "gemini" and message.additional_kwargs.get("thought_signatures"):
            # Its adapter answers as the assistant, and sends signatures of the model alone.
            return MessageRole.MODEL if role is MessageRole.ASSISTANT else role
        if role is MessageRole.DEVELOPER:
            return role if self._provider == "openai" else MessageRole.SYSTEM
        return _PLAIN_OF.get(role, role)

    def _write_block(self, block: Any, message: ChatMessage, index: int) -> Any:
        if isinstance(block, TextBlock):
            is_spare = not block.text and len(message.blocks) > 1
            return None if is_spare and self._provider in _TAKE_OBJECTS else block
        if isinstance(block, ToolCallBlock):
            return self._write_call(block)
        if isinstance(block, CachePoint) and self._is_known:
            if not self._takes_points or index == 0 or message.role in RESULTS:
                return None
            if self._provider == "bedrock" and block.cache_control.type != "default":
                return CachePoint(cache_control=CacheControl(type="default"))
        is_anthropic = self._provider == "anthropic" or not self._is_known
        if isinstance(block, CitableBlock):
            is_plain = all(isinstance(one, TextBlock) and one.text for one in block.content)
            return block if is_anthropic and is_plain else TextBlock(text=citable_text(block))
        return None if isinstance(block, CitationBlock) and not is_anthropic else block

    def _write_call(self, block: ToolCallBlock) -> ToolCallBlock:
        text = block.tool_kwargs
        if self._provider not in _TAKE_OBJECTS or not isinstance(text, str):
            return block
        arguments = parse_object(text or "{}")
        if arguments is None:
            arguments = {"arguments": text}
        return block.model_copy(update={"tool_kwargs": arguments})


_PLAIN_OF = {
    MessageRole.FUNCTION: MessageRole.TOOL,
    MessageRole.CHATBOT: MessageRole.ASSISTANT,
    MessageRole.MODEL: MessageRole.ASSISTANT,
}


def _copy_message(message: ChatMessage, **fields: Any) -> ChatMessage:
    return message.model_copy(update=fields)


def _signature_of(call: Any) -> Any:
    return (call.extra or {}).get("thought_signature")
