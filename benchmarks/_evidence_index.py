"""What finding costs: time, memory, a million tokens, and how SQLite's own index compares."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from benchmarks._data import load
from benchmarks._evidence_finders import packaged_embeddings
from history_curator import RelevanceManager
from history_curator.managers import CurationContext
from history_curator.managers.relevance import Finder, LexicalIndex, resolve_scorer, terms
from history_curator.model import ConversationEntry, MessageRole
from history_curator.tokens import get_counter

ROLES = (MessageRole.USER, MessageRole.ASSISTANT)
MILLION_TOKENS = 4_300_000
"""Characters of chat that are about a million tokens."""


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
    finder = Finder(resolve_scorer(scorer))
    finder.add([ConversationEntry(ROLES[n % 2], text) for n, text in enumerate(said)])
    random, spent = Random(7), []
    for _ in range(rounds):
        question = random.choice(questions)
        asked = ConversationEntry(MessageRole.USER, question)
        started = process_time()
        finder.add([asked])
        finder.scores({question: 1.0}, len(finder))
        spent.append(1_000 * (process_time() - started))
    spent.sort()
    return spent[rounds // 10], spent[rounds // 2], finder.nbytes, sum(map(len, said))


def indexes() -> list[tuple[str, float, float, int, int, int]]:
    """Return, for a million tokens: who, seconds to index, ms to ask, bytes in memory and on disk."""
    said = _said(2_000)
    texts = [said[n % len(said)] + f" turn{n}" for n in range(MILLION_TOKENS // 130)]
    texts = texts[: _enough(texts, MILLION_TOKENS)]
    size = sum(map(len, texts))
    _, questions = _texts()
    asked = [dict.fromkeys(terms(question), 1.0) for question in questions[:60]]
    rows = []
    with TemporaryDirectory() as folder:
        for name, where in (("ours, in memory", None), ("ours, in files", folder)):
            started = perf_counter()
            index = LexicalIndex(folder=where)
            index.extend(texts)
            made = perf_counter() - started
            stored = sum(path.stat().st_size for path in Path(folder).iterdir())
            rows.append((name, made, _asked(index, asked), index.nbytes, stored, size))
        started = perf_counter()
        index = LexicalIndex(folder=folder)
        index.extend(texts)
        made = perf_counter() - started
        rows.append(("ours, after a restart", made, _asked(index, asked), index.nbytes, 0, size))
    rows.append(_fts5(texts, questions[:60], size))
    return rows


def _asked(index: LexicalIndex, asked: Sequence[Any]) -> float:
    started = process_time()
    for query in asked:
        index.scores(query)
    return 1_000 * (process_time() - started) / len(asked)


def _fts5(
    texts: Sequence[str], questions: Sequence[str], size: int
) -> tuple[str, float, float, int, int, int]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "fts.db"
        database = sqlite3.connect(path)
        started = perf_counter()
        database.execute(
            "create virtual table said using fts5(text, content='', tokenize='porter')"
        )
        rows = ((number, text) for number, text in enumerate(texts, 1))
        database.executemany("insert into said(rowid, text) values (?, ?)", rows)
        database.commit()
        made = perf_counter() - started
        started = process_time()
        for question in questions:
            words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
            query = "select rowid, bm25(said) from said where said match ?"
            database.execute(query, (words,)).fetchall()
        spent = 1_000 * (process_time() - started) / len(questions)
        database.close()
        return "SQLite FTS5", made, spent, 0, path.stat().st_size, size


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
    print("\nadd a message and ask: CPU milliseconds (fastest tenth, median), bytes kept and said")
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
    dense = embedded()
    if dense is not None:
        print(f"\nMiniLM, for each message and question: {dense[0]:.1f} ms, {dense[1]:,} bytes")
    print("\na million tokens of record (text in memory: the caller's, not counted)")
    print(f"  {'':<24}{'index, s':>10}{'ask, ms':>10}{'memory':>12}{'files':>12}{'text':>12}")
    for name, made, spent, held, stored, size in indexes():
        print(f"  {name:<24}{made:>10.2f}{spent:>10.2f}{held:>12,}{stored:>12,}{size:>12,}")
        missed += held > size
    sys.stdout.flush()
    return missed
