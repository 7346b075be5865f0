"""What finding costs: time, memory, a million tokens, and how the indexes of others compare."""

from __future__ import annotations

import gc
import re
import sqlite3
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time
from typing import NamedTuple, TypeVar

from benchmarks._data import load
from benchmarks._evidence_finders import packaged_embeddings
from history_curator import RelevanceManager
from history_curator.managers import CurationContext
from history_curator.managers.relevance import Finder, resolve_scorer
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.tokens import get_counter

ROLES = (MessageRole.USER, MessageRole.ASSISTANT)
MILLION_TOKENS = 4_300_000
"""Characters of chat that are about a million tokens."""

T = TypeVar("T")


class Row(NamedTuple):
    """An index over a million tokens; None where it cannot be told."""

    name: str
    made: float
    asked: float
    held: int | None
    peak: int | None
    stored: int


def traced(make: Callable[[], T]) -> tuple[T, int, int]:
    """Return what is made, the bytes it holds, and the most that was held meanwhile."""
    gc.collect()
    tracemalloc.start()
    made = make()
    gc.collect()
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return made, held, peak


def _texts() -> tuple[list[str], list[str]]:
    """Everything said in LoCoMo, and what is asked about it."""
    chats = load("locomo")
    said = [message["content"] for chat in chats for message in chat["messages"]]
    return said, [question["question"] for chat in chats for question in chat["questions"]]


def _said(size: int) -> list[str]:
    """As many messages, no two alike, with the vocabulary growing as it does in chats."""
    said, _ = _texts()
    return [f"{said[n % len(said)]} {n // len(said) or ''} name{n}" for n in range(size)]


