"""What the commands ask for, and what is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from history_curator.cli._files import StoredConversation, naming
from history_curator.report_page import many


def _providers(incomplete: str) -> list[str]:
    from history_curator.rules import PROVIDERS

    return [name for name in PROVIDERS if name.startswith(incomplete)]


def _sheets(incomplete: str) -> list[str]:
    from history_curator.lab import price_sheets

    return [name for name in price_sheets() if name.startswith(incomplete)]


def policy_names(incomplete: str) -> list[str]:
    from history_curator.lab import peer_names

    return [name for name in peer_names() if name.startswith(incomplete)]


_FILE = typer.Argument(metavar="FILE", help="JSON, JSON lines or gzip; - is standard input.")
_BUDGET = typer.Option("--max-tokens", "-n", min=1, help="The budget.")
_RULES, _TOKENS = "Whose rules hold.", "An encoding or a model name."

File = Annotated[str, _FILE]
Files = Annotated[list[str], _FILE]
Budget = Annotated[int | None, _BUDGET]
ReplayBudget = Annotated[int, _BUDGET]
Provider = Annotated[str, typer.Option("--provider", "-p", help=_RULES, autocompletion=_providers)]
Counter = Annotated[str, typer.Option("--counter", help=_TOKENS)]
OwnProvider = Annotated[
    str | None,
    typer.Option(
        "--provider", "-p", help=_RULES, show_default="core, or --config", autocompletion=_providers
    ),
]
OwnCounter = Annotated[
    str | None,
    typer.Option("--counter", help=_TOKENS, show_default="o200k_base, or --config"),
]
Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML or TOML of a whole curator.")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write.")]
Which = Annotated[int, typer.Option("--which", "-w", min=0, help="Which conversation of the file.")]
Pricing = Annotated[str, typer.Option(help="Price sheet behind the cost.", autocompletion=_sheets)]


def curator_of(
    max_tokens: int | None, provider: str | None, counter: str | None, config: Path | None
) -> Any:
    """Return the curator; a provider or counter that was asked for wins over the file's."""
    from history_curator.curator import Curator

    asked = {"provider": provider, "counter": counter}
    options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if config is not None:
        return Curator.from_config(config, **options)
    return Curator(max_tokens=max_tokens, **options)


def about(
    stored: StoredConversation, among: Sequence[StoredConversation]
) -> AbstractContextManager[None]:
    """Name the conversation in errors when there are several."""
    return naming(stored.id) if len(among) > 1 else nullcontext()


def pick(conversations: Sequence[StoredConversation], which: int) -> StoredConversation:
    if which >= len(conversations):
        held, last = many(len(conversations), "conversation"), len(conversations) - 1
        raise typer.BadParameter(
            f"{which} is not in the range 0<=x<={last}; the file holds {held}.",
            param_hint="'--which' / '-w'",
        )
    return conversations[which]


def policies_of(
    names: Sequence[str], max_tokens: int, provider: str | None, counter: str | None
) -> dict[str, Any]:
    """Return policies by name; ``NAME=config.yaml`` is a curator of one's own."""
    policies: dict[str, Any] = {}
    for name in names:
        label, _, path = name.partition("=")
        if path and not label:
            raise typer.BadParameter(f"{name!r} has no name. Write NAME={path}.")
        policies[label] = curator_of(max_tokens, provider, counter, Path(path)) if path else label
    return policies
