"""``history-curator demo``: a conversation curated in front of you."""

from __future__ import annotations

import tempfile
from pathlib import Path

from history_curator.cli._show import console, decision_table, summary_panel
from history_curator.curator import Curator
from history_curator.lab import sample_conversation

__all__ = ["run_demo"]


def run_demo(max_tokens: int, output: Path | None = None) -> Path:
    """Curate the demo conversation, show the decisions, write the page, return its path."""
    screen = console()
    messages = sample_conversation()
    screen.rule("An agent looks for a slow checkout", align="left")
    curator = Curator(max_tokens=max_tokens)
    curation = curator.curate(messages)
    screen.print(decision_table(curation.report))
    screen.print()
    screen.print(summary_panel(curation.report, "What the model is sent"))
    _show_growth(curator, messages)
    if output is None:
        output = Path(tempfile.mkdtemp(prefix="history-curator-")) / "demo.html"
    path = curation.report.to_html(output).resolve()
    screen.print("\nThe page with every decision, original and reason (open it in a browser):")
    screen.print(str(path), style="bold", soft_wrap=True)
    return path


def _show_growth(curator: Curator, messages: list[dict[str, object]]) -> None:
    """Print how much of each request repeats the one before it, call by call."""
    screen = console()
    screen.print("\nThe same conversation call by call: [blue]repeated prefix[/] [cyan]new[/]")
    before: list[object] = []
    answers = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    for call, at in enumerate([*answers, len(messages)], 1):
        curation = curator.curate(messages[:at])
        shared = 0
        for old, new in zip(before, curation.messages, strict=False):
            if old is not new and old != new:
                break
            shared += 1
        count = curator.counter.count_entry
        repeated = sum(map(count, curation.entries[:shared]))
        before = list(curation.messages)
        scale = 60 / (curator.max_tokens or curation.tokens)
        stable, fresh = round(repeated * scale), round((curation.tokens - repeated) * scale)
        screen.print(
            f"  call {call:>2}  [blue]{'█' * stable}[/][cyan]{'█' * fresh}[/] "
            f"{curation.tokens:,} tokens, {repeated / curation.tokens:.0%} repeated"
        )
