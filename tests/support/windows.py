"""Conversations with a provider that counts otherwise than we do: which requests it finds too long.

Everything is drawn from a seed: what is said, who counts and how, and what of its counts reaches
us. A request over the limit is told apart by whether anybody could have known.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from history_curator import BudgetUnsatisfiableError, Curator
from history_curator.curator import Curation
from tests.support.providers import KINDS, tokenizer

Message = dict[str, Any]

FITS = "fits"
KNOWN = "known"
"""Over the limit, and by what was foretold it may have been: something smaller should have gone."""
BEYOND = "beyond"
"""Over the limit, because more was counted than foretold with its error: 1 call in 100 may."""
LEAST = "least"
"""Over the limit, and so is the smallest view there is."""
UNHEARD = "unheard"
"""Over the limit, and nothing was reported since the provider began to count so."""
DOUBTED = "doubted"
"""Over the limit, and one message reported on it since then, which may be another agent's."""
REFUSED = "refused"
"""Refused by us, and rightly."""
NEEDLESS = "needless"
"""Refused by us, though the provider would have taken the smallest view there is."""
KINDS_OF_OUTCOME = (FITS, KNOWN, BEYOND, LEAST, UNHEARD, DOUBTED, REFUSED, NEEDLESS)

_FRAME, _CALL = 4, 12
"""What a chat template writes around a message, and around a call in it."""


