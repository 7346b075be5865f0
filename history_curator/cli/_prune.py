"""``history-curator prune``: apply the retention rules to what is stored."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path

from rich.markup import escape

from history_curator.cli._files import naming, read_file, write_text
from history_curator.cli._show import console, numbers
from history_curator.formats import detect, read_entries
from history_curator.record.retention import apply_retention
from history_curator.config import RetentionConfig
from history_curator.tokens import get_counter


def rules_from(config: Path | None) -> RetentionConfig:
    """Return the retention rules of a file; by default older turns keep ``{name, status}``."""
    if config is None:
        rules = RetentionConfig(persist_tool_invocations="trimmed")
        console(stderr=True).print(
            f"No --config: the last {rules.preserve_turns} turns stay whole, tool results of older "
            "ones are trimmed to name and status."
        )
        return rules
    return RetentionConfig.from_file(config)


def prune_database(
    url: str,
    config: Path | None,
    *,
    table: str | None,
    session: str | None,
    apply: bool,
    as_json: bool,
) -> None:
    """Clean the SQL store of either framework, or say what that would do."""
    from history_curator.record.prune import prune_store

    report = prune_store(
        url, table=table, session_id=session, config=rules_from(config), apply=apply
    )
    text = json.dumps(report.to_dict(), default=str) if as_json else report.explain()
    sys.stdout.write(text + "\n")
    _say_whether(apply)


def prune_file(path: str, config: Path | None, output: Path | None, *, apply: bool) -> None:
    """Write what is left of a file to ``output`` or standard output, or say what that would do."""
    rules = rules_from(config)
    source = read_file(path)
    counter = get_counter(None)
    table = numbers(("conversation", "messages", "tokens"))
    kept_messages = []
    for each in source.conversations:
        with naming(each.id) if len(source.conversations) > 1 else nullcontext():
            format = detect(each.messages)
            entries = read_entries(each.messages, format)
            kept = apply_retention(entries, rules)
            messages = format.write(kept)
        kept_messages.append(messages)
        before, after = (sum(map(counter.count_entry, some)) for some in (entries, kept))
        table.add_row(
            escape(each.id),
            f"{len(each.messages):,} → {len(messages):,}",
            f"{before:,} → {after:,}",
        )
    console(stderr=True).print(table)
    if apply:
        write_text(source.dumps(kept_messages), output)
    _say_whether(apply)


def _say_whether(apply: bool) -> None:
    if not apply:
        console(stderr=True).print("Dry run: nothing was written. Add --apply to do it.")
