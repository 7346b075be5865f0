"""Requests over a provider's limit, where it counts otherwise than we do: both frameworks.

A scripted provider counts with a tokenizer of its own, some of them with a system prompt that nobody
sees; another version of the model may answer from some request on, and may or may not say so. Each
socket makes its requests until the window was full several times.

Then conversations drawn from seeds: limits from 1,000 to 32,000 tokens, other tokenizers, hidden
prompts, silent changes, tools, late system messages, budgets lowered for one call, reports that
messages carry or that are observed, and that get lost. Each request over the limit is told apart by
whether anybody could have known.

    python -m benchmarks.provider [--write]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from history_curator import Curator
from tests.langchain import test_usage as langchain
from tests.llamaindex import test_window as llamaindex
from tests.support import windows
from tests.support.providers import Provider

PAGE = Path(__file__).resolve().parents[1] / "docs" / "generated" / "provider.md"
LIMIT = 4_000
MIDDLE, END = 115, 250


@dataclass(frozen=True)
class Case:
    """How a provider counts.

    Attributes:
        name: what the table calls it.
        encoding: whose tokenizer.
        versions: what each version of the model multiplies its counts with.
        hidden: tokens of a system prompt that nobody sees.
        unsaid: what it multiplies with from `MIDDLE` on, where nobody says that it changed.
    """

    name: str
    encoding: str
    versions: dict[str, float]
    hidden: int = 0
    unsaid: float | None = None

    def provider(self) -> Provider:
        """Return it, with nothing counted yet."""
        unsaid = None if self.unsaid is None else (MIDDLE, self.unsaid)
        return Provider(
            LIMIT, self.encoding, hidden=self.hidden, versions=self.versions, unsaid=unsaid
        )


OLD, NEW = "mistral-large-2411", "mistral-large-2512"
CASES = (
    Case("mistral × 0.9", "mistral", {"mistral-large": 0.9}),
    Case("mistral × 1.4, 1,000 hidden", "mistral", {"mistral-large": 1.4}, 1_000),
    Case("llama3 × 1.6, 500 hidden", "llama3", {"oracle-7": 1.6}, 500),
    Case("qwen2 × 1.0", "qwen2", {"qwen-max": 1.0}),
    Case("another version, said: × 0.9, then 1.4", "mistral", {OLD: 0.9, NEW: 1.4}),
    Case("another version, said: × 1.4, then 0.9", "mistral", {OLD: 1.4, NEW: 0.9}),
    Case("unsaid: × 0.9, then 1.5", "mistral", {"mistral-large": 0.9}, unsaid=1.5),
    Case("unsaid: × 1.4, then 0.9", "mistral", {"mistral-large": 1.4}, unsaid=0.9),
)

Talk = Callable[[Case, Provider], None]


def _langchain(talk: Any) -> Talk:
    def run(case: Case, provider: Provider) -> None:
        models = [langchain.Metered(model_name=name, provider=provider) for name in case.versions]
        talk(models, _ends(case))

    return run


def _llamaindex(talk: Any) -> Talk:
    def run(case: Case, provider: Provider) -> None:
        settings: list[Any] = [{"token_limit": LIMIT}]
        if len(case.versions) > 1:  # one curator for each version
            settings = [
                {"curator": Curator(max_tokens=LIMIT, counter=name)} for name in case.versions
            ]
        models = [llamaindex.Metered(name, provider) for name in case.versions]
        talk(models, settings, _ends(case))

    return run


def _ends(case: Case) -> list[int]:
    """The numbers of requests up to which each version answers."""
    return [END] if len(case.versions) == 1 else [MIDDLE, END]


SOCKETS: dict[str, Talk] = {
    "LangChain agent": _langchain(langchain.agent),
    "LangChain chain": _langchain(langchain.chain),
    "LlamaIndex agent": _llamaindex(llamaindex.agent),
    "LlamaIndex LLM": _llamaindex(llamaindex.chat),
}


def table() -> str:
    """Run every case in every socket and return the page."""
    lines = [
        (
            f"Requests over a limit of {LIMIT:,} tokens, of {END} each; and how full views were at "
            "the least when the next one was cut, from five calls after the beginning and after "
            "each change on."
        ),
        "",
        f"| the provider counts | {' | '.join(SOCKETS)} |",
        f"|---{'|---:' * len(SOCKETS)}|",
    ]
    for case in CASES:
        cells = []
        for talk in SOCKETS.values():
            provider = case.provider()
            talk(case, provider)
            over = [at for at, count in enumerate(provider.counts) if count > LIMIT]
            changes = (0,) if case.unsaid is None and len(case.versions) == 1 else (0, MIDDLE)
            least = min(fill for some in provider.fills(versions=changes) for fill in some)
            known = " (the first one counted so)" if over == [MIDDLE] else ""
            cells.append(f"{len(over)}{known}, {least:.1%}")
        lines.append(f"| {case.name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join([*lines, "", *drawn()]) + "\n"


SEEDS = range(1_000, 1_600)
DRAWN: dict[str, tuple[Any, dict[str, Any]]] = {
    "core": (windows.Core, {}),
    "core, reports carried by messages": (windows.Core, {"tell": "carried"}),
    "core, a limit of 1,000": (windows.Core, {"limit": 1_000, "hidden": 50}),
    "core, `compact_to=0.5`": (windows.Core, {"compact_to": 0.5}),
    "core, carried, late system messages, every third budget lowered": (
        windows.Core,
        {"tell": "carried", "late": 0.06, "lowered": 0.33},
    ),
    "LangChain chain": (windows.LangChain, {"tell": "carried", "lowered": 0.0}),
    "LlamaIndex LLM": (windows.LlamaIndex, {"lowered": 0.0}),
}


def drawn() -> list[str]:
    """Have the conversations that are drawn from seeds, and return their table."""
    lines = [
        f"{len(SEEDS)} conversations drawn from seeds, in each row. Over the limit were:",
        "",
        (
            "| | requests | though foretold | beyond the stated error | nothing reported yet | "
            "reported once, by a message | nothing smaller there | refused by us | needlessly |"
        ),
        f"|---{'|---:' * 8}|",
    ]
    columns = (windows.KNOWN, windows.BEYOND, windows.UNHEARD, windows.DOUBTED, windows.LEAST)
    for name, (socket, changes) in DRAWN.items():
        found = windows.outcomes(SEEDS, socket, **changes)
        refused = found[windows.REFUSED] + found[windows.NEEDLESS]
        cells = [found.total(), *(found[each] for each in columns)]
        cells += [refused, found[windows.NEEDLESS]]
        lines.append(f"| {name} | {' | '.join(f'{each:,}' for each in cells)} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure, print, and write when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    given = parser.parse_args()
    text = table()
    if given.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