@dataclass(frozen=True)
class Setting:
    """How one conversation goes.

    Attributes:
        seed: of everything that is said.
        limit: tokens the provider takes.
        encoding, factor, hidden: how it counts.
        changed: the request from which on it multiplies with something else unsaid, and what.
        compact_to, rules: of the curator.
        tell: how its counts reach us: ``carried`` by messages, ``observed``, or ``both``.
        lost: share of the reports that do not.
        late: share of the turns with a system message.
        lowered: share of the requests with a smaller budget.
        calls: requests.
    """

    seed: int
    limit: int
    encoding: str
    factor: float
    hidden: int
    changed: tuple[int, float] | None
    compact_to: float | None
    rules: str
    tell: str
    lost: float
    late: float
    lowered: float
    calls: int = 48

    @classmethod
    def drawn(cls, seed: int) -> Setting:
        """Return the setting of a seed."""
        choose = random.Random(seed)
        limit = choose.choice([1_000, 2_000, 4_000, 8_000, 16_000, 32_000])
        changed = (choose.randrange(8, 40), choose.uniform(0.8, 1.7))
        return cls(
            seed,
            limit,
            choose.choice(["mistral", "llama3", "qwen2"]),
            choose.uniform(0.85, 1.6),
            choose.choice([0, 0, limit // 20, limit // 6]),
            changed if choose.random() < 0.25 else None,
            choose.choice([None, None, 0.5, 0.85, 1.0]),
            choose.choice(["core", "openai"]),
            choose.choice(["carried", "carried", "observed", "both"]),
            choose.choice([0.0, 0.0, 0.2, 0.5]),
            choose.choice([0.0, 0.0, 0.06]),
            choose.choice([0.0, 0.0, 0.1]),
        )


class Talk:
    """What is said: questions, answers, calls of tools and their results, late system messages."""

    def __init__(self, setting: Setting) -> None:
        self._choose = random.Random(setting.seed + 1)
        self._setting = setting
        self._kinds = self._choose.sample(KINDS, self._choose.randint(1, len(KINDS)))
        self._number = 0
        self.record: list[Message] = [
            {"role": "system", "content": "You look things up."},
            {"role": "user", "content": self._text(0.03)},
        ]

    def _text(self, share: float) -> str:
        """Some text, most often of about that share of the limit; some texts are much longer."""
        self._number += 1
        tokens = self._setting.limit * share * self._choose.lognormvariate(0, 0.7)
        kind = self._choose.choice(self._kinds)
        times = int(min(tokens, self._setting.limit * 0.3) // 20)
        return f"{self._number} " + kind * max(1, times)

    def answer(self) -> Message:
        """What the model says next; it is not in the record yet."""
        choose = self._choose
        if choose.random() < 0.35:
            return {"role": "assistant", "content": self._text(0.03)}
        self._number += 1
        calls = [
            {
                "id": f"c{self._number}-{at}",
                "type": "function",
                "function": {"name": "look", "arguments": json.dumps({"at": self._number})},
            }
            for at in range(choose.choice([1, 1, 1, 2, 3]))
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    def go_on(self, answer: Message) -> None:
        """Add the answer, and what is said to it."""
        self.record.append(answer)
        for call in answer.get("tool_calls", ()):
            text = self._text(0.04)
            self.record.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        if self._choose.random() < self._setting.late:
            self.record.append({"role": "system", "content": self._text(0.01)})
        if "tool_calls" not in answer:
            self.record.append({"role": "user", "content": self._text(0.03)})


class Socket(Protocol):
    """A way from a conversation to its view."""

    def message(self, plain: Message) -> Any:
        """Return a message as this socket takes it, with the usage that it carries."""

    def curate(self, said: list[Any], limit: int) -> tuple[Curation, list[Message]]:
        """Return the view of a conversation, and as plain messages."""


class Core:
    """The curator itself."""

    def __init__(self, setting: Setting) -> None:
        self._curator = Curator(
            max_tokens=setting.limit, compact_to=setting.compact_to, provider=setting.rules
        )

    def message(self, plain: Message) -> Message:
        """The message."""
        return plain

    def curate(self, said: list[Any], limit: int) -> tuple[Curation, list[Message]]:
        """The view."""
        curation = self._curator.curate(said, max_tokens=limit)
        return curation, curation.messages


class LangChain:
    """A runnable in front of a model; only messages say what was reported."""

    def __init__(self, setting: Setting) -> None:
        from langchain_core.messages import convert_to_messages, convert_to_openai_messages

        from langchain_history_curator import HistoryCurator

        self._read: Callable[..., Any] = convert_to_messages
        self._written: Callable[..., Any] = convert_to_openai_messages
        self._curator = HistoryCurator(
            max_tokens=setting.limit, compact_to=setting.compact_to, provider=setting.rules
        )

    def message(self, plain: Message) -> Any:
        """The message of LangChain."""
        usage = plain.get("usage")
        (made,) = self._read([{key: plain[key] for key in plain if key != "usage"}])
        if usage:
            counts = {"input_tokens": usage["prompt_tokens"], "output_tokens": 9}
            made.usage_metadata = {**counts, "total_tokens": counts["input_tokens"] + 9}
        return made

    def curate(self, said: list[Any], limit: int) -> tuple[Curation, list[Message]]:
        """The view."""
        curation = self._curator.curate(said)
        return curation, self._written(curation.messages)


class LlamaIndex:
    """An LLM that is wrapped."""

    def __init__(self, setting: Setting) -> None:
        from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
        from llama_index.core.llms import MockLLM

        from llamaindex_history_curator import CuratedLLM

        self._chat: Any = ChatMessage
        self._call: Any = ToolCallBlock
        curator = Curator(
            max_tokens=setting.limit, compact_to=setting.compact_to, provider=setting.rules
        )
        self._llm = CuratedLLM(MockLLM(), curator=curator)

    def message(self, plain: Message) -> Any:
        """The message of LlamaIndex."""
        kwargs = dict(plain.get("usage", ()))
        if plain["role"] == "tool":
            kwargs["tool_call_id"] = plain["tool_call_id"]
        made = self._chat(plain["content"], role=plain["role"], additional_kwargs=kwargs)
        for call in plain.get("tool_calls", ()):
            function = call["function"]
            made.blocks.append(
                self._call(
                    tool_call_id=call["id"],
                    tool_name=function["name"],
                    tool_kwargs=json.loads(function["arguments"]),
                )
            )
        return made

    def curate(self, said: list[Any], limit: int) -> tuple[Curation, list[Message]]:
        """The view."""
        curation = self._llm.curate_call(said)
        return curation, [self._plain(each) for each in curation.messages]

    def _plain(self, message: Any) -> Message:
        calls = [
            {"function": {"name": each.tool_name, "arguments": json.dumps(each.tool_kwargs)}}
            for each in message.blocks
            if isinstance(each, self._call)
        ]
        return {"role": str(message.role), "content": message.content, "tool_calls": calls}


def converse(setting: Setting, socket: Socket) -> list[str]:
    """Have a conversation; return what became of each request."""
    talk, choose, kinds = Talk(setting), random.Random(setting.seed + 2), list[str]()
    said: list[Any] = []
    factor, heard = setting.factor, 0
    for number in range(setting.calls):
        if setting.changed is not None and setting.changed[0] == number:
            factor, heard = setting.changed[1], 0
        said += map(socket.message, talk.record[len(said) :])
        limit, answer = setting.limit, talk.answer()
        if choose.random() < setting.lowered:
            limit = int(limit * choose.uniform(0.4, 0.95))
        try:
            curation, view = socket.curate(list(said), limit)
        except BudgetUnsatisfiableError:
            smallest = _count(setting, factor, _least(setting, talk.record))
            kinds.append(REFUSED if smallest > limit or not heard else NEEDLESS)
            talk.go_on(answer)
            continue
        counted = _count(setting, factor, view)
        kinds.append(FITS)
        if counted > limit:
            smallest = _count(setting, factor, _least(setting, talk.record))
            doubted = heard == 1 and setting.tell == "carried" and setting.changed is not None
            kinds[-1] = _why(curation, counted, smallest > limit, heard, doubted=doubted)
        usage = {"prompt_tokens": counted, "completion_tokens": 9}
        if choose.random() >= setting.lost:
            heard += 1
            if setting.tell != "carried":
                curation.observe(usage)
            if setting.tell != "observed":
                answer["usage"] = usage
        talk.go_on(answer)
    return kinds


def _why(curation: Curation, counted: int, least: bool, heard: int, *, doubted: bool) -> str:
    """Why a request is over the limit."""
    if least:
        return LEAST
    if not heard:
        return UNHEARD
    if doubted:
        return DOUBTED
    known = curation.error is None or counted <= curation.tokens + curation.error
    return KNOWN if known else BEYOND


def _count(setting: Setting, factor: float, messages: Sequence[Message]) -> int:
    """What the provider counts for messages."""
    encode, total = tokenizer(setting.encoding), 0
    for message in messages:
        total += _FRAME + encode(message["content"] or "")
        for call in message.get("tool_calls", ()):
            total += _CALL + encode(call["function"]["name"] + call["function"]["arguments"])
    return setting.hidden + round(total * factor)


def _least(setting: Setting, record: Sequence[Message]) -> list[Message]:
    """The smallest view there is of a record."""
    curator = Curator(calibration=False, provider=setting.rules)
    try:
        return list(curator.curate(record, max_tokens=1).messages)
    except BudgetUnsatisfiableError as error:
        return list(curator.curate(record, max_tokens=error.needed).messages)


def outcomes(
    seeds: Sequence[int], socket: Callable[[Setting], Socket], **changes: Any
) -> Counter[str]:
    """Have the conversations of some seeds; return how many requests became what."""
    found: Counter[str] = Counter()
    for seed in seeds:
        setting = replace(Setting.drawn(seed), **changes)
        found.update(converse(setting, socket(setting)))
    return found