def warm(size: int, scorer: str, budget: int = 8_000, rounds: int = 40) -> tuple[float, float]:
    """Return CPU milliseconds to add a message and ask, the fastest tenth and the median."""
    counter, random = get_counter("o200k_base"), Random(7)
    record = [ConversationEntry(ROLES[n % 2], text) for n, text in enumerate(_said(size))]
    _, questions = _texts()
    for entry in record:
        counter.count_entry(entry)
    manager = RelevanceManager(scorer=scorer)
    context, spent = CurationContext(counter, max_tokens=budget), []
    for number in range(rounds + 10):
        record = [*record, ConversationEntry(MessageRole.USER, random.choice(questions))]
        started = process_time()
        manager.curate(record, context=context)
        if number >= 10:
            spent.append(1_000 * (process_time() - started))
        record = [*record, ConversationEntry(MessageRole.ASSISTANT, f"answer {number}, done")]
    spent.sort()
    return spent[rounds // 10], spent[rounds // 2]


def found(size: int, scorer: str, rounds: int = 40) -> tuple[float, float, int, int]:
    """Return milliseconds to add a message and ask, fastest tenth and median; bytes, text."""
    said, (_, questions) = _said(size), _texts()
    record = [ConversationEntry(ROLES[n % 2], text) for n, text in enumerate(said)]
    _filled(record[:50], scorer).scores({questions[0]: 1.0}, 50)  # what a process loads once
    finder, held, _ = traced(lambda: _filled(record, scorer))
    random, spent = Random(7), []
    for _ in range(rounds):
        question = random.choice(questions)
        asked = ConversationEntry(MessageRole.USER, question)
        started = process_time()
        finder.add([asked])
        finder.scores({question: 1.0}, len(finder))
        spent.append(1_000 * (process_time() - started))
    spent.sort()
    return spent[rounds // 10], spent[rounds // 2], held, sum(map(len, said))


def _filled(record: Sequence[ConversationEntry], scorer: str, folder: str | None = None) -> Finder:
    finder = Finder(resolve_scorer(scorer, folder=folder))
    finder.add(record)
    return finder


def indexes() -> tuple[list[Row], int]:
    """Return what an index over a million tokens costs, ours and others, and the size of the text."""
    said = _said(2_000)
    texts = [said[n % len(said)] + f" turn{n}" for n in range(MILLION_TOKENS // 130)]
    texts = texts[: _enough(texts, MILLION_TOKENS)]
    record = [ConversationEntry(ROLES[n % 2], text) for n, text in enumerate(texts)]
    _, questions = _texts()
    questions = questions[:60]
    rows = []
    for scorer in ("lexical", "soft"):
        with TemporaryDirectory() as folder:
            files = Path(folder)
            for where, name in ((None, "in memory"), (folder, "in files"), (folder, "restarted")):
                before = sum(path.stat().st_size for path in files.iterdir())
                started = process_time()
                finder = _filled(record, scorer, where)
                made = process_time() - started
                started = process_time()
                for question in questions:
                    finder.scores({question: 1.0}, len(finder))
                asked = 1_000 * (process_time() - started) / len(questions)
                stored = sum(path.stat().st_size for path in files.iterdir()) - before
                rows.append(
                    Row(f"{scorer}, {name}", made, asked, *_memory(record, scorer, where), stored)
                )
    rows.append(_fts5(texts, questions))
    if find_spec("tantivy"):
        rows.append(_tantivy(texts, questions))
    return rows, sum(map(len, texts))


def _memory(
    record: Sequence[ConversationEntry], scorer: str, folder: str | None
) -> tuple[int, int]:
    """Return the bytes held by what finds, and the most that filling or asking it takes."""
    finder, held, peak = traced(lambda: _filled(record, scorer, folder))
    _, _, asking = traced(lambda: finder.scores({"what did Ann say": 1.0}, len(finder)).sum())
    return held, max(peak, held + asking)


def manager_memory(size: int, scorer: str) -> int:
    """Return the bytes a manager holds after a view of so many messages, tokens counted before."""
    counter = get_counter("o200k_base")
    record = [ConversationEntry(ROLES[n % 2], text) for n, text in enumerate(_said(size))]
    record.append(ConversationEntry(MessageRole.USER, _texts()[1][0]))
    for entry in record:
        counter.count_entry(entry)
    manager = RelevanceManager(scorer=scorer)
    context = CurationContext(counter, max_tokens=8_000)
    return traced(lambda: manager.curate(record, context=context) and None)[1]


def _fts5(texts: Sequence[str], questions: Sequence[str]) -> Row:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "fts.db"
        database = sqlite3.connect(path)
        started = process_time()
        database.execute(
            "create virtual table said using fts5(text, content='', tokenize='porter')"
        )
        rows = ((number, text) for number, text in enumerate(texts, 1))
        database.executemany("insert into said(rowid, text) values (?, ?)", rows)
        database.commit()
        made = process_time() - started
        started = process_time()
        for question in questions:
            words = " OR ".join(f'"{word}"' for word in _said_words(question))
            query = "select rowid, bm25(said) from said where said match ?"
            database.execute(query, (words,)).fetchall()
        spent = 1_000 * (process_time() - started) / len(questions)
        database.close()
        return Row("SQLite FTS5", made, spent, None, None, path.stat().st_size)


def _tantivy(texts: Sequence[str], questions: Sequence[str]) -> Row:
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_integer_field("number", fast=True, stored=False)
    schema.add_text_field("text", stored=False, tokenizer_name="en_stem")
    with TemporaryDirectory() as folder:
        started = process_time()
        index = tantivy.Index(schema.build(), path=folder)
        writer = index.writer(num_threads=1)
        for number, text in enumerate(texts):
            writer.add_document(tantivy.Document(number=number, text=text))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        made = process_time() - started
        searcher = index.searcher()
        started = process_time()
        for question in questions:
            query = index.parse_query(" ".join(_said_words(question)), ["text"])
            hits = searcher.search(query, limit=len(texts), count=False).hits
            searcher.fast_field_values("number", [address for _, address in hits])
        spent = 1_000 * (process_time() - started) / len(questions)
        stored = sum(path.stat().st_size for path in Path(folder).iterdir())
        return Row("tantivy", made, spent, None, None, stored)


def _said_words(question: str) -> list[str]:
    return re.findall(r"\w+", question)


def _enough(texts: Sequence[str], characters: int) -> int:
    total = 0
    for number, text in enumerate(texts):
        total += len(text)
        if total >= characters:
            return number + 1
    return len(texts)


def embedded(count: int = 200) -> tuple[float, int] | None:
    """Return CPU milliseconds and bytes for one message with MiniLM; None where it is missing."""
    embed = packaged_embeddings()
    if embed is None:
        return None
    texts = _said(count + 20)
    embed(texts[:20])
    started = process_time()
    vectors = [embed([text])[0] for text in texts[20:]]
    return 1_000 * (process_time() - started) / count, int(vectors[0].nbytes)


def report(*, quick: bool = False) -> int:
    """Print the tables; return how many targets are missed."""
    rounds = 10 if quick else 40
    missed = 0
    print("\nadd a message and ask: CPU milliseconds (fastest tenth, median), bytes held and said")
    for scorer in ("lexical", "soft"):
        for size, target in ((1_000, 3.0), (10_000, 8.0)):
            fast, median, held, text = found(size, scorer, rounds)
            missed += fast > target or held > text
            mark = "+" if fast <= target else "-"
            print(f"  {scorer:<8} {size:>7,} messages {fast:>7.1f}{mark} {median:>7.1f}", end="")
            print(f"{held:>14,}{text:>14,}")
    print("\na view of 8,000 tokens: the same, then choosing, quoting and counting what is quoted")
    for scorer in ("lexical", "soft"):
        for size in (1_000, 10_000):
            fast, median = warm(size, scorer, rounds=rounds)
            print(f"  {scorer:<8} {size:>7,} messages {fast:>7.1f}  {median:>7.1f}")
    print("\na manager after a view, bytes held: the index and how messages belong together")
    for size in (1_000, 10_000):
        text = sum(map(len, _said(size)))
        print(f"  {size:>16,} messages {manager_memory(size, 'lexical'):>14,} of {text:,} said")
    dense = embedded()
    if dense is not None:
        print(f"\nMiniLM, for each message and question: {dense[0]:.1f} ms, {dense[1]:,} bytes")
    rows, size = indexes()
    print(f"\na million tokens of record, {size:,} characters (the caller's, not counted)")
    heads = ("index, s", "ask, ms", "held", "at most", "files")
    print(f"  {'':<22}" + "".join(f"{head:>12}" for head in heads))
    for row in rows:
        memory = "".join(f"{'-' if n is None else format(n, ','):>12}" for n in row[3:5])
        print(f"  {row.name:<22}{row.made:>12.2f}{row.asked:>12.2f}{memory}{row.stored:>12,}")
        missed += (row.peak or 0) > size
    sys.stdout.flush()
    return missed
