"""``history-curator prune``: apply the retention rules to what is stored."""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape
from rich.table import Table

from history_curator.cli._files import read_file
from history_curator.cli._show import console
from history_curator.config import RetentionConfig
from history_curator.errors import ConfigurationError
from history_curator.read import detect
from history_curator.record.retention import apply_retention
from history_curator.tokens import get_counter

__all__ = ["run_prune"]


def run_prune(store: str, config: Path | None, output: Path | None, dry_run: bool) -> None:
    """Rewrite a conversation file under a `RetentionConfig`, or say what that would do."""
    rules = _rules(config)
    source = read_file(store)
    counter = get_counter(None)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("conversation", "messages", "tokens"):
        table.add_column(name, justify="left" if name == "conversation" else "right")
    kept_messages = []
    for each in source.conversations:
        dialect = detect(each.messages)
        entries = [e for at, message in enumerate(each.messages) for e in dialect.read(message, at)]
        kept = apply_retention(entries, rules)
        messages = dialect.write(kept)
        kept_messages.append(messages)
        before, after = (sum(map(counter.count_entry, some)) for some in (entries, kept))
        table.add_row(
            escape(each.id),
            f"{len(each.messages):,} → {len(messages):,}",
            f"{before:,} → {after:,}",
        )
    console(stderr=True).print(table)
    if dry_run:
        console(stderr=True).print("Dry run: nothing was written.")
        return
    target = output or (None if store == "-" else Path(store))
    if target is None:
        print(source.dumps(kept_messages), end="")
        return
    if target.suffix == ".gz":
        import gzip

        target.write_bytes(gzip.compress(source.dumps(kept_messages).encode(), mtime=0))
    else:
        target.write_text(source.dumps(kept_messages), encoding="utf-8")


def _rules(config: Path | None) -> RetentionConfig:
    if config is None:
        return RetentionConfig(persist_tool_invocations="trimmed")
    load = getattr(RetentionConfig, "load", None) or RetentionConfig.from_dict
    rules = load(config)
    if not isinstance(rules, RetentionConfig):
        raise ConfigurationError(f"{config} holds no retention block.")
    return rules
